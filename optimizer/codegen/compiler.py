"""The C compiler, and the cache of what it made.

Looked for in this order: $TENSOLOG_CC, cc, gcc, clang, and the compiler of the package ziglang
(pip install 'tensolog[kernels]'). Windows has none of the first three as a rule, and the flags
below are those of gcc and clang: there, only ziglang is looked for.

Reading <immintrin.h> takes gcc as long as compiling a kernel does. A process that has compiled a
few libraries compiles the header too, which takes as long as three of them; from then on, any
process's compilations begin with it. Elsewhere the header is read as always: clang takes less time
for it, and other processors have none.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...catalog.disk_cache import cache_path
from ...catalog.errors import TensologError
from ...catalog.files import make_private, writable_by_others
from ..deadline import checkpoint, remaining_s

TEXT = "#include <math.h>\n#include <stdlib.h>\n#include <string.h>\n#include <immintrin.h>\n"
# Libraries that a process compiles before it compiles the header.
FEW = 3
_HEADER, _COMPILED = "intrinsics.h", "intrinsics.h.gch"
_HEADER_TIMEOUT_S = 60.0

_asked: Counter[Path] = Counter()


def options(entry: Path, command: Sequence[str]) -> tuple[str, ...]:
    """Return what makes a compilation begin with the compiled header; nothing while there is none.

    `entry` is the folder to keep it in, named by what it depends on; `command` the compiler and its
    flags. gcc checks that a compiled header fits its flags, and reads the plain one otherwise.
    """
    if not (entry / _COMPILED).exists():
        _asked[entry] += 1
        if _asked[entry] != FEW + 1 or not _compiled(entry, command):
            return ()
    return ("-include", str(entry / _HEADER))


def _compiled(entry: Path, command: Sequence[str]) -> bool:
    """Compile the header; the folder appears whole, by one rename, so that processes may race."""
    with (
        contextlib.suppress(OSError, subprocess.SubprocessError),
        tempfile.TemporaryDirectory(dir=entry.parent, ignore_cleanup_errors=True) as work,
    ):
        folder = Path(work) / "entry"
        folder.mkdir()
        (folder / _HEADER).write_text(TEXT, encoding="ascii")
        whole = [*command, "-x", "c-header", str(folder / _HEADER), "-o", str(folder / _COMPILED)]
        done = subprocess.run(whole, capture_output=True, timeout=_HEADER_TIMEOUT_S)
        if done.returncode == 0:
            folder.rename(entry)
    return (entry / _COMPILED).exists()


# No -ffast-math: it breaks range reductions and sets the process to flush subnormal numbers.
# No contraction, so that a * b + c rounds as it does in NumPy; what may contract says so itself.
FLAGS: tuple[str, ...] = (
    *("-O3", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-w"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fopenmp-simd"),
    "-D_GNU_SOURCE",  # here, since whatever header is first fixes what the others declare
)

_TIMEOUT_S = 120.0
_TRIAL = (
    "#include <math.h>\n#include <stdint.h>\n#include <stdlib.h>\nint tried(void) { return 0; }\n"
)


class CacheError(TensologError, OSError):
    """The folder of compiled kernels can't be written, or others may write to it."""


class CompilerError(TensologError):
    """No compiler, or one that refuses the generated source."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler: its command, and the version that it states."""

    command: tuple[str, ...]
    version: str

    @property
    def is_clang(self) -> bool:
        """Whether it takes clang's options."""
        return "clang" in self.version


def find_compiler(wanted: str | None = None) -> Compiler | None:
    """Return the compiler to use, or None; `wanted` names a command, or "none" for no compiler.

    $TENSOLOG_CC counts where `wanted` is None. Each is asked once in a process.
    """
    return _compiler_named(wanted or os.environ.get("TENSOLOG_CC", ""))


@cache
def _compiler_named(wanted: str) -> Compiler | None:
    if wanted == "none":
        return None
    for command in [words(wanted)] if wanted else _candidates():
        version, _ = _version(command)
        if version:
            return Compiler(command, version)
    return None


def absence(wanted: str | None = None) -> str:
    """Return why find_compiler found none, and what helps."""
    wanted = wanted or os.environ.get("TENSOLOG_CC")
    if wanted and wanted != "none":
        _, problem = _version(words(wanted))
        return f"{wanted} is named as the C compiler (in $TENSOLOG_CC) and doesn't run: {problem}"
    if wanted == "none":
        return (
            "$TENSOLOG_CC says that there is to be no C compiler: unset it, or where there is none "
            "install gcc or clang, or pip install 'tensolog[kernels]'"
        )
    return "there is no C compiler: install gcc or clang, or pip install 'tensolog[kernels]'"


def words(command: str, windows: bool = os.name == "nt") -> tuple[str, ...]:
    """Return the words of a command; on Windows backslashes are parts of paths."""
    if not windows:
        return tuple(shlex.split(command))
    return tuple(word.strip('"') for word in shlex.split(command, posix=False))


def _candidates() -> list[tuple[str, ...]]:
    commands: list[tuple[str, ...]] = []
    if os.name != "nt":
        commands += [(path,) for path in map(shutil.which, ("cc", "gcc", "clang")) if path]
    if importlib.util.find_spec("ziglang") is not None:
        commands.append((sys.executable, "-m", "ziglang", "cc"))
    return commands


def refusal(compiler: Compiler) -> str:
    """Return why a compiler gives nothing that can be loaded, as a line of C shows; or ""."""
    try:
        library(_TRIAL, compiler)
    except (CompilerError, CacheError) as error:
        return str(error)
    return ""


def _version(command: tuple[str, ...]) -> tuple[str, str]:
    """Return the version that a command states, and why it states none: one of them is empty."""
    asked = [*command, "--version"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        return "", str(error)
    if done.returncode == 0 and done.stdout.strip():
        return done.stdout.strip(), ""
    return "", f"`{shlex.join(asked)}` {_outcome(done)}"


def _outcome(done: subprocess.CompletedProcess[str]) -> str:
    """Say how a command ended, and what it said."""
    said = (done.stderr or done.stdout).strip()[:2000]
    return f"ended with exit code {done.returncode} and said {said or 'nothing'}"


def cache_folder() -> Path:
    """Return where compiled kernels are kept: $TENSOLOG_KERNELS, or the user's cache folder."""
    named = os.environ.get("TENSOLOG_KERNELS")
    if named:
        return Path(named)
    return cache_path() / "kernels"


def key(source: str, compiler: Compiler, flags: Sequence[str]) -> str:
    """Return what a library is named by: all that its bytes depend on."""
    text = "\0".join([source, *compiler.command, compiler.version, *flags, sys.platform])
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def library(source: str, compiler: Compiler, flags: Sequence[str] = FLAGS) -> ctypes.CDLL:
    """Return the compiled source, loaded; raises what `library_file` does."""
    path = library_file(source, compiler, flags)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CompilerError(f"a compiled kernel doesn't load: {error}") from error


def library_file(source: str, compiler: Compiler, flags: Sequence[str] = FLAGS) -> Path:
    """Return where the compiled source lies: in the cache, compiled now if it isn't there.

    An entry is a folder that appears whole, by one rename, so that processes may race; an entry
    whose bytes aren't those that were compiled is built anew. Raises CompilerError with what the
    compiler said, CacheError where the folder can't be written, or by others than the user: what
    lies there is run.
    """
    folder = cache_folder()
    entry = folder / key(source, compiler, flags)
    _refuse_shared(folder)
    if not _intact(entry):
        try:
            _discard(entry)
            _build(source, compiler, flags, entry)
        except OSError as error:
            raise CacheError(
                f"compiled kernels can't be kept in {folder} ({error.strerror or error}): "
                "name another folder in TENSOLOG_KERNELS"
            ) from error
    return entry / _LIBRARY


_LIBRARY = "kernels.dll" if os.name == "nt" else "kernels.so"
_CHECKSUM = "sha256"


def _refuse_shared(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # making it says more
        if reason := writable_by_others(folder):
            raise CacheError(
                f"compiled kernels in {folder} could be somebody else's code: {reason}, or name "
                "another folder in TENSOLOG_KERNELS"
            )


def _intact(entry: Path) -> bool:
    try:
        if any(map(writable_by_others, (entry, entry / _LIBRARY))):
            return False
        stated = (entry / _CHECKSUM).read_text(encoding="ascii")
        return stated == hashlib.sha256((entry / _LIBRARY).read_bytes()).hexdigest()
    except (OSError, UnicodeDecodeError):
        return False


def _discard(entry: Path) -> None:
    """Move a damaged entry away; another process may have done it, or may use its library."""
    away = tempfile.TemporaryDirectory(
        dir=_private_folder(entry.parent), ignore_cleanup_errors=True
    )
    with away, contextlib.suppress(OSError):
        entry.rename(Path(away.name) / "damaged")


def _private_folder(folder: Path) -> Path:
    make_private(folder)
    return folder


def _build(source: str, compiler: Compiler, flags: Sequence[str], entry: Path) -> None:
    with tempfile.TemporaryDirectory(dir=entry.parent, ignore_cleanup_errors=True) as work:
        folder = Path(work) / "entry"
        folder.mkdir(mode=0o700)
        unit, target = Path(work) / "kernels.c", folder / _LIBRARY
        unit.write_text(source, encoding="utf-8")
        command = [*compiler.command, *flags]
        begin = () if compiler.is_clang else _header(compiler, flags, entry.parent)
        done = _run(compiler, [*command, *begin, str(unit), "-o", str(target), "-lm"])
        if begin and done.returncode != 0:  # a header that another process removed, or damaged
            done = _run(compiler, [*command, str(unit), "-o", str(target), "-lm"])
        if done.returncode != 0 or not target.exists():
            wrote = "" if target.exists() else ", and wrote no library"
            raise CompilerError(
                f"{' '.join(compiler.command)} refuses generated code: "
                f"`{shlex.join(done.args)}` {_outcome(done)}{wrote}"
            )
        target.chmod(0o700)
        checksum = hashlib.sha256(target.read_bytes()).hexdigest()
        (folder / _CHECKSUM).write_text(checksum, encoding="ascii")
        try:
            folder.rename(entry)
        except OSError:
            if not _intact(entry):  # else another process was faster
                raise


def _header(compiler: Compiler, flags: Sequence[str], folder: Path) -> tuple[str, ...]:
    entry = folder / f"header-{key(TEXT, compiler, flags)}"
    return options(entry, [*compiler.command, *flags])


def _run(compiler: Compiler, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    limit_s = min(_TIMEOUT_S, remaining_s())
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except (OSError, subprocess.SubprocessError) as error:
        checkpoint()  # where its time was over, the compiler is not to blame
        raise CompilerError(f"{compiler.command[0]} doesn't run: {error}") from error

"""The processor's intrinsics as a header that gcc compiled once.

Reading <immintrin.h> takes gcc as long as compiling a kernel does. A process that has compiled a
few libraries compiles the header too, which takes as long as three of them; from then on, any
process's compilations begin with it. Elsewhere the header is read as always: clang takes less time
for it, and other processors have none.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

TEXT = "#include <math.h>\n#include <stdlib.h>\n#include <string.h>\n#include <immintrin.h>\n"
# Libraries that a process compiles before it compiles the header.
FEW = 3
_HEADER, _COMPILED = "intrinsics.h", "intrinsics.h.gch"
_TIMEOUT_S = 60.0

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
        made = Path(work) / "entry"
        made.mkdir()
        (made / _HEADER).write_text(TEXT, encoding="ascii")
        whole = [*command, "-x", "c-header", str(made / _HEADER), "-o", str(made / _COMPILED)]
        done = subprocess.run(whole, capture_output=True, timeout=_TIMEOUT_S)
        if done.returncode == 0:
            made.rename(entry)
    return (entry / _COMPILED).exists()

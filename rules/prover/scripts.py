"""Scripts by content: each is kept once, under the hash of its text, and all of them in one file.

The file is an xz of plain SMT-LIB: before each script a comment with its hash, after it `(reset)`,
so that `xz -dc FILE | z3 -in` answers all of them, one line a script.
"""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...catalog.errors import TensologError
from ...catalog.files import replacing

_HEAD = "; sha256 "
_FOOT = "(reset)\n"


class ScriptError(TensologError):
    """A file of scripts that can't be read, or a script that is not what its hash says."""


def canonical(script: str) -> str:
    """Return a script without comments, what is said about it, and space at the ends of lines."""
    lines = (line.rstrip() for line in script.splitlines())
    kept = [line for line in lines if line and not line.startswith((";", "(set-info"))]
    if not kept or kept[-1] != "(check-sat)":
        kept.append("(check-sat)")
    return "\n".join(kept) + "\n"


def script_hash(script: str) -> str:
    """Return the SHA-256, in hexadecimal, of a script in canonical form."""
    return hashlib.sha256(canonical(script).encode()).hexdigest()


def digest(hashes: Iterable[str]) -> str:
    """Return one hash for a set of scripts, whatever their order and however often they stand."""
    return hashlib.sha256("\n".join(sorted(set(hashes))).encode()).hexdigest()


def write_scripts(path: Path, scripts: Mapping[str, str]) -> None:
    """Write scripts by hash, all of them or none; the file is the same for the same scripts."""
    text = "".join(f"{_HEAD}{name}\n{scripts[name]}{_FOOT}" for name in sorted(scripts))
    with replacing(path) as file:
        file.write(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def read_scripts(path: Path) -> dict[str, str]:
    """Return the scripts of a file by hash; none for a file that is not there.

    Raises ScriptError for a file that is damaged and for a script that was changed.
    """
    try:
        text = lzma.decompress(path.read_bytes()).decode()
    except FileNotFoundError:
        return {}
    except (OSError, lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise ScriptError(
            f"can't read the scripts {path}: {error}; prove the rules anew"
        ) from error
    found: dict[str, str] = {}
    for part in text.split(_HEAD)[1:]:
        name, _, rest = part.partition("\n")
        script = rest.removesuffix(_FOOT)
        if script_hash(script) != name:
            raise ScriptError(
                f"{path} holds a script that is not what its hash {name[:12]} says: "
                "someone changed it; prove the rules anew"
            )
        found[name] = script
    return found

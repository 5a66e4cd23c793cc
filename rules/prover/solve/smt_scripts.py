"""Scripts by content: each is kept once, and all of them in one file.

The file is an xz of plain SMT-LIB: comments say whose the scripts are, and `(reset)` stands after
each, so that `xz -dc FILE | z3 -in` answers all of them, one line a script.
"""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ....catalog.errors import TensologError
from ....catalog.files import replacing

_GROUP = "; of "
_AGAIN = "; again "
_END = "(reset)\n"


class ScriptError(TensologError):
    """A file of scripts that can't be read."""


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


@dataclass
class Scripts:
    """Scripts by hash; and groups: by the name of what they belong to, hashes in order."""

    texts: dict[str, str] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def put(self, group: str, scripts: Iterable[str]) -> None:
        """Give a group its scripts, in place of those that it had."""
        hashes = []
        for script in scripts:
            text = canonical(script)
            hashes.append(script_hash(text))
            self.texts.setdefault(hashes[-1], text)
        self.groups[group] = tuple(dict.fromkeys(hashes))

    def of(self, group: str) -> tuple[str, ...]:
        """Return the scripts of a group; none for one that is not there."""
        return tuple(self.texts[name] for name in self.groups.get(group, ()))

    def write(self, path: Path) -> None:
        """Write all groups and their scripts, or leave the file as it was.

        The file is the same for the same groups. Each script stands under the first group that it
        belongs to; groups that share it refer to its number.
        """
        numbers: dict[str, int] = {}
        parts: list[str] = []
        for group in sorted(self.groups):
            parts.append(f"{_GROUP}{group}\n")
            for name in self.groups[group]:
                if name in numbers:
                    parts.append(f"{_AGAIN}{numbers[name]}\n")
                else:
                    numbers[name] = len(numbers)
                    parts += [self.texts[name], _END]
        with replacing(path) as file:
            file.write(lzma.compress("".join(parts).encode(), preset=9 | lzma.PRESET_EXTREME))

    @classmethod
    def read(cls, path: Path) -> Scripts:
        """Read what `write` wrote; a file that is not there has no groups.

        Raises ScriptError for a file that is damaged. That a script is the one that was stored
        shows in the hashes of its group.
        """
        try:
            text = lzma.decompress(path.read_bytes()).decode()
        except FileNotFoundError:
            return cls()
        except (OSError, lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
            reason = f"can't read the scripts {path}: {error}; prove the rules anew"
            raise ScriptError(reason) from error
        scripts = cls()
        numbered: list[str] = []
        for part in text.split(_GROUP)[1:]:
            group, _, rest = part.partition("\n")
            hashes: list[str] = []
            script: list[str] = []
            for line in rest.splitlines(keepends=True):
                if line == _END:
                    numbered.append("".join(script))
                    script = []
                    hashes.append(script_hash(numbered[-1]))
                    scripts.texts[hashes[-1]] = numbered[-1]
                elif line.startswith(_AGAIN):
                    number = line.removeprefix(_AGAIN).strip()
                    if not number.isdecimal() or int(number) >= len(numbered):
                        raise ScriptError(f"{path}: {group} refers to no script: {line.strip()}")
                    hashes.append(script_hash(numbered[int(number)]))
                else:
                    script.append(line)
            if script:
                raise ScriptError(f"{path}: the last script of {group} has no end")
            scripts.groups[group] = tuple(hashes)
        return scripts

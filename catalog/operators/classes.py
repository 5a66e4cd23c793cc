"""Operator classes and commutativity, read from classes.ops."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ..errors import CatalogError

CLASSES = frozenset(
    [
        "elementwise",
        "contraction",
        "reduction",
        "movement",
        "window",
        "normalization",
        "control",
        "generator",
        "opaque",
    ]
)


@dataclass(frozen=True)
class Classification:
    """What classes.ops says of an operator."""

    kind: str = "opaque"
    commutative_from: int | None = None

    def commutative(self, since_version: int) -> bool:
        """Whether the operands of this version of the operator may be permuted."""
        return self.commutative_from is not None and since_version >= self.commutative_from


@cache
def classes_text() -> str:
    """Return the text of classes.ops."""
    return (resources.files(__package__) / "classes.ops").read_text(encoding="utf-8")


@cache
def classes_hash() -> str:
    """Return a hash of classes.ops: a catalog filled from another text is filled anew."""
    return hashlib.sha256(classes_text().encode()).hexdigest()[:16]


@cache
def classifications() -> dict[tuple[str, str], Classification]:
    """Return what classes.ops says, by (domain, op_type); ai.onnx is ''."""
    return parse_classes(classes_text())


def parse_classes(text: str, path: str = "classes.ops") -> dict[tuple[str, str], Classification]:
    """Parse `domain NAME` and `op NAME CLASS [commutative from N]` lines; # starts a comment.

    Raises CatalogError with the line of the first mistake.
    """
    classes: dict[tuple[str, str], Classification] = {}
    domain = ""
    for number, line in enumerate(text.splitlines(), start=1):
        match line.partition("#")[0].split():
            case []:
                pass
            case ["domain", name]:
                domain = "" if name == "ai.onnx" else name
            case ["op", name, kind, *rest] if kind in CLASSES and (domain, name) not in classes:
                classes[domain, name] = Classification(kind, _commutative(rest, path, number))
            case ["op", name, kind, *_] if kind in CLASSES:
                raise CatalogError(f"{path}:{number}: {name} has a line already")
            case ["op", _, kind, *_]:
                raise CatalogError(
                    f"{path}:{number}: {kind} is none of {', '.join(sorted(CLASSES))}"
                )
            case _:
                raise CatalogError(f"{path}:{number}: expected `domain NAME` or `op NAME CLASS`")
    return classes


def _commutative(words: list[str], path: str, number: int) -> int | None:
    match words:
        case []:
            return None
        case ["commutative", "from", version] if version.isdigit():
            return int(version)
        case _:
            raise CatalogError(
                f"{path}:{number}: expected `commutative from N` instead of {' '.join(words)}"
            )

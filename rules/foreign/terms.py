"""The one form that foreign rules are read into: pairs of equal terms over named inputs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...catalog.errors import TensologError
from ...catalog.ordering import topological


class ForeignError(TensologError):
    """A file or a rule of another system that can't be read: path, line (1-based), reason."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path, self.line, self.reason = path, line, reason
        super().__init__(f"{path}:{line}: {reason}")


@dataclass(frozen=True)
class Variable:
    """An input that both sides share."""

    name: str


@dataclass(frozen=True)
class Apply:
    """Output `output` of an operator with integer parameters; the names are those of OPERATORS."""

    operator: str
    parameters: tuple[tuple[str, int], ...]
    operands: tuple[Term, ...]
    output: int = 0

    def __hash__(self) -> int:
        # Terms share parts; hashing them anew at every level would take exponential time.
        cached_hash: int | None = self.__dict__.get("_hash")
        if cached_hash is None:
            cached_hash = hash((self.operator, self.parameters, self.operands, self.output))
            object.__setattr__(self, "_hash", cached_hash)
        return cached_hash

    def parameter(self, name: str) -> int:
        """A parameter by its name."""
        return dict(self.parameters)[name]


Term = Variable | Apply


@dataclass(frozen=True)
class Problem:
    """Why one rule of a file can't be read; the others still are.

    `malformed` is False where the text is fine, but has an operator that is not known here.
    """

    name: str
    line: int
    text: str
    reason: str
    malformed: bool = True


@dataclass(frozen=True)
class ForeignRule:
    """A rule as another system states it: each pair of `outputs` is said to be equal.

    `system` is "taso" or "tensat"; `line` is where the rule stands in its file.
    """

    name: str
    system: str
    line: int
    text: str
    outputs: tuple[tuple[Term, Term], ...]

    @property
    def sources(self) -> tuple[Term, ...]:
        """The left sides."""
        return tuple(source for source, _ in self.outputs)

    @property
    def targets(self) -> tuple[Term, ...]:
        """The right sides."""
        return tuple(right for _, right in self.outputs)


def lines_of(text: str) -> list[str]:
    """The lines of a text as editors count them; a byte order mark is none of it."""
    return [line.removeprefix("\ufeff") for line in re.split(r"\r\n|\r|\n", text)]


def parts(terms: tuple[Term, ...]) -> list[Term]:
    """The parts of terms once each, operands before what uses them."""
    return topological(
        terms, lambda term: reversed(term.operands) if isinstance(term, Apply) else ()
    )


def inputs(terms: tuple[Term, ...]) -> tuple[str, ...]:
    """The names of the inputs that terms use, in order of use."""
    return tuple(part.name for part in parts(terms) if isinstance(part, Variable))

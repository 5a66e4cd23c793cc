"""How many axes a difference needs between sides that choose elements and compute with few of them.

Where nothing is summed over, an element of either side is computed with a few elements of operands,
which conditions on indices choose: Pad takes an element of its operand where all axes say so, and
the number that fills elsewhere. Let the sides differ at some index, and let no condition connect
two axes. Keep of the axes

- for each condition that doesn't hold there, one along which it doesn't;
- of each operand that is read at n places, so many that two different ones differ along one of
  them: n - 1 do (Bondy, Induced subsets, 1972).

Without the others each condition holds that held, and no other; places that were the same are the
same, and different ones are different. So operands can hold the same elements there, and both sides
compute what they computed. The same goes for a target that reads out of bounds, with the axis along
which it does; as long as no condition asks about elements, those needn't be told apart there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ...catalog.operators.terms import Apply, Read, Reduce, Select, Symbol, Term, Variable
from .slicing import Program
from .walk import parts, reads


class _ManyError(Exception):
    """Something is summed over, or a number is made of indices."""


@dataclass(frozen=True)
class _Uses:
    """The conditions on indices that one element may depend on, and how often it reads what."""

    conditions: int = 0
    elements: Counter[str] = field(default_factory=Counter)
    # Whether elements decide anything, too.
    compared: bool = False

    def __add__(self, other: _Uses) -> _Uses:
        return _Uses(
            self.conditions + other.conditions,
            self.elements + other.elements,
            self.compared or other.compared,
        )


def axes_needed(program: Program) -> int | None:
    """Return how many axes of a list a difference needs at most; None where that isn't known."""
    known: dict[str, _Uses] = {}
    operands = {one.name for one in program.operands}
    most = 0
    try:
        for one in program.definitions:
            known[one.name] = _uses(one.value, known, operands)
        for pair in program.equations:
            both = _Uses()
            for name in pair:
                both += known.get(name, _Uses(0, Counter([name])))
            told = sum(count - 1 for count in both.elements.values())
            outside = both.conditions + 1 + (told if both.compared else 0)
            most = max(most, both.conditions + told, outside)
    except _ManyError:
        return None
    return most


def _uses(term: Term, known: dict[str, _Uses], operands: set[str]) -> _Uses:
    match term:
        case Read(tensor, indices):
            if any(map(reads, indices)):
                raise _ManyError
            return _Uses(0, Counter([tensor])) if tensor in operands else known[tensor]
        case Select(condition, then, otherwise):
            found = _asked(condition, known, operands)
            for part in (then, otherwise):
                found += _uses(part, known, operands)
            return found
        case Apply(_, arguments) if reads(term):
            found = _Uses()
            for part in arguments:
                found += _uses(part, known, operands)
            return found
        case _ if isinstance(term, Reduce) or not counts_nothing(term):
            raise _ManyError
        case _:
            return _Uses()


def _asked(condition: Term, known: dict[str, _Uses], operands: set[str]) -> _Uses:
    match condition:
        case Apply("and" | "or" | "not", arguments) if reads(condition):
            found = _Uses()
            for part in arguments:
                found += _asked(part, known, operands)
            return found
        case _ if reads(condition):
            return _uses(condition, known, operands) + _Uses(compared=True)
        case _:
            return _Uses(1)


def counts_nothing(term: Term) -> bool:
    """Whether no number is made of indices or of sizes of axes, but for where elements are read."""
    match term:
        case Read():
            return True
        case Variable():
            return False
        case Symbol(name):
            return "." not in name
        case Reduce():
            return False
        case Apply(_, arguments):
            return all(map(counts_nothing, arguments))
        case Select(condition, then, otherwise):
            return all(map(counts_nothing, (condition, then, otherwise)))
        case _:
            return not any(isinstance(part, Variable) for part in parts(term))


__all__ = ["axes_needed", "counts_nothing"]

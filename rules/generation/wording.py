"""A candidate as the text of a rule: with symbolic sizes, as general as it may hold, and a name.

Which of the spellings holds, the gate decides: the most general one that it proves is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...catalog.errors import TensologError
from ...catalog.operators import specification
from ...catalog.operators import terms as index
from .candidates import Candidate
from .terms import OPSET, Apply, Operation, Term, Variable, parts, variables, written

_LETTERS = "mknpqrstuvwxyz"
_TYPES = {"float32": "float"}
_EARLIEST = 13


@dataclass(frozen=True)
class Spelling:
    """One way to say a candidate: what `given` declares, and whether attributes are left open."""

    shapes: Mapping[str, str]
    lifted: bool
    any_float: bool = True
    backward_axes: bool = False


def spellings(candidate: Candidate) -> Iterator[Spelling]:
    """Ways to say a candidate, the most general first."""
    names = [variable.name for variable in variables(candidate.left)]
    anything = dict.fromkeys(names, "")
    liftable = bool(_shared(candidate))
    for lifted in (True, False) if liftable else (False,):
        yield Spelling(anything, lifted)
    sizes = symbolic_shapes(candidate)
    if sizes is None:
        return
    for shapes, backward in _declared(sizes):
        for lifted in (True, False) if liftable else (False,):
            yield Spelling(shapes, lifted, backward_axes=backward)
    yield Spelling(anything, False, any_float=False)


def _declared(
    sizes: Mapping[str, tuple[str, ...]],
) -> Iterator[tuple[dict[str, str], bool]]:
    """Shapes as `given` has them: all of one shape, batches of matrices, images, as they are."""
    if len(set(sizes.values())) == 1:
        yield dict.fromkeys(sizes, "[*s]"), True
    ranks = {len(shape) for shape in sizes.values()}
    if ranks == {2}:
        yield {name: f"[*b, {', '.join(shape)}]" for name, shape in sizes.items()}, True
    if ranks == {3}:
        last = {shape[-1] for shape in sizes.values()}
        others = {size for shape in sizes.values() for size in shape[:-1]}
        if not last & others and "1" not in last:
            yield {n: f"[{', '.join((*s[:-1], f'*{s[-1]}'))}]" for n, s in sizes.items()}, False
    yield {name: f"[{', '.join(shape)}]" for name, shape in sizes.items()}, False


def rule_text(candidate: Candidate, name: str, spelling: Spelling, *, source: str) -> str:
    """The rule that a spelling of a candidate is."""
    lifting = _Lifting(candidate, spelling)
    left, right = lifting.side(candidate.left), lifting.side(candidate.right)
    given = []
    for variable in variables(candidate.left):
        dtype = variable.sort.dtype
        if spelling.any_float:
            dtype = _TYPES.get(dtype, dtype)
        words = [variable.name, spelling.shapes[variable.name], dtype]
        if any(words[1:]):
            given.append(" ".join(word for word in words if word))
    given += [f"{constant} const" for constant in lifting.constants]
    lines = [
        *_comment(name, left, right),
        f"rule {name}",
        f"  tags    {'always' if is_smaller(candidate) else 'explore'}",
        f"  source  [{source}]",
        f"  opset   >= {least_opset(candidate)}",
    ]
    if given:
        lines += [f"  given   {f',{_NEXT}'.join(given)}"]
    lines += ["  match", f"    R = {left}", "  rewrite", f"    R = {right}", "  equal   rounding"]
    return "\n".join(lines) + "\n"


def is_smaller(candidate: Candidate) -> bool:
    """Whether the right side is some of the left side's operators, and so never worse."""
    return _is_part(_spelled(candidate.right), _spelled(candidate.left))


_NEXT = "\n          "
_WIDTH = 100


def _comment(name: str, left: str, right: str) -> list[str]:
    """What a rule does, wrapped between words that belong together."""
    words = [f"{name} computes", right, "in the place of", f"{left}."]
    lines = ["#"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > _WIDTH and lines[-1] != "#":
            lines.append("#")
        lines[-1] += f" {word}"
    return lines


def least_opset(candidate: Candidate) -> int:
    """The first operator set from which on the operators mean what they do now."""
    since = [_EARLIEST]
    for part in parts((candidate.left, candidate.right)):
        if isinstance(part, Apply):
            known = specification("", part.operation.op_type, OPSET)
            since += [block.opset_from for block in known.blocks] if known else []
    return max(since)


# ------------------------------------------------------------------------- open attributes


def _said(term: Term) -> dict[tuple[str, object], None]:
    """What the nodes of a term state: attributes by name, known inputs by operator and position."""
    found: dict[tuple[str, object], None] = {}
    for part in parts((term,)):
        if isinstance(part, Apply):
            found.update(dict.fromkeys(_stated(part.operation)))
    return found


def _stated(operation: Operation) -> list[tuple[str, object]]:
    """(kind of statement, value) pairs; equal ones may stay open together."""
    return [
        *((name, value) for name, value in operation.attributes if not isinstance(value, str)),
        *(("", value) for _, value in operation.known if isinstance(value, tuple)),
    ]


def _shared(candidate: Candidate) -> set[tuple[str, object]]:
    """What both sides state alike; of a right side that is a variable, what the left one states."""
    left, right = _said(candidate.left), _said(candidate.right)
    if isinstance(candidate.right, Variable):
        return set(left)
    return set(left) & set(right)


@dataclass
class _Lifting:
    """Writes both sides of a candidate, with names in the place of what stays open."""

    candidate: Candidate
    spelling: Spelling
    names: dict[tuple[str, object], str] = field(default_factory=dict)
    constants: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.spelling.lifted:
            return
        shared = _shared(self.candidate)
        taken = set(re.findall(r"\w+", " ".join(self.spelling.shapes.values())))
        free = iter([letter for letter in "aefghijl" if letter not in taken])
        for said in _said(self.candidate.left):
            if said in shared:
                self.names[said] = next(free)
                if not said[0]:
                    self.constants.append(self.names[said])

    def side(self, term: Term) -> str:
        """A term as text."""
        if isinstance(term, Variable):
            return term.name
        operands = [self.side(operand) for operand in term.operands]
        operation = term.operation
        attributes = tuple(
            (name, self._value(name, value, term)) for name, value in operation.attributes
        )
        known = tuple((p, self._value("", value, term)) for p, value in operation.known)
        changed = Operation(operation.op_type, operation.slots, attributes, known)  # type: ignore[arg-type]
        return written(changed, operands)

    def _value(self, name: str, value: object, term: Apply) -> object:
        if (name, value) in self.names:
            return _Word(self.names[name, value])
        if self.spelling.backward_axes and name in ("", "axis"):
            return _from_the_end(value, max(_rank_of(o) for o in term.operands))
        return value


class _Word(int):
    """A name in the place of a value."""

    text: str

    def __new__(cls, text: str) -> _Word:
        made = super().__new__(cls, 0)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def _rank_of(term: Term) -> int:
    """The rank of an operand, as far as it is that of its variables."""
    return max(variable.sort.rank for variable in variables(term))


def _from_the_end(value: object, rank: int) -> object:
    if isinstance(value, tuple):
        return tuple(_from_the_end(one, rank) for one in value)
    return value - rank if isinstance(value, int) and value >= 0 else value


# ------------------------------------------------------------------------------------- sizes


def symbolic_shapes(candidate: Candidate) -> dict[str, tuple[str, ...]] | None:
    """The most general sizes of the variables at which both sides fit; None where none are found.

    Sizes are unknowns to begin with; what the specifications require of them makes some equal.
    """
    sizes = _Sizes()
    found = variables(candidate.left)
    shapes: dict[Variable, tuple[index.Term, ...]] = {
        variable: tuple(
            1
            if all(shape[axis] == 1 for shape in variable.sort.shapes)
            else index.Symbol(f"{variable.name}{axis}")
            for axis in range(variable.sort.rank)
        )
        for variable in found
    }
    try:
        for _ in range(20):
            before = dict(sizes.known)
            one = sizes.shape(candidate.left, shapes, {})
            other = sizes.shape(candidate.right, shapes, {})
            if len(one) != len(other):
                return None
            for a, b in zip(one, other, strict=True):
                sizes.equal(a, b)
            if sizes.known == before:
                break
    except TensologError:
        return None
    names: dict[str, str] = {}
    made: dict[str, tuple[str, ...]] = {}
    for variable in found:
        said = []
        for size in shapes[variable]:
            resolved = index.substitute(size, sizes.known)
            if not isinstance(resolved, int | index.Symbol):
                return None
            said.append(_letter(resolved, names))
        made[variable.name] = tuple(said)
    return made


def _letter(size: int | index.Symbol, names: dict[str, str]) -> str:
    if isinstance(size, int):
        return str(size)
    return names.setdefault(size.name, _LETTERS[len(names) % len(_LETTERS)])


class _Sizes:
    """Equations between sizes, solved by one unknown after the other."""

    def __init__(self) -> None:
        self.known: dict[str, index.Term] = {}

    def shape(
        self,
        term: Term,
        shapes: Mapping[Variable, tuple[index.Term, ...]],
        seen: dict[Term, tuple[index.Term, ...]],
    ) -> tuple[index.Term, ...]:
        """The shape of a term; what it requires is taken for granted."""
        if term in seen:
            return seen[term]
        if isinstance(term, Variable):
            return tuple(self._resolved(size) for size in shapes[term])
        operation = term.operation
        operands = [self.shape(operand, shapes, seen) for operand in term.operands]
        most = max([*operation.slots, *(p for p, _ in operation.known)])
        given: list[Sequence[index.Term] | None] = [None] * (most + 1)
        for slot, shape in zip(operation.slots, operands, strict=True):
            given[slot] = shape
        values = {p: list(v) if isinstance(v, tuple) else v for p, v in operation.known}
        known = specification("", operation.op_type, OPSET)
        assert known is not None
        expansion = known.expand(given, dict(operation.attributes), values=values, outputs=1)
        for condition, _ in expansion.requirements:
            self.require(condition)
        made = tuple(self._resolved(size) for size in expansion.outputs[0].shape)
        for size in made:
            self.meet(size)
        seen[term] = tuple(self._resolved(size) for size in made)
        return seen[term]

    def require(self, condition: index.Term) -> None:
        """Take a condition for granted: equal sizes are one, and nothing broadcasts."""
        match condition:
            case index.Apply("=", (one, other)):
                self.equal(one, other)
            case index.Apply("and", (one, other)):
                self.require(one)
                self.require(other)
            case index.Apply("or", (index.Apply("=", (_, 1)), index.Apply("=", (one, other)))):
                self.meet(other)
                self.equal(one, other)
            case _:
                return

    def meet(self, size: index.Term) -> None:
        """Where one of two sizes broadcasts to the other, let them be equal."""
        match self._resolved(size):
            case index.Select(index.Apply("=", (one, 1)), other, _):
                self.equal(one, other)
            case _:
                return

    def equal(self, one: index.Term, other: index.Term) -> None:
        """Let two sizes be one, if one of them is unknown."""
        one, other = self._resolved(one), self._resolved(other)
        if one == other:
            return
        for unknown, size in ((one, other), (other, one)):
            if isinstance(unknown, index.Symbol) and isinstance(size, int | index.Symbol):
                self.known = {
                    name: index.substitute(was, {unknown.name: size})
                    for name, was in self.known.items()
                }
                self.known[unknown.name] = size
                return

    def _resolved(self, size: index.Term) -> index.Term:
        return index.substitute(size, self.known)


# ------------------------------------------------------------------------------------- names


def rule_name(candidate: Candidate, taken: Collection[str]) -> str:
    """A name that says what the rule does to its operators: VerbObject, not among `taken`."""
    base = _base_name(candidate.left, candidate.right)
    if base not in taken:
        return base
    return next(name for n in range(2, 10_000) if (name := f"{base}{n}") not in taken)


def _base_name(left: Term, right: Term) -> str:
    before, after = _spelled(left), _spelled(right)
    if isinstance(left, Apply) and right in left.operands:
        return f"Eliminate{_listed(before, 'Of')}"
    if sorted(before) == sorted(after):
        if len(before) == 2 and before[0] != before[1] and before == after[::-1]:
            return f"Push{before[0]}Through{before[1]}"
        return f"Reorder{_listed(before, 'Of')}"
    gone = list((Counter(before) - Counter(after)).elements())
    if _is_part(after, before) and after:
        if len(set(gone)) == 1 and gone[0] in after:
            return f"Merge{gone[0]}s{_inside(before, gone[0])}"
        return f"Eliminate{_listed(list(dict.fromkeys(gone)), 'And')}In{_listed(before, 'Of')}"
    if not after:
        return f"Eliminate{_listed(before, 'Of')}"
    return f"Convert{_listed(before, 'Of')}To{_listed(after, 'Of')}"


def _is_part(some: Sequence[str], all_: Sequence[str]) -> bool:
    """Whether operators are some of others, and fewer."""
    return not Counter(some) - Counter(all_) and len(some) < len(all_)


def _inside(names: Sequence[str], name: str) -> str:
    others = [other for other in dict.fromkeys(names) if other != name]
    return f"Of{_listed(others, 'Of')}" if others else ""


def _spelled(term: Term) -> list[str]:
    """The operators of a term, the outermost first."""
    if isinstance(term, Variable):
        return []
    found = [term.operation.op_type]
    for operand in term.operands:
        found += _spelled(operand)
    return found


def _listed(names: Sequence[str], word: str) -> str:
    """Operators in a row, of equal neighbours at most two."""
    said: list[str] = []
    for name in names:
        if said[-2:] != [name, name]:
            said.append(name)
    return word.join(said)

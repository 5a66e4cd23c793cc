"""A candidate as the text of a rule: with symbolic sizes, as general as it may hold, and a name.

Which of the spellings holds, the gate decides: the most general one that it proves is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import combinations

from ...catalog.errors import TensologError
from ...catalog.operators import specification
from ...catalog.operators.syntax import Operator
from ...catalog.terms import index_notation as index
from ...catalog.terms.syntax_tree import Literal
from .candidates import Candidate
from .choices import axes_of, orders_of
from .leaves import constant_name
from .terms import (
    OPSET,
    Apply,
    Number,
    Operation,
    Size,
    Sort,
    Term,
    Variable,
    parts,
    variables,
    written,
)

_LETTERS = "mknpqrstuvwxyz"
_TYPES = {"float32": "float"}
_EARLIEST = 13


@dataclass(frozen=True)
class Spelling:
    """One way to say a candidate: what `given` declares, and which attributes stay open.

    `open`: "all" of operators that both sides have, and what both sides state alike, axes for one;
    the former alone, with axes "fixed", and so as well, "scaled", numbers of which one node states
    a multiple of what others do (groups); only their "lists", while numbers and words are stated;
    those that are "stated" alike on both sides; or "" for none.
    """

    shapes: Mapping[str, str]
    open: str
    any_float: bool = True
    backward_axes: bool = False


def spellings(candidate: Candidate) -> Iterator[Spelling]:
    """Ways to say a candidate, the most general first."""
    inputs = candidate.inputs
    if not all(_place_of(size, candidate) for size in _sizes_in(candidate)):
        return
    # A number stays one: with a shape of its own it would be a tensor like any other.
    anything = {variable.name: "" if variable.sort.rank else "[]" for variable in inputs}
    declared: list[tuple[Mapping[str, str], bool, tuple[str, ...]]]
    declared = [(anything, False, ("lists", "stated"))]
    sizes = symbolic_shapes(candidate)
    if sizes is not None:
        declared += _declared(sizes, anything)
        alike = _alike(candidate, sizes)
        declared += _declared(alike, anything) if alike != sizes else ()
    starred = _starred_ways(candidate)
    if starred and sizes is not None:
        untied = (_untied(candidate, some) for some in (sizes, alike))
        declared[1:1] = [
            (shapes, backward, ())
            for some in untied
            for shapes, backward, _ in _declared(some, anything)
        ]
    # What attributes say matters more than ranks: operators that have some declare their ranks.
    for way in starred:
        for shapes, backward, _ in declared:
            yield Spelling(shapes, way, backward_axes=backward)
    for shapes, backward, ways in declared:
        for way in ways:
            yield Spelling(shapes, way, backward_axes=backward)
    if sizes is not None:
        yield Spelling(anything, "", any_float=False)


def _starred_ways(candidate: Candidate) -> tuple[str, ...]:
    """The ways in which attributes of operators that both sides have stay open; none if none do."""
    stars = _stars(candidate, "scaled", iter(_LETTERS)).values()
    if not stars:
        return ()
    return ("scaled", "all", "fixed") if any(star.scaled for star in stars) else ("all", "fixed")


def _untied(
    candidate: Candidate, sizes: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The sizes with none in common to variables of two sorts: operators say what fits.

    A convolution of one group needs as many channels as its kernel has, one of two twice as many.
    """
    letters = iter(_LETTERS + _LETTERS.upper())
    names: dict[tuple[object, str], str] = {}
    untied: dict[str, tuple[str, ...]] = {}
    for variable in candidate.inputs:
        keys = [(variable.sort, name) for name in sizes[variable.name]]
        for key in keys:
            if key not in names:
                names[key] = next(letters, key[1]) if key[1].isalpha() else key[1]
        untied[variable.name] = tuple(names[key] for key in keys)
    return untied


def _alike(
    candidate: Candidate, sizes: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The sizes with those of variables of one sort alike: what fits may say more than it should.

    Two kernels of one convolution with two groups have as many outputs each; what fits is any two
    that have an even number together.
    """
    first: dict[Sort, Variable] = {}
    letters: dict[str, str] = {}

    def letter(name: str) -> str:
        while name in letters:
            name = letters[name]
        return name

    for variable in candidate.inputs:
        other = first.setdefault(variable.sort, variable)
        for name, twin in zip(sizes[variable.name], sizes[other.name], strict=True):
            name, twin = letter(name), letter(twin)
            if name != twin and name.isalpha() and twin.isalpha():
                letters[name] = twin
    return {name: tuple(map(letter, shape)) for name, shape in sizes.items()}


def _sizes_in(candidate: Candidate) -> Iterator[Size]:
    """The sizes that lists of a candidate hold."""
    for part in parts([term for pair in candidate.sides for term in pair]):
        if isinstance(part, Apply):
            for _, value in part.operation.contents:
                if isinstance(value, tuple):
                    yield from (item for item in value if isinstance(item, Size))


def _place_of(size: Size, candidate: Candidate) -> tuple[str, int] | None:
    """A variable and an axis of it that has a size."""
    for variable in candidate.inputs:
        for axis, sizes in enumerate(zip(*variable.sort.shapes, strict=True)):
            if sizes == size.values:
                return variable.name, axis
    return None


def _declared(
    sizes: Mapping[str, tuple[str, ...]], anything: Mapping[str, str]
) -> Iterator[tuple[dict[str, str], bool, tuple[str, ...]]]:
    """Shapes as `given` has them: all of one shape, batches of matrices, images, as they are."""
    tensors = {name: shape for name, shape in sizes.items() if shape}
    counts = Counter(tensors.values())
    alike = [shape for shape, count in counts.items() if count > 1]
    if alike:
        words = {shape: f"[*{letter}]" for shape, letter in zip(alike, "stuvw", strict=False)}
        declared = {name: words.get(shape, "") for name, shape in tensors.items()}
        yield {**anything, **declared}, True, ("lists", "stated")
    ranks = {len(shape) for shape in tensors.values()}
    if ranks == {2}:
        declared = {name: f"[*b, {', '.join(shape)}]" for name, shape in tensors.items()}
        yield {**anything, **declared}, True, ("stated",)
    for whole in (1, 2):
        starred = _starred(tensors, whole)
        if starred is not None:
            yield {**anything, **starred}, False, ("lists",)
    declared = {name: f"[{', '.join(shape)}]" for name, shape in sizes.items()}
    yield declared, False, ("stated", "")


def _starred(sizes: Mapping[str, tuple[str, ...]], whole: int) -> dict[str, str] | None:
    """Shapes with a list of dimensions after the first ones, `[n, c, *d]`."""
    lists: dict[tuple[str, ...], str] = {}
    first: set[str] = set()
    for shape in sizes.values():
        if len(shape) <= whole or len(shape) < _LEAST_STARRED:
            return None
        first.update(shape[:whole])
        lists.setdefault(shape[whole:], f"*{shape[whole]}")
    rest = [size for shape in lists for size in shape]
    if first & set(rest) or len(set(rest)) < len(rest) or not all(map(str.isalpha, rest)):
        return None
    return {
        name: f"[{', '.join((*shape[:whole], lists[shape[whole:]]))}]"
        for name, shape in sizes.items()
    }


def rule_text(candidate: Candidate, name: str, spelling: Spelling, *, source: str) -> str:
    """The rule that a spelling of a candidate is."""
    lifting = _Lifting(candidate, spelling)
    match = lifting.side([source for source, _ in candidate.sides], "P")
    rewrite = lifting.side([right for _, right in candidate.sides], "Q")
    clauses = []
    for variable in candidate.inputs:
        dtype = variable.sort.dtype
        if spelling.any_float:
            dtype = _TYPES.get(dtype, dtype)
        words = [variable.name, spelling.shapes[variable.name], dtype]
        if any(words[1:]):
            clauses.append(" ".join(word for word in words if word))
    clauses += [f"{constant} const" for constant in lifting.constants]
    lines = [
        *_comment(name, "; ".join(match), "; ".join(rewrite)),
        f"rule {name}",
        f"  tags    {'always' if is_smaller(candidate) else 'explore'}",
        f"  source  [{source}]",
        f"  opset   >= {least_opset(candidate)}",
    ]
    if clauses:
        lines += [f"  given   {f',{_NEXT}'.join(clauses)}"]
    lines += ["  match", *(f"    {line}" for line in match)]
    lines += ["  rewrite", *(f"    {line}" for line in rewrite), "  equal   rounding"]
    return "\n".join(lines) + "\n"


def is_smaller(candidate: Candidate) -> bool:
    """Whether the right side is some of the left side's operators, and so never worse."""
    before = [name for source, _ in candidate.sides for name in _spelled(source)]
    after = [name for _, right in candidate.sides for name in _spelled(right)]
    return _is_part(after, before)


# What the outputs of a rule are called.
OUTPUTS = "RS"
_NEXT = "\n          "
_LEAST_STARRED = 3
_WIDTH = 100


def _plain(side: str) -> str:
    """The statements of a side; of a single one what it computes."""
    return side if ";" in side else side.removeprefix("R = ")


def _comment(name: str, left: str, right: str) -> list[str]:
    """What a rule does, wrapped between words that belong together."""
    left, right = (_plain(side) for side in (left, right))
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
    for part in parts([term for pair in candidate.sides for term in pair]):
        if isinstance(part, Apply):
            meaning = specification("", part.operation.op_type, OPSET)
            since += [block.opset_from for block in meaning.blocks] if meaning else []
    return max(since)


def earliest_opset(candidate: Candidate) -> int:
    """The first operator set from which on the operators take what the candidate states of them.

    What they do with it may have been written in other words then: that is for a proof to say.
    """
    every = parts([term for pair in candidate.sides for term in pair])
    first = (_first_that_takes(part.operation) for part in every if isinstance(part, Apply))
    return max(first, default=_EARLIEST)


@cache
def _first_that_takes(operation: Operation) -> int:
    opset = OPSET
    while opset > _EARLIEST and _takes(operation, opset - 1):
        opset -= 1
    return opset


def _takes(operation: Operation, opset: int) -> bool:
    """Whether an operator has the attributes and the inputs that an operation gives it."""
    meaning = specification("", operation.op_type, opset)
    if meaning is None or meaning.opaque is not None:
        return False
    return all(
        {name for name, _ in operation.attributes}
        <= {attribute.name for attribute in block.attributes}
        and all(_is_tensor(block, position) is True for position in operation.slots)
        and all(_is_tensor(block, position) is False for position, _ in operation.contents)
        for block in meaning.blocks
    )


def _is_tensor(block: Operator, position: int) -> bool | None:
    """Whether an input is a tensor, rather than a list of numbers; None where there is none."""
    inputs = block.inputs
    if position >= len(inputs) and not (inputs and inputs[-1].variadic):
        return None
    return inputs[min(position, len(inputs) - 1)].kind == "tensor"


# ------------------------------------------------------------------------- open attributes


def _said(terms: Sequence[Term]) -> dict[tuple[str, object], None]:
    """What the nodes of some terms state: attributes by name, lists without one."""
    stated: dict[tuple[str, object], None] = {}
    for part in parts(terms):
        if isinstance(part, Apply) and not part.is_constant:
            stated.update(dict.fromkeys(_stated(part.operation)))
    return stated


def _stated(operation: Operation) -> list[tuple[str, object]]:
    """(kind of statement, value) pairs; equal ones may stay open together."""
    return [
        *((name, value) for name, value in operation.attributes if not isinstance(value, str)),
        *(
            ("", value)
            for _, value in operation.contents
            if isinstance(value, tuple) and not any(isinstance(item, Size) for item in value)
        ),
    ]


def _shared(candidate: Candidate) -> set[tuple[str, object]]:
    """What both sides state alike; of a right side that is a variable, what the left one states."""
    left = _said([stated_left for stated_left, _ in candidate.sides])
    right = _said([right for _, right in candidate.sides])
    if all(isinstance(side, Variable) for _, side in candidate.sides):
        return set(left)
    return set(left) & set(right)


def _read_twice(terms: Sequence[Term]) -> frozenset[Term]:
    """The parts of some terms that several others read: outputs share what gives them."""
    readers = Counter(
        operand
        for part in parts(terms)
        if isinstance(part, Apply)
        for operand in set(part.operands)
        if isinstance(operand, Apply) and not operand.is_constant
    )
    return frozenset(reader for reader, count in readers.items() if count > 1)


@dataclass
class _Lifting:
    """Writes both sides of a candidate, with names in the place of what stays open."""

    candidate: Candidate
    spelling: Spelling
    names: dict[tuple[str, object], str] = field(default_factory=dict)
    constants: list[str] = field(default_factory=list)
    stars: dict[str, _Star] = field(default_factory=dict)

    def __post_init__(self) -> None:
        way = self.spelling.open
        if not way:
            return
        taken = set(re.findall(r"\w+", " ".join(self.spelling.shapes.values())))
        free = iter([letter for letter in "aefghijlopqr" if letter not in taken])
        if way != "stated":
            self.stars = _stars(self.candidate, way, free)
        if way in ("scaled", "fixed"):
            return
        shared = _shared(self.candidate)
        lefts = [source for source, _ in self.candidate.sides]
        for statement in _said(lefts):
            if statement in shared and any(
                statement in _stated(part.operation) and part.operation.op_type not in self.stars
                for part in parts(lefts)
                if isinstance(part, Apply)
            ):
                self.names[statement] = next(free)
                if not statement[0]:
                    self.constants.append(self.names[statement])

    def side(self, terms: Sequence[Term], spare: str) -> list[str]:
        """A side as statements that give R, S, …; `spare` names outputs that nothing else does."""
        lines: list[str] = []
        known: dict[tuple[object, ...], list[str]] = {}
        results = dict(zip(terms, OUTPUTS, strict=False))
        shared = _read_twice(terms) if len(terms) > 1 else frozenset()
        for term, name in results.items():
            text = self._expression(term, lines, known, results, shared, spare)
            if text != name:
                lines.append(f"{name} = {text}")
        return lines

    def _expression(
        self,
        term: Term,
        lines: list[str],
        known: dict[tuple[object, ...], list[str]],
        results: Mapping[Term, str],
        shared: Collection[Term],
        spare: str,
    ) -> str:
        if isinstance(term, Variable | Number):
            return str(term)
        operation = term.operation
        key = (replace(operation, output=0), term.operands)
        if key in known:
            return known[key][operation.output]
        operands = [
            self._expression(operand, lines, known, results, shared, spare)
            for operand in term.operands
        ]
        text = written(self._open(term), operands)
        if operation.outputs == 1 and term not in shared:
            return text
        first = 1 + sum(len(names) for names in known.values())
        known[key] = [
            results.get(Apply(replace(operation, output=i), term.operands), f"{spare}{first + i}")
            for i in range(operation.outputs)
        ]
        lines.append(f"{', '.join(known[key])} = {text}")
        return known[key][operation.output]

    def _open(self, term: Apply) -> Operation:
        """An operation with names in the place of what stays open."""
        operation = term.operation
        contents = tuple((p, self._value("", value, term, p)) for p, value in operation.contents)
        star = None if term.is_constant else self.stars.get(operation.op_type)
        if star is not None:
            attributes = star.attributes(operation)
        else:
            attributes = tuple(
                (name, self._value(name, value, term)) for name, value in operation.attributes
            )
        return Operation(operation.op_type, operation.slots, attributes, contents)  # type: ignore[arg-type]

    def _value(self, name: str, value: object, term: Apply, position: int = -1) -> object:
        if (name, value) in self.names and not term.is_constant:
            return _Word(self.names[name, value])
        if isinstance(value, tuple) and any(isinstance(item, Size) for item in value):
            return tuple(
                _Word(self._size(term, position, i, item)) if isinstance(item, Size) else item
                for i, item in enumerate(value)
            )
        if self.spelling.backward_axes and name in ("", "axis"):
            return _from_the_end(value, max(_rank_of(o) for o in term.operands))
        return value

    def _size(self, term: Apply, position: int, entry: int, item: Size) -> str:
        """A size in a list: a name that `given` declares, or the dimension of a variable."""
        solved = self._solved
        letter = None if solved is None else solved.sizes.get((term, position, entry))
        if letter is not None and not letter.isalpha():
            return letter
        plain = [re.findall(r"(?<!\*)\b\w+", shape) for shape in self.spelling.shapes.values()]
        if letter is not None and any(letter in words for words in plain):
            return letter
        place = _place_of(item, self.candidate) if letter is None else None
        variable, axis = place or solved.places[letter]  # type: ignore[union-attr, index]
        stated = dict(term.operation.attributes).get("axis")
        if stated == axis and ("axis", stated) in self.names:
            return f"dim({variable}, {self.names['axis', stated]})"
        return f"dim({variable}, {axis})"

    @cached_property
    def _solved(self) -> Solved | None:
        return solved_sizes(self.candidate)


@dataclass(frozen=True)
class _Star:
    """`*name` for the attributes of an operator that stay open, and what is stated beside it."""

    name: str
    stated: tuple[tuple[str, object], ...]
    scaled: Mapping[str, str]

    def attributes(self, operation: Operation) -> tuple[tuple[str, object], ...]:
        """What one of its nodes states, the default where it states nothing."""
        by_name = dict(operation.attributes)
        values = tuple(
            (name, self._value(name, by_name.get(name, default))) for name, default in self.stated
        )
        return (*values, (f"*{self.name}", None))

    def _value(self, name: str, value: object) -> object:
        if name not in self.scaled:
            return value
        return _Word(self.scaled[name] if value == 1 else f"{value} * {self.scaled[name]}")


def _stars(candidate: Candidate, way: str, free: Iterator[str]) -> dict[str, _Star]:
    """The operators of both sides whose attributes stay open, but for those that differ."""
    nodes: dict[str, list[Operation]] = {}
    sides = tuple(zip(*candidate.sides, strict=True))
    for part in parts([term for side in sides for term in side]):
        if isinstance(part, Apply) and not part.is_constant:
            nodes.setdefault(part.operation.op_type, []).append(part.operation)
    stars: dict[str, _Star] = {}
    for op_type, operations in nodes.items():
        on_both = all(
            any(isinstance(p, Apply) and p.operation.op_type == op_type for p in parts(side))
            for side in sides
        )
        meaning = specification("", op_type, OPSET)
        declared = meaning.blocks[0].attributes if meaning is not None else ()
        axes = axes_of(op_type) | orders_of(op_type)
        if not on_both or all(attribute.name in axes for attribute in declared):
            continue
        stated: list[tuple[str, object]] = []
        for attribute in declared:
            values = {dict(operation.attributes).get(attribute.name) for operation in operations}
            is_number = attribute.type in ("int", "string") and isinstance(
                attribute.default, Literal
            )
            if len(values) == 1 and not (way == "lists" and is_number):
                continue
            if not isinstance(attribute.default, Literal) and None in values:
                break
            stated.append(
                (attribute.name, attribute.default and getattr(attribute.default, "value", None))
            )
        else:
            scaled = {
                name: next(free)
                for name, default in stated
                if way == "scaled" and name not in axes and default == 1
            }
            stars[op_type] = _Star(next(free), tuple(stated), scaled)
    return stars


class _Word(int):
    """A name, or an expression, in the place of a value."""

    text: str

    def __new__(cls, text: str) -> _Word:
        word = super().__new__(cls, 0)
        word.text = text
        return word

    def __str__(self) -> str:
        return self.text


def _rank_of(term: Term) -> int:
    """The rank of an operand, as far as it is that of its variables."""
    return max(variable.sort.rank for variable in variables(term))


def _from_the_end(value: object, rank: int) -> object:
    if isinstance(value, _Word):
        return value
    if isinstance(value, tuple):
        return tuple(_from_the_end(item, rank) for item in value)
    return value - rank if isinstance(value, int) and value >= 0 else value


# ------------------------------------------------------------------------------------- sizes


@dataclass(frozen=True)
class Solved:
    """The most general sizes at which both sides fit: letters, or numbers.

    `shapes` of the variables by name; `sizes` of the lists that hold some, by term, position and
    place; `places`: a variable and an axis that have a letter's size.
    """

    shapes: Mapping[str, tuple[str, ...]]
    sizes: Mapping[tuple[Term, int, int], str]
    places: Mapping[str, tuple[str, int]]


def symbolic_shapes(candidate: Candidate) -> Mapping[str, tuple[str, ...]] | None:
    """The most general sizes of the variables at which both sides fit; None if none are found."""
    solved = solved_sizes(candidate)
    return None if solved is None else solved.shapes


@lru_cache(maxsize=256)
def solved_sizes(candidate: Candidate) -> Solved | None:
    """The most general sizes at which both sides fit; None where none are found.

    Sizes are unknowns to begin with; what the specifications require of them makes some equal.
    """
    sizes = _Sizes()
    inputs = candidate.inputs
    shapes: dict[Variable, tuple[index.Term, ...]] = {
        variable: tuple(
            sizes_of_axis[0]
            if len(set(sizes_of_axis)) == 1 and sizes_of_axis[0] == 1
            else index.Symbol(f"{variable.name}{axis}")
            for axis, sizes_of_axis in enumerate(zip(*variable.sort.shapes, strict=True))
        )
        for variable in inputs
    }
    try:
        for _ in range(20):
            before = dict(sizes.solutions)
            for left, right in candidate.sides:
                first, other = sizes.shape(left, shapes, {}), sizes.shape(right, shapes, {})
                if len(first) != len(other):
                    return None
                for a, b in zip(first, other, strict=True):
                    sizes.equal(a, b)
            if sizes.solutions == before:
                break
    except TensologError:
        return None
    names: dict[str, str] = {}
    solutions: dict[str, tuple[str, ...]] = {}
    places: dict[str, tuple[str, int]] = {}
    for variable in inputs:
        equations = []
        for axis, size in enumerate(shapes[variable]):
            resolved = index.substitute(size, sizes.solutions)
            if not isinstance(resolved, int | index.Symbol):
                return None
            equations.append(_letter(resolved, names))
            places.setdefault(equations[-1], (variable.name, axis))
        solutions[variable.name] = tuple(equations)
    lists: dict[tuple[Term, int, int], str] = {}
    for key, symbol in sizes.lists.items():
        resolved = index.substitute(symbol, sizes.solutions)
        if isinstance(resolved, int):
            lists[key] = str(resolved)
        elif isinstance(resolved, index.Symbol) and resolved.name in names:
            lists[key] = names[resolved.name]
    return Solved(solutions, lists, places)


def _letter(size: int | index.Symbol, names: dict[str, str]) -> str:
    if isinstance(size, int):
        return str(size)
    return names.setdefault(size.name, _LETTERS[len(names) % len(_LETTERS)])


class _Sizes:
    """Equations between sizes, solved by one unknown after the other."""

    def __init__(self) -> None:
        self.solutions: dict[str, index.Term] = {}
        self.lists: dict[tuple[Term, int, int], index.Symbol] = {}

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
        if isinstance(term, Number):
            return ()
        operation = term.operation
        operands = [self.shape(operand, shapes, seen) for operand in term.operands]
        most = max([*operation.slots, *(p for p, _ in operation.contents)], default=-1)
        input_shapes: list[Sequence[index.Term] | None] = [None] * (most + 1)
        for slot, shape in zip(operation.slots, operands, strict=True):
            input_shapes[slot] = shape
        values = {
            p: [self._listed(term, p, i, item) for i, item in enumerate(v)]
            if isinstance(v, tuple)
            else v
            for p, v in operation.contents
        }
        meaning = specification("", operation.op_type, OPSET)
        assert meaning is not None
        expansion = meaning.expand(
            input_shapes, dict(operation.attributes), values=values, outputs=operation.outputs
        )
        for condition, _ in expansion.requirements:
            self.require(condition)
        shape = expansion.outputs[operation.output].shape
        resolved = tuple(self._resolved(size) for size in shape)
        for size in resolved:
            self.meet(size)
        seen[term] = tuple(self._resolved(size) for size in resolved)
        return seen[term]

    def _listed(self, term: Apply, position: int, entry: int, item: int | Size) -> index.Term:
        """An item of a list: a size is an unknown of its own."""
        if not isinstance(item, Size):
            return item
        key = (term, position, entry)
        return self._resolved(self.lists.setdefault(key, index.Symbol(f"list{len(self.lists)}")))

    def require(self, condition: index.Term) -> None:
        """Take a condition for granted: equal sizes are one, and nothing broadcasts."""
        match condition:
            case index.Apply("=", (first, other)):
                self.equal(first, other)
            case index.Apply("and", (first, other)):
                self.require(first)
                self.require(other)
            case index.Apply("or", (index.Apply("=", (_, 1)), index.Apply("=", (first, other)))):
                self.meet(other)
                self.equal(first, other)
            case _:
                return

    def meet(self, size: index.Term) -> None:
        """Where one of two sizes broadcasts to the other, let them be equal."""
        match self._resolved(size):
            case index.Select(index.Apply("=", (first, 1)), other, _):
                self.equal(first, other)
            case _:
                return

    def equal(self, first: index.Term, other: index.Term) -> None:
        """Let two sizes be one, if one of them is unknown."""
        first, other = self._resolved(first), self._resolved(other)
        if first == other:
            return
        match first, other:
            case index.Apply("+", some), index.Apply("+", others) if len(some) == len(others):
                # Parts of a whole, in their order.
                for a, b in zip(some, others, strict=True):
                    self.equal(a, b)
                return
        for unknown, size in ((first, other), (other, first)):
            if isinstance(unknown, index.Symbol) and isinstance(size, int | index.Symbol):
                self.solutions = {
                    name: index.substitute(was, {unknown.name: size})
                    for name, was in self.solutions.items()
                }
                self.solutions[unknown.name] = size
                return

    def _resolved(self, size: index.Term) -> index.Term:
        return index.substitute(size, self.solutions)


# ------------------------------------------------------------------------------------- names


def rule_name(candidate: Candidate, taken: Collection[str]) -> str:
    """A name that says what the rule does to its operators: VerbObject, not among `taken`.

    Where the operators alone don't tell, what tells it apart is said as well: the rank and the type
    of its operands, the side on which they stand, what is stated of axes.
    """
    base = _base_name(candidate)
    distinctions = _told_apart(candidate)
    options = (
        base + "".join(some)
        for n in range(len(distinctions) + 1)
        for some in combinations(distinctions, n)
    )
    free = next((name for name in options if name not in taken), None)
    if free is not None:
        return free
    return next(name for n in range(2, 10_000) if (name := f"{base}{n}") not in taken)


_OF_RANK = ("Numbers", "Vectors", "Matrices", "Signals", "Images")
_ORDINALS = ("First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth")
_SIDES = ("OnTheLeft", "OnTheRight")


def _told_apart(candidate: Candidate) -> tuple[str, ...]:
    """What may be said of a candidate beside its operators, in words that a name can have."""
    source, inputs = candidate.left, candidate.inputs
    words: list[str] = []
    dtypes = dict.fromkeys(
        variable.sort.dtype for variable in inputs if variable.sort.dtype != "float32"
    )
    words += [f"Of{dtype.capitalize()}" for dtype in dtypes]
    rank = max((variable.sort.rank for variable in inputs), default=0)
    if any(not variable.sort.rank for variable in inputs) and rank:
        words.append("ByNumber")
    words.append(f"Of{_OF_RANK[rank]}" if rank < len(_OF_RANK) else f"OfRank{rank}")
    if isinstance(source, Apply) and len(source.operands) == len(_SIDES):
        deep = [isinstance(operand, Apply) for operand in source.operands]
        if sum(deep) == 1:
            words.append(_SIDES[deep.index(True)])
    for part in parts((source,)):
        if isinstance(part, Apply) and not part.is_constant:
            words += [
                f"With{_title(name)}{_digits(value)}" for name, value in _stated(part.operation)
            ]
            words += [f"Of{('First', 'Second')[part.operation.output]}Part"] * (
                part.operation.outputs > 1
            )
    return tuple(dict.fromkeys(words))[:_MOST_TOLD]


_MOST_TOLD = 6


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_")) or "List"


def _digits(value: object) -> str:
    """A number or a list as a part of a name: [1, 0, 2] is 102."""
    items = value if isinstance(value, tuple) else (value,)
    return "".join(str(item).replace("-", "Minus") for item in items)


def _base_name(candidate: Candidate) -> str:
    left, right = candidate.left, candidate.right
    before, after = _spelled(left), _spelled(right)
    if candidate.beside and all(before == _spelled(side) for side, _ in candidate.beside):
        read = [dict.fromkeys(variables(side)) for side, _ in candidate.sides]
        if before and not isinstance(right, Variable):
            shared = [i for i, pair in enumerate(zip(*read, strict=False)) if len(set(pair)) == 1]
            sharing = f"Sharing{_ORDINALS[shared[0]]}" if shared else ""
            return f"Merge{_listed(before, 'Of')}s{sharing}"
    if isinstance(left, Apply) and right in left.operands:
        return f"Eliminate{_listed(before, 'Of')}"
    if sorted(before) == sorted(after):
        if len(before) == 2 and before[0] != before[1] and before == after[::-1]:
            return f"Push{before[0]}Through{before[1]}"
        return f"Reorder{_listed(before, 'Of')}"
    removed = list((Counter(before) - Counter(after)).elements())
    if _is_part(after, before) and after:
        if len(set(removed)) == 1 and removed[0] in after:
            return f"Merge{removed[0]}s{_inside(before, removed[0])}"
        return f"Eliminate{_listed(list(dict.fromkeys(removed)), 'And')}In{_listed(before, 'Of')}"
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
    if isinstance(term, Variable | Number):
        return []
    if term.is_constant:
        return [constant_name(term)]
    operators = [term.operation.op_type]
    for operand in term.operands:
        operators += _spelled(operand)
    return operators


def _listed(names: Sequence[str], word: str) -> str:
    """Operators in a row, of equal neighbours at most two."""
    items: list[str] = []
    for name in names:
        if items[-2:] != [name, name]:
            items.append(name)
    return word.join(items)

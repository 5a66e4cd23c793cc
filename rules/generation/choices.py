"""What an operator's specification leaves to choose: attributes and lists that fit its operands.

Everything is read off the specification and the schema: no operator is known by name. Numbers are
tried, and kept where the specification accepts them; of two choices that mean the same the first
stands, so that an axis is counted in one way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, combinations, islice, permutations, product

from ...catalog.errors import TensologError
from ...catalog.operators import Specification, classifications, specification, specified
from ...catalog.operators import syntax as s
from ...catalog.operators.axes import axis_parameters
from ...catalog.operators.expand import Expansion
from ...catalog.terms.index_notation import Symbol, Term, apply
from ...catalog.terms.syntax_tree import Binary, Call, Expression, Literal, Name, Unary, walk
from ..gate.evaluation.arithmetic import NoValueError, number
from ..language import schemas
from .terms import OPSET, Known, Operation, Size, Sort

# Choices of one operator on operands of known shapes, of those that say no more than they must,
# and combinations tried for them: so many where one fits, so many where none does. Lists that hold
# sizes are not counted among the latter: each of them fits few operands.
MOST_CHOICES, MOST_PLAIN, MOST_TRIED, MOST_IN_VAIN = 20, 12, 400, 40
ASSIGNMENTS = 2
_SIZES = ((2, 3, 4, 5, 6, 7, 8, 9), (3, 2, 5, 4, 7, 6, 9, 8))
# Dimensions whose sizes lists may hold.
MOST_SIZES = 4
# Permutations are tried up to this rank.
_MOST_PERMUTED = 4
_MATRIX = 2
# Of an attribute that is a type: floats, 32-bit integers, 64-bit ones and truth values.
TYPE_CODES = (1, 6, 7, 9)


def size(dimension: int) -> Size:
    """The size of a numbered dimension: dimensions differ in size under each assignment."""
    return Size(tuple(sizes[dimension] for sizes in _SIZES))


# Operators that occur together, by what programs do with them. `taso`: those of its rules.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "taso": (
        *("MatMul", "Add", "Mul", "Relu", "Concat", "Split", "Transpose", "Conv"),
        *("AveragePool", "MaxPool", "Pad", "Sigmoid", "Tanh"),
    ),
    "sums": ("ReduceSum", "ReduceMean", "ReduceMax", "Softmax", "Mul", "Add"),
    "slices": ("Slice", "Pad", "Gather", "Concat"),
    "choices": ("Where", "Less", "Not", "And", "Or", "Max", "Min"),
    "quantized": ("QuantizeLinear", "DequantizeLinear", "Transpose", "Relu", "Concat"),
    "casts": ("Cast", "Floor", "Ceil", "Round", "Neg", "Abs"),
    "reshapes": ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"),
}


class UnknownOperatorError(TensologError):
    """A name that is no operator with a specification, and no family of operators."""


def named_operators(names: Iterable[str]) -> tuple[str, ...]:
    """The operators of names and families, each once, in order.

    Families are the kinds of specifications (elementwise, reduction, …) and those of FAMILIES.
    Raises UnknownOperatorError for what has no specification.
    """
    in_family: dict[str, None] = {}
    for name in names:
        family = [op for op in _generated() if _described(op).kind == name]
        family += FAMILIES.get(name, ())
        if not family and name not in _generated():
            raise UnknownOperatorError(_unknown(name))
        in_family.update(dict.fromkeys(family or (name,)))
    return tuple(in_family)


def _unknown(name: str) -> str:
    if name in specified():
        return f"{name} has no meaning that programs could be compared by: leave it out"
    families = sorted({*FAMILIES, *(_described(op).kind for op in _generated())})
    return f"{name} is no operator with a specification, nor one of {', '.join(families)}"


@cache
def _generated() -> tuple[str, ...]:
    """The operators that can take part: described ones with an operand, that are deterministic."""
    names = []
    for name in specified():
        meaning = specification("", name, OPSET)
        if meaning is None or meaning.opaque is not None:
            continue
        if any(i.kind == "tensor" for i in meaning.blocks[0].inputs) and name != "Identity":
            names.append(name)
    return tuple(names)


def takes_part(op_type: str) -> bool:
    """Whether programs of an operator can be built and compared."""
    return op_type in _generated()


@cache
def _described(op_type: str) -> Specification:
    described = specification("", op_type, OPSET)
    assert described is not None
    return described


def is_commutative(op_type: str) -> bool:
    """Whether operands may be permuted."""
    classification = classifications().get(("", op_type))
    return classification is not None and classification.commutative(OPSET)


@cache
def slots_of(op_type: str) -> tuple[tuple[int, ...], ...]:
    """The positions of tensor operands that are given together: the required ones; two of many."""
    block = _described(op_type).blocks[0]
    slots: list[int] = []
    for position, declared in enumerate(block.inputs):
        if declared.kind != "tensor" or declared.optional or declared.default is not None:
            continue
        slots += [position, position + 1] if declared.variadic else [position]
    return (tuple(slots),)


@cache
def dtypes_of(op_type: str, slots: tuple[int, ...]) -> tuple[tuple[frozenset[str], str], ...]:
    """For each operand the element types that the schema allows, and the name that ties types."""
    schema = schemas.versions(op_type, OPSET, OPSET)[-1]
    dtypes = []
    for slot in slots:
        formal = schema.inputs[min(slot, len(schema.inputs) - 1)]
        heterogeneous = slot >= len(schema.inputs) - 1 and not formal.is_homogeneous
        tie = f"{slot}" if heterogeneous else formal.type_str
        dtypes.append((frozenset(map(schemas.type_name, formal.types)), tie))
    return tuple(dtypes)


@cache
def are_alike(op_type: str, slots: tuple[int, ...]) -> bool:
    """Whether the operands are declared with one shape, as those of Add and Concat are."""
    inputs = _described(op_type).blocks[0].inputs
    declared = [inputs[min(slot, len(inputs) - 1)].shape for slot in slots]
    return len({tuple(item.name for item in shape) for shape in declared}) == 1


def types_fit(op_type: str, slots: tuple[int, ...], dtypes: Sequence[str]) -> bool:
    """Whether the schema allows operands of these element types together."""
    ties: dict[str, str] = {}
    for (allowed, tie), dtype in zip(dtypes_of(op_type, slots), dtypes, strict=True):
        if dtype not in allowed or ties.setdefault(tie, dtype) != dtype:
            return False
    return True


@cache
def axes_of(op_type: str) -> frozenset[str]:
    """The attributes and lists of an operator that count axes."""
    return frozenset(parameter.name for parameter in axis_parameters("", op_type, OPSET))


@cache
def orders_of(op_type: str) -> frozenset[str]:
    """The attributes of an operator that put dimensions in an order: its values invert them."""
    block = _described(op_type).blocks[0]
    computed = [part for value in block.values for part in walk(value.expression)]
    return frozenset(
        attribute.name
        for attribute in block.attributes
        if Call("invert", (Name(attribute.name),)) in computed
    )


def _is_permuted(rank: int) -> bool:
    return 0 < rank <= _MOST_PERMUTED


@cache
def _least_rank(op_type: str, slot: int) -> int:
    """The least rank of an operand: `[n, c, *d]` stands for images of at least one dimension.

    The specification means something without one, too; no runtime takes such operands.
    """
    inputs = _described(op_type).blocks[0].inputs
    items = inputs[min(slot, len(inputs) - 1)].shape
    stars = [item for item in items if item.kind == "star"]
    plain = sum(item.kind == "plain" for item in items)
    if plain < 2 or len(stars) != 1 or stars[0].length is not None:
        return 0
    return plain + 1


def _fit(op_type: str, slots: tuple[int, ...], sorts: Sequence[Sort]) -> bool:
    """Whether operands of these sorts are worth trying: as many, of types and ranks that go.

    No image is the kernel of another one, and no kernel an image: there would be one window, and
    laws of that only.
    """
    if _described(op_type).kind == "contraction" and any(
        _least_rank(op_type, slot)
        and sort.rank > _MATRIX
        and _has_window(sort) == (slot == slots[0])
        for slot, sort in zip(slots, sorts, strict=False)
    ):
        return False
    return (
        len(slots) == len(sorts)
        and types_fit(op_type, slots, [sort.dtype for sort in sorts])
        and all(
            sort.rank >= _least_rank(op_type, slot) for slot, sort in zip(slots, sorts, strict=True)
        )
    )


def _has_window(sort: Sort) -> bool:
    """Whether a kernel's window, its sizes behind the first two, is the same at all sizes."""
    return len({shape[_MATRIX:] for shape in sort.shapes}) == 1


@cache
def operations_on(op_type: str, sorts: tuple[Sort, ...]) -> tuple[tuple[Operation, Sort], ...]:
    """The operations that fit operands of these sorts, each with the sort of what it gives.

    Of those that state the same things without need, axes aside, one says as much as all.
    """
    return tuple(each_operation_on(op_type, sorts))


def each_operation_on(op_type: str, sorts: tuple[Sort, ...]) -> Iterator[tuple[Operation, Sort]]:
    """The same, one after the other: what is not asked for is not tried."""
    drawn = _drawn(op_type, sorts)
    for i in range(MOST_CHOICES):
        if i == len(drawn.seen):
            operation = next(drawn.others, None)
            if operation is None:
                return
            drawn.seen.append(operation)
        yield drawn.seen[i]


@dataclass
class _Drawn:
    """The operations on operands of some sorts: those that were asked for, and the others."""

    others: Iterator[tuple[Operation, Sort]]
    seen: list[tuple[Operation, Sort]] = field(default_factory=list)


@cache
def _drawn(op_type: str, sorts: tuple[Sort, ...]) -> _Drawn:
    return _Drawn(_fitting(op_type, sorts))


def _fitting(op_type: str, sorts: tuple[Sort, ...]) -> Iterator[tuple[Operation, Sort]]:
    for slots in slots_of(op_type):
        if not _fit(op_type, slots, sorts):
            continue
        meanings: set[tuple[str, ...]] = set()
        stated_counts: Counter[object] = Counter()
        in_vain = 0
        for operation in _tried(op_type, slots, tuple(o.rank for o in sorts)):
            kind = _without_need(operation)
            most = 1 if operation.options else MOST_PLAIN
            if stated_counts[kind] == most:
                continue
            expansions = expansions_of(operation, sorts)
            if expansions is None:
                in_vain += not _lists_sizes(operation)
                if in_vain > MOST_IN_VAIN and not meanings:
                    break
                continue
            output = operation.output
            meaning = tuple(
                str(e.outputs[output]) + "".join(map(str, e.locals)) for e in expansions
            )
            if meaning in meanings:
                continue
            meanings.add(meaning)
            result_sort = _sort_of(operation, sorts, expansions)
            if result_sort is not None:
                stated_counts[kind] += 1
                yield operation, result_sort


def _without_need(operation: Operation) -> object:
    """What an operation states without need: which things, and of axes the numbers as well.

    Of lists also where they say something: pads of rows are another thing than pads of columns.
    """
    needed, axes = _needed(operation.op_type)
    statements = [*operation.attributes, *operation.contents]
    free = [(key, value) for key, value in statements if key not in needed]
    return operation.output, frozenset(
        (key, value if key in axes else _places(value)) for key, value in free
    )


def _places(value: object) -> tuple[int, ...]:
    """The places of a list that are no less than the others; none where all are alike."""
    numbers = [item for item in _items(value) if isinstance(item, int)]
    if len(set(numbers)) < 2:
        return ()
    return tuple(i for i, item in enumerate(numbers) if item == max(numbers))


def expansions_of(operation: Operation, sorts: Sequence[Sort]) -> tuple[Expansion, ...] | None:
    """The operation's meaning under each assignment of sizes; None where it has none."""
    if not _may_fit(operation, sorts):
        return None
    expansions = []
    for assignment in range(ASSIGNMENTS):
        expansion = _expansion(operation, sorts, assignment)
        if expansion is None or expansion.requirements:
            return None
        if any(not isinstance(d, int) or d < 1 for d in expansion.outputs[operation.output].shape):
            return None
        expansions.append(expansion)
    return tuple(expansions)


def _expansion(operation: Operation, sorts: Sequence[Sort], assignment: int) -> Expansion | None:
    """The operation's meaning under an assignment: that for unknown sizes with sizes put in.

    To read a specification takes ten times as long, and is done where unknown sizes don't suffice.
    """
    general = _general(operation, tuple(sort.rank for sort in sorts))
    if general is not None:
        try:
            expansion = general.with_values(_named_sizes(operation, sorts, assignment))
        except TensologError:
            return None
        if all(isinstance(d, int) for d in expansion.outputs[operation.output].shape):
            return expansion
    shapes = [sort.shapes[assignment] for sort in sorts]
    return _expanded(operation, shapes, operation.lists(assignment))


def _named_sizes(operation: Operation, sorts: Sequence[Sort], assignment: int) -> dict[str, int]:
    """The sizes that the names in `_general` stand for."""
    sizes = {
        f"{slot}.{axis}": size
        for slot, sort in enumerate(sorts)
        for axis, size in enumerate(sort.shapes[assignment])
    }
    for _, value in operation.contents:
        if isinstance(value, tuple):
            sizes |= {str(o): o.values[assignment] for o in value if isinstance(o, Size)}
    return sizes


def _may_fit(operation: Operation, sorts: Sequence[Sort]) -> bool:
    """Whether sizes meet what the specification requires of them at these ranks.

    That is worked out for unknown sizes once; most combinations of operands fail here, quickly.
    """
    ranks = tuple(sort.rank for sort in sorts)
    required = _required(operation, ranks)
    if required is None:
        return True
    for assignment in range(ASSIGNMENTS):
        try:
            sizes = _named_sizes(operation, sorts, assignment)
            if not all(number(condition, sizes) for condition in required):
                return False
        except NoValueError:
            return False
    return True


# Where unknown sizes are too little to go by, these stand for all: what fails for both of them, a
# list that is too short, say, fails for any.
_ALL_ALIKE = (12, 1)


@cache
def _required(operation: Operation, ranks: tuple[int, ...]) -> tuple[Term, ...] | None:
    """The conditions on sizes of operands of some ranks; None where they must be known for it."""
    expansion = _general(operation, ranks)
    if expansion is None:
        lists = _general_lists(operation)
        if any(isinstance(item, Symbol) for list_ in lists.values() for item in _items(list_)):
            return None
        alike = ([(size,) * n for n in ranks] for size in _ALL_ALIKE)
        fits = (_expanded(operation, shapes, lists) for shapes in alike)
        return None if any(fits) else (False,)
    fit = tuple(condition for condition, _ in expansion.requirements)
    return (*fit, *(apply(">=", size, 1) for size in expansion.outputs[operation.output].shape))


@cache
def _general(operation: Operation, ranks: tuple[int, ...]) -> Expansion | None:
    """The operation's meaning for unknown sizes; None where they must be known for it."""
    unknown = [tuple(f"{slot}.{axis}" for axis in range(n)) for slot, n in enumerate(ranks)]
    return _expanded(operation, unknown, _general_lists(operation))


def _general_lists(operation: Operation) -> dict[int, object]:
    return {
        position: [Symbol(str(item)) if isinstance(item, Size) else item for item in value]
        if isinstance(value, tuple)
        else value
        for position, value in operation.contents
    }


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _expanded(
    operation: Operation,
    shapes: Sequence[tuple[int | str, ...]],
    lists: Mapping[int, object],
) -> Expansion | None:
    """An operation's meaning on operands of some shapes; None where it has none."""
    described = _described(operation.op_type)
    try:
        expansion = described.expand(
            _by_position(operation, shapes),
            dict(operation.attributes),
            values=lists,
            outputs=operation.outputs,
        )
    except (TensologError, ZeroDivisionError, OverflowError, KeyError, RecursionError):
        return None
    return expansion if len(expansion.outputs) > operation.output else None


def _by_position(
    operation: Operation, shapes: Sequence[tuple[int | str, ...]]
) -> list[tuple[int | str, ...] | None]:
    most = max([*operation.slots, *(position for position, _ in operation.contents)])
    shapes_by_position: list[tuple[int | str, ...] | None] = [None] * (most + 1)
    for slot, shape in zip(operation.slots, shapes, strict=True):
        shapes_by_position[slot] = shape
    return shapes_by_position


@cache
def sort_made(operation: Operation, sorts: tuple[Sort, ...]) -> Sort | None:
    """The sort of what an operation gives for operands of some sorts; None where it has none."""
    expansions = expansions_of(operation, sorts)
    if expansions is None:
        return None
    return _sort_of(operation, sorts, expansions)


def _sort_of(
    operation: Operation, sorts: Sequence[Sort], expansions: Sequence[Expansion]
) -> Sort | None:
    from ...catalog.operators.derive import element_types

    dtypes: list[str | None] = [None] * len(expansions[0].inputs)
    for slot, sort in zip(operation.slots, sorts, strict=True):
        dtypes[slot] = sort.dtype
    try:
        dtype = element_types(expansions[0], dtypes)[operation.output]
    except (TensologError, KeyError, IndexError):
        return None
    shapes = (e.outputs[operation.output].shape for e in expansions)
    return Sort(dtype, tuple(tuple(map(int, shape)) for shape in shapes))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------ ranges


@cache
def _tried(op_type: str, slots: tuple[int, ...], ranks: tuple[int, ...]) -> tuple[Operation, ...]:
    """The operations to try on operands of some ranks."""
    return tuple(islice(_stated(op_type, slots, ranks), MOST_TRIED))


def _stated(op_type: str, slots: tuple[int, ...], ranks: tuple[int, ...]) -> Iterator[Operation]:
    """Operations that say all that must be said, and up to two things more.

    Of the values of each thing those are tried that fit by themselves, on operands of any size.
    """
    for block in _described(op_type).blocks:
        yield from _Stating(op_type, slots, ranks, block).operations()


Said = dict[str | int, object]
"""What an operation states: attributes by name, the contents of inputs by position."""


class _Stating:
    """What may be stated of an operator's attributes and lists, on operands of some ranks."""

    def __init__(
        self, op_type: str, slots: tuple[int, ...], ranks: tuple[int, ...], block: s.Operator
    ) -> None:
        self.op_type, self.slots, self.ranks = op_type, slots, ranks
        axes, orders = axes_of(op_type), orders_of(op_type)
        rank = max(ranks)
        self.ranges: dict[str | int, list[object]] = {
            attribute.name: list(_attribute_range(block, attribute, rank))
            for attribute in block.attributes
        }
        self.partial = {
            attribute.name: list(_partial_lists(attribute, rank)) for attribute in block.attributes
        }
        names: dict[str, str | int] = {
            attribute.name: attribute.name for attribute in block.attributes
        }
        self.outputs = 2 if any(output.variadic for output in block.outputs) else 1
        for position, declared in enumerate(block.inputs):
            if declared.kind != "tensor":
                values_of_list: list[object] = list(
                    _known_range(declared, rank, declared.name in axes)
                )
                if self.outputs > 1:
                    values_of_list = [value for value in values_of_list if value is not None]
                self.ranges[position], names[declared.name] = values_of_list, position
        for name in axes & self.ranges.keys():
            # Of an axis that is left out nobody sees that another operator counts the same one.
            self.ranges[name] = [axis for axis in range(max(2, rank)) if rank] or [None]
        for name in orders:
            # An order that is left out is another one at each rank: a law is stated for one order.
            self.ranges[name] = list(permutations(range(rank))) if _is_permuted(rank) else [None]
        self.free = {names[name] for name in axes | orders if name in names}

    def operations(self) -> Iterator[Operation]:
        """All that say what must be said, then those that say one thing more, then two.

        What lists say of some dimensions alone, such as pads of rows, comes last.
        """
        needed = [key for key, values in self.ranges.items() if None not in values]
        others = [key for key in self.ranges if key not in needed]
        # Words come last: what they say, numbers say as well.
        others.sort(key=lambda key: any(isinstance(value, str) for value in self.ranges[key]))
        every: list[Said] = [
            dict(zip(needed, chosen, strict=True))
            for chosen in sorted(product(*(self.ranges[key] for key in needed)), key=_said)
        ]
        plain = self._fitting(every, {})
        bases = [choices for choices, _ in plain]
        alone: dict[str | int, list[tuple[Said, Operation]]] = {}
        for key in others:
            alone[key] = self._fitting(bases, {key: self.ranges[key]})
            if not any(_fits_somewhere(operation, self.ranks) for _, operation in alone[key]):
                alone[key] = self._fitting(every, {key: self.ranges[key]})
        values = {
            key: list(dict.fromkeys(choices[key] for choices, _ in alone[key])) for key in others
        }
        pairs = (
            operation
            for first, second in combinations(others, 2)
            for operation in self._fitting(bases, {first: values[first], second: values[second]})
        )
        partial = (
            operation
            for key, lists in self.partial.items()
            for operation in self._fitting(bases, {key: lists})
            if lists and _fits_somewhere(operation[1], self.ranks)
        )
        for _, operation in chain(plain[: MOST_TRIED // 2], *alone.values(), pairs, partial):
            for output in range(self.outputs):
                yield replace(operation, output=output)

    def _fitting(
        self, bases: Sequence[Said], more: Mapping[str | int, Sequence[object]]
    ) -> list[tuple[Said, Operation]]:
        """What is said where one of the values of each thing more is: what fits, or all of it."""
        count = sum(key not in self.free for key in more)
        options = [[value for value in values if value is not None] for values in more.values()]
        tried: list[tuple[Said, Operation]] = []
        for base, chosen in islice(product(bases, product(*options)), MOST_TRIED):
            both = base | dict(zip(more, chosen, strict=True))
            said = {key: both[key] for key in self.ranges if key in both}
            input_keys = {*self.slots, *(key for key in said if isinstance(key, int))}
            if len(input_keys) <= max(input_keys):
                continue  # the rule language has no word for an input that is left out
            operation = _operation(self.op_type, self.slots, said, count, 0, self.outputs)
            tried.append((said, operation))
        return [
            operation for operation in tried if _fits_somewhere(operation[1], self.ranks)
        ] or tried


def _fits_somewhere(operation: Operation, ranks: Sequence[int]) -> bool:
    """Whether it means something where all sizes are alike, large or 1."""
    if _lists_sizes(operation):
        return True
    for size in _ALL_ALIKE:
        expansion = _expanded(operation, [(size,) * n for n in ranks], operation.lists(0))
        if expansion is not None and not expansion.requirements:
            return True
    return False


def _lists_sizes(operation: Operation) -> bool:
    return any(
        isinstance(item, Size) for _, contents in operation.contents for item in _items(contents)
    )


@cache
def _needed(op_type: str) -> tuple[frozenset[str | int], frozenset[str | int]]:
    """What an operator has to be told, and which of what it may be told are axes."""
    axes = axes_of(op_type) | orders_of(op_type)
    block = _described(op_type).blocks[0]
    keys: list[tuple[str | int, s.Attribute | s.Input]] = [(a.name, a) for a in block.attributes]
    keys += [(i, input_) for i, input_ in enumerate(block.inputs) if input_.kind != "tensor"]
    needed = {
        key
        for key, declared_key in keys
        if not declared_key.optional and declared_key.default is None
    }
    return frozenset(needed), frozenset(
        key for key, declared_key in keys if declared_key.name in axes
    )


def fits_plainly(op_type: str, sorts: tuple[Sort, ...]) -> bool:
    """Whether operands fit with nothing said that need not be."""
    return any(
        expansions_of(operation, sorts) is not None
        for slots in slots_of(op_type)
        if _fit(op_type, slots, sorts)
        for operation in _plain(op_type, slots, sorts)
    )


def _plain(op_type: str, slots: tuple[int, ...], sorts: Sequence[Sort]) -> Iterator[Operation]:
    """The operations of `_tried` that say only what must be said."""
    most: tuple[int, int] | None = None
    for operation in _tried(op_type, slots, tuple(sort.rank for sort in sorts)):
        statement_counts = len(operation.attributes), len(operation.contents)
        most = most or statement_counts
        if statement_counts != most:
            return
        yield operation


def _operation(
    op_type: str,
    slots: tuple[int, ...],
    choices: Mapping[str | int, object],
    options: int,
    output: int,
    outputs: int,
) -> Operation:
    attributes = tuple((key, value) for key, value in choices.items() if isinstance(key, str))
    known_inputs = tuple((key, value) for key, value in choices.items() if isinstance(key, int))
    commutes = is_commutative(op_type)
    return Operation(op_type, slots, attributes, known_inputs, commutes, output, outputs, options)  # type: ignore[arg-type]


def _said(chosen: Sequence[object]) -> int:
    """How much is stated: shorter lists come first."""
    return sum(len(value) for value in chosen if isinstance(value, tuple))


def _attribute_range(block: s.Operator, attribute: s.Attribute, rank: int) -> Iterator[object]:
    """Values of an attribute to try; None: it is left out."""
    optional = attribute.optional or attribute.default is not None
    if optional:
        yield None
    default = attribute.default.value if isinstance(attribute.default, Literal) else None
    match attribute.type:
        case "int" if _is_type(block, attribute.name):
            yield from TYPE_CODES
        case "int":
            yield from (value for value in range(max(2, rank)) if value != default)
        case "ints" if optional and (filled := _filled(attribute.default)) is not None:
            # What fills a list otherwise: of windows that differ one says as much as all.
            yield from ((filled + 1,) * length for length in range(1, 2 * rank + 1))
        case "ints":
            yield from _integer_lists(rank)
        case "string":
            yield from (word for word in sorted(_words(block, attribute.name)) if word != default)
        case _:
            return


def _partial_lists(attribute: s.Attribute, rank: int) -> Iterator[tuple[int, ...]]:
    """Lists for before and after that say something of some dimensions alone."""
    filled = _filled(attribute.default) if attribute.type == "ints" else None
    if filled is not None:
        for length in range(2, rank + 1):
            for half in product((filled, filled + 1), repeat=length):
                if len(set(half)) > 1:
                    yield (*half, *half)


def _filled(default: Expression | None) -> int | None:
    """The number that a list is full of by default; None where there is none."""
    for filling, function in enumerate(("zeros", "ones")):
        if _calls(default, function):
            return filling
    return None


def _known_range(declared: s.Input, rank: int, is_axes: bool) -> Iterator[Known | None]:
    """Contents of an input that must be known, to try."""
    if declared.optional or declared.default is not None:
        yield None
    if declared.kind == "int":
        yield from (0, 1, -1)
        return
    values: dict[tuple[int | Size, ...], None] = {}
    values.update(dict.fromkeys((value,) for value in (*range(max(2, rank)), -1)))
    for length in range(2, 2 * rank + 1):
        values.update(dict.fromkeys((value,) * length for value in (0, 1, 2)))
    values.update(dict.fromkeys((-1, *(0,) * (n - 1)) for n in range(2, rank + 1)))
    values.update(dict.fromkeys((*(0,) * (n - 1), -1) for n in range(2, rank + 1)))
    values[tuple(range(rank))] = None
    if not is_axes:
        for length in (1, 2):
            sizes = [size(dimension) for dimension in range(MOST_SIZES)]
            values.update((some, None) for some in product(sizes, repeat=length))
        # Before and after: windows and pads are the same on both sides of a dimension.
        halves = product((0, 1), repeat=rank)
        values.update(dict.fromkeys((*half, *half) for half in halves if rank > 2))
    yield from values


def _integer_lists(rank: int) -> Iterator[tuple[int, ...]]:
    """Lists of equal numbers (windows), and permutations of the dimensions."""
    for length in range(1, rank + 1):
        yield from ((value,) * length for value in (3, 2, 1))
    if rank <= _MOST_PERMUTED:
        yield from permutations(range(rank))


def _is_type(block: s.Operator, name: str) -> bool:
    """Whether an attribute says the element type of an output."""
    return any(output.code == Name(name) for output in block.outputs)


def _calls(expression: object, function: str) -> bool:
    """Whether an expression calls a function of the specifications' language."""
    match expression:
        case Call(name, arguments):
            return name == function or any(_calls(argument, function) for argument in arguments)
        case Unary() | Binary():
            return any(_calls(operand, function) for operand in expression.parts)
        case _:
            return False


def _words(block: s.Operator, name: str) -> set[str]:
    """The words that a specification compares an attribute with."""
    words: set[str] = set()
    expressions = [let.expression for let in block.lets]
    expressions += [value.expression for value in block.values]
    expressions += [require.condition for require in block.requires]
    for part in (part for expression in expressions for part in walk(expression)):
        match part:
            case Binary("=" | "!=") if Name(name) in part.parts:
                words.update(
                    other.value
                    for other in part.parts
                    if isinstance(other, Literal) and isinstance(other.value, str)
                )
    return words

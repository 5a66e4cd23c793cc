"""A graph as the facts that regions.dl asks for, with what the specifications of its nodes say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import onnx

from ....catalog.operators.expand import Expansion
from ....catalog.terms.index_notation import Apply, Read, Reduce, Select, Term
from ....rules import ABSENT
from ...codegen.expressions import LoweringError, expression
from ...graph.graph import Graph
from ...layouts.runtime import NCHWC
from ..indexed.row_operators import SCATTERS, gather_of, scatter_of
from ..loops.affine import Extent
from ..loops.cells import SLOW
from ..loops.kernel_region import Meanings
from ..loops.reduced_axes import NO_ROWS, Rows, folded_axes, long_axes, parts_of
from ..runtime_answers import left_alone

Row = tuple[int | float | str, ...]
Facts = dict[str, list[Row]]
MOVES = frozenset(
    {"Transpose", "Reshape", "Slice", "Concat", "Split", "Unsqueeze", "Squeeze", "Expand"}
    | {"Identity", "Flatten"}
)
# A move as well, whose indices are read.
PICKS = "Gather"
# The inputs of regions.dl, but for `sink` and `stem`: those are asked for one by one.
RELATIONS = (
    *("node", "position", "reads", "captures", "gives", "graph_input", "graph_output", "opset"),
    *("dtype", "shape", "sizes", "scalar", "zero", "factor", "matrix", "constant", "attribute"),
    *("kind", "expressible", "full", "direct", "exact", "left_alone", "slow", "folds", "frame"),
    *("scatters", "gathers", "picks_again", "image", "filters", "groups"),
    *("scale", "zero_point", "runs", "runtime", "runtime_reads", "runtime_gives", "epsilon"),
)
BLOCKED_CONVOLUTION = f"{NCHWC}:Conv"
# Attributes that clauses ask for, by operator.
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "Gemm": ("transA", "transB", "alpha", "beta"),
    "Softmax": ("axis",),
    "Transpose": ("perm",),
    "DequantizeLinear": ("axis", "block_size"),
    "QuantizeLinear": ("precision",),
    "com.microsoft:MatMulNBits": ("bits",),
    BLOCKED_CONVOLUTION: ("dilations",),
}
# Numbers that keys may be multiplied by, so that products of two are none too large or small.
LEAST_SCALE = 1e-15
ROWS = frozenset({"normalization", "reduction"})
# Where the runtime has operators of its own.
CONTRIBUTED = "com.microsoft"
EIGHT_BITS = frozenset({"int8", "uint8"})
# Kinds of operators of which no cell is computed by what may be exact.
_SUMMING = frozenset({"contraction", "window", "recurrent", "opaque", *ROWS})
# Primitives of which IEEE 754 leaves nothing open, or that round to what is an integer anyhow. A
# root isn't one: kernels divide by one of a row by multiplying with its inverse.
_EXACT = frozenset(
    {"+", "-", "*", "/", "abs", "neg", "max", "min", "round", "floor", "ceil", "real"}
    | {"<", "<=", ">", ">=", "=", "!=", "and", "or", "xor", "not", "isnan", "saturated"}
    | {"is_positive_inf", "is_negative_inf", "rounded_float16", "rounded_bfloat16"}
)


def region_facts(meanings: Meanings) -> Facts:
    """List the facts of a graph, relation by relation; no `sink` is asked about."""
    graph = meanings.graph
    facts: Facts = {name: [] for name in RELATIONS}
    facts["graph_input"] = [(value,) for value in graph.graph_inputs]
    facts["graph_output"] = [(value,) for value in graph.graph_outputs]
    for position, number in enumerate(meanings.order):
        node = graph.nodes[number]
        facts["node"].append((number, node.operator))
        facts["position"].append((number, position))
        facts["reads"] += [(number, p, v) for p, v in enumerate(node.inputs) if v != ABSENT]
        facts["gives"] += [(number, p, v) for p, v in enumerate(node.outputs) if v != ABSENT]
        facts["captures"] += [(number, value) for value in node.captures]
        for name in ATTRIBUTES.get(node.operator, ()):
            facts["attribute"].append((number, name, _attribute(graph, number, name)))
        _describe(meanings, number, facts)
        if node.operator == BLOCKED_CONVOLUTION:
            _describe_convolution(graph, number, facts)
    if meanings.optimized is not None:
        facts["left_alone"] = [(number,) for number in left_alone(graph, meanings.optimized)]
        _describe_runtime(graph, meanings.optimized, facts)
    facts["opset"] = [(graph.opset(),)]
    for value, type_ in graph.types.items():
        facts["dtype"].append((value, type_.dtype))
        if type_.shape is not None:
            facts["shape"].append((value, text(type_.shape)))
    for shape in shapes(graph):
        long, last = long_axes(shape), shape[-1:]
        facts["sizes"].append((text(shape), len(shape), text(long), text(last)))
    for value in graph.constants:
        _describe_constant(meanings, value, facts)
    facts["frame"] = [
        (
            frame.name,
            text(frame.space),
            frame.rows.reduced,
            frame.rows.behind,
            frame.sizes,
            frame.row,
        )
        for frame in frames(graph)
    ]
    return facts


def _describe(meanings: Meanings, number: int, facts: Facts) -> None:
    """Add what a node's specification says."""
    kind = meanings.kind(number)
    facts["kind"].append((number, kind))
    is_move = _is_move(meanings, number)
    if (is_move or kind == "elementwise" or kind in ROWS) and _is_expressible(meanings, number):
        facts["expressible"].append((number,))
        if meanings.is_full(number):
            facts["full"].append((number,))
        if not meanings.of(number).locals:
            facts["direct"].append((number,))
        if is_slow(meanings, number):
            facts["slow"].append((number,))
        rows = None if is_move or kind not in ROWS else _folded(meanings, number)
        if rows is not None:
            facts["folds"].append((number, rows.reduced, rows.behind))
    _describe_rows(meanings, number, facts)
    if _picks_again(meanings, number):
        facts["picks_again"].append((number,))
    if kind not in _SUMMING and is_exact(meanings, number):
        facts["exact"].append((number,))


def _is_move(meanings: Meanings, number: int) -> bool:
    return meanings.graph.nodes[number].operator in {*MOVES, PICKS}


def _picks_again(meanings: Meanings, number: int) -> bool:
    """Tell whether a node may pick elements several times each."""
    graph, node = meanings.graph, meanings.graph.nodes[number]
    if node.operator != PICKS:
        return False
    before, after = graph.shape(node.inputs[0]) or (), graph.shape(node.outputs[0]) or ()
    are_sizes_known = all(isinstance(size, int) for size in (*before, *after))
    return not are_sizes_known or math.prod(map(int, after)) > math.prod(map(int, before))


def _describe_rows(meanings: Meanings, number: int, facts: Facts) -> None:
    """Add along which axis a node gathers or scatters rows, if it does."""
    operator = meanings.graph.nodes[number].operator
    with suppress(LoweringError):
        if operator in SCATTERS:
            scatter = scatter_of(meanings, number)
            rank = len(meanings.shape(scatter.updates))
            facts["scatters"].append((number, scatter.axis, rank, scatter.updates))
        elif operator == "Gather":
            gather = gather_of(meanings, number)
            facts["gathers"].append((number, gather.axis, len(meanings.shape(gather.table))))


def _describe_convolution(graph: Graph, number: int, facts: Facts) -> None:
    """Add the images that a convolution over blocks reads and gives, and its filters if known."""
    node = graph.nodes[number]
    for value in (node.inputs[0], node.outputs[0]):
        sizes = [size if isinstance(size, int) else -1 for size in graph.shape(value) or ()]
        if graph.dtype(value) == "float32" and len(sizes) == 4 and sizes[1] > 0 and 0 not in sizes:
            facts["image"].append((value, *sizes[1:]))
    constant = graph.constants.get(node.inputs[1])
    if constant is not None and constant.type.dtype == "float32":
        array = constant.array()
        if array.ndim == 4 and array.size and np.isfinite(array).all():
            groups = graph.attribute(number, "group")
            count = groups if isinstance(groups, int) and groups > 0 else 1
            facts["filters"].append((node.inputs[1], *array.shape))
            facts["groups"].append((number, count, len(array) // count))


def _describe_runtime(graph: Graph, optimized: Mapping[str, onnx.NodeProto], facts: Facts) -> None:
    """Add what the runtime has of the model as it optimizes it, and its own operators there."""
    values = {name: value for value, name in enumerate(graph.names)}
    facts["runs"] = [(values[name],) for name in optimized if name in values]
    for name, node in optimized.items():
        number = graph.producer.get(values.get(name, ABSENT))
        if number is not None and node.domain == CONTRIBUTED and name == node.output[0]:
            facts["runtime"].append((number, node.op_type))
            facts["epsilon"] += [(number, a.f) for a in node.attribute if a.name == "epsilon"]
            for relation, names in (("runtime_reads", node.input), ("runtime_gives", node.output)):
                facts[relation] += [
                    (number, p, values.get(n, ABSENT)) for p, n in enumerate(names) if n
                ]


def _describe_constant(meanings: Meanings, value: int, facts: Facts) -> None:
    """Add whether a constant is one number, or a matrix that may be laid out otherwise."""
    graph = meanings.graph
    facts["constant"].append((value,))
    number = meanings.scalar(value)
    if number is not None:
        facts["scalar"].append((value,))
        if number == 0:
            facts["zero"].append((value,))
        if LEAST_SCALE < abs(number) < 1 / LEAST_SCALE:
            facts["factor"].append((value,))
    type_ = graph.constants[value].type
    if number is not None and type_.dtype == "float32" and 0 < number < math.inf:
        facts["scale"].append((value, number))
    if number is not None and type_.dtype in EIGHT_BITS:
        facts["zero_point"].append((value, int(number)))
    if type_.dtype == "float32" and len(type_.shape or ()) == 2 and not graph.is_pinned(value):
        facts["matrix"].append((value, *map(int, type_.shape or ())))


def _attribute(graph: Graph, number: int, name: str) -> str:
    """Spell an attribute or its default, an axis counted from behind; empty where there is none."""
    value = graph.attribute(number, name)
    if name == "axis" and isinstance(value, int):
        rank = len(graph.shape(graph.nodes[number].inputs[0]) or ())
        value = value - rank if 0 <= value < rank else value
    if isinstance(value, tuple):
        return text(value)
    return "" if value is None else str(value)


def shapes(graph: Graph) -> Iterator[tuple[Extent, ...]]:
    """Yield the shapes of values, each once."""
    distinct_shapes = dict.fromkeys(type_.shape for type_ in graph.types.values())
    yield from (shape for shape in distinct_shapes if shape is not None)


def text(shape: tuple[Extent, ...]) -> str:
    """Spell a shape."""
    return ",".join(map(str, shape))


@dataclass(frozen=True)
class Frame:
    """The part of a shape that some axes are, which may be reduced; a whole shape for none.

    `sizes` are those of the axes, but ones; `row` is the shape with ones there. Both are empty for
    no axes.
    """

    name: str
    space: tuple[Extent, ...]
    rows: Rows = NO_ROWS
    sizes: str = ""
    row: str = ""


def frames(graph: Graph) -> Iterator[Frame]:
    """Yield the frames of all shapes in a graph.

    Axes begin with one that is longer than 1, and end with one or with the shape.
    """
    for shape in shapes(graph):
        whole, rank = text(shape), len(shape)
        yield Frame(whole, shape)
        long = [axis for axis, size in enumerate(shape) if size != 1]
        for first in long:
            for last in (axis for axis in long if axis >= first):
                end = rank if last == long[-1] else last + 1
                row = (*shape[:first], *([1] * (end - first)), *shape[end:])
                sizes = text(long_axes(shape[first:end]))
                name = f"{whole} over {sizes} at {first}"
                yield Frame(name, shape, Rows(end - first, rank - end), sizes, text(row))


def _folded(meanings: Meanings, number: int) -> Rows | None:
    """Return the axes that a node reduces; None where they lie apart, or have one element."""
    try:
        shape = meanings.shape(meanings.graph.nodes[number].inputs[0])
    except LoweringError:
        return None
    axes = {axis for axis in folded_axes(meanings.of(number)) if shape[axis] != 1}
    if not axes:
        return None
    first, last = min(axes), max(axes)
    if any(shape[axis] != 1 for axis in range(first, last) if axis not in axes):
        return None
    if all(size == 1 for size in shape[last + 1 :]):
        last = len(shape) - 1
    return Rows(last + 1 - first, len(shape) - 1 - last)


def _is_expressible(meanings: Meanings, number: int) -> bool:
    """Tell whether a node means something that C text can be written of."""
    if not meanings.has(number):
        return False
    if _is_move(meanings, number) or meanings.kind(number) != "elementwise":
        return True
    try:
        expression(meanings.of(number).outputs[0].value, "float32", _AnyText())
    except LoweringError:
        return False
    return True


class _AnyText(dict[str, "str | float | bool"]):
    def __missing__(self, key: str) -> str:
        return key


def is_slow(meanings: Meanings, number: int) -> bool:
    """Tell whether a cell of a node takes much longer than a load."""
    terms = (output.value for output in meanings.of(number).outputs)
    parts = (part for term in terms for part in parts_of(term))
    return any(isinstance(part, Apply) and part.function in SLOW for part in parts)


def is_exact(meanings: Meanings, number: int) -> bool:
    """Tell whether a node's specification leaves nothing to rounding in another order."""
    try:
        expansion: Expansion = meanings.of(number)
    except LoweringError:
        return False
    return all(_computes_exactly(term.value) for term in (*expansion.outputs, *expansion.locals))


def _computes_exactly(term: Term) -> bool:
    match term:
        case Apply(function, arguments):
            return function in _EXACT and all(map(_computes_exactly, arguments))
        case Select(condition, then, otherwise):
            return all(map(_computes_exactly, (condition, then, otherwise)))
        case Read():
            return True
        case Reduce():
            return False
        case _:
            return isinstance(term, bool | int | float)

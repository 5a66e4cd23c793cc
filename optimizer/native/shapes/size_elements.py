"""Elements of the integers and truth values that a model computes shapes with."""

from __future__ import annotations

from collections.abc import Callable

from ...graph.graph import Graph
from ..loops.affine import Extent
from .named_sizes import Sizes

# Integer tensors of more elements are no shapes.
MOST_ELEMENTS = 64
KEPT = frozenset({"int64", "int32", "bool"})

Element = Extent | bool | None
"""A size, a truth value, or None where nothing is known of it."""
Elements = tuple[Element, ...]

_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "Min"})


def as_size(element: Element) -> Extent | None:
    """Return the size that an element is, None where it is none."""
    return None if isinstance(element, bool) else element


def combined(graph: Graph, number: int, read: list[Elements], sizes: Sizes) -> Elements | None:
    """Return what a node gives of the elements that it reads, None where that is not known."""
    node = graph.nodes[number]
    match node.op_type:
        case "Identity" | "Cast" | "Squeeze" | "Unsqueeze" | "Reshape":
            shape = graph.shape(node.outputs[0])
            return read[0] if shape is None or len(shape) <= 1 else None
        case "Concat":
            return tuple(element for elements in read for element in elements)
        case "Gather":
            return _gathered(read[0], read[1])
        case "Slice":
            return _sliced(read)
        case "ConstantOfShape":
            return _filled(graph, number, read[0])
        case "Where":
            return _elementwise(lambda c, x, y: x if c is True else y if c is False else None, read)
        case "ReduceProd":
            return (sizes.times(map(as_size, read[0])),)
        case "Equal":
            return _elementwise(lambda x, y: _equal(x, y, sizes), read)
        case operator if operator in _ARITHMETIC:
            return _elementwise(
                lambda x, y: _arithmetic(operator, as_size(x), as_size(y), sizes), read
            )
    return None


def _arithmetic(operator: str, x: Extent | None, y: Extent | None, sizes: Sizes) -> Extent | None:
    if x is None or y is None:
        return None
    match operator:
        case "Add" | "Sub":
            return sizes.add(x, y, 1 if operator == "Add" else -1)
        case "Mul":
            return sizes.times((x, y))
        case "Div" if isinstance(x, int) and isinstance(y, int):
            return x // y if x >= 0 and y > 0 else None
        case "Div":
            return sizes.divide(x, y) if isinstance(y, int) and y != 0 else None
        case _:
            return sizes.least(x, y) if sizes.is_size(x) and sizes.is_size(y) else None


def _equal(x: Element, y: Element, sizes: Sizes) -> Element:
    if x is None or y is None:
        return None
    if x == y or (isinstance(x, int) and isinstance(y, int)):
        return x == y
    number, size = (x, y) if isinstance(x, int) else (y, x)
    negative = isinstance(number, int) and number < 0 and sizes.is_size(as_size(size))
    return False if negative else None


def _filled(graph: Graph, number: int, shape: Elements) -> Elements | None:
    if len(shape) != 1 or not isinstance(shape[0], int) or not 0 <= shape[0] <= MOST_ELEMENTS:
        return None
    value = graph.attribute(number, "value")
    return (0 if value is None else int(getattr(value, "flat", [0])[0]),) * shape[0]


def _elementwise(function: Callable[..., Element], read: list[Elements]) -> Elements | None:
    """Apply a function along the elements; single ones go with each."""
    count = max(map(len, read))
    if any(len(elements) not in (1, count) for elements in read):
        return None
    spread = [elements * count if len(elements) == 1 else elements for elements in read]
    return tuple(function(*several) for several in zip(*spread, strict=True))


def _gathered(read: Elements, indices: Elements) -> Elements | None:
    gathered = []
    for index in indices:
        if not isinstance(index, int) or not -len(read) <= index < len(read):
            return None
        gathered.append(read[index])
    return tuple(gathered)


def _sliced(read: list[Elements]) -> Elements | None:
    """Slice the elements of one axis."""
    elements, starts, ends, axes, steps = (*read, (), ())[:5]
    if len(starts) != 1 or len(ends) != 1 or axes not in ((), (0,), (-1,)):
        return None
    start, end, step = starts[0], ends[0], steps[0] if steps else 1
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(step, int):
        return None
    return elements[slice(start, end, step)] if step else None

"""The functions on lists and index tuples that specifications may call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import TensologError
from ..terms.index_notation import Symbol, Term, apply, is_number, product, select, total

# Primitives on elements, with their number of operands. The evaluator gives them their meaning.
_UNARY = (
    *("exp", "log", "sqrt", "erf", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "round"),
    *("abs", "sign", "isnan", "is_positive_inf", "is_negative_inf", "bit_not"),
    *("real", "int32", "saturate"),
)
_BINARY = (
    *("pow", "mod", "fmod", "bit_and", "bit_or", "bit_xor", "xor"),
    *("shift_left", "shift_right"),
)
PRIMITIVES: Mapping[str, int] = {**dict.fromkeys(_UNARY, 1), **dict.fromkeys(_BINARY, 2)}


class ShapeError(TensologError):
    """Shapes or attributes that an operator doesn't take."""


class UnknownNumberError(ShapeError):
    """A number must be known that isn't: with it, the operator may well take what it is given."""


def integer(value: object, purpose: str = "a list function") -> int:
    """Return a known integer; raise UnknownNumberError for an unknown one."""
    if isinstance(value, int):
        return value
    raise UnknownNumberError(f"{purpose} needs a number that is known, not {value}")


def _rank(values: Sequence[object]) -> int:
    return len(values)


def _axes(axes: Sequence[object], rank: int) -> list[int]:
    places = [axis + rank if axis < 0 else axis for axis in (integer(a, "an axis") for a in axes)]
    if any(not 0 <= axis < rank for axis in places) or len(set(places)) < len(places):
        raise ShapeError(f"axes {list(axes)} are not different axes of rank {rank}")
    return places


def _drop(values: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    return [value for place, value in enumerate(values) if place not in axes]


def _put(values: Sequence[Any], axes: Sequence[int], new: Any) -> list[Any]:
    entries = list(values)
    if isinstance(new, list) and len(new) != len(axes):
        raise ShapeError(f"{len(new)} entries for {len(axes)} axes")
    for position, axis in enumerate(axes):
        entries[axis] = new[position] if isinstance(new, list) else new
    return entries


def _weave(rest: Sequence[Any], new: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    """Return the list whose entries at `axes` are `new` and whose others are `rest`, in order."""
    entry = dict(zip(axes, new, strict=True))
    others = iter(rest)
    places = range(len(rest) + len(axes))
    return [entry[place] if place in entry else next(others) for place in places]


def _take(values: Sequence[Any], places: Sequence[object]) -> list[Any]:
    return [values[integer(place)] for place in places]


def _invert(order: Sequence[object]) -> list[Any]:
    places = [integer(entry, "a permutation") for entry in order]
    if sorted(places) != list(range(len(places))):
        raise ShapeError(f"{places} is no permutation")
    return [places.index(place) for place in range(len(places))]


def _range(count: object) -> list[Any]:
    return list(range(integer(count, "range")))


def ravel(index: Sequence[Term], shape: Sequence[Term]) -> Term:
    """Return the row-major position of an index."""
    position: Term = 0
    for entry, extent in zip(index, shape, strict=True):
        position = apply("+", apply("*", position, extent), entry)
    return position


def unravel(position: Term, shape: Sequence[Term]) -> list[Term]:
    """Return the index at a row-major position."""
    index: list[Term] = []
    for extent in reversed(shape[1:]):
        index.append(apply("%", position, extent))
        position = apply("//", position, extent)
    return [position, *reversed(index)] if shape else []


def _reindex(index: list[Term], shape: list[Term], target: list[Term]) -> list[Term]:
    """Return where an index of `shape` lies in `target`; both hold as many elements.

    Leading and trailing axes that agree keep their index, axes of 1 take 0, the rest is counted.
    """
    head = 0
    while head < min(len(shape), len(target)) and shape[head] == target[head]:
        head += 1
    tail = 0
    while tail < min(len(shape), len(target)) - head and shape[-1 - tail] == target[-1 - tail]:
        tail += 1
    end, last = len(shape) - tail, len(target) - tail
    source = [(i, d) for i, d in zip(index[head:end], shape[head:end], strict=True) if d != 1]
    inner = [d for d in target[head:last] if d != 1]
    if [d for _, d in source] == inner:
        inner_indices = iter([i for i, _ in source])
    else:
        inner_indices = iter(unravel(ravel([i for i, _ in source], [d for _, d in source]), inner))
    middle: list[Term] = [0 if d == 1 else next(inner_indices) for d in target[head:last]]
    return [*index[:head], *middle, *index[end:]]


def _reshaped(shape: list[Term], wanted: list[object], allow_zero: object) -> list[Term]:
    """Return ONNX's Reshape target: 0 keeps a dimension, -1 is what remains."""
    sizes: list[Term] = []
    for axis, entry in enumerate(wanted):
        if entry == 0 and not allow_zero:
            if axis >= len(shape):
                raise ShapeError(f"0 at {axis} of the new shape has no dimension to keep")
            sizes.append(shape[axis])
        else:
            sizes.append(entry)  # type: ignore[arg-type]
    if sizes.count(-1) > 1:
        raise ShapeError("a new shape holds -1 at most once")
    if -1 in sizes:
        axis = sizes.index(-1)
        # what both sides share cancels, so that unknown dimensions don't stand in a division
        known_sizes, whole = [size for size in sizes if size != -1], list(shape)
        for size in list(known_sizes):
            if size != 0 and size in whole:
                known_sizes.remove(size)
                whole.remove(size)
        divisor = product(known_sizes)
        if divisor == 0:
            raise ShapeError("-1 beside a dimension of 0 says nothing")
        if is_number(product(whole)) and is_number(divisor) and product(whole) % divisor:  # type: ignore[operator]
            raise ShapeError(f"{shape} can't be reshaped to {wanted}")
        sizes[axis] = apply("//", product(whole), divisor)
    return sizes


def broadcast(parts: Sequence[list[Term]], base: list[Term] | None = None) -> list[Term]:
    """Return the shape that all broadcast to; with `base`, they must fit it."""
    rank = max([len(part) for part in parts] + ([len(base)] if base is not None else []))
    if base is not None and rank > len(base):
        raise ShapeError(f"rank {rank} doesn't fit one of {len(base)} dimensions")
    out: list[Term] = list(base) if base is not None else [1] * rank
    for part in parts:
        for place in range(1, len(part) + 1):
            out[-place] = _common(out[-place], part[-place], base is not None)
    return out


def _common(left: Term, right: Term, fixed: bool) -> Term:
    if left == right or right == 1:
        return left
    if fixed and left == 1 and not isinstance(right, int):
        return left
    if left == 1 and not fixed:
        return right
    if isinstance(left, int) and isinstance(right, int):
        raise ShapeError(f"dimensions {left} and {right} don't broadcast")
    if fixed:
        return left
    return select(apply("=", left, 1), right, left)


def _einsum(equation: str, shapes: Sequence[list[Term]]) -> list[Any]:
    """Return [sizes by label, labels of the output, labels summed over, labels of each operand].

    Labels are numbers; those that an ellipsis stands for are counted from the right.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    if len(operands) != len(shapes):
        raise ShapeError(f"{equation!r} has {len(operands)} operands, {len(shapes)} are given")
    expanded = [
        _labels(text, len(shape), equation) for text, shape in zip(operands, shapes, strict=True)
    ]
    sizes: dict[str, Term] = {}
    for labels, shape in zip(expanded, shapes, strict=True):
        for label, extent in zip(labels, shape, strict=True):
            earlier = sizes.get(label, 1)
            sizes[label] = _common(earlier, extent, False)
    everywhere = [label for labels in expanded for label in labels]
    dots = sorted({label for label in everywhere if label.startswith(".")}, reverse=True)
    if arrow:
        result = [*dots] if "..." in right else []
        before, _, after = right.partition("...")
        result = [*before, *result, *after]
    else:
        result = dots + sorted(
            label for label in set(everywhere) - set(dots) if everywhere.count(label) == 1
        )
    if not set(result) <= set(sizes) or len(set(result)) < len(result):
        raise ShapeError(f"the output of {equation!r} isn't made of its operands' labels")
    summed = [label for label in sizes if label not in result]
    names = result + summed
    number = {label: position for position, label in enumerate(names)}
    return [
        [sizes[label] for label in names],
        len(result),
        [[number[label] for label in labels] for labels in expanded],
    ]


def _labels(text: str, rank: int, equation: str) -> list[str]:
    before, dots, after = text.partition("...")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden > 0 and not dots):
        raise ShapeError(f"{text!r} of {equation!r} doesn't fit rank {rank}")
    return [*before, *(f".{number:02d}" for number in reversed(range(hidden))), *after]


def _spread(index: Sequence[Term], shape: Sequence[Term], target: Sequence[Term]) -> list[Term]:
    """Return where an index of `target` reads a shape that broadcasts to it."""
    return [
        i if d == whole and d != 1 else select(apply("=", d, 1), 0, i)
        for i, d, whole in zip(index, shape, target, strict=True)
    ]


def _units(shape: Sequence[Term]) -> list[int]:
    """Return the axes of dimension 1."""
    return [axis for axis, d in enumerate(shape) if integer(d, "Squeeze without axes") == 1]


def _element(array: Any) -> Term:
    value: Term = array.reshape(-1)[0].item()
    return value


def _type_code(array: Any) -> int:
    import onnx

    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))


def _ceil_div(left: Any, right: Any) -> Any:
    return apply("neg", apply("//", apply("neg", left), right))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "rank": _rank,
    "length": _rank,
    "axes": _axes,
    "sorted": lambda values: sorted(integer(value) for value in values),
    "drop": _drop,
    "put": _put,
    "weave": _weave,
    "take": _take,
    "invert": _invert,
    "range": _range,
    "reversed": lambda values: list(reversed(values)),
    "repeat": lambda value, count: [value] * integer(count),
    "product": product,
    "total": total,
    "ravel": ravel,
    "unravel": unravel,
    "reindex": _reindex,
    "reshaped": _reshaped,
    "broadcast": lambda *shapes: broadcast(shapes),
    "einsum": _einsum,
    "spread": _spread,
    "units": _units,
    "element": _element,
    "type_code": _type_code,
    "contains": lambda values, value: value in values,
    "position": lambda values, value: list(values).index(value),
    "is_known": lambda value: isinstance(value, int | float),
}

# Functions of numbers that also apply entry by entry.
ENTRYWISE: Mapping[str, Callable[..., Any]] = {"ceil_div": _ceil_div}

__all__ = [
    "ENTRYWISE",
    "FUNCTIONS",
    "PRIMITIVES",
    "ShapeError",
    "Symbol",
    "UnknownNumberError",
    "broadcast",
    "integer",
]

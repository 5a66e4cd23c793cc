"""Shapes followed through a graph: what ONNX's inference leaves open where sizes are computed.

A model with free dimensions computes the shapes it reshapes to. ONNX's inference follows such
numbers only a part of the way, so that the same size has another name in each layer. Here they are
followed as polynomials (named_sizes.py), forward through the graph; whatever is open after that
keeps the name that ONNX's inference gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....catalog.operators import specification
from ....rules import ABSENT
from ...graph.graph import Graph, TensorType
from ...graph.infer import infer_node
from ..loops.affine import Extent
from .named_sizes import Sizes
from .size_elements import KEPT, MOST_ELEMENTS, Elements, as_size, combined
from .windows import is_window, window_shape

# From here on, the end of a Slice means that of the axis.
WHOLE = 1 << 31


class Followed:
    """Shapes, and the elements of integers and truth values that sizes are computed with."""

    def __init__(self, graph: Graph) -> None:
        """Follow a graph whose types are inferred; they become sharper in place."""
        self.graph = graph
        self.sizes = Sizes()
        self.elements: dict[int, Elements] = {}
        self._changed: set[int] = set()
        for number in graph.order():
            self._follow(number)
        for value, type_ in graph.types.items():
            if type_.shape is not None and value not in graph.constants:
                shape = tuple(map(self.sizes.resolved, type_.shape))
                graph.types[value] = TensorType(type_.dtype, shape)

    def of(self, value: int) -> Elements | None:
        """Return the elements of a value of at most one axis; None where they aren't followed."""
        if value not in self.elements and value in self.graph.constants:
            constant = self.graph.constants[value]
            shape, dtype = constant.type.shape or (), constant.type.dtype
            count = int(shape[0]) if shape else 1
            if len(shape) <= 1 and count <= MOST_ELEMENTS and dtype in KEPT:
                self.elements[value] = tuple(constant.array().reshape(-1).tolist())
        return self.elements.get(value)

    def shape(self, value: int) -> tuple[Extent, ...] | None:
        """Return a value's shape, equal sizes by one name."""
        shape = self.graph.shape(value)
        return None if shape is None else tuple(map(self.sizes.resolved, shape))

    # ---------------------------------------------------------------------------------- nodes

    def _follow(self, number: int) -> None:
        node = self.graph.nodes[number]
        if node.domain == "" and len(node.outputs) == 1 and not node.captures:
            elements = self._computed(number)
            if elements is not None and len(elements) <= MOST_ELEMENTS:
                self.elements[node.outputs[0]] = elements
        shapes = [self.graph.shape(value) for value in node.outputs if value != ABSENT]
        is_open = any(shape is None or any(map(_is_open, shape)) for shape in shapes)
        rule = SHAPES.get(node.op_type) if node.domain == "" else None
        is_free = any(isinstance(size, str) for shape in shapes for size in shape or ())
        # What an exporter named is named anew where it is cut or put together here.
        slides = is_window(self.graph, number)
        is_own = rule is not None or slides
        if not is_open and not self._changed & set(node.reads) and not (is_own and is_free):
            return
        shape = rule(self, number) if rule is not None else None
        if slides:
            image_shape = self.shape(node.inputs[0])
            window_shape_ = image_shape and window_shape(
                self.graph, self.sizes, number, image_shape
            )
            if window_shape_:
                self._sharpen(node.outputs[0], window_shape_)
        if shape is None and self._is_elementwise(number):
            shape = self._broadcast([self.shape(v) for v in node.inputs if v != ABSENT])
        if shape is not None:
            self._sharpen(node.outputs[0], tuple(shape))
            return
        try:
            inferred = infer_node(self.graph, number)
        except Exception:  # what ONNX can't infer stays as it is
            return
        for value, type_ in inferred.items():
            if type_.shape is not None:
                self._sharpen(value, type_.shape)

    def _sharpen(self, value: int, shape: Sequence[Extent | None]) -> None:
        """Take over each size that is known better than before."""
        old = self.graph.types.get(value)
        if old is None:
            return
        before = old.shape or tuple(
            f"?{self.graph.names[value]}.{axis}" for axis in range(len(shape))
        )
        if len(before) != len(shape):
            return
        new = tuple(
            was if isinstance(was, int) or size is None or _is_open(size) else size
            for was, size in zip(before, shape, strict=True)
        )
        if new != old.shape:
            self.graph.types[value] = TensorType(old.dtype, new)
            self._changed.add(value)

    def _is_elementwise(self, number: int) -> bool:
        node = self.graph.nodes[number]
        spec = specification(node.domain, node.op_type, self.graph.opset(node.domain))
        return spec is not None and spec.kind == "elementwise" and len(node.outputs) == 1

    def _broadcast(
        self, shapes: Sequence[Sequence[Extent | None] | None]
    ) -> list[Extent | None] | None:
        known_shapes = [shape for shape in shapes if shape is not None]
        if len(known_shapes) < len(shapes) or not shapes:
            return None
        rank = max(map(len, known_shapes))
        padded = [[*([1] * (rank - len(shape))), *shape] for shape in known_shapes]
        return [self.sizes.broadcast(sizes) for sizes in zip(*padded, strict=True)]

    # ------------------------------------------------------------------------------- elements

    def _computed(self, number: int) -> Elements | None:
        """Return the elements that a node gives, where those it reads are followed."""
        graph, node = self.graph, self.graph.nodes[number]
        if node.op_type == "Shape":
            shape = self.shape(node.inputs[0])
            if shape is None:
                return None
            start, end = graph.attribute(number, "start"), graph.attribute(number, "end")
            return shape[
                start if isinstance(start, int) else 0 : end if isinstance(end, int) else None
            ]
        if node.op_type == "Size":
            shape = self.shape(node.inputs[0])
            return None if shape is None else (self.sizes.times(shape),)
        read = [() if value == ABSENT else self.of(value) for value in node.inputs]
        if any(elements is None for elements in read) or graph.dtype(node.outputs[0]) not in KEPT:
            return None
        operands = [elements for elements in read if elements is not None]
        return combined(graph, number, operands, self.sizes)

    # --------------------------------------------------------------------------------- shapes

    def _reshaped(self, number: int) -> list[Extent | None] | None:
        node = self.graph.nodes[number]
        operand_shape, target = self.shape(node.inputs[0]), self.of(node.inputs[1])
        if operand_shape is None or target is None:
            return None
        copies = not self.graph.attribute(number, "allowzero")
        sizes: list[Extent | None] = [
            operand_shape[i] if size == 0 and copies and i < len(operand_shape) else as_size(size)
            for i, size in enumerate(target)
        ]
        if -1 in sizes:
            rest = self.sizes.times(size for size in sizes if size != -1)
            inferred = (
                None if rest == 0 else self.sizes.divide(self.sizes.times(operand_shape), rest)
            )
            sizes[sizes.index(-1)] = inferred
        return [size if self.sizes.is_size(size) else None for size in sizes]

    def _expanded(self, number: int) -> list[Extent | None] | None:
        node = self.graph.nodes[number]
        target = self.of(node.inputs[1])
        if target is None:
            return None
        sizes = [as_size(size) for size in target]
        return self._broadcast(
            [self.shape(node.inputs[0]), [s if self.sizes.is_size(s) else None for s in sizes]]
        )

    def _filled(self, number: int) -> list[Extent | None] | None:
        target = self.of(self.graph.nodes[number].inputs[0])
        sizes = None if target is None else [as_size(size) for size in target]
        return None if sizes is None else [s if self.sizes.is_size(s) else None for s in sizes]

    def _counted(self, number: int) -> list[Extent | None] | None:
        read = [self.of(value) for value in self.graph.nodes[number].inputs]
        if any(elements is None or len(elements) != 1 for elements in read):
            return None
        start, limit, delta = (as_size(elements[0]) for elements in read if elements)
        count = self.sizes.add(limit, start, -1)
        return [count] if delta == 1 and self.sizes.is_size(count) else [None]

    def _cut(self, number: int) -> list[Extent | None] | None:
        """Return the shape of a Slice of steps of 1."""
        inputs = self.graph.nodes[number].inputs
        operand_shape = self.shape(inputs[0])
        read = [() if value == ABSENT else self.of(value) for value in inputs[1:]]
        if operand_shape is None or len(read) < 2 or any(elements is None for elements in read):
            return None
        starts, ends, axes, steps = (*(elements or () for elements in read), (), ())[:4]
        sizes: list[Extent | None] = list(operand_shape)
        for i, (start, end) in enumerate(zip(starts, ends, strict=False)):
            axis = axes[i] if axes else i
            if not isinstance(axis, int) or not -len(sizes) <= axis < len(sizes):
                return None
            step = steps[i] if steps else 1
            size = operand_shape[axis]
            sizes[axis] = self._part(size, as_size(start), as_size(end)) if step == 1 else None
        return sizes

    def _part(self, size: Extent, start: Extent | None, end: Extent | None) -> Extent | None:
        """Return how many elements of an axis lie from a start to an end."""
        if end is None:
            return None
        whole = isinstance(end, int) and end >= WHOLE
        if whole and isinstance(start, int) and start < 0:
            return self.sizes.least(size, -start)
        if start != 0:
            return None
        if whole:
            return size
        return self.sizes.least(size, end) if self.sizes.is_size(end) else None

    def _tiled(self, number: int) -> list[Extent | None] | None:
        inputs = self.graph.nodes[number].inputs
        operand_shape, repeats = self.shape(inputs[0]), self.of(inputs[1])
        if operand_shape is None or repeats is None or len(operand_shape) != len(repeats):
            return None
        counts = [as_size(count) for count in repeats]
        sizes = [self.sizes.times(both) for both in zip(operand_shape, counts, strict=True)]
        return [size if self.sizes.is_size(size) else None for size in sizes]

    def _joined(self, number: int) -> list[Extent | None] | None:
        node = self.graph.nodes[number]
        axis = self.graph.attribute(number, "axis")
        shapes = [self.shape(value) for value in node.inputs]
        known_shapes = [shape for shape in shapes if shape is not None]
        if (
            not isinstance(axis, int)
            or len(known_shapes) < len(shapes)
            or len({*map(len, known_shapes)}) != 1
        ):
            return None
        sizes: list[Extent | None] = list(known_shapes[0])
        if not -len(sizes) <= axis < len(sizes):
            return None
        total: Extent | None = 0
        for shape in known_shapes:
            total = self.sizes.add(total, shape[axis])
        sizes[axis] = total
        return sizes


SHAPES: dict[str, Callable[[Followed, int], list[Extent | None] | None]] = {
    "Reshape": Followed._reshaped,
    "Expand": Followed._expanded,
    "ConstantOfShape": Followed._filled,
    "Range": Followed._counted,
    "Slice": Followed._cut,
    "Tile": Followed._tiled,
    "Concat": Followed._joined,
}


def _is_open(size: Extent) -> bool:
    """Tell whether a size has only a name that an inference made up."""
    return isinstance(size, str) and size.startswith(("?", "unk__"))

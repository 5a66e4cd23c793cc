"""Random shapes, attributes and parameters per operator: what the instance generator draws."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.defs import OpSchema

from ...catalog.operators import specification
from ...catalog.operators.contributed import schema
from ...catalog.operators.syntax import Dimension
from ...catalog.terms.syntax_tree import Expression, Literal, walk
from ..language.functions import Value
from ..language.schemas import default_of, words
from ..language.syntax import PatternNode
from .specified_shapes import Shape, operand, sizes_of

AttrType = OpSchema.AttrType
Shapes = list[Shape | None]
Partial = list[int | None] | None

PAIRWISE = {
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean",
    "Min", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor",
}  # fmt: skip
WINDOWED = {"Conv", "ConvTranspose", "MaxPool", "AveragePool"}
# With the number of their gates.
RECURRENT = {"RNN": 1, "GRU": 3, "LSTM": 4}
# Operators for whose operands `Sampler.shapes` chooses the ranks.
SHAPED = {"MatMul", "Gemm", "BatchNormalization", "Concat", "Einsum", "Attention"} | {
    *WINDOWED,
    *RECURRENT,
}
PARAMETERS = {
    "Reshape": {1},
    "Expand": {1},
    "Split": {1},
    "Slice": {1, 2, 3, 4},
    "Squeeze": {1},
    "Unsqueeze": {1},
    "Pad": {1, 2, 3},
    "Clip": {1, 2},
    "Gather": {1},
    "Tile": {1},
    "CumSum": {1},
    "TopK": {1},
    "Trilu": {1},
    "Dropout": {1, 2},
    "Resize": {1, 2, 3},
    "ReduceSum": {1},
    "ReduceMean": {1},
    "ReduceMax": {1},
    "ReduceMin": {1},
    "ReduceProd": {1},
    "ReduceSumSquare": {1},
    "ReduceLogSumExp": {1},
    "ReduceLogSum": {1},
    "ReduceL1": {1},
    "ReduceL2": {1},
}


SIZES = (1, 2, 3, 3, 4, 5, 6, 7)
# Where kernels turn to other code, which rounds otherwise: a single row or column, and more than a
# vector register holds.
TURNING = (1, 1, 1, 2, 3, 9)


class RejectedError(Exception):
    """The choices made so far can't be completed; draw again."""


class Sampler:
    """Draws what a rule leaves open, so that the operator is defined on it."""

    def __init__(
        self, rng: random.Random, opset: int, *, empty: bool = False, turning: bool = False
    ) -> None:
        self.rng, self.opset, self.empty, self.turning = rng, opset, empty, turning
        self.axis: int | None = None
        self.seen: list[Shape] = []
        self.start = 0

    def size(self) -> int:
        """A dimension: 1 often enough to meet broadcasting, otherwise small."""
        if self.empty and self.rng.random() < 0.15:
            return 0
        return self.rng.choice(TURNING if self.turning else SIZES)

    def shape(self, rank: int) -> Shape:
        """A shape of a given rank."""
        return tuple(self.size() for _ in range(rank))

    def fitting(self, target: Shape) -> Shape:
        """A shape that broadcasts to the target."""
        rank = self.rng.choice([0, 1, len(target), len(target)])
        kept = target[len(target) - min(rank, len(target)) :]
        return tuple(1 if self.rng.random() < 0.3 else size for size in kept)

    def filled(self, partial: Partial, rank: int | None = None) -> Shape:
        """A partial shape with its open sizes drawn."""
        if partial is None:
            return self.shape(self.rng.randint(1, 4) if rank is None else rank)
        if rank is not None and len(partial) != rank:
            raise RejectedError
        return tuple(self.size() if size is None else size for size in partial)

    # --------------------------------------------------------------------------- shapes

    def shapes(
        self, node: PatternNode, known: Shapes, partial: list[Partial], fixed: dict[str, Value]
    ) -> Shapes:
        """The shapes of all data operands; None stays for parameters and what is absent."""
        operator = node.op_type
        open_ = [i for i, shape in enumerate(known) if shape is None]
        if not open_:
            return known
        if operator == "MatMul":
            return list(self._matmul(known, partial))
        if operator == "Gemm":
            return self._gemm(known, partial, fixed)
        if operator in WINDOWED:
            return self._windowed(operator, known, partial, fixed.get("group"))
        if operator == "BatchNormalization":
            return self._normalization(known, partial)
        if operator == "Concat":
            return self._concat(known, partial, fixed)
        if operator == "Einsum":
            return self._einsum(known, fixed)
        if operator == "Attention":
            return self._attention(known, partial, fixed)
        if operator == "RotaryEmbedding":
            return self._rotary(known)
        if operator in RECURRENT:
            return self._recurrent(RECURRENT[operator], known, partial)
        if operator in PAIRWISE:
            return self._pairwise(known, partial)
        result = list(known)
        if known[0] is None:
            first = self._first(operator, partial[0], fixed)
            self.seen.append(first)
            result[0] = first
        for i in range(1, len(known)):
            if known[i] is None and i not in PARAMETERS.get(operator, set()):
                result[i] = self._specified(node, i, result, partial[i], fixed)
        return result

    def _specified(
        self,
        node: PatternNode,
        position: int,
        known: Shapes,
        partial: Partial,
        fixed: dict[str, Value],
    ) -> Shape:
        """The shape of an operand beside others, as the operator's specification has it."""
        meaning = specification(node.domain, node.op_type, self.opset)
        blocks = [] if meaning is None else [b for b in meaning.blocks if operand(b, position)]
        for block in blocks:
            declared, names = operand(block, position), sizes_of(block, known, fixed)
            if declared is not None and names is not None:
                drawn = self._of_entries(declared.shape, names)
                if partial is None:
                    return drawn
                if len(partial) == len(drawn):
                    stated = zip(partial, drawn, strict=True)
                    return tuple(
                        size if stated_size is None else stated_size for stated_size, size in stated
                    )
        if blocks and partial is None:
            raise RejectedError
        return self.filled(partial)

    def _of_entries(self, entries: Sequence[Dimension], names: Mapping[str, Shape]) -> Shape:
        """A shape of a signature's entries, with sizes drawn for the names that are not known."""
        shape: list[int] = []
        for entry in entries:
            sizes = names.get(entry.name or "")
            match entry.kind:
                case "plain":
                    shape += sizes or (self.size(),)
                case "broadcast" if sizes is not None:
                    shape += self.fitting(sizes)
                case "star" if sizes is not None:
                    shape += sizes
                case _:
                    shape += self.shape(self.rng.choice([0, 0, 1, 2, 3]))
        return tuple(shape)

    def _first(self, operator: str, partial: Partial, fixed: dict[str, Value]) -> Shape:
        """The shape of an operator's one operand; often one that stands beside it in the graph."""
        if operator in ("SpaceToDepth", "DepthToSpace"):
            block = fixed.get("blocksize", 1)
            times = (1, 1, block, block) if operator == "SpaceToDepth" else (1, block * block, 1, 1)
            return tuple(self.rng.randint(1, 3) * n for n in times)
        perm = fixed.get("perm")
        rank = len(perm) if isinstance(perm, tuple) else None
        likely = [s for s in self.seen if rank in (None, len(s))]
        if partial is None and likely and self.rng.random() < 0.6:
            return self.rng.choice(likely)
        return self.filled(partial, rank)

    def _pairwise(self, known: Shapes, partial: list[Partial]) -> Shapes:
        result = list(known)
        for i, shape in enumerate(known):
            if shape is not None:
                continue
            others = [s for s in result if s is not None]
            if partial[i] is not None:
                result[i] = self.filled(partial[i])
            elif others and self.rng.random() < 0.7:
                result[i] = self.fitting(max(others, key=len))
            elif others:
                result[i] = (*self.shape(self.rng.randint(0, 1)), *others[0])
            else:
                result[i] = self.shape(self.rng.randint(0, 4))
        return result

    def _matmul(self, known: Shapes, partial: list[Partial]) -> tuple[Shape, Shape]:
        a, b = known
        if a is None:
            inner = b[-2] if b is not None and len(b) > 1 else None
            entries = partial[0]
            if entries is None and self.rng.random() < 0.1:
                entries = [None]
            elif entries is None:
                batch = b[:-2] if b is not None and self.rng.random() < 0.5 else ()
                batch = batch or self.shape(
                    self.rng.randint(0, 2) if b is None or len(b) < 3 else 0
                )
                entries = [*batch, None, None]
            if entries[-1] is None:
                entries = [*entries[:-1], inner]
            a = self.filled(entries)
        if b is None:
            entries = partial[1]
            if entries is None and self.rng.random() < 0.1:
                entries = [a[-1]]
            elif entries is None:
                batch = a[:-2] if self.rng.random() < 0.3 else ()
                entries = [*batch, None, None]
            if len(entries) > 1 and entries[-2] is None:
                entries = [*entries[:-2], a[-1], entries[-1]]
            b = self.filled(entries)
        return a, b

    def _gemm(self, known: Shapes, partial: list[Partial], fixed: dict[str, Value]) -> Shapes:
        flips = [bool(fixed.get("transA", 0)), bool(fixed.get("transB", 0))]
        k = self.size()
        result = list(known)
        for i in (0, 1):
            inner = 1 - i if not flips[i] else i
            other = result[1 - i]
            if result[i] is None:
                entries: list[int | None] = list(partial[i] or [None, None])
                if other is not None:
                    k = other[i if not flips[1 - i] else 1 - i]
                if entries[inner] is None:
                    entries[inner] = k
                result[i] = self.filled(entries, 2)
        if len(known) > 2 and known[2] is None:
            a, b = result[0], result[1]
            assert a is not None and b is not None
            target = (a[1] if flips[0] else a[0], b[0] if flips[1] else b[1])
            result[2] = self.fitting(target)
        return result

    def _windowed(
        self, operator: str, known: Shapes, partial: list[Partial], group: Value
    ) -> Shapes:
        x, weight = known[0], known[1] if len(known) > 1 else None
        spatial = self.rng.choice([1, 2, 2, 3])
        if x is not None:
            spatial = len(x) - 2
        elif weight is not None:
            spatial = len(weight) - 2
        if spatial < 1:
            raise RejectedError
        result = list(known)
        transposed = operator == "ConvTranspose"
        if x is None:
            entries = list(partial[0] or [None] * (2 + spatial))
            if len(entries) != 2 + spatial:
                raise RejectedError
            sizes = [self.rng.randint(5, 9) if s is None else s for s in entries[2:]]
            channels = entries[1]
            if channels is None and weight is not None:
                channels = (
                    weight[0] if transposed else weight[1] * (group or self.rng.choice([1, 1, 2]))
                )
            batch = entries[0] or self.rng.choice([1, 2])
            x = (batch, channels or self.rng.choice([1, 2, 4]), *sizes)
            result[0] = x
        if len(known) > 1 and weight is None:
            entries = list(partial[1] or [None] * (2 + spatial))
            if len(entries) != 2 + spatial:
                raise RejectedError
            fitting = [g for g in (1, 1, 1, 2, x[1]) if x[1] % g == 0]
            groups = group or self.rng.choice(fitting)
            kernel = [self.rng.randint(1, 3) if s is None else s for s in entries[2:]]
            if transposed:
                head = [entries[0] or x[1], entries[1] or self.rng.choice([1, 2, 3])]
            else:
                filters = entries[0] or groups * self.rng.choice([1, 2, 3])
                head = [filters, entries[1] or x[1] // groups]
            weight = (*head, *kernel)
            result[1] = weight
        if len(known) > 2 and known[2] is None and partial[2] is not None:
            result[2] = self.filled(partial[2], 1)
        elif len(known) > 2 and known[2] is None and weight is not None:
            result[2] = (weight[0],)
        return result

    def _normalization(self, known: Shapes, partial: list[Partial]) -> Shapes:
        result = list(known)
        channels = next((s[0] for s in known[1:] if s), None)
        if result[0] is None:
            entries = partial[0] or [None] * self.rng.randint(2, 4)
            if entries[1] is None and channels:
                entries = [entries[0], channels, *entries[2:]]
            result[0] = self.filled(entries)
        x = result[0]
        assert x is not None
        return [x, *((x[1],) if s is None else s for s in result[1:])]

    def _attention(self, known: Shapes, partial: list[Partial], fixed: dict[str, Value]) -> Shapes:
        """Queries, keys and values, their heads on an axis of their own or beside each other."""
        batch, rows, columns, size, width = (self.size() for _ in range(5))
        shared = fixed.get("kv_num_heads") or self.rng.choice([1, 1, 2, 4])
        times = self.rng.choice([1, 1, 2])
        heads = fixed.get("q_num_heads")
        for i, shape in enumerate(known):
            if shape is not None and len(shape) != 4:
                raise RejectedError
            if shape is not None and i == 0:
                batch, heads, rows, size = shape
                shared = self.rng.choice([heads, 1])
            elif shape is not None:
                batch, shared, columns, last = shape
                size, width = (last, width) if i == 1 else (size, last)
        heads = shared * times if heads is None else heads
        drawn: list[Shape] = [
            (batch, heads, rows, size),
            (batch, shared, columns, size),
            (batch, shared, columns, width),
        ]
        if any(len(part or ()) == 3 for part in partial):
            drawn = [(b, n, h * e) for b, h, n, e in drawn]
        result = list(known)
        for i, shape in enumerate(drawn):
            if known[i] is None:
                result[i] = shape if partial[i] is not None else self.shape(len(drawn[0]))
        return result

    def _rotary(self, known: Shapes) -> Shapes:
        """Heads, positions of tokens or of the first one, and tables with a row for each."""
        x = known[0] or (*self.shape(3), 2 * self.size())
        if len(x) != 4 or x[3] % 2:
            raise RejectedError
        tables = (x[2] + self.rng.randint(1, 3), x[3] // 2)
        drawn: list[Shape] = [x, self.rng.choice([(1,), (x[0], x[2])]), tables, tables]
        return [known_shape or shape for known_shape, shape in zip(known, drawn, strict=False)]

    def _recurrent(self, gates: int, known: Shapes, partial: list[Partial]) -> Shapes:
        """A step's input, weights, biases, and states; lengths are left to be absent."""
        step, batch, entries = (
            self.size() if stated_size is None else stated_size
            for stated_size in partial[0] or [None] * 3
        )
        hidden = self.size()
        drawn: list[Shape] = [
            (step, batch, entries),
            (1, gates * hidden, entries),
            (1, gates * hidden, hidden),
            (1, 2 * gates * hidden),
        ]
        return [
            known_shape or (shape if part is not None else self.shape(len(shape)))
            for shape, known_shape, part in zip(drawn, known, partial, strict=False)
        ]

    def _concat(self, known: Shapes, partial: list[Partial], fixed: dict[str, Value]) -> Shapes:
        base = next((s for s in known if s is not None), None)
        if base is None:
            base = self.filled(next((p for p in partial if p is not None), None))
        if not base:
            raise RejectedError
        axis = fixed.get("axis")
        if not isinstance(axis, int):
            self.axis = axis = self.rng.randrange(-len(base), len(base))
        else:
            self.axis = axis
        if not -len(base) <= axis < len(base):
            raise RejectedError
        result: Shapes = []
        for shape in known:
            sizes = list(base)
            sizes[axis] = self.size()
            result.append(shape if shape is not None else tuple(sizes))
        return result

    def _einsum(self, known: Shapes, fixed: dict[str, Value]) -> Shapes:
        equation = fixed.get("equation")
        if not isinstance(equation, str):
            raise RejectedError
        sizes: dict[str, int] = {}
        terms = equation.replace(" ", "").split("->")[0].split(",")
        for term, shape in zip(terms, known, strict=True):
            for letter, size in zip(term, shape or (), strict=False):
                sizes[letter] = size
        return [
            shape or tuple(sizes.setdefault(letter, self.size()) for letter in term)
            for term, shape in zip(terms, known, strict=True)
        ]

    # ----------------------------------------------------------------------- attributes

    def attribute(self, node: PatternNode, name: str, shapes: Sequence[Shape]) -> Value:
        """A value for an attribute that a variable stands for."""
        operator, rank = node.op_type, len(shapes[0]) if shapes else 0
        match name:
            case "perm":
                order = list(range(rank))
                self.rng.shuffle(order)
                return tuple(order)
            case "axis" if operator == "Concat" and self.axis is not None:
                return self.axis
            case "axis" if operator == "Flatten":
                return self.rng.randint(-rank, rank)
            case "axis" if rank:
                return self.rng.randrange(-rank, rank)
            case "axes" if rank:
                return self.axes(rank)
            case "epsilon":
                return self.rng.choice([1e-5, 1e-3])
            case "momentum":
                return self.rng.choice([0.9, 0.99])
            case "group":
                return self._group(operator, shapes)
            case "strides" | "dilations" | "pads" | "kernel_shape":
                return self._window(operator, shapes).get(name)
            case "auto_pad" if "pads" in node.mentioned:
                return "NOTSET"  # ONNX has one of them at a time
            case "scale":
                return self.rng.choice([1.0, 0.5, 2.0])
            case "ratio" | "seed":
                return {"ratio": 0.25, "seed": 1}[name]
            case "to":
                return self.rng.choice([1, 7, 11])
            case "num_groups" if rank > 1:
                return self.rng.choice([g for g in (1, 2, 3) if shapes[0][1] % g == 0])
            case "size":
                return self.rng.choice([1, 3])
            case "num_outputs" if not any(output.star for output in node.outputs):
                return len(node.outputs)  # onnx ends the process where there are others
            case "num_outputs":
                raise RejectedError
        return self._of_its_type(node, name)

    def _of_its_type(self, node: PatternNode, name: str) -> Value:
        """A word, a flag, or a number of which some are 0 or negative."""
        if known_words := words(node.op_type, name, self.opset):
            return self.rng.choice(known_words)
        operator_schema = schema(node.op_type, self.opset, node.domain)
        if operator_schema is None or name not in operator_schema.attributes:
            raise RejectedError
        attribute = operator_schema.attributes[name]
        default = default_of(attribute)
        match attribute.type:
            case AttrType.FLOAT:
                return self.rng.choice([1.0, 0.3, 2.0, 0.0, -0.7])
            case AttrType.INT:
                return self.rng.choice([0, 1] if default in (0, 1) else [1, 2])
            case AttrType.STRING if isinstance(default, str):
                return default
        raise RejectedError

    def early(self, name: str, conditions: Sequence[Expression]) -> Value | None:
        """A value for an attribute on which the shapes depend; None for the others."""
        if name in ("transA", "transB"):
            return self.rng.randint(0, 1)
        if name in ("q_num_heads", "kv_num_heads"):
            return 2 if name == "q_num_heads" else self.rng.choice([1, 2])
        if name == "blocksize":
            return self.rng.choice([1, 2, 3])
        if name == "equation":
            spellings = [text for condition in conditions for text in _texts(condition)]
            return self.rng.choice(spellings) if spellings else None
        return None

    def axes(self, rank: int) -> tuple[int, ...]:
        """Some distinct axes of a rank, sometimes counted from the end."""
        chosen = self.rng.sample(range(rank), self.rng.randint(1, rank))
        return tuple(sorted(a - rank if self.rng.random() < 0.3 else a for a in chosen))

    def other_attributes(
        self, operator: str, shapes: Sequence[Shape], said: dict[str, Value]
    ) -> dict[str, Value]:
        """Attributes for `*a`."""
        if operator in WINDOWED:
            window = self._window(operator, shapes)
            if "group" not in said and operator in ("Conv", "ConvTranspose"):
                window["group"] = self._group(operator, shapes)
            return {k: v for k, v in window.items() if v is not None}
        if operator == "Gemm":
            return {}
        return {}

    def _group(self, operator: str, shapes: Sequence[Shape]) -> int:
        if operator == "Conv":
            groups, rest = divmod(shapes[0][1], shapes[1][1])
            if rest:
                raise RejectedError
            return groups
        return self.rng.choice([g for g in (1, 1, 2) if shapes[0][1] % g == 0])

    def _window(self, operator: str, shapes: Sequence[Shape]) -> dict[str, Value]:
        spatial = len(shapes[0]) - 2
        pick = self.rng.choice
        kernel = (
            shapes[1][2:]
            if len(shapes) > 1
            else tuple(self.rng.randint(1, 3) for _ in range(spatial))
        )
        window: dict[str, Value] = {}
        if operator in ("Conv", "ConvTranspose"):
            if pick([True, False]):
                window["kernel_shape"] = kernel
            if pick([True, False]):
                window["dilations"] = tuple(pick([1, 1, 2]) for _ in range(spatial))
        else:
            window["kernel_shape"] = kernel
        if pick([True, False]):
            window["strides"] = tuple(pick([1, 2]) for _ in range(spatial))
        if pick([True, False]):
            most = [max(0, k - 1) for k in kernel]
            window["pads"] = tuple(self.rng.randint(0, m) for m in most * 2)
        elif operator == "Conv" and pick([True, False, False]):
            window["auto_pad"] = pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
            window.pop("dilations", None)
        return window

    # ----------------------------------------------------------------------- parameters

    def parameter(
        self,
        operator: str,
        position: int,
        shapes: Shapes,
        attributes: dict[str, Value],
        outputs: int,
    ) -> NDArray[Any]:
        """An operand that parametrizes the operator, such as Reshape's target."""
        x = shapes[0]
        if x is None:
            raise RejectedError
        rank = len(x)
        match operator:
            case "Reshape":
                return self._ints(self._target(x))
            case "Expand":
                wide = [self.size() if d == 1 else self.rng.choice([d, d, 1]) for d in x]
                return self._ints((*self.shape(self.rng.randint(0, 1)), *wide))
            case "Split":
                return self._ints(self._parts(x[int(attributes.get("axis", 0))], outputs))
            case "Squeeze":
                unit_axes = [i for i, size in enumerate(x) if size == 1]
                if not unit_axes:
                    raise RejectedError
                return self._ints(
                    sorted(self.rng.sample(unit_axes, self.rng.randint(1, len(unit_axes))))
                )
            case "Unsqueeze":
                count = self.rng.randint(1, 2)
                return self._ints(sorted(self.rng.sample(range(rank + count), count)))
            case "Slice":
                return self._slice(position, shapes)
            case "Pad" if position == 1 and self.rng.random() < 0.2:
                return self._ints([0] * (2 * rank))
            case "Pad" if position == 1:
                first = self.rng.choice([0, 2]) if rank > 2 else 0
                fills = attributes.get("mode", "constant") == "constant"
                bounds = [
                    (0, 0) if i < first else (-1 if n > 2 else 0, 2 if fills else min(2, n // 2))
                    for i, n in enumerate(x)
                ]
                return self._ints([self.rng.randint(*ends) for ends in (*bounds, *bounds)])
            case "Pad" if position == 2:
                return np.asarray(self.rng.choice([0.0, 0.0, 1.5]), np.float32)
            case "Dropout":
                return np.asarray(0.25, np.float32) if position == 1 else np.asarray(False)
            case "Clip":
                low = self.rng.choice([-1.0, 0.0, -0.5])
                return np.asarray(low if position == 1 else low + self.rng.random(), np.float32)
            case "Gather":
                axis = int(attributes.get("axis", 0))
                index = [self.rng.randrange(x[axis]) for _ in range(self.rng.randint(1, 3))]
                if self.rng.random() < 0.4:
                    index = list(range(index[0], min(x[axis], index[0] + 3)))
                return self._ints(index)
            case "Tile":
                return self._ints([self.rng.randint(1, 2) for _ in range(rank)])
            case "Resize" if position == 1:
                return np.zeros(0, np.float32)
            case "Resize" if position == 3 and shapes[2] is not None:
                raise RejectedError  # by factors or to sizes, not both
            case "Resize":
                factors = [*[1] * (rank - 2), *(self.rng.choice([1, 2, 3, 1.5]) for _ in x[-2:])]
                if position == 2:
                    return np.asarray(factors, np.float32)
                return self._ints(int(n * f) for n, f in zip(x, factors, strict=True))
            case "CumSum" if rank:
                return np.asarray(self.rng.randrange(-rank, rank), np.int64)
            case "TopK":
                return self._ints([self.rng.randint(1, x[int(attributes.get("axis", -1))])])
            case "Trilu":
                return np.asarray(self.rng.randint(-2, 2), np.int64)
        if operator.startswith("Reduce") and rank:
            return self._ints(self.axes(rank))
        raise RejectedError

    def _ints(self, values: Iterable[int]) -> NDArray[np.int64]:
        return np.asarray(list(values), np.int64)

    def _target(self, x: Shape) -> list[int]:
        """A shape with as many elements: factors joined, ones inserted, sometimes -1 and 0."""
        sizes = list(x)
        for _ in range(self.rng.randint(0, 2)):
            if len(sizes) > 1 and self.rng.random() < 0.6:
                i = self.rng.randrange(len(sizes) - 1)
                sizes[i : i + 2] = [sizes[i] * sizes[i + 1]]
            else:
                sizes.insert(self.rng.randint(0, len(sizes)), 1)
        return self.spelled(x, sizes)

    def spelled(self, x: Shape, sizes: list[int]) -> list[int]:
        """A target of Reshape, sometimes with a -1 and 0."""
        if sizes and self.rng.random() < 0.4:
            sizes[self.rng.randrange(len(sizes))] = -1
        for i, size in enumerate(sizes):
            if i < len(x) and size == x[i] and self.rng.random() < 0.2:
                sizes[i] = 0
        return sizes

    def _parts(self, size: int, count: int) -> list[int]:
        count = count or self.rng.randint(1, 3)
        if size < count:
            raise RejectedError
        cuts = sorted(self.rng.sample(range(1, size), count - 1))
        return [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]

    def _slice(self, position: int, shapes: Shapes) -> NDArray[np.int64]:
        x = shapes[0]
        assert x is not None
        if not x:
            raise RejectedError
        if position == 1:
            self.axis = self.rng.randrange(len(x))
            self.start = self.rng.randrange(x[self.axis])
            return self._ints([self.start])
        axis = self.axis or 0
        if position == 2:
            return self._ints([self.rng.randint(self.start + 1, x[axis])])
        if position == 3:
            return self._ints([axis])
        return self._ints([1])

    def output_count(self, operator: str, arrays: list[Any]) -> int:
        """How many outputs a node with a variable number of them has."""
        if operator == "Split" and len(arrays) > 1 and arrays[1] is not None:
            return len(arrays[1])
        return 1


def _texts(expression: Expression) -> list[str]:
    """The texts in a condition: the spellings it allows."""
    return [
        part.value
        for part in walk(expression)
        if isinstance(part, Literal) and isinstance(part.value, str)
    ]

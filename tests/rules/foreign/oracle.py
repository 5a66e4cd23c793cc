"""What foreign rules mean, by NumPy alone, and draws of inputs on which they have values.

Written from the formats' description, knowing nothing of the translation: shapes are those of
arrays, a convolution is a loop over its window, a split looks up what the last concat did.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
from tensolog.rules.foreign.terms import Apply, ForeignRule, Term, Variable, parts


class IllFormed(Exception):  # noqa: N818
    """The operands of an operator don't fit."""


@dataclass
class Tensor:
    """An array, and for each axis what it was concatenated of: (size, the same of that part)."""

    array: np.ndarray
    trees: list[list | None]


@dataclass
class Evaluation:
    """Values of terms at given inputs.

    `broadcast`: whether ewadd and ewmul may broadcast. `sizes`: the shape of a constant, by term,
    where the surroundings don't say it.
    """

    rule: ForeignRule
    inputs: dict[str, np.ndarray]
    broadcast: bool
    known: dict[Term, Tensor] = field(default_factory=dict)

    def array(self, term: Term) -> np.ndarray:
        return self.value(term).array

    def value(self, term: Term) -> Tensor:
        if term not in self.known:
            self.known[term] = self._value(term)
        return self.known[term]

    def _value(self, term: Term) -> Tensor:
        if isinstance(term, Variable):
            array = self.inputs[term.name]
            return Tensor(array, [None] * array.ndim)
        operator = term.operator
        if operator == "conv2d":
            return self._conv(term)
        if operator in ("ewadd", "ewmul"):
            return self._elementwise(term)
        if operator == "matmul":
            return self._matmul(term)
        if operator == "concat":
            return self._concat(term)
        if constant(term):
            raise IllFormed("a constant whose size nothing tells")
        first = self.value(term.operands[0])
        x = first.array
        match operator:
            case "relu":
                return Tensor(np.maximum(x, 0), first.trees)
            case "sigmoid":
                return Tensor(1 / (1 + np.exp(-x)), first.trees)
            case "tanh":
                return Tensor(np.tanh(x), first.trees)
            case "smul":
                scalar = self.array(term.operands[1])
                if scalar.shape != ():
                    raise IllFormed("smul by no scalar")
                return Tensor(x * scalar, first.trees)
            case "transpose":
                order = digits(term.parameter("perm"), x.ndim)
                return Tensor(np.transpose(x, order), [first.trees[i] for i in order])
            case "poolavg" | "poolmax":
                return self._pool(term, first)
            case "enlarge":
                return self._enlarge(first, term.parameter("kernel_h"), term.parameter("kernel_w"))
            case "split":
                return self._split(term, first)
        raise NotImplementedError(operator)

    # ---- operators

    def _elementwise(self, term: Apply) -> Tensor:
        left, right = term.operands
        if constant(left):
            b = self.value(right)
            a = Tensor(self.constant(left, b.array.shape), b.trees)
        elif constant(right):
            a = self.value(left)
            b = Tensor(self.constant(right, a.array.shape), a.trees)
        else:
            a, b = self.value(left), self.value(right)
        if not self.broadcast and a.array.shape != b.array.shape:
            raise IllFormed("operands of different shapes")
        try:
            array = a.array + b.array if term.operator == "ewadd" else a.array * b.array
        except ValueError as error:
            raise IllFormed(str(error)) from None
        if a.array.ndim != b.array.ndim:
            return Tensor(array, [None] * array.ndim)
        return Tensor(array, [x or y for x, y in zip(a.trees, b.trees, strict=True)])

    def _matmul(self, term: Apply) -> Tensor:
        left, right = term.operands
        if constant(left):
            b = self.value(right)
            a = Tensor(self.constant(left, (b.array.shape[-2],) * 2), [None, None])
        else:
            a = self.value(left)
        if constant(right):
            b = Tensor(self.constant(right, (a.array.shape[-1],) * 2), [None, None])
        elif not constant(left):
            b = self.value(right)
        x, y = a.array, b.array
        if min(x.ndim, y.ndim) < 2 or x.shape[-1] != y.shape[-2]:
            raise IllFormed("matmul")
        if not (constant(left) or constant(right)) and x.shape[:-2] != y.shape[:-2]:
            raise IllFormed("batches of different sizes")
        return Tensor(x @ y, [*a.trees[:-1], b.trees[-1]])

    def _conv(self, term: Apply) -> Tensor:
        data, weight = (self.value(o) if not constant(o) else None for o in term.operands)
        if data is None:
            raise IllFormed("a constant is convolved")
        x = data.array
        if x.ndim != 4:
            raise IllFormed("no image")
        if weight is None:
            channels = x.shape[1]
            filters = self.constant(term.operands[1], (channels, channels))
            weight = Tensor(filters, [None] * 4)
        w = weight.array
        if w.ndim != 4 or w.shape[1] == 0 or x.shape[1] % w.shape[1]:
            raise IllFormed("channels")
        groups = x.shape[1] // w.shape[1]
        if self.rule.system == "tensat" and groups != 1:
            raise IllFormed("TENSAT's convolutions have one group")
        if w.shape[0] % groups:
            raise IllFormed("filters")
        strides = (term.parameter("stride_h"), term.parameter("stride_w"))
        pads = same_pads(w.shape[2:], odd=True) if term.parameter("pad") == 0 else (0, 0)
        per = w.shape[0] // groups
        cg = w.shape[1]
        outputs = []
        for patch in patches(x, w.shape[2:], strides, pads, 0.0):
            blocks = [
                np.einsum(
                    "nchw,mchw->nm", patch[:, g * cg : g * cg + cg], w[g * per : g * per + per]
                )
                for g in range(groups)
            ]
            outputs.append(np.concatenate(blocks, axis=1))
        size = window_counts(x.shape[2:], w.shape[2:], strides, pads)
        y = np.stack(outputs, axis=-1).reshape(x.shape[0], w.shape[0], *size)
        return Tensor(y, [data.trees[0], weight.trees[0], None, None])

    def _pool(self, term: Apply, first: Tensor) -> Tensor:
        x = first.array
        if x.ndim != 4:
            raise IllFormed("no image")
        kernel = (term.parameter("kernel_h"), term.parameter("kernel_w"))
        strides = (term.parameter("stride_h"), term.parameter("stride_w"))
        pads = same_pads(kernel, odd=False) if term.parameter("pad") == 0 else (0, 0)
        largest = term.operator == "poolmax"
        fill = -np.inf if largest else 0.0
        outputs = [
            p.max(axis=(2, 3)) if largest else p.sum(axis=(2, 3)) / (kernel[0] * kernel[1])
            for p in patches(x, kernel, strides, pads, fill)
        ]
        size = window_counts(x.shape[2:], kernel, strides, pads)
        y = np.stack(outputs, axis=-1).reshape(*x.shape[:2], *size)
        return Tensor(y, [*first.trees[:2], None, None])

    def _enlarge(self, first: Tensor, height: int, width: int) -> Tensor:
        w = first.array
        if w.ndim != 4 or w.shape[2] > height or w.shape[3] > width:
            raise IllFormed("a kernel that is larger already")
        gaps = (height - w.shape[2], width - w.shape[3])
        around = [(gap // 2, gap - gap // 2) for gap in gaps]
        return Tensor(np.pad(w, [(0, 0), (0, 0), *around]), [*first.trees[:2], None, None])

    def _concat(self, term: Apply) -> Tensor:
        axis = term.parameter("axis")
        operands = [self.value(o) for o in term.operands if not constant(o)]
        if not operands:
            raise IllFormed("only constants are concatenated")
        tensors = []
        for operand in term.operands:
            if constant(operand):
                like = operands[0].array.shape
                square = (like[1 - axis], like[1 - axis]) if axis < 2 else like[:2]
                array = self.constant(operand, square if len(like) == 2 else (*square, *like[2:]))
                tensors.append(Tensor(array, [None] * array.ndim))
            else:
                tensors.append(self.value(operand))
        arrays = [item.array for item in tensors]
        if axis >= arrays[0].ndim:
            raise IllFormed("no such axis")
        try:
            joined = np.concatenate(arrays, axis=axis)
        except ValueError as error:
            raise IllFormed(str(error)) from None
        trees = [
            next((item.trees[i] for item in tensors if item.trees[i]), None)
            for i in range(joined.ndim)
        ]
        trees[axis] = [(item.array.shape[axis], item.trees[axis]) for item in tensors]
        return Tensor(joined, trees)

    def _split(self, term: Apply, first: Tensor) -> Tensor:
        axis = term.parameter("axis")
        if axis >= first.array.ndim or not first.trees[axis]:
            raise IllFormed("nothing to split")
        sizes = [size for size, _ in first.trees[axis]]
        if term.output >= len(sizes) or sum(sizes) != first.array.shape[axis]:
            raise IllFormed("no such part")
        start = sum(sizes[: term.output])
        cut = [slice(None)] * first.array.ndim
        cut[axis] = slice(start, start + sizes[term.output])
        trees = list(first.trees)
        trees[axis] = first.trees[axis][term.output][1]
        return Tensor(first.array[tuple(cut)], trees)

    def constant(self, term: Term, shape: tuple[int, ...]) -> np.ndarray:
        """A term of constants, of a shape that its surroundings tell."""
        assert isinstance(term, Apply)
        match term.operator:
            case "ones":
                return np.ones(shape)
            case "imatmul":
                if len(shape) != 2 or shape[0] != shape[1]:
                    raise IllFormed("the identity is square")
                return np.eye(shape[0])
            case "iconv" | "cpool":
                kernel = (term.parameter("kernel_h"), term.parameter("kernel_w"))
                if len(shape) == 4 and shape[2:] != kernel:
                    raise IllFormed("another kernel size")
                array = np.zeros((*shape[:2], *kernel))
                if (
                    shape[1] == 0
                    or shape[0] % shape[1]
                    or (self.rule.system == "tensat" and shape[0] != shape[1])
                ):
                    raise IllFormed("an identity has as many filters as channels")
                for filter_ in range(shape[0]):
                    if term.operator == "cpool":
                        array[filter_, filter_ % shape[1]] = 1 / (kernel[0] * kernel[1])
                    else:
                        centre = ((kernel[0] - 1) // 2, (kernel[1] - 1) // 2)
                        array[(filter_, filter_ % shape[1], *centre)] = 1
                return array
            case "smul":
                return self.constant(term.operands[0], shape) * self.array(term.operands[1])
            case "relu":
                return np.maximum(self.constant(term.operands[0], shape), 0)
            case "transpose":
                return self.constant(term.operands[0], shape).T
            case "poolavg":
                inner = self.constant(term.operands[0], shape)
                return self._pool(term, Tensor(inner, [None] * 4)).array
            case "ewadd" | "ewmul":
                a, b = (self.constant(o, shape) for o in term.operands)
                return a + b if term.operator == "ewadd" else a * b
        raise IllFormed("a constant whose size nothing tells")


def constant(term: Term) -> bool:
    """Whether a term has no input that tells its shape."""
    if isinstance(term, Variable):
        return False
    shaping = term.operands[:1] if term.operator == "smul" else term.operands
    return all(map(constant, shaping))


def digits(number: int, rank: int) -> list[int]:
    """A permutation from its number in base `rank`."""
    permutation = [number // rank**i % rank for i in reversed(range(rank))]
    if sorted(permutation) != list(range(rank)):
        raise IllFormed("no permutation")
    return permutation


def same_pads(kernel: tuple[int, int], *, odd: bool) -> tuple[int, int]:
    if odd and any(k % 2 == 0 for k in kernel):
        raise IllFormed("SAME is symmetric for odd kernels only")
    return ((kernel[0] - 1) // 2, (kernel[1] - 1) // 2)


def window_counts(size, kernel, strides, pads) -> tuple[int, int]:
    counts = tuple(
        (n + 2 * p - k) // s + 1 for n, k, s, p in zip(size, kernel, strides, pads, strict=True)
    )
    if min(counts) < 1 or min(kernel) < 1:
        raise IllFormed("no window fits")
    return counts


def patches(x, kernel, strides, pads, fill):
    """The windows of an image, row by row."""
    counts = window_counts(x.shape[2:], kernel, strides, pads)
    padded = np.pad(x, [(0, 0), (0, 0), (pads[0],) * 2, (pads[1],) * 2], constant_values=fill)
    for i in range(counts[0]):
        for j in range(counts[1]):
            top, left = i * strides[0], j * strides[1]
            yield padded[:, :, top : top + kernel[0], left : left + kernel[1]]


# ------------------------------------------------------------------------------------------ draws

IMAGES = {"conv2d", "poolavg", "poolmax", "enlarge", "iconv", "cpool"}


def ranks(rule: ForeignRule) -> dict[str, int]:
    """The rank of each input: 4 beside convolutions, as concat says, else by its number."""
    terms = list(parts((*rule.sources, *rule.targets)))
    applied = [t for t in terms if isinstance(t, Apply)]
    stated = {t.parameter("rank") for t in applied if t.operator == "concat"} - {0}
    stated |= {turned(t) for t in applied if t.operator == "transpose"}
    scalars = {t.operands[1] for t in applied if t.operator == "smul"}
    image = any(t.operator in IMAGES for t in applied) or 4 in stated
    ranks_by_name = {}
    for term in terms:
        if isinstance(term, Variable):
            number = int(term.name.removeprefix("input_"))
            usual = 2 if number <= 6 else 4
            matrices = any(t.operator == "matmul" for t in applied)
            usual = 2 if matrices else max([usual * (not stated), *stated])
            ranks_by_name[term.name] = 0 if term in scalars else 4 if image else usual
    return ranks_by_name


def turned(term: Apply) -> int:
    """The rank of what is transposed: as stated, or the least that the permutation fits."""
    number, stated = term.parameter("perm"), term.parameter("rank")
    fitting = [n for n in range(2, 6) if permutes(number, n)]
    return stated or fitting[0]


def permutes(number: int, rank: int) -> bool:
    try:
        return bool(digits(number, rank)) and number < rank**rank
    except IllFormed:
        return False


def draw(rule: ForeignRule, rng: random.Random) -> dict[str, np.ndarray]:
    """Inputs of sizes that often fit together: few different ones, some of them 1."""
    weights = _weights(rule)
    pool = rng.choice([(2,), (3,), (2, 3), (1, 2), (2, 4), (1, 2, 3)])
    spatial = [rng.randint(1, 7), rng.randint(1, 7)]
    kernel = rng.choice([(1, 1), (3, 3), (3, 3), (1, 3), (3, 1), (5, 5)])
    inputs = {}
    numbers = np.random.default_rng(rng.getrandbits(32))
    for name, rank in ranks(rule).items():
        shape = [rng.choice(pool) for _ in range(rank)]
        if rank == 4 and name in weights:
            shape[2:] = (
                kernel if rng.random() < 0.8 else rng.choice([(1, 1), (3, 3), (1, 3), (2, 2)])
            )
        elif rank == 4:
            shape[2:] = spatial
            if rng.random() < 0.1:
                shape[rng.randrange(4)] = 1
        inputs[name] = numbers.integers(-4, 5, shape).astype(float)
    return inputs


def _weights(rule: ForeignRule) -> set[str]:
    """The inputs that kernels are made of."""
    weights: set[str] = set()
    for term in parts((*rule.sources, *rule.targets)):
        if isinstance(term, Apply) and term.operator in ("conv2d", "enlarge"):
            below = parts((term.operands[-1],))
            weights |= {t.name for t in below if isinstance(t, Variable)}
    return weights


@dataclass(frozen=True)
class Draw:
    """One draw on which the left side has a value, and what became of the right side.

    `strict`: the left side has a value without broadcasting too. `fits`: the right side has one
    (under broadcasting), `fits_strict`: without. `equal`: they are the same.
    """

    inputs: dict[str, np.ndarray]
    strict: bool
    fits: bool
    fits_strict: bool
    equal: bool


def draws(rule: ForeignRule, count: int, seed: int = 0, tries: int = 4000) -> list[Draw]:
    """Draws on which the left side has a value, at most `count` of them."""
    rng = random.Random(f"{rule.text} {seed}")
    accepted: list[Draw] = []
    for _ in range(tries):
        inputs = draw(rule, rng)
        left = values(rule, inputs, rule.sources, True)
        if left is None:
            continue
        right = values(rule, inputs, rule.targets, True)
        equal = right is not None and all(
            a.shape == b.shape and np.allclose(a, b) for a, b in zip(left, right, strict=True)
        )
        strict = values(rule, inputs, rule.sources, False) is not None
        fits_strict = values(rule, inputs, rule.targets, False) is not None
        accepted.append(Draw(inputs, strict, right is not None, fits_strict, equal))
        if len(accepted) == count:
            break
    return accepted


def values(rule, inputs, terms, broadcast) -> list[np.ndarray] | None:
    """What terms are at some inputs; None where they don't fit."""
    evaluation = Evaluation(rule, inputs, broadcast)
    try:
        return [evaluation.array(term) for term in terms]
    except IllFormed:
        return None

"""The shapes of a foreign rule's terms, found by unification, and what they take for granted.

Foreign rules state no shapes: a matrix is known by standing in a product, a kernel by standing in a
convolution. Sizes that must agree on the left side are what a well-formed graph has; what the right
side needs beyond them is a condition of the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .operators import CONSTANTS, ELEMENTWISE, SAME, UNARY, permutation
from .sizes import Atom, ContradictionError, Equalities, Size, exact, floor, of_atom, size, wide
from .terms import Apply, ForeignRule, Term, Variable, parts

DEPTHWISE = Variable("input_19")


class ShapeClashError(Exception):
    """The terms of a rule fit together at no sizes, or their ranks can't be told."""


@dataclass(frozen=True)
class Reading:
    """What is assumed beyond well-formedness.

    `broadcast`: ewadd and ewmul broadcast as the runtime lets them; otherwise their operands have
    one shape. `groups`: a convolution of the left side has as many groups as the channels of its
    input and its weight say; otherwise one. `alike`: what is concatenated has one shape.
    `depthwise`: a filter of TENSAT's input 19 sees one channel. `pointwise`: kernels are 1x1.
    `outputs`: both sides have one shape.
    """

    broadcast: bool
    groups: bool
    alike: bool = False
    depthwise: bool = False
    pointwise: bool = False
    outputs: bool = False


@dataclass(frozen=True)
class Shape:
    """Known sizes, behind a list of others that has a name, or behind nothing."""

    sizes: tuple[Size, ...]
    rest: str | None = None


# What a concatenation put together along an axis: the sizes, each with what it was made of itself.
Tree = tuple[tuple[Size, "Tree | None"], ...]
Trees = tuple[Tree | None, ...]


@dataclass(frozen=True)
class Bound:
    """A size that must not exceed another one; `needed` on the right side only."""

    least: Size
    most: Size


@dataclass
class Shapes:
    """The shapes of all terms of a rule under one reading; None is any rank, broadcast freely."""

    rule: ForeignRule
    reading: Reading
    flipped: bool = False
    equalities: Equalities = field(default_factory=Equalities)
    shapes: dict[Term, Shape | None] = field(default_factory=dict)
    trees: dict[Term, Trees] = field(default_factory=dict)
    groups: dict[Term, Size] = field(default_factory=dict)
    bounds: list[tuple[Bound, bool]] = field(default_factory=list)
    agree: list[tuple[Term, Term]] = field(default_factory=list)
    sizes: dict[Atom, Size] = field(default_factory=dict)
    open_before: int = 0
    on_target: bool = False

    def __post_init__(self) -> None:
        first, second = self.rule.sources, self.rule.targets
        self.sources, self.targets = (second, first) if self.flipped else (first, second)
        self.ranks = _Ranks(self.rule)
        self.letters = _letters((*first, *second))
        self._infer()

    def shape(self, term: Term) -> Shape | None:
        """A term's shape in the unknowns that are left."""
        shape = self.shapes[term]
        if shape is None:
            return None
        return Shape(tuple(map(self.equalities.resolve, shape.sizes)), shape.rest)

    def group(self, term: Term) -> Size:
        """How many groups a convolution has."""
        return self.equalities.resolve(self.groups[term])

    @property
    def square_constants(self) -> bool:
        """Whether the identity convolution has as many filters as channels: with one group."""
        return not (self.reading.groups or self._grouped((*self.sources, *self.targets)))

    def conditions(self) -> Iterator[tuple[Size, Size]]:
        """The sizes that must be equal for the right side's sake alone."""
        for atom, before in self.sizes.items():
            after = self.equalities.resolve(before)
            if before.atom == atom and after != before:
                yield before, after
        yield from self.equalities.open[self.open_before :]

    # ---------------------------------------------------------------------------- inference

    def _infer(self) -> None:
        try:
            for term in parts(self.sources):
                self._visit(term)
            self.sizes = {a: self.equalities.resolve(of_atom(a)) for a in self.equalities.order}
            self.open_before = len(self.equalities.open)
            self.on_target = True
            for term in parts(self.targets):
                if term not in self.shapes:
                    self._visit(term)
            if self.reading.outputs:
                for left, right in zip(self.sources, self.targets, strict=True):
                    self._same(left, right)
        except ContradictionError as error:
            raise ShapeClashError(f"the shapes fit at no sizes: {error}") from None

    def _visit(self, term: Term) -> None:
        if isinstance(term, Variable):
            self.shapes[term] = self._fresh(term, self.letters.get(term))
        else:
            self.shapes[term], self.trees[term] = self._apply(term)
        shape = self.shapes[term]
        rank = len(shape.sizes) if shape else 0
        self.trees.setdefault(term, (None,) * rank)

    def _fresh(self, term: Term, letters: tuple[str, ...] | None) -> Shape | None:
        rank = self.ranks.rank(term)
        if rank == "any":
            return None if self.reading.broadcast else Shape((), "s")
        if rank == "matrix":
            letters = letters if letters and len(letters) == 2 else ("m", "n")
            return Shape(tuple(map(self.equalities.fresh, letters)), "b")
        assert isinstance(rank, int)
        if letters is None or len(letters) > rank:
            letters = {2: ("m", "n"), 4: ("n", "c", "h", "w")}.get(rank, ())
        names = (*(f"b{i}" for i in range(rank - len(letters))), *letters)
        sizes = [self.equalities.fresh(name) for name in names]
        if self.reading.depthwise and term == DEPTHWISE:
            sizes[1] = size(1)
        if self.reading.pointwise and "kh" in letters:
            sizes[2:] = [size(1), size(1)]
        return Shape(tuple(sizes))

    def _apply(self, term: Apply) -> tuple[Shape | None, Trees]:
        shapes = [self.shapes[operand] for operand in term.operands]
        trees = [self.trees[operand] for operand in term.operands]
        operator = term.operator
        if operator in CONSTANTS:
            constant = self._constant(term)
            return constant, (None,) * len(constant.sizes)
        if operator in UNARY or operator == "smul":
            return shapes[0], trees[0]
        if operator in ELEMENTWISE:
            return self._elementwise(term), self._joined(trees[0], trees[1])
        sizes = [self._sizes(shape, term) for shape in shapes]
        match operator:
            case "conv2d":
                return self._convolution(term, *sizes), (trees[0][0], trees[1][0], None, None)
            case "poolavg" | "poolmax":
                return Shape(self._pooled(term, sizes[0])), (*trees[0][:2], None, None)
            case "enlarge" | "enlarge_like":
                return self._enlarged(term, sizes), (*trees[0][:2], None, None)
            case "matmul":
                return self._product(shapes), (*trees[0][:-1], trees[1][-1])
            case "transpose":
                order = self._order(term, len(sizes[0]))
                moved = Shape(tuple(sizes[0][i] for i in order))
                return moved, tuple(trees[0][i] for i in order)
            case "concat":
                return self._concatenated(term, sizes, trees)
        assert operator == "split"
        return self._part(term, sizes[0], trees[0])

    def _sizes(self, shape: Shape | None, term: Apply) -> tuple[Size, ...]:
        if shape is None or (shape.rest is not None and term.operator != "matmul"):
            raise ShapeClashError(f"the rank of an operand of {term.operator} can't be told")
        return shape.sizes

    def _joined(self, left: Trees, right: Trees) -> Trees:
        """Of an elementwise operator: what was concatenated on either side."""
        return tuple(a or b for a, b in zip(left, right, strict=True))

    def _same(self, left: Term, right: Term) -> None:
        a, b = self.shapes[left], self.shapes[right]
        if a is None or b is None:
            return
        if len(a.sizes) != len(b.sizes):
            raise ShapeClashError("operands of different ranks stand side by side")
        for x, y in zip(a.sizes, b.sizes, strict=True):
            self.equalities.equate(x, y)

    def _constant(self, term: Apply) -> Shape:
        fresh = self.equalities.fresh
        if term.operator == "imatmul":
            k = fresh("k")
            return Shape((k, k))
        if term.operator == "ones":
            shape = self._fresh(term, None)
            if shape is None:
                raise ShapeClashError("the rank of a constant can't be told")
            return shape
        kernel = (size(term.parameter("kernel_h")), size(term.parameter("kernel_w")))
        channels = fresh("c")
        return Shape((channels if self.square_constants else fresh("m"), channels, *kernel))

    def _elementwise(self, term: Apply) -> Shape | None:
        left, right = term.operands
        a, b = self.shapes[left], self.shapes[right]
        if a is None or b is None:
            return None
        if len(a.sizes) != len(b.sizes):
            raise ShapeClashError(f"operands of different ranks stand at {term.operator}")
        if self.reading.broadcast and _holds_input(left) and _holds_input(right):
            resolved = zip(self._resolved(a), self._resolved(b), strict=True)
            return Shape(tuple(wide(pair) for pair in resolved), a.rest)
        before = len(self.equalities.open)
        self._same(left, right)
        if len(self.equalities.open) > before and not self.on_target:
            self.agree.append((left, right))
        return a

    def _resolved(self, shape: Shape) -> tuple[Size, ...]:
        return tuple(map(self.equalities.resolve, shape.sizes))

    def _convolution(self, term: Apply, x: tuple[Size, ...], weight: tuple[Size, ...]) -> Shape:
        self.groups[term] = self._group(x[1], weight[1], term)
        if not _holds_input(term.operands[1]):
            self.equalities.equate(weight[0], weight[1])
        strides = (term.parameter("stride_h"), term.parameter("stride_w"))
        same = term.parameter("pad") == SAME
        spatial = (
            windows(h, k, stride, same)
            for h, k, stride in zip(x[2:], weight[2:], strides, strict=True)
        )
        return Shape((x[0], weight[0], *spatial))

    def _group(self, channels: Size, inner: Size, term: Apply) -> Size:
        """The groups of a convolution from the channels of its input and of its weight."""
        equalities = self.equalities
        channels, inner = equalities.resolve(channels), equalities.resolve(inner)
        weight = term.operands[1]
        derived = self._grouped((weight,)) if self.rule.system == "tensat" else True
        if self.rule.system == "taso" and not self.on_target:
            derived = self.reading.groups
        if not _holds_input(weight):
            derived = False
        if not derived or channels == inner:
            equalities.equate(channels, inner)
            return size(1)
        if self.on_target or channels.exact_quotient(inner) is not None:
            return exact(channels, inner)
        groups = equalities.fresh("g")
        equalities.equate(channels, groups * inner)
        return groups

    def _grouped(self, terms: tuple[Term, ...]) -> bool:
        """TENSAT's one weight that may be that of a depthwise convolution is input 19."""
        return self.rule.system == "tensat" and any(p == DEPTHWISE for p in parts(terms))

    def _pooled(self, term: Apply, x: tuple[Size, ...]) -> tuple[Size, ...]:
        same = term.parameter("pad") == SAME
        spatial = (
            windows(h, size(term.parameter(f"kernel_{a}")), term.parameter(f"stride_{a}"), same)
            for h, a in zip(x[2:], "hw", strict=True)
        )
        return (*x[:2], *spatial)

    def _enlarged(self, term: Apply, sizes: list[tuple[Size, ...]]) -> Shape:
        weight = sizes[0]
        if term.operator == "enlarge_like":
            kernel = sizes[1][2:]
        else:
            kernel = (size(term.parameter("kernel_h")), size(term.parameter("kernel_w")))
        for least, most in zip(weight[2:], kernel, strict=True):
            self.bounds.append((Bound(least, most), self.on_target))
        return Shape((*weight[:2], *kernel))

    def _product(self, shapes: list[Shape | None]) -> Shape:
        left, right = shapes
        assert left is not None and right is not None
        if len(left.sizes) < 2 or len(left.sizes) != len(right.sizes):
            raise ShapeClashError("matmul needs two operands of one rank, 2 or more")
        for a, b in zip(left.sizes[:-2], right.sizes[:-2], strict=True):
            self.equalities.equate(a, b)
        self.equalities.equate(left.sizes[-1], right.sizes[-2])
        return Shape((*left.sizes[:-1], right.sizes[-1]), left.rest)

    @staticmethod
    def _order(term: Apply, rank: int) -> tuple[int, ...]:
        order = permutation(term.parameter("perm"), rank)
        if order is None:
            number = term.parameter("perm")
            raise ShapeClashError(f"perm {number} is no permutation of {rank} axes")
        return order

    def _concatenated(
        self, term: Apply, sizes: list[tuple[Size, ...]], trees: list[Trees]
    ) -> tuple[Shape, Trees]:
        axis, rank = term.parameter("axis"), len(sizes[0])
        if axis >= rank:
            raise ShapeClashError(f"axis {axis} of a concat of rank {rank}")
        if any(len(other) != rank for other in sizes):
            raise ShapeClashError("operands of different ranks are concatenated")
        for other in sizes[1:]:
            for i in range(rank):
                if i != axis or self.reading.alike:
                    self.equalities.equate(sizes[0][i], other[i])
        total = size(0)
        for item in sizes:
            total = total + item[axis]
        shape = (*sizes[0][:axis], total, *sizes[0][axis + 1 :])
        joined = [
            next((tree[i] for tree in trees if tree[i] is not None), None) for i in range(rank)
        ]
        joined[axis] = tuple(
            (item[axis], tree[axis]) for item, tree in zip(sizes, trees, strict=True)
        )
        return Shape(shape), tuple(joined)

    def _part(self, term: Apply, sizes: tuple[Size, ...], trees: Trees) -> tuple[Shape, Trees]:
        axis, wanted = term.parameter("axis"), term.parameter("parts")
        if axis >= len(sizes):
            raise ShapeClashError(f"axis {axis} of a split of rank {len(sizes)}")
        tree = trees[axis]
        if tree is None:
            raise ShapeClashError(f"a split along axis {axis} has no concat to undo")
        if term.output >= len(tree) or wanted not in (0, len(tree)):
            count = max(wanted, term.output + 1)
            raise ShapeClashError(f"a split into {count} undoes a concat of {len(tree)}")
        part, inner = tree[term.output]
        shape = (*sizes[:axis], part, *sizes[axis + 1 :])
        return Shape(shape), (*trees[:axis], inner, *trees[axis + 1 :])

    def split_sizes(self, term: Apply) -> tuple[Size, ...]:
        """The sizes of all parts of the split that a term takes one of."""
        tree = self.trees[term.operands[0]][term.parameter("axis")]
        assert tree is not None
        return tuple(self.equalities.resolve(part) for part, _ in tree)


def windows(length: Size, kernel: Size, stride: int, same: bool) -> Size:
    """How many windows fit: SAME pads by (kernel - 1) / 2 on both sides, VALID not at all.

    The kernel of SAME is odd, or a number whose half is rounded down.
    """
    number = kernel.number
    if not same:
        covered = length - kernel
    elif number is None:
        covered = length - 1
    else:
        covered = length + (2 * ((number - 1) // 2) - number)
    return floor(covered, stride) + 1


def shaped_like(term: Term) -> Term:
    """The first part of a term that has its shape, where operands don't broadcast."""
    while isinstance(term, Apply) and term.operator in (*UNARY, *ELEMENTWISE, "smul"):
        term = term.operands[0]
    return term


def _holds_input(term: Term) -> bool:
    """Whether a term's shape is that of some input; that of a constant is as it must be."""
    if isinstance(term, Variable):
        return True
    first = term.operands[:1] if term.operator == "smul" else term.operands
    return any(map(_holds_input, first))


def _letters(terms: tuple[Term, ...]) -> dict[Term, tuple[str, ...]]:
    """Names for the sizes of inputs, by the first operator that reads them."""
    letters: dict[Term, tuple[str, ...]] = {}
    places = {
        "conv2d": (("n", "c", "h", "w"), ("m", "c", "kh", "kw")),
        "matmul": (("m", "k"), ("k", "n")),
        "enlarge": (("m", "c", "kh", "kw"),),
        "enlarge_like": (("m", "c", "kh", "kw"), ("m", "c", "kh", "kw")),
        "poolavg": (("n", "c", "h", "w"),),
        "poolmax": (("n", "c", "h", "w"),),
    }
    ordered = list(parts(terms))
    for term in reversed(ordered):  # from the outside in: kernels are seen through sums of them
        if not isinstance(term, Apply):
            continue
        operand_letters = places.get(term.operator)
        for i, operand in enumerate(term.operands):
            if operand_letters is not None and i < len(operand_letters):
                letters[operand] = operand_letters[i]
            elif operand_letters is None and term in letters and term.operator != "transpose":
                letters.setdefault(operand, letters[term])
    return letters


class _Ranks:
    """The ranks of terms: a number, "matrix" (a product's operands), or "any"."""

    def __init__(self, rule: ForeignRule) -> None:
        self.parent: dict[object, object] = {}
        self.value: dict[object, int] = {}
        self.products: set[object] = set()
        self.forced: set[object] = set()
        self.system = rule.system
        terms = (*rule.sources, *rule.targets)
        for left, right in rule.outputs:
            self._join(left, right)
        for term in parts(terms):
            if isinstance(term, Apply):
                self._learn(term)
        self.defaults: dict[object, int] = {}
        for term in parts(terms):
            if isinstance(term, Variable):
                self.defaults.setdefault(self._find(term), usual_rank(term.name))
        self.products = {self._find(term) for term in self.products}
        self.forced = {self._find(term) for term in self.forced}

    def rank(self, term: Term) -> int | str:
        """The rank of a term."""
        root = self._find(term)
        if root in self.value:
            return self.value[root]
        if root in self.forced:
            return self.defaults.get(root, 2)
        return "matrix" if root in self.products else "any"

    def _find(self, item: object) -> object:
        while self.parent.setdefault(item, item) != item:
            item = self.parent[item]
        return item

    def _join(self, left: object, right: object) -> None:
        a, b = self._find(left), self._find(right)
        if a == b:
            return
        if a in self.value and b in self.value and self.value[a] != self.value[b]:
            raise ShapeClashError(f"a rank is both {self.value[a]} and {self.value[b]}")
        if a in self.value:
            self.value[b] = self.value.pop(a)
        self.parent[a] = b

    def _set(self, item: object, rank: int) -> None:
        root = self._find(item)
        if self.value.setdefault(root, rank) != rank:
            raise ShapeClashError(f"a rank is both {self.value[root]} and {rank}")

    def _learn(self, term: Apply) -> None:
        operands = term.operands
        match term.operator:
            case "conv2d" | "poolavg" | "poolmax" | "enlarge" | "enlarge_like" | "iconv" | "cpool":
                for item in (term, *operands):
                    self._set(item, 4)
            case "imatmul":
                self._set(term, 2)
            case "ones":
                self.forced.add(term)
            case "smul":
                self._join(term, operands[0])
                self._set(operands[1], 0)
            case _:
                for operand in operands:
                    self._join(term, operand)
        if term.operator == "matmul" and self.system == "tensat":
            self._set(term, 2)
        elif term.operator == "matmul":
            self.products.add(term)
        if term.operator in ("concat", "transpose"):
            self._positional(term)
        elif term.operator == "split":
            self.forced.add(term)

    def _positional(self, term: Apply) -> None:
        rank = term.parameter("rank")
        if term.operator == "transpose" and not rank:
            fitting = [n for n in range(2, 9) if permutation(term.parameter("perm"), n)]
            rank = fitting[0] if len(fitting) == 1 else 0
        if rank:
            self._set(term, rank)
        else:
            self.forced.add(term)


def usual_rank(name: str) -> int:
    """The rank of an input by its number: 1 to 6 are matrices, 20 is a scalar, the rest images."""
    number = name.removeprefix("input_")
    if not number.isdigit() or int(number) <= 6:
        return 2
    return 0 if int(number) == 20 else 4

"""What attributes and lists of numbers may be: enumerated where they are discrete, else symbols.

A symbol stands for every value, so that one case speaks of all strides; axes, permutations and
flags decide which terms an operator expands to and are written out, for the ranks looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product

from ....catalog.operators import Specification
from ....catalog.operators.contributed import BLOCKED
from ....catalog.terms.index_notation import Term, apply
from ...language.schemas import words
from .axis_notation import Notations
from .composition import UndescribedError
from .enumeration import Choices, NoCaseError
from .symbolic_expressions import Value

FLAGS = frozenset(
    (
        *("keepdims", "transA", "transB", "ceil_mode", "count_include_pad", "exclusive"),
        *("reverse", "upper", "fmod", "noop_with_empty_axes", "allowzero"),
    )
)
# Attributes whose other values the specifications don't describe, so that `*rest` has none of them,
# or which say nothing of values.
LEFT_ALONE = frozenset(
    (
        *("stash_type", "saturate", "round_mode", "training_mode", "storage_order", "seed"),
        *("spatial", "output_dtype", "precision"),
    )
)
SPATIAL = ("strides", "dilations", "kernel_shape", "pads", "output_padding")
# What each entry is where they are left out; there is none for a kernel.
WINDOW_DEFAULTS = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}


@dataclass(frozen=True)
class Node:
    """What is known of a node when its attributes are chosen.

    `result_rank` is the rank that the rule declares of the first output, if it does.
    """

    name: str
    operator: str
    meaning: Specification
    opset: int
    shapes: Sequence[tuple[Term, ...] | None]
    outputs: int
    result_rank: int | None = None

    @property
    def rank(self) -> int:
        """The rank of the first input."""
        return len(self.shapes[0]) if self.shapes and self.shapes[0] is not None else 0

    @property
    def spatial(self) -> int:
        """The number of spatial dimensions: what the runtime computes in blocks are images."""
        return 2 if self.meaning.domain == BLOCKED else max(0, self.rank - 2)


class AttributeChoices:
    """Chooses attributes and lists; `symbol` makes an unknown number, `assume` restricts one.

    `stretch` notes the length of a list that might have any. `texts` are the Einsum equations to
    choose from; of axes in `lengths` there are so many. How axes are written is noted in `ways`,
    and a choice for the names in `as_choices` only.
    """

    def __init__(
        self,
        choices: Choices,
        symbol: Callable[[str, str], Term],
        assume: Callable[[Term], None],
        stretch: Callable[[str, int, int], None],
        texts: Sequence[str],
        lengths: Mapping[str, int],
        ways: Notations,
        as_choices: Collection[str],
    ) -> None:
        self.choices, self.symbol, self.assume, self.stretch = choices, symbol, assume, stretch
        self.texts, self.lengths, self.ways, self.as_choices = texts, lengths, ways, as_choices

    # ------------------------------------------------------------------------ attributes

    def attribute(self, node: Node, name: str, label: str, still: int = 0) -> Value:
        """A value of an attribute; None leaves it at its default. `label` names its symbols.

        A permutation leaves the last axes where they are, so many as are `still`.
        """
        described = next(
            (a.type for block in node.meaning.blocks for a in block.attributes if a.name == name),
            None,
        )
        if described is None or name in LEFT_ALONE:
            return None
        pick = self.choices.pick
        if name in FLAGS:
            default = 1 if name in ("keepdims", "upper", "count_include_pad") else 0
            moves = name in ("keepdims", "transA", "transB")
            return pick(label, (default, 1 - default), "index" if moves else "form")
        if allowed := words(node.operator, name, node.opset):
            return pick(label, allowed, "form")
        match name:
            case "perm":
                return pick(label, _orders(node.rank, still))
            case "axis":
                return self.axis(node, label)
            case "axes" if node.operator == "Unsqueeze":
                return self._new_axes(node.rank, label, f"len({label})")
            case "axes":
                return self.axes(node.rank, label)
            case "num_outputs":
                return node.outputs
            case "split":
                return self._symbols(label, node.outputs, "dimension")
            case "equation":
                return pick(label, self.texts)
            case "block_size":
                size = pick(label, (0, None), "form")
                return self._at_least_one(label) if size is None else size
            case "p" if node.operator == "LpNormalization":
                return pick(label, (2, 1), "form")
            case "output_shape":
                wanted = pick(f"{label} is given", (False, True), "form")
                return self._symbols(label, node.spatial, "dimension") if wanted else None
            case "kernel_shape" if len(node.shapes) > 1:
                weight = node.shapes[1]
                end = 2 + node.spatial if node.meaning.domain == BLOCKED else None
                return None if weight is None else tuple(weight[2:end])
        if name in SPATIAL:
            count = node.spatial * (2 if name == "pads" else 1)
            return tuple(self.symbol(f"{label}.{axis}", "integer") for axis in range(count))
        if described in ("int", "float"):
            return self.symbol(label, "integer" if described == "int" else "real")
        raise UndescribedError(f"any {name} of {node.operator} is more than can be written out")

    def _at_least_one(self, label: str) -> Term:
        size = self.symbol(label, "integer")
        self.assume(apply(">=", size, 1))
        return size

    def axis(self, node: Node, label: str) -> int:
        """An axis, counted from the front or from the end."""
        rank = node.rank + (node.operator in ("Flatten", "OneHot"))
        places = [*range(1, rank), *range(min(rank, 1))]
        if node.operator in ("QuantizeLinear", "DequantizeLinear") and rank < 2:
            places.append(1)  # its default: with a scale for all, the axis says nothing
        place: int = self.choices.pick(label, places)
        negative = place - node.rank - (node.operator == "OneHot")
        if negative >= 0:  # Flatten's axis may be the rank, which has no other spelling
            return place
        return self._signed(label, place, negative)

    def axes(self, rank: int, label: str) -> tuple[int, ...]:
        """Axes in any order, each once; there may be none of them."""
        sets = [
            combination
            for count in range(1, rank + 1)
            for combination in combinations(range(rank), count)
        ]
        sets = [*sets[1:], *sets[:1], ()]
        if (length := self.lengths.get(label)) is not None:
            sets = [axis_set for axis_set in sets if len(axis_set) == length]
        chosen = self.choices.pick(label, sets)
        if not chosen:
            return ()
        return self.spelled(label, chosen, rank)

    def spelled(self, label: str, places: tuple[int, ...], rank: int) -> tuple[int, ...]:
        """Axes in some order, each counted from the front or from the end."""
        if label not in self.as_choices:
            self.ways.add_axes(label, places, rank)
            return places
        order = self.choices.pick(f"order of {label}", list(permutations(places)), "form")
        spellings = [(place, place - rank) for place in order]
        return self.choices.pick(f"sign of {label}", list(product(*spellings)), "form")

    def _signed(self, label: str, front: int, end: int) -> int:
        """An axis counted from the front or from the end."""
        if label not in self.as_choices:
            self.ways.add(label, (front, end))
            return front
        return self.choices.pick(f"sign of {label}", (front, end), "form")

    # ----------------------------------------------------------------------------- lists

    def contents(
        self, node: Node, input_name: str, label: str, beside: Sequence[int] | None, kind: str
    ) -> Value:
        """The elements of an input that is a list; `beside` are the axes it goes with, if any.

        `kind` says whether those of its element type are integers, or real as a Range may have.
        """
        rank = node.rank
        match input_name:
            case "axes" if node.operator == "Unsqueeze":
                return self._new_axes(rank, label, f"dim({label}, 0)")
            case "axes":
                return self.axes(rank, label)
            case "shape" if node.operator == "Reshape":
                return self._target(rank, label, node.result_rank)
            case "split":
                return self._symbols(label, node.outputs, "dimension")
            case "shape":
                count = self.choices.pick(f"rank of {label}", (2, 1, 3, 0))
                self.stretch(f"dim({label}, 0)", count, 3)
                return self._symbols(label, count, "dimension")
            case "starts" | "ends":
                return self._symbols(label, self._bounds(node, beside), "integer")
            case "steps":
                return self._steps(label, self._bounds(node, beside))
            case "pads":
                count = rank if beside is None else len(beside)
                return self._symbols(label, 2 * count, "integer")
            case "repeats":
                return self._symbols(label, rank, "dimension")
            case "scales" | "sizes":
                return self._symbols(label, rank, kind)
            case "roi":
                count = self.choices.pick(f"length of {label}", (0, 2 * rank), "form")
                return self._symbols(label, count, kind)
            case "axis":
                return (self.axis(node, label),)
        return self._symbols(label, 1, kind)

    def _bounds(self, node: Node, beside: Sequence[int] | None) -> int:
        """How many axes a Slice cuts: those named, or else so many from the first on."""
        if beside is not None:
            return len(beside)
        counts = [*range(1, node.rank + 1), 0]
        count: int = self.choices.pick(f"number of axes of {node.name}", counts)
        return count

    def _symbols(self, label: str, count: int, kind: str) -> tuple[Term, ...]:
        return tuple(self.symbol(f"{label}.{position}", kind) for position in range(count))

    def _new_axes(self, rank: int, label: str, measure: str) -> tuple[int, ...]:
        sets = [(axis,) for axis in range(rank + 1)] + list(combinations(range(rank + 2), 2)) + [()]
        chosen = self.choices.pick(label, sets)
        self.stretch(measure, len(chosen), 2)
        return self.spelled(label, chosen, rank + len(chosen))

    def _target(self, rank: int, label: str, count: int | None) -> tuple[Term, ...]:
        """A target of Reshape: sizes, a 0 that copies, a -1 that takes what is left.

        `count` is how many there are, where the rule declares it.
        """
        if count is None:
            count = self.choices.pick(f"rank of {label}", (2, 1, 0))
            self.stretch(f"dim({label}, 0)", count, 2)
        entry_options = [(None, *([0] if position < rank else []), -1) for position in range(count)]
        forms = [form for form in product(*entry_options) if form.count(-1) <= 1]
        form = self.choices.pick(f"form of {label}", forms, "form")
        return tuple(
            self.symbol(f"{label}.{position}", "dimension") if number is None else number
            for position, number in enumerate(form)
        )

    def _steps(self, label: str, count: int) -> tuple[Term, ...]:
        steps = self._symbols(label, count, "integer")
        ways = list(product((1, -1), repeat=count))
        signs = self.choices.pick(f"direction of {label}", ways, "form")
        for step, sign in zip(steps, signs, strict=True):
            self.assume(apply(">=", step, 1) if sign > 0 else apply("<=", step, -1))
        return steps


def _orders(rank: int, still: int) -> list[tuple[int, ...]]:
    """All permutations of so many axes, one that is not its own inverse first."""
    moved, last = rank - still, tuple(range(rank - still, rank))
    if moved > 4:
        raise NoCaseError(f"permutations of rank {rank}")
    turned = (*range(1, moved), *range(min(moved, 1)))
    orders = [
        turned,
        *(permutation for permutation in permutations(range(moved)) if permutation != turned),
    ]
    return [(*order, *last) for order in orders]

"""Kinds of regions: those that one kernel computes, and what was measured of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter

from ...profiles.races.race import Lap, verdict
from ..match.rewrite import Step
from .configurations.chosen import Describable
from .configurations.timed import Timed
from .embed import RULE
from .kernel import RegionKernel
from .kernel_trial import KERNEL, OPERATORS
from .product.product_text import EACH, FOUR_BITS
from .quantized.quantized_products import INTEGERS
from .runtime_answers import SATURATES, saturates

# A kernel that isn't faster than this alone, relative to what it replaces, isn't tried further:
# but for an attention, which in the model may have a mask that leaves half of it out, and for a
# product, whose matrix lies in the cache here and in memory there.
PROMISING, PROMISING_MASKED, MASKED_SHARE = 0.95, 1.3, 0.5
PROMISING_PRODUCT = 1.05
# Weights of 4 bits are bound by memory in a model, by instructions in the cache, of which float32
# activations take more than those that the runtime rounds to 8 bits: from memory 1.3 is 0.8.
PROMISING_FOUR_BITS = 1.5
# One that has images with their channels last may be slower than that: left out between two others,
# images would be turned before it and behind it.
PROMISING_TURNED = 1.3
# Beyond its limit by less than this, and by less than its interval, a race alone decides nothing.
UNDECIDED = 1.15
# Choices of kinds that are looked at for those that gain most together.
MOST_BRANCHES = 10_000
# What became of a kind of kernels; `plan_region.outcome` in the catalog has these words.
CHOSEN, PLAN_LOST, OUTDONE = "chosen", "plan lost", "outdone"
NO_GAIN_ALONE, NO_GAIN_IN_MODEL = "no gain alone", "no gain in the model"
NOT_COMPILED, NOT_MEASURED = "not compiled", "not measured"
SUMMARY = "Operators that ONNX Runtime leaves apart, computed by one generated kernel."
# Convolutions in blocks, by another algorithm than the runtime's.
CONVERT = "ConvertConvToKernel"
CONVERTED = "A convolution of blocks, with what it ends in, computed by a generated kernel."


@dataclass
class Kind:
    """Regions that one kernel computes, and what was measured of it; gains are in nanoseconds.

    `sorts` are the ways of growing regions that gave these: those of one way don't overlap, but for
    the forms of a convolution or a product: those are alternatives where they have the same nodes,
    of which the one of the lowest `rank` rounds least. The compiler may have refused one.
    """

    regions: list[RegionKernel]
    sorts: set[int] = field(default_factory=set)
    alone: dict[str, Lap] | None = None
    # the same of each race, where sessions were opened anew for several
    openings: Sequence[dict[str, Lap]] = ()
    whole: Lap | None = None
    convolves: bool = False
    rank: int = 0
    is_refused: bool = False
    # the time of a configuration over that of the default
    beside_default: Timed | None = None

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.regions[0].kernel.name

    @property
    def nodes(self) -> set[int]:
        """All nodes that the regions cover."""
        return {number for region in self.regions for number in region.region.nodes}

    @property
    def gain_ns(self) -> float:
        """What all regions of it are expected to save."""
        if self.alone is None:
            return 0.0
        before, after = self.alone[OPERATORS].median_ns, self.alone[KERNEL].median_ns
        if self.may_skip:
            after *= MASKED_SHARE
        return (before - after) * len(self.regions)

    @property
    def times(self) -> str:
        """What was measured alone, for people."""
        if self.alone is None:
            return "not measured alone"
        before, after = (self.alone[name].median_ns / 1000 for name in (OPERATORS, KERNEL))
        return f"{before:.1f} µs -> {after:.1f} µs"

    def refusal(self, chosen: Collection[Kind]) -> str:
        """Say why it isn't used beside what is: it was slower, or another has some of its nodes."""
        return self.outcome(chosen)[1]

    def outcome(self, chosen: Collection[Kind]) -> tuple[str, str]:
        """Say in a word, and in words, why it isn't used beside what is."""
        if self.is_refused:
            return NOT_COMPILED, "the compiler refuses it"
        if self.alone is None:
            return NOT_MEASURED, "not measured alone"
        way = f"{self.way}: " if self.way else ""
        ratio = self.beside_default
        if ratio is not None and not ratio.is_faster:
            return OUTDONE, f"{self.way}, which is no faster"
        if not self.is_promising:
            return NO_GAIN_ALONE, f"{way}no faster alone: {self.times}"
        if self.whole is not None and verdict(self.whole) != "faster":
            reason = f"{way}no help in the model: {self.whole.ratio:.3f} of its time"
            return NO_GAIN_IN_MODEL, reason
        other = next((kind for kind in chosen if kind.nodes & self.nodes), None)
        if self.form and other is not None and other.form:
            if other.gain_ns > self.gain_ns:
                return OUTDONE, f"{way}{self.times}, less gain than {other.way}: {other.times}"
            return OUTDONE, f"{way}{self.times}, in favour of {other.way}, which rounds less"
        return OUTDONE, "less gain than another kernel for some of its nodes"

    @property
    def form(self) -> str:
        """Which of several ways to compute the same it is."""
        return self.regions[0].kernel.form

    @property
    def configuration(self) -> Describable | None:
        """How its loops are tiled, None by default."""
        chosen = self.regions[0].kernel.configuration
        return None if chosen is None else chosen.configuration

    @property
    def way(self) -> str:
        """How it computes, for people: its form and configuration."""
        if self.configuration is None:
            return self.form
        ratio = self.beside_default
        share = "" if ratio is None else f" ({ratio.ratio:.2f} of the default's time)"
        form = f"{self.form}, " if self.form else ""
        return f"{form}in {self.configuration.description}{share}"

    @property
    def may_skip(self) -> bool:
        """Tell whether the kernel leaves out what a mask makes nothing."""
        return self.regions[0].kernel.skips

    @property
    def multiplies(self) -> bool:
        """Tell whether the kernel has a product with a constant matrix in it."""
        return bool(self.regions[0].kernel.packed and self.form) and not self.convolves

    @property
    def goes_along(self) -> bool:
        """Tell whether it goes into a model with all of its sort, and isn't tried there alone.

        Images have their channels last between kernels of integers, and blocks between convolutions
        in these; alone, each would be turned before and behind.
        """
        return self.convolves or self.form == INTEGERS or bool(self.regions[0].kernel.turned)

    @property
    def is_promising(self) -> bool:
        """Tell whether it was fast enough alone to be tried in the model."""
        if self.beside_default is not None and not self.beside_default.is_faster:
            return False  # the default is as good
        return self.alone is not None and self.alone[KERNEL].ratio < self._limit

    @property
    def no_gain_alone(self) -> bool:
        """Tell whether it was raced alone, and wasn't fast enough to be tried in the model."""
        return self.alone is not None and not self.is_promising

    @property
    def is_undecided(self) -> bool:
        """Tell whether another race alone might have found it promising.

        Of convolutions some form is promising, or none: those are no matter of a few per cent.
        """
        if self.convolves or self.is_promising or self.alone is None:
            return False
        if self.beside_default is not None and not self.beside_default.is_faster:
            return False
        lap = self.alone[KERNEL]
        return lap.ratio_low < self._limit and lap.ratio < self._limit * UNDECIDED

    @property
    def _limit(self) -> float:
        """The ratio alone from which on it is no use to try it in the model."""
        if self.regions[0].kernel.turned:
            return PROMISING_TURNED
        if self.multiplies:
            return PROMISING_FOUR_BITS if self.form == FOUR_BITS else PROMISING_PRODUCT
        return PROMISING_MASKED if self.may_skip else PROMISING


def cover(kinds: Sequence[Kind], sort: int | None = None) -> list[Kind]:
    """Choose kinds whose regions don't overlap, and which gain most: of one sort first, then all.

    What a kind gains depends on what the runtime fuses around it, so that those of one sort, which
    fit together, may gain more than others that promise more by themselves.
    """
    chosen = _packing([kind for kind in kinds if sort in kind.sorts])
    taken = {number for kind in chosen for number in kind.nodes}
    return chosen + _packing([kind for kind in kinds if not kind.nodes & taken])


def _packing(kinds: Sequence[Kind]) -> list[Kind]:
    """Return kinds without common nodes whose gains add up to most, by branch and bound.

    Those that gain nothing are taken where they stand in nobody's way. After MOST_BRANCHES the best
    is returned that was met.
    """
    ordered = sorted(kinds, key=lambda kind: -kind.gain_ns)
    nodes = [frozenset(kind.nodes) for kind in ordered]
    remaining_ns = [*accumulate((max(0.0, kind.gain_ns) for kind in reversed(ordered)), initial=0)]
    best: list[int] = []
    best_ns, branches = -1.0, 0
    waiting: list[tuple[int, tuple[int, ...], float, frozenset[int]]] = [(0, (), 0.0, frozenset())]
    while waiting and branches < MOST_BRANCHES:
        place, chosen, gain_ns, taken = waiting.pop()
        if gain_ns + remaining_ns[len(ordered) - place] <= best_ns:
            continue
        while place < len(ordered) and nodes[place] & taken:
            place += 1
        if place == len(ordered):
            best, best_ns = max((best, best_ns), (list(chosen), gain_ns), key=itemgetter(1))
            continue
        branches += 1
        kind = ordered[place]
        if kind.gain_ns > 0 and any(nodes[place] & later for later in nodes[place + 1 :]):
            waiting.append((place + 1, chosen, gain_ns, taken))
        taking = (*chosen, place), gain_ns + max(0.0, kind.gain_ns), taken | nodes[place]
        waiting.append((place + 1, *taking))
    return [ordered[place] for place in best]


def best_forms(kinds: Sequence[Kind]) -> list[Kind]:
    """Leave out of kinds, what gains most first, what another form or configuration outdoes."""
    kept: list[Kind] = []
    for kind in kinds:
        same = (kept_kind for kept_kind in kept if kept_kind.nodes == kind.nodes)
        if not any(
            same_kind.form == kind.form or (same_kind.multiplies and kind.multiplies)
            for same_kind in same
        ):
            kept.append(kind)
    return kept


def step_of(kind: Kind, region: RegionKernel, names: tuple[str, ...]) -> Step:
    """Describe one region of a kind fused, its nodes by the names of the model's own."""
    alone = kind.alone
    how = f"{kind.way}, {kind.times}, kernel" if kind.convolves else "one kernel,"
    if not kind.convolves and kind.way not in ("", EACH) and (kind.multiplies or not kind.form):
        how = f"{how} {kind.way},"
    if kind.form == INTEGERS and saturates():
        how = f"{how} {SATURATES},"
    return Step(
        rule=CONVERT if kind.convolves else RULE,
        nodes=names,
        removed=len(region.region.nodes),
        added=1,
        accepted=True,
        reason=f"{how} {kind.name}",
        equal="exact" if region.kernel.is_exact else "rounding",
        summary=CONVERTED if kind.convolves else SUMMARY,
        cost_before_ns=alone[OPERATORS].median_ns if alone else None,
        cost_after_ns=alone[KERNEL].median_ns if alone else None,
    )

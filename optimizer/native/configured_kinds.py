"""Kernels in other configurations than the default: alternatives in their kinds, raced beside it.

What the catalog knows to be faster for a kernel's sizes on this machine takes part again. Of what
most is computed in, configurations are tried that may gain, as many as there is time to compile: of
products those that are predicted to, of all else those that nobody tried yet. What they took goes
into the catalog, for the next run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any, TypeVar

from ...catalog import Catalog
from ..graph.graph import TensorType
from .attention.attentions import configured as configured_attention
from .configurations.attention_configuration import (
    AttentionConfiguration,
    AttentionSizes,
    ChosenAttention,
)
from .configurations.chosen import Chosen
from .configurations.convolution_configuration import ConvolutionConfiguration, ConvolutionSizes
from .configurations.legal import (
    legal,
    legal_attentions,
    legal_cells,
    legal_columns,
    legal_convolutions,
    legal_pairs,
    legal_rows,
)
from .configurations.loop_configuration import (
    CellConfiguration,
    CellSizes,
    ChosenLoops,
    ColumnConfiguration,
    ColumnSizes,
    LoopSizes,
    RowConfiguration,
    RowSizes,
)
from .configurations.pair_configuration import PairConfiguration, PairSizes
from .configurations.processor import Processor, processor
from .configurations.product_configuration import ProductConfiguration, ProductSizes
from .configurations.ranking import Sample, promising, shipped_samples
from .configurations.timed import FAMILIES, TimedConfigurations, among, beside
from .convolution.blocked import Choose, is_laid_out
from .convolution.convolution_pair import Choose as ChoosePair
from .fuse_graph import by_kernel
from .kernel import RegionKernel, extents_under
from .kernel_trial import KERNEL
from .loops.kernel_region import Meanings
from .loops.lower import reconfigured as loops_kernel
from .product.matrix_products import configured
from .product.product_text import EACH
from .region_kinds import Kind

# Of the time for racing kernels alone, what compiling configurations may take, and what one takes.
COMPILING_SHARE, COMPILING_S, CONVOLUTION_S = 0.4, 0.35, 0.8
# The share for attentions and loops, which mostly take less time than products; what loops take.
OTHERS_SHARE, LOOPS_S = 0.3, 0.15
# Of that time, what is kept before configurations of convolutions are tried.
SPARED_S = 6.0
# Rounds of a race that tell something.
LEAST_SAMPLES = 5
# Products that configurations are tried of at most, and configurations of one.
MOST_PRODUCTS, MOST_OF_ONE = 4, 4
# Products and sums of an attention that a cell of a row is taken to be worth.
CELL_WORTH = 8


# Sizes of kernels that stand as they are in kinds: attentions, and loops.
OtherSizes = AttentionSizes | LoopSizes
OtherChoice = ChosenAttention | ChosenLoops
Sizes = TypeVar("Sizes", bound=ConvolutionSizes | PairSizes)
Configuration = TypeVar("Configuration", bound=ConvolutionConfiguration | PairConfiguration)


def reconfigured(
    meanings: Meanings, region_kernels: Sequence[RegionKernel], chosen: Sequence[Kind]
) -> list[RegionKernel]:
    """Return kernels of another graph in the configurations that were chosen for equal ones."""
    return [
        in_configuration(meanings, region, configuration)
        for kind in chosen
        if (configuration := kind.regions[0].kernel.configuration) is not None
        for region in region_kernels
        if _suits(configuration, region)
    ]


def in_configuration(
    meanings: Meanings, region: RegionKernel, chosen: Chosen[Any, Any]
) -> RegionKernel:
    """Return a product, an attention, or a kernel of loops, in another configuration."""
    match chosen.configuration:
        case ProductConfiguration():
            return configured(meanings, region, chosen)
        case AttentionConfiguration():
            return configured_attention(region, chosen)
    return replace(region, kernel=loops_kernel(meanings, region.region, chosen))


def _suits(chosen: Chosen[Any, Any], region: RegionKernel) -> bool:
    """Tell whether a configuration may be meant for a kernel; by its name then it is."""
    match chosen.sizes:
        case ProductSizes():
            return region.kernel.form == EACH
        case AttentionSizes():
            return is_attention(region)
        case RowSizes() | ColumnSizes() | CellSizes():
            return region.kernel.digest == chosen.sizes.kernel
    return False  # convolutions and pairs of these are found with those of their configurations


def is_attention(region: RegionKernel) -> bool:
    """Tell whether a region is an attention."""
    return region.kernel.arrange.startswith("arrange_attention")


def other_sizes(region: RegionKernel, extents: Sequence[int], threads: int) -> OtherSizes | None:
    """Return the sizes of an attention, or of a kernel of loops; None of others.

    `extents` are those of its loops.
    """
    kernel = region.kernel
    if is_attention(region):
        *batch, queries, keys, depth, width = extents
        return AttentionSizes(math.prod(batch), queries, keys, depth, width, threads)
    if kernel.arrange or kernel.form or kernel.packed or kernel.is_exact:
        return None  # of these nothing may be chosen, or elsewhere
    groups, loops = kernel.shapes.groups, kernel.shapes.groups.count - kernel.shapes.picked
    sizes = [math.prod(extents[number] for number in groups.loops(g)) for g in range(loops)]
    length = sizes[-1]
    if not region.region.reduced:
        return CellSizes(kernel.digest, math.prod(sizes[:-1]), length, threads)
    if not kernel.columns:
        return RowSizes(kernel.digest, math.prod(sizes[:-1]), length, threads)
    rows = sizes[kernel.columns[0]]
    return ColumnSizes(kernel.digest, math.prod(sizes[:-1]) // rows, rows, length, threads)


def other_ways(sizes: OtherSizes, here: Processor) -> list[OtherChoice]:
    """Return the configurations of sizes but the default, what is first worth a trial first."""
    match sizes:
        case AttentionSizes():
            ways = in_order_of_trial(sizes, legal_attentions(sizes, here))
            return [Chosen(way, sizes, here.level) for way in ways]
        case RowSizes():
            return [Chosen(loops, sizes) for loops in _nearest_first(legal_rows(sizes))]
        case ColumnSizes():
            return [Chosen(loops, sizes) for loops in _nearest_first(legal_columns(sizes, here))]
        case CellSizes():
            return [Chosen(loops, sizes) for loops in _nearest_first(legal_cells(sizes))]


Loops = TypeVar("Loops", bound=RowConfiguration | ColumnConfiguration | CellConfiguration)


def _nearest_first(configurations: Sequence[Loops]) -> list[Loops]:
    """Return configurations but the default, the first, those first that differ in one thing."""
    default, *others = configurations

    def differences(loops: Loops) -> int:
        return sum(a != b for a, b in zip(astuple(loops), astuple(default), strict=True))

    return sorted(others, key=differences)


# Those that gain most come first: rows 1.21, columns 1.03, attentions 1.02, single cells 1.01 on
# average (benchmarks/results).
OTHERS: Sequence[type[Any]] = (RowSizes, ColumnSizes, AttentionSizes, CellSizes)


class ConfiguredKinds:
    """The configurations that plans of one model are tried with; threads are those of sessions."""

    def __init__(self, catalog: Catalog, threads: int) -> None:
        self.here, self.threads = processor(), threads
        # by what the sizes of a family are
        self.timed: dict[type[Any], TimedConfigurations[Any, Any]] = {
            sizes: TimedConfigurations(catalog, self.here, sizes) for sizes in FAMILIES
        }
        self._noted: set[str] = set()

    def kinds(
        self,
        meanings: Meanings,
        region_kernels: Sequence[RegionKernel],
        types: Mapping[int, TensorType],
        sort: int,
        budget_s: float,
    ) -> list[Kind]:
        """Return kinds of products in configurations that may be faster, each of `sort`.

        `region_kernels` are regions, `types` those under the sizes that costs are asked for;
        `budget_s` is what racing kernels alone may take.
        """
        remaining = int(budget_s * COMPILING_SHARE / COMPILING_S)
        groups = [
            (sizes, group)
            for group in by_kernel(
                [region for region in region_kernels if region.kernel.form == EACH]
            ).values()
            if (sizes := self.sizes_of(group[0], types)) is not None
        ]
        groups.sort(
            key=lambda group_: (
                -len(group_[1]) * group_[0].rows * group_[0].depth * group_[0].columns
            )
        )
        reconfigured_kinds: list[Kind] = []
        for number, (sizes, group) in enumerate(groups):
            best = self.timed[ProductSizes].best(sizes)
            # A catalog may come from a stranger: what is not legal is no configuration.
            chosen = [best] if best in legal(sizes, self.here) else []
            if number < MOST_PRODUCTS and remaining > 0:
                tried = self._tried(sizes, min(remaining, MOST_OF_ONE))
                remaining -= len(tried)
                chosen += tried
            for configuration in chosen:
                in_place = Chosen(configuration, sizes, self.here.level)
                again = [configured(meanings, region, in_place) for region in group]
                reconfigured_kinds.append(Kind(again, {sort}))
        return reconfigured_kinds

    def others(
        self,
        meanings: Meanings,
        kinds: Sequence[Kind],
        types: Mapping[int, TensorType],
        budget_s: float,
    ) -> list[Kind]:
        """Return attentions and kernels of loops among kinds in configurations that may be faster.

        Each is of the sorts of the kind that it stands beside; `types` and `budget_s` are those of
        `kinds`.
        """
        sized = [
            (kind, sizes)
            for kind in kinds
            if (sizes := self._sizes_of_other(kind.regions[0], types)) is not None
        ]
        sized.sort(key=lambda pair: -len(pair[0].regions) * _work(pair[1]))
        kinds_to_race: list[Kind] = []
        fresh: list[tuple[int, int, float, Kind]] = []
        for kind, sizes in sized:
            best, others = self._others_of(sizes)
            kinds_to_race += _in_configurations(meanings, kind, best)
            compiling_s = COMPILING_S if isinstance(sizes, AttentionSizes) else LOOPS_S
            untried = _in_configurations(meanings, kind, others)[:MOST_OF_ONE]
            rank = OTHERS.index(type(sizes))
            fresh += [(round_, rank, compiling_s, kind_) for round_, kind_ in enumerate(untried)]
        # What is most promising of each kind comes before what is less so of any.
        left_s = budget_s * OTHERS_SHARE
        for _, _, compiling_s, kind in sorted(fresh, key=lambda entry: entry[:2]):
            left_s -= compiling_s
            if left_s < 0:
                break
            kinds_to_race.append(kind)
        return kinds_to_race

    def _others_of(self, sizes: OtherSizes) -> tuple[list[OtherChoice], list[OtherChoice]]:
        """Return the configuration that is known to be the fastest, and those that nobody tried."""
        timed = self.timed[type(sizes)]
        best, tried = timed.best(sizes), timed.timed(sizes)
        ways = other_ways(sizes, self.here)
        faster = [way for way in ways if way.configuration == best]
        return faster, [way for way in ways if way.configuration not in tried]

    def _sizes_of_other(
        self, region: RegionKernel, types: Mapping[int, TensorType]
    ) -> OtherSizes | None:
        """Return the sizes of an attention or a kernel of loops; None of others, or not known."""
        extents = extents_under(region.kernel, types)
        return None if extents is None else other_sizes(region, extents, self.threads)

    def choice(self, budget_s: float) -> Choose:
        """Return what chooses the configurations of convolutions, of equal ones the same.

        These gain less than products and take longer to compile: what is not known is tried where
        there is time to spare.
        """

        def others(sizes: ConvolutionSizes) -> Sequence[ConvolutionConfiguration]:
            prepared = is_laid_out(sizes.filter_bytes, sizes.tiles)
            return legal_convolutions(sizes, self.here, prepared)[1:]

        return self._choice(self.timed[ConvolutionSizes], others, budget_s)

    def pair_choice(self, budget_s: float) -> ChoosePair:
        """Return the same for pairs of convolutions."""

        def others(sizes: PairSizes) -> Sequence[PairConfiguration]:
            return legal_pairs(sizes, self.here)[1:]

        return self._choice(self.timed[PairSizes], others, budget_s)

    def _choice(
        self,
        timed: TimedConfigurations[Sizes, Configuration],
        others_of: Callable[[Sizes], Sequence[Configuration]],
        budget_s: float,
    ) -> Callable[[Sizes], Sequence[Configuration]]:
        remaining = max(0, int((budget_s - SPARED_S) * COMPILING_SHARE / CONVOLUTION_S))
        chosen: dict[Sizes, list[Configuration]] = {}

        def choose(asked: Sizes) -> Sequence[Configuration]:
            nonlocal remaining
            sizes = replace(asked, threads=self.threads)
            if sizes not in chosen:
                best, timed_before, others = timed.best(sizes), timed.timed(sizes), others_of(sizes)
                fresh = [other for other in others if other not in timed_before][:remaining]
                known_best = [best] if best is not None and best in others else []
                chosen[sizes] = [*known_best, *fresh]
                remaining -= len(fresh)
            return chosen[sizes]

        return choose

    def sizes_of(
        self, region: RegionKernel, types: Mapping[int, TensorType]
    ) -> ProductSizes | None:
        """Return the sizes of a product, None where they are not known."""
        rows = types.get(region.kernel.inputs[0])
        columns = region.kernel.shapes.extents[-2]
        if rows is None or rows.shape is None or not isinstance(columns, int):
            return None
        row_sizes = [size for size in rows.shape if isinstance(size, int) and size > 0]
        if len(row_sizes) < len(rows.shape):
            return None
        return ProductSizes(math.prod(row_sizes[:-1]), row_sizes[-1], columns, self.threads)

    def note(self, kinds: Sequence[Kind]) -> None:
        """Put into the catalog what configurations were measured to take beside the default."""
        defaults = {
            (kind.regions[0].region.nodes, kind.form): kind
            for kind in kinds
            if kind.configuration is None and kind.alone is not None
        }
        for kind in kinds:
            region = kind.regions[0]
            plain, chosen = (
                defaults.get((region.region.nodes, kind.form)),
                region.kernel.configuration,
            )
            if chosen is None or kind.alone is None or plain is None or plain.alone is None:
                continue
            lap, default = kind.alone[KERNEL], plain.alone[KERNEL]
            races = list(zip(kind.openings, plain.openings, strict=False))
            races = races or [(kind.alone, plain.alone)]
            kind.beside_default = among([beside(a[KERNEL], b[KERNEL]) for a, b in races])
            if kind.name in self._noted or min(lap.samples, default.samples) < LEAST_SAMPLES:
                continue
            self._noted.add(kind.name)
            sizes = replace(chosen.sizes, threads=self.threads)
            timed = self.timed[type(sizes)]
            timed.store(sizes, chosen.configuration, lap, kind.beside_default)

    def _tried(self, sizes: ProductSizes, count: int) -> list[ProductConfiguration]:
        """Choose what is tried of a product."""
        measured = {
            configuration: timed.ratio
            for configuration, timed in self.timed[ProductSizes].timed(sizes).items()
        }
        samples = [
            *shipped_samples(self.here),
            *(
                Sample(other, configuration, timed.ratio)
                for other, all_timed in self.timed[ProductSizes].by_sizes.items()
                for configuration, timed in all_timed.items()
                if configuration in legal(other, self.here)
            ),
        ]
        return promising(sizes, legal(sizes, self.here), samples, self.here, count, measured)


def _work(sizes: OtherSizes) -> int:
    """Return about how much a kernel computes."""
    if isinstance(sizes, AttentionSizes):
        return sizes.heads * sizes.queries * sizes.keys * (sizes.depth + sizes.width)
    _, *extents, _ = astuple(sizes)
    return CELL_WORTH * int(math.prod(extents))


def _in_configurations(meanings: Meanings, kind: Kind, chosen: Sequence[OtherChoice]) -> list[Kind]:
    """Return a kind in configurations, without those that make no difference."""
    kinds = {kind.name: kind}
    for choice in chosen:
        again = [in_configuration(meanings, region, choice) for region in kind.regions]
        kinds.setdefault(again[0].kernel.name, Kind(again, set(kind.sorts)))
    del kinds[kind.name]
    return list(kinds.values())


def in_order_of_trial(
    sizes: AttentionSizes, configurations: Sequence[AttentionConfiguration]
) -> list[AttentionConfiguration]:
    """Return the configurations but the default, which is the first, as they are worth a trial.

    Blocks much unlike the default's are slower nearly always; of tiles of other heights those come
    first that are the fewest.
    """
    by_height: dict[int, list[tuple[float, AttentionConfiguration]]] = {}
    for configuration in configurations[1:]:
        how_far = abs(math.log(configuration.block / min(sizes.default_block, sizes.queries)))
        by_height.setdefault(configuration.tile_rows, []).append((how_far, configuration))
    ranked = [
        (rank, -(-sizes.queries // configuration.tile_rows), configuration)
        for of_height in by_height.values()
        for rank, (_, configuration) in enumerate(sorted(of_height))
    ]
    return [configuration for _, _, configuration in sorted(ranked)]

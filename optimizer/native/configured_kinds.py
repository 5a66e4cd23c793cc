"""Kernels in other configurations than the default: alternatives in their kinds, raced beside it.

What the catalog knows to be faster for a kernel's sizes on this machine takes part again. Of what
most is computed in, configurations are tried that may gain, as many as there is time to compile: of
products, attentions and rows those that are predicted to, of convolutions those that nobody tried
yet. What they took goes into the catalog, for the next run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...catalog import Catalog
from ..graph.graph import TensorType
from .attention.kernel import configured as configured_attention
from .configurations.attention_configuration import (
    AttentionConfiguration,
    AttentionSizes,
    ChosenAttention,
)
from .configurations.convolution_configuration import (
    ChosenConvolution,
    ConvolutionConfiguration,
    ConvolutionSizes,
)
from .configurations.legal import (
    ProductSizes,
    legal,
    legal_attentions,
    legal_convolutions,
    legal_rows,
)
from .configurations.processor import processor
from .configurations.product_configuration import Chosen, ProductConfiguration
from .configurations.ranking import Sample, promising, shipped_samples
from .configurations.row_configuration import ChosenRows, RowConfiguration, RowSizes
from .configurations.timed import TimedConfigurations, beside
from .convolution.blocked import Choose, is_laid_out
from .fuse_graph import by_kernel
from .grow import RegionKernel
from .kernel_trial import KERNEL
from .loops.kernel_region import Meanings
from .loops.lower import extents_under
from .loops.lower import reconfigured as row_kernel
from .product.kernel import configured
from .product.text import EACH
from .region_kinds import Kind

# Of the time for racing kernels alone, what compiling configurations may take, and what one takes.
COMPILING_SHARE, COMPILING_S, CONVOLUTION_S = 0.4, 0.35, 0.8
# The share for attentions and rows, which mostly take less time than products; and what rows take.
OTHERS_SHARE, ROWS_S = 0.3, 0.15
# Of that time, what is kept before configurations of convolutions are tried.
SPARED_S = 6.0
# Rounds of a race that tell something.
LEAST_SAMPLES = 5
# Products that configurations are tried of at most, and configurations of one.
MOST_PRODUCTS, MOST_OF_ONE = 4, 4
# Products and sums of an attention that a cell of a row is taken to be worth.
CELL_WORTH = 8


def reconfigured(
    meanings: Meanings, found: Sequence[RegionKernel], chosen: Sequence[Kind]
) -> list[RegionKernel]:
    """Return kernels of another graph in the configurations that were chosen for equal ones."""
    made: list[RegionKernel] = []
    for kind in chosen:
        own = kind.regions[0].kernel.configuration
        for one in found if own is not None else ():
            if isinstance(own, Chosen):
                made += configured(meanings, one, [own.configuration], own.level)
            elif isinstance(own, ChosenAttention) and is_attention(one):
                made.append(configured_attention(one, own))
            elif isinstance(own, ChosenRows) and digest_of(one) == own.sizes.kernel:
                made.append(replace(one, kernel=row_kernel(meanings, one.region, own)))
    return made


def is_attention(one: RegionKernel) -> bool:
    """Tell whether a region is an attention."""
    return one.kernel.arrange.startswith("arrange_attention")


def is_over_rows(one: RegionKernel) -> bool:
    """Tell whether a kernel reduces along rows."""
    return bool(one.region.reduced) and not one.kernel.arrange and not one.kernel.columns


def digest_of(one: RegionKernel) -> int:
    """Return what tells a kernel from others, as its name does."""
    return int(one.kernel.name.rsplit("_", 1)[1], 16)


class ConfiguredKinds:
    """The configurations that plans of one model are tried with; threads are those of sessions."""

    def __init__(self, catalog: Catalog, threads: int) -> None:
        self.here, self.threads = processor(), threads
        self.products = TimedConfigurations(catalog, self.here, ProductSizes, ProductConfiguration)
        self.convolutions = TimedConfigurations(
            catalog, self.here, ConvolutionSizes, ConvolutionConfiguration
        )
        self.attentions = TimedConfigurations(
            catalog, self.here, AttentionSizes, AttentionConfiguration
        )
        self.rows = TimedConfigurations(catalog, self.here, RowSizes, RowConfiguration)
        self._noted: set[str] = set()

    def kinds(
        self,
        meanings: Meanings,
        found: Sequence[RegionKernel],
        types: Mapping[int, TensorType],
        sort: int,
        budget_s: float,
    ) -> list[Kind]:
        """Return kinds of products in configurations that may be faster, each of `sort`.

        `found` are regions, `types` those under the sizes that costs are asked for; `budget_s` is
        what racing kernels alone may take.
        """
        left = int(budget_s * COMPILING_SHARE / COMPILING_S)
        groups = [
            (sizes, group)
            for group in by_kernel([one for one in found if one.kernel.form == EACH]).values()
            if (sizes := self.sizes_of(group[0], types)) is not None
        ]
        groups.sort(key=lambda one: -len(one[1]) * one[0].rows * one[0].depth * one[0].columns)
        made: list[Kind] = []
        for number, (sizes, group) in enumerate(groups):
            best = self.products.best(sizes)
            # A catalog may come from a stranger: what is not legal is no configuration.
            chosen = [best] if best in legal(sizes, self.here) else []
            if number < MOST_PRODUCTS and left > 0:
                tried = self._tried(sizes, min(left, MOST_OF_ONE))
                left -= len(tried)
                chosen += tried
            for one in chosen:
                again = [configured(meanings, each, [one], self.here.level)[0] for each in group]
                made.append(Kind(again, {sort}))
        return made

    def others(
        self,
        meanings: Meanings,
        kinds: Sequence[Kind],
        types: Mapping[int, TensorType],
        budget_s: float,
    ) -> list[Kind]:
        """Return attentions and kernels over rows among kinds in configurations that may be faster.

        Each is of the sorts of the kind that it stands beside; `types` and `budget_s` are those of
        `kinds`.
        """
        sized = [
            (kind, sizes)
            for kind in kinds
            if (sizes := self._sizes_of_other(kind.regions[0], types)) is not None
        ]
        sized.sort(key=lambda one: -len(one[0].regions) * _work(one[1]))
        known: list[Kind] = []
        fresh: list[tuple[int, float, Kind]] = []
        for kind, sizes in sized:
            best, others = self._others_of(sizes)
            known += _in_configurations(meanings, kind, best)
            compiling_s = COMPILING_S if isinstance(sizes, AttentionSizes) else ROWS_S
            made = _in_configurations(meanings, kind, others)[:MOST_OF_ONE]
            fresh += [(round_, compiling_s, one) for round_, one in enumerate(made)]
        # What is most promising of each kind comes before what is less so of any, and rows, which
        # compile sooner and gain more, before attentions.
        left_s = budget_s * OTHERS_SHARE
        for _, compiling_s, kind in sorted(fresh, key=lambda one: one[:2]):
            left_s -= compiling_s
            if left_s < 0:
                break
            known.append(kind)
        return known

    def _others_of(
        self, sizes: AttentionSizes | RowSizes
    ) -> tuple[list[ChosenAttention | ChosenRows], list[ChosenAttention | ChosenRows]]:
        """Return the configuration that is known to be the fastest, and those that nobody tried."""
        best: list[ChosenAttention | ChosenRows]
        others: list[ChosenAttention | ChosenRows]
        if isinstance(sizes, AttentionSizes):
            level, ways = self.here.level, legal_attentions(sizes, self.here)
            faster, tried = self.attentions.best(sizes), self.attentions.timed(sizes)
            best = [ChosenAttention(faster, level, sizes)] if faster in ways[1:] and faster else []
            fresh = [one for one in in_order_of_trial(sizes, ways) if one not in tried]
            others = [ChosenAttention(one, level, sizes) for one in fresh]
        else:
            rows, row_best, rows_tried = (
                legal_rows(sizes),
                self.rows.best(sizes),
                self.rows.timed(sizes),
            )
            best = [ChosenRows(row_best, sizes)] if row_best in rows[1:] and row_best else []
            others = [ChosenRows(one, sizes) for one in rows[1:] if one not in rows_tried]
        return best, others

    def _sizes_of_other(
        self, one: RegionKernel, types: Mapping[int, TensorType]
    ) -> AttentionSizes | RowSizes | None:
        """Return the sizes of an attention or a kernel over rows; None of others, or not known."""
        if not is_attention(one) and not is_over_rows(one):
            return None
        extents = extents_under(one.kernel, types)
        if extents is None:
            return None
        if is_attention(one):
            *batch, queries, keys, depth, width = extents
            return AttentionSizes(math.prod(batch), queries, keys, depth, width, self.threads)
        groups = one.kernel.shapes.groups
        length = math.prod(extents[loop] for loop in groups.loops(groups.count - 1))
        return RowSizes(digest_of(one), math.prod(extents) // length, length, self.threads)

    def choice(self, budget_s: float) -> Choose:
        """Return what chooses the configurations of convolutions, of equal ones the same.

        These gain less than products and take longer to compile: what is not known is tried where
        there is time to spare.
        """
        left = max(0, int((budget_s - SPARED_S) * COMPILING_SHARE / CONVOLUTION_S))
        chosen: dict[ConvolutionSizes, list[ConvolutionConfiguration]] = {}

        def choose(told: ConvolutionSizes) -> Sequence[ConvolutionConfiguration]:
            nonlocal left
            sizes = replace(told, threads=self.threads)
            if sizes not in chosen:
                best = self.convolutions.best(sizes)
                known = self.convolutions.timed(sizes)
                prepared = is_laid_out(sizes.filter_bytes, sizes.tiles)
                others = legal_convolutions(sizes, self.here, prepared)[1:]
                fresh = [one for one in others if one not in known][:left]
                chosen[sizes] = [*([best] if best in others else []), *fresh]
                left -= len(fresh)
            return chosen[sizes]

        return choose

    def sizes_of(self, one: RegionKernel, types: Mapping[int, TensorType]) -> ProductSizes | None:
        """Return the sizes of a product, None where they are not known."""
        rows = types.get(one.kernel.inputs[0])
        columns = one.kernel.shapes.extents[-2]
        if rows is None or rows.shape is None or not isinstance(columns, int):
            return None
        known = [size for size in rows.shape if isinstance(size, int) and size > 0]
        if len(known) < len(rows.shape):
            return None
        return ProductSizes(math.prod(known[:-1]), known[-1], columns, self.threads)

    def note(self, kinds: Sequence[Kind], types: Mapping[int, TensorType]) -> None:
        """Put into the catalog what configurations were measured to take beside the default."""
        defaults = {
            (kind.regions[0].region.nodes, kind.form): kind.alone[KERNEL]
            for kind in kinds
            if kind.configuration is None and kind.alone is not None
        }
        for kind in kinds:
            one = kind.regions[0]
            default, chosen = defaults.get((one.region.nodes, kind.form)), one.kernel.configuration
            if chosen is None or kind.alone is None or default is None:
                continue
            lap = kind.alone[KERNEL]
            kind.beside_default = beside(lap, default)
            if kind.name in self._noted or min(lap.samples, default.samples) < LEAST_SAMPLES:
                continue
            self._noted.add(kind.name)
            if isinstance(chosen, ChosenConvolution):
                of = replace(chosen.sizes, threads=self.threads)
                self.convolutions.store(of, default, {chosen.configuration: lap})
            elif isinstance(chosen, ChosenAttention):
                self.attentions.store(chosen.sizes, default, {chosen.configuration: lap})
            elif isinstance(chosen, ChosenRows):
                self.rows.store(chosen.sizes, default, {chosen.configuration: lap})
            elif (sizes := self.sizes_of(one, types)) is not None:
                self.products.store(sizes, default, {chosen.configuration: lap})

    def _tried(self, sizes: ProductSizes, count: int) -> list[ProductConfiguration]:
        """Choose what is tried of a product."""
        known = {one: timed.ratio for one, timed in self.products.timed(sizes).items()}
        samples = [
            *shipped_samples(self.here.level),
            *(
                Sample(other, one, timed.ratio)
                for other, all_timed in self.products.known.items()
                for one, timed in all_timed.items()
                if one in legal(other, self.here)
            ),
        ]
        return promising(sizes, legal(sizes, self.here), samples, self.here, count, known)


def _work(sizes: AttentionSizes | RowSizes) -> int:
    """Return about how much a kernel computes."""
    if isinstance(sizes, RowSizes):
        return CELL_WORTH * sizes.rows * sizes.length
    return sizes.heads * sizes.queries * sizes.keys * (sizes.depth + sizes.width)


def _in_configurations(
    meanings: Meanings, kind: Kind, chosen: Sequence[ChosenAttention | ChosenRows]
) -> list[Kind]:
    """Return a kind in configurations, without those that make no difference."""
    made = {kind.name: kind}
    for one in chosen:
        again = [
            configured_attention(each, one)
            if isinstance(one, ChosenAttention)
            else replace(each, kernel=row_kernel(meanings, each.region, one))
            for each in kind.regions
        ]
        made.setdefault(again[0].kernel.name, Kind(again, set(kind.sorts)))
    del made[kind.name]
    return list(made.values())


def in_order_of_trial(
    sizes: AttentionSizes, configurations: Sequence[AttentionConfiguration]
) -> list[AttentionConfiguration]:
    """Return the configurations but the default, which is the first, as they are worth a trial.

    Blocks much unlike the default's are slower nearly always; of tiles of other heights those come
    first that are the fewest.
    """
    apart: dict[int, list[tuple[float, AttentionConfiguration]]] = {}
    for one in configurations[1:]:
        how_far = abs(math.log(one.block / min(sizes.default_block, sizes.queries)))
        apart.setdefault(one.tile_rows, []).append((how_far, one))
    ranked = [
        (rank, -(-sizes.queries // one.tile_rows), one)
        for of_height in apart.values()
        for rank, (_, one) in enumerate(sorted(of_height))
    ]
    return [one for _, _, one in sorted(ranked)]

"""Kernels in other configurations than the default: alternatives in their kinds, raced beside it.

What the catalog knows to be faster for a kernel's sizes on this machine takes part again. Of what
most is computed in, configurations are tried that may gain, as many as there is time to compile: of
products those that are predicted to, of convolutions those that nobody tried yet. What they took
goes into the catalog, for the next run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...catalog import Catalog
from ..graph.graph import TensorType
from .configurations.convolution_configuration import (
    ChosenConvolution,
    ConvolutionConfiguration,
    ConvolutionSizes,
)
from .configurations.legal import ProductSizes, legal, legal_convolutions
from .configurations.processor import processor
from .configurations.product_configuration import Chosen, ProductConfiguration
from .configurations.ranking import Sample, promising, shipped_samples
from .configurations.timed import TimedConfigurations, beside
from .convolution.blocked import Choose, is_laid_out
from .fuse_graph import by_kernel
from .grow import Found
from .kernel_trial import KERNEL
from .loops.kernel_region import Meanings
from .product.kernel import configured
from .product.text import EACH
from .region_kinds import Kind

# Of the time for racing kernels alone, what compiling configurations may take, and what one takes.
COMPILING_SHARE, COMPILING_S, CONVOLUTION_S = 0.4, 0.35, 0.8
# Of that time, what is kept before configurations of convolutions are tried.
SPARED_S = 6.0
# Rounds of a race that tell something.
LEAST_SAMPLES = 5
# Products that configurations are tried of at most, and configurations of one.
MOST_PRODUCTS, MOST_OF_ONE = 4, 4


def reconfigured(meanings: Meanings, found: Sequence[Found], chosen: Sequence[Kind]) -> list[Found]:
    """Return products of another graph in the configurations that were chosen for equal ones."""
    made: list[Found] = []
    for kind in chosen:
        own = kind.found[0].kernel.configuration
        if isinstance(own, Chosen):
            for one in found:
                made += configured(meanings, one, [own.configuration], own.level)
    return made


class ConfiguredKinds:
    """The configurations that plans of one model are tried with; threads are those of sessions."""

    def __init__(self, catalog: Catalog, threads: int) -> None:
        self.here, self.threads = processor(), threads
        self.products = TimedConfigurations(catalog, self.here, ProductSizes, ProductConfiguration)
        self.convolutions = TimedConfigurations(
            catalog, self.here, ConvolutionSizes, ConvolutionConfiguration
        )
        self._noted: set[str] = set()

    def kinds(
        self,
        meanings: Meanings,
        found: Sequence[Found],
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

    def sizes_of(self, one: Found, types: Mapping[int, TensorType]) -> ProductSizes | None:
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
            (kind.found[0].region.nodes, kind.form): kind.alone[KERNEL]
            for kind in kinds
            if kind.form and kind.configuration is None and kind.alone is not None
        }
        for kind in kinds:
            one = kind.found[0]
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

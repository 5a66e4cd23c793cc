"""All regions of a graph that kernels can compute, and the graph with all of them fused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx

from ..codegen.compiler import FLAGS
from ..graph.graph import Graph
from ..match.rewrite import Step
from .attention.attentions import attentions
from .byte_tables import lookups
from .embed import embed, place
from .grow import Grower
from .indexed.moved_rows import gather_moved_rows
from .indexed.row_operators import separate_indices
from .indexed.scattered_rows import scattered_rows
from .kernel import RegionKernel, supply
from .library import Library, build
from .loops.kernel_region import Meanings
from .product.four_bits import four_bit_products
from .product.matrix_products import formed, products
from .product.product_text import EACH
from .quantized.dynamic import dynamic_products, fold_rows
from .quantized.elementwise_pairs import quantized_pairs
from .quantized.groups import separate
from .quantized.matrices import matrix_products
from .quantized.pool import quantized_pools
from .quantized.quantized_products import quantized_products
from .quantized.running_norm import running_norms
from .quantized.softmax import softmax_rows
from .quantized.spelled import spell
from .recurrence.recurrences import recurrences
from .region_unions import joined
from .regions.region_candidates import candidates
from .shapes.constant_shapes import resolve_shapes


def prepare(graph: Graph) -> list[Step]:
    """Change a graph so that regions are found in it; return what was rewritten for that.

    The runtime's own operators of quantized numbers are spelled by ONNX's. Groups of integer
    products and indices that share nodes with others get nodes of their own, rows that are known
    no node at all.
    """
    steps = [*resolve_shapes(graph), *gather_moved_rows(graph)]
    spell(graph)
    separate(graph)
    fold_rows(graph)
    separate_indices(graph)
    return steps


def regions(
    meanings: Meanings, allowed: Collection[int], *, multiplies: bool = True
) -> list[RegionKernel]:
    """Find regions of all sorts, no two of which have a node in common.

    Functions of one 8-bit number come first, of any operators; where `multiplies`, products of
    8-bit integers, with these behind them; attentions; then, where `multiplies`, products with
    constant matrices.
    """
    derived = candidates(meanings)
    region_kernels = lookups(meanings, allowed)
    if multiplies:
        quantized = quantized_products(meanings, allowed, region_kernels)
        free = set(allowed) - _covered(quantized)
        quantized += quantized_pools(meanings, free)
        free -= _covered(quantized)
        quantized += matrix_products(meanings, free, region_kernels)
        free -= _covered(quantized)
        functions = [
            candidate for candidate in region_kernels if free.issuperset(candidate.region.nodes)
        ]
        quantized += quantized_pairs(meanings, free - _covered(functions))
        free -= _covered(quantized)
        quantized += dynamic_products(meanings, free, derived.outside_groups(derived.computable))
        free -= _covered(quantized)
        region_kernels = [
            *quantized,
            *(region for region in region_kernels if free.issuperset(region.region.nodes)),
        ]
    region_kernels += softmax_rows(meanings, set(allowed) - _covered(region_kernels))
    free = set(allowed) - _covered(region_kernels)
    region_kernels += running_norms(meanings, free)
    free = derived.outside_groups(allowed) & derived.computable - _covered(region_kernels)
    region_kernels += recurrences(meanings, free)
    free -= _covered(region_kernels)
    region_kernels += attentions(meanings, free)
    free -= _covered(region_kernels)
    region_kernels += scattered_rows(meanings, free)
    free -= _covered(region_kernels)
    if multiplies:
        region_kernels += four_bit_products(meanings, free)
        free -= _covered(region_kernels)
        region_kernels += products(meanings, free)
        free -= _covered(region_kernels)
    return [*region_kernels, *Grower(meanings, free).regions()]


def unions(
    meanings: Meanings, region_kernels: Sequence[RegionKernel], allowed: Collection[int]
) -> list[RegionKernel]:
    """Return the unions of regions, and of single nodes among `allowed` that they leave."""
    free = candidates(meanings).outside_groups(allowed) - _covered(region_kernels)
    return joined(meanings, [*region_kernels, *Grower(meanings, free).singles()])


def _covered(region_kernels: Sequence[RegionKernel]) -> set[int]:
    return {number for region in region_kernels for number in region.region.nodes}


def fused_graph(
    graph: Graph,
    *,
    multiplies: bool = True,
    joins: bool = False,
    form: str = EACH,
    levels: Sequence[str] | None = None,
    flags: Sequence[str] = FLAGS,
    optimized: Mapping[str, onnx.NodeProto] | None = None,
) -> tuple[Graph, Library] | None:
    """Fuse all regions of a graph, whatever they gain; None where there are none.

    `multiplies` is that of `regions`; products have this `form` where they can. Where it `joins`,
    `unions` take the place of their parts. `levels` and `flags` are those of `library.build`,
    `optimized` is that of `Meanings`.
    """
    fused = graph.copy()
    prepare(fused)
    meanings = Meanings(fused, optimized)
    region_kernels = regions(meanings, fused.nodes, multiplies=multiplies)
    if form != EACH:
        others = {
            region.region.nodes: region for region in formed(meanings, region_kernels, [form])
        }
        region_kernels = [others.get(region.region.nodes, region) for region in region_kernels]
    if joins:
        united = unions(meanings, region_kernels, fused.nodes)
        covered = _covered(united)
        parts = (kernel for kernel in region_kernels if covered.isdisjoint(kernel.region.nodes))
        region_kernels = [*united, *parts]
    placed = [
        region for region in region_kernels if place(fused, region.region.nodes, region.kernel)
    ]
    supply(fused, [region.kernel for region in placed])
    if not placed:
        return None
    library = build([region.kernel for region in placed], levels=levels, flags=flags)
    return embed(fused, library.domain), library


def by_kernel(region_kernels: Sequence[RegionKernel]) -> dict[str, list[RegionKernel]]:
    """Sort regions by their kernels' names."""
    of: dict[str, list[RegionKernel]] = {}
    for region in region_kernels:
        of.setdefault(region.kernel.name, []).append(region)
    return of

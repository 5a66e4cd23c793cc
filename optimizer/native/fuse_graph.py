"""All regions of a graph that kernels can compute, and the graph with all of them fused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx

from ..codegen.compiler import FLAGS
from ..graph.graph import Graph
from ..match.rewrite import Step
from .attention.kernel import attentions
from .byte_tables import lookups
from .embed import embed, place
from .grow import Grower, RegionKernel
from .indexed.kernel import scattered_rows
from .indexed.rows import separate_indices
from .library import Library, build
from .loops.kernel_region import Meanings
from .product.kernel import formed, products, supply
from .product.text import EACH
from .quantized.dynamic import dynamic_products
from .quantized.groups import separate
from .quantized.kernel import quantized_products
from .quantized.pool import quantized_pools
from .quantized.running_norm import running_norms
from .quantized.whole import groups_of, outside
from .recurrence.kernel import recurrences
from .regions.region_candidates import candidates
from .shapes.constant_shapes import resolve_shapes


def prepare(graph: Graph) -> list[Step]:
    """Change a graph so that regions are found in it; return the steps of `resolve_shapes`.

    Groups of integer products and indices that share nodes with others get nodes of their own.
    """
    steps = resolve_shapes(graph)
    separate(graph)
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
    groups = groups_of(meanings.graph)
    computable = candidates(meanings).computable
    found = lookups(meanings, allowed, groups)
    if multiplies:
        quantized = quantized_products(meanings, allowed, found)
        left = set(allowed) - _covered(quantized)
        quantized += quantized_pools(meanings, left)
        left -= _covered(quantized)
        quantized += dynamic_products(meanings, left, outside(groups, computable))
        left -= _covered(quantized)
        found = [*quantized, *(one for one in found if left.issuperset(one.region.nodes))]
    found += running_norms(meanings, set(allowed) - _covered(found))
    left = outside(groups, allowed) & computable - _covered(found)
    found += recurrences(meanings, left)
    left -= _covered(found)
    found += attentions(meanings, left)
    left -= _covered(found)
    found += scattered_rows(meanings, left)
    left -= _covered(found)
    if multiplies:
        found += products(meanings, left)
        left -= _covered(found)
    return [*found, *Grower(meanings, left).regions()]


def _covered(found: Sequence[RegionKernel]) -> set[int]:
    return {number for one in found for number in one.region.nodes}


def fused_graph(
    graph: Graph,
    *,
    multiplies: bool = True,
    form: str = EACH,
    levels: Sequence[str] | None = None,
    flags: Sequence[str] = FLAGS,
    optimized: Mapping[str, onnx.NodeProto] | None = None,
) -> tuple[Graph, Library] | None:
    """Fuse all regions of a graph, whatever they gain; None where there are none.

    `multiplies` is that of `regions`; products have this `form` where they can. `levels`
    and `flags` are those of `library.build`, `optimized` is that of `Meanings`.
    """
    fused = graph.copy()
    prepare(fused)
    meanings = Meanings(fused, optimized)
    found = regions(meanings, fused.nodes, multiplies=multiplies)
    if form != EACH:
        others = {one.region.nodes: one for one in formed(meanings, found, [form])}
        found = [others.get(one.region.nodes, one) for one in found]
    placed = [one for one in found if place(fused, one.region.nodes, one.kernel)]
    supply(fused, [one.kernel for one in placed])
    if not placed:
        return None
    library = build([one.kernel for one in placed], levels=levels, flags=flags)
    return embed(fused, library.domain), library


def by_kernel(found: Sequence[RegionKernel]) -> dict[str, list[RegionKernel]]:
    """Sort regions by their kernels' names."""
    of: dict[str, list[RegionKernel]] = {}
    for one in found:
        of.setdefault(one.kernel.name, []).append(one)
    return of

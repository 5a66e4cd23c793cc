"""The kinds of regions of a plan: what kernels could compute, and what the compiler takes of it."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from ..codegen.compiler import CompilerError
from ..codegen.unit import has_tiles
from ..graph.graph import Graph
from ..race.contest import Contest, Plan
from .configurations.chosen import no_others
from .configured_kinds import ConfiguredKinds
from .convolution.blocked import convolutions
from .convolution.convolution_pair import pairs
from .convolution.shared_blocks import narrow_convolutions
from .fuse_graph import by_kernel, regions, unions
from .grow import Grower
from .kernel import RegionKernel
from .library import Library, build
from .loops.kernel_region import Meanings
from .product.matrix_products import RANKS, formed
from .product.product_text import TILES
from .region_kind_race import types_under
from .region_kinds import Kind
from .regions.region_candidates import candidates
from .runtime_answers import left_alone, optimized_nodes

# How regions are grown: from what the runtime leaves as it is, without products, and from all; of
# the last, some are joined as well.
LEFT, OTHERS, EVERYTHING = range(3)
# Models beyond this aren't written as the runtime optimizes them.
MOST_WRITTEN_BYTES = 448 << 20
# Of a NaN among others, kernels make NaN in these, as ONNX specifies; what the runtime makes of it
# depends on where it stands.
EXTREMES = frozenset({"ReduceMax", "ReduceMin"})


def kinds_of(
    graph: Graph,
    base: Plan,
    contest: Contest,
    in_blocks: bool,
    configured: ConfiguredKinds | None,
    budget_s: float,
) -> list[Kind]:
    """Find the regions of a plan's graph, of all nodes and of those that nobody fuses yet.

    Kernels have those of their configurations as well that `configured` chooses, given that
    racing kernels alone may take `budget_s`.

    In blocks, the runtime's own optimizer finds next to nothing that it could fuse: what it leaves
    is all.
    """
    optimized = None if in_blocks else nodes_of_runtime(base, contest)
    meanings = Meanings(graph, optimized)
    running = candidates(meanings).computable
    choose = no_others if configured is None else configured.choice(budget_s)
    choose_pair = no_others if configured is None else configured.pair_choice(budget_s)
    convolved = [
        *convolutions(meanings, running, choose),
        *narrow_convolutions(meanings, running, choose),
        *pairs(meanings, running, choose_pair),
    ]
    alike = _alike_for_nan(graph, contest)
    everything = regions(meanings, alike)
    everything += unions(meanings, everything, alike)
    others = regions(meanings, alike, multiplies=False)
    unfused = (
        [] if in_blocks else _unfused_by_runtime(meanings, alike & left_alone(graph, optimized))
    )
    kinds: dict[tuple[str, tuple[tuple[int, ...], ...]], Kind] = {}
    for sort, grown in ((LEFT, unfused), (OTHERS, others), (EVERYTHING, everything)):
        for name, same_kernel in by_kernel(grown).items():
            key = (name, tuple(region.region.nodes for region in same_kernel))
            kinds.setdefault(key, Kind(same_kernel)).sorts.add(sort)
    forms = [form for form in RANKS if form != TILES or has_tiles()]
    multiplied = [
        Kind(regions, {EVERYTHING}, rank=RANKS[regions[0].kernel.form])
        for regions in by_kernel(formed(meanings, everything, forms)).values()
    ]
    if configured is not None:
        types = types_under(graph, contest.sizes)
        multiplied += configured.kinds(meanings, everything, types, EVERYTHING, budget_s)
        multiplied += configured.others(meanings, list(kinds.values()), types, budget_s)
    return [*_forms(convolved), *kinds.values(), *multiplied]


def nodes_of_runtime(base: Plan, contest: Contest) -> dict[str, onnx.NodeProto] | None:
    """Return the nodes of a plan as the runtime optimizes it; None where it is too large to ask."""
    if contest.size_bytes > MOST_WRITTEN_BYTES:
        return None
    return optimized_nodes(base.source, base.execution, contest.setting.threads)


def _unfused_by_runtime(meanings: Meanings, unfused: set[int]) -> list[RegionKernel]:
    """Grow regions from what the runtime doesn't fuse; from all if that takes too long to ask."""
    return Grower(meanings, candidates(meanings).outside_groups(unfused)).regions()


def _alike_for_nan(graph: Graph, contest: Contest) -> set[int]:
    """The nodes whose kernels give NaN where the runtime does; all where that may differ."""
    if contest.setting.finite_math:
        return set(graph.nodes)
    return {number for number, node in graph.nodes.items() if node.operator not in EXTREMES}


def _forms(convolved: Sequence[RegionKernel]) -> list[Kind]:
    """Sort convolutions by their kernels; those of one node come with what rounds least first."""
    ranks: dict[tuple[int, ...], dict[str, int]] = {}
    kinds: dict[str, Kind] = {}
    for region in convolved:
        of = ranks.setdefault(region.region.nodes, {})
        rank = of.setdefault(region.kernel.form, len(of) + 1)
        sorts = {LEFT, OTHERS, EVERYTHING}
        kind = kinds.setdefault(region.kernel.name, Kind([], sorts, convolves=True, rank=rank))
        kind.regions.append(region)
    return list(kinds.values())


def compiled(kinds: Sequence[Kind], levels: Sequence[str] | None) -> Library:
    """Compile the kernels of kinds together for some processors, and mark those that are refused.

    `levels` are those of `library.build`. Raises CompilerError where there is no compiler, or it
    refuses all.
    """
    try:
        kernels = {kind.name: kind.regions[0].kernel for kind in kinds}
        return build([kernels[name] for name in sorted(kernels)], levels=levels)
    except CompilerError:
        for kind in kinds:
            kind.is_refused = not _compiles(kind, levels)
        accepted = [kind.regions[0].kernel for kind in kinds if not kind.is_refused]
        if not accepted:
            raise
        return build(accepted, levels=levels)


def _compiles(kind: Kind, levels: Sequence[str] | None) -> bool:
    try:
        build([kind.regions[0].kernel], levels=levels)
    except CompilerError:
        return False
    return True

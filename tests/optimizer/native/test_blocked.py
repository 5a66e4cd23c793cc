"""Kernels in plans that lay values out in blocks: convolutions, and all else around them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.layouts.plans import lay_out
from tensolog.optimizer.native.convolution.blocked import convolutions
from tensolog.optimizer.native.convolution.convolution_pair import pairs
from tensolog.optimizer.native.convolution.shared_blocks import narrow_convolutions
from tensolog.optimizer.native.embed import embed, place
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.race.verify import compare

from tests.optimizer.egraph.pricing import FOLD_LIMIT, Prices, graph_of
from tests.optimizer.layouts.networks import has_blocks, in_blocks, network

from .build import kernels_of, needs_compiler, opened

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels"),
]
LEVELS = ("ORT_ENABLE_ALL", "ORT_DISABLE_ALL")


def placed(model, seed):
    """A network in blocks with every kernel that there is, and these; one form of each drawn."""
    drawn = random.Random(seed)
    prices = Prices(seed, in_blocks)
    laid, _ = lay_out(graph_of(model), prices, sizes={"batch": 2}, fold_limit=FOLD_LIMIT)
    if laid is None:
        return None
    graph = laid.graph.copy()
    meanings = Meanings(graph)
    forms: dict[tuple[int, ...], list] = {}
    for find in (convolutions, narrow_convolutions, pairs):
        for candidate in find(meanings, graph.nodes):
            forms.setdefault(candidate.region.nodes, []).append(candidate)
    candidates = [drawn.choice(several) for several in forms.values()]
    drawn.shuffle(candidates)
    left = set(graph.nodes)
    for candidate in list(candidates):
        if left.issuperset(candidate.region.nodes):
            left -= set(candidate.region.nodes)
        else:  # of two that both end in a node, one has it
            candidates.remove(candidate)
    candidates += regions(meanings, left)
    kept = [
        candidate.kernel
        for candidate in candidates
        if place(graph, candidate.region.nodes, candidate.kernel)
    ]
    supply(graph, kept)
    return laid.graph, graph, kept


@pytest.fixture(scope="module")
def networks():
    """Random networks, the same with kernels, and the library of all of them: compiled once."""
    return drawn_networks(range(14))


def drawn_networks(seeds):
    drawn_cases = []
    for seed in seeds:
        is_free = seed % 3 == 2
        drawn = network(seed, length=10, batch=1 + seed % 3 % 2)
        model = drawn.model(free_batch=is_free)
        placement = placed(model, seed)
        if placement is not None:
            shape = (3, *drawn.shape[1:]) if is_free else drawn.shape
            drawn_cases.append((shape, model, *placement))
    kernels = [kernel for *_, region_kernels in drawn_cases for kernel in region_kernels]
    return drawn_cases, build(kernels, levels=(native_level(),))


def test_random_networks_with_kernels_compute_what_they_did(networks):
    drawn_cases, library = networks
    forms = {kernel.form for *_, region_kernels in drawn_cases for kernel in region_kernels}
    assert len(forms - {""}) > 1 and "" in forms
    for seed, (shape, model, laid, graph, region_kernels) in enumerate(drawn_cases):
        changed = to_model(embed(graph, library.domain))
        assert len(kernels_of(changed)) == len(region_kernels)
        candidate = opened(changed, library)
        # Outside of blocks, infinities of one group don't meet the zeros of another's filters; and
        # of NaN and a number, the runtime's maxima take now the one and now the other.
        spoilt = [] if any("Max" in kernel.label for kernel in region_kernels) else [to_model(laid)]
        for original in [model, *spoilt]:
            image = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
            if original is not model:
                image[0, 1, 2, 3], image[-1, 0, 4, 1] = np.nan, np.inf
            wanted = [opened(original, level=level).run(None, {"x": image}) for level in LEVELS]
            for result, *both in zip(candidate.run(None, {"x": image}), *wanted, strict=True):
                *_, error, tolerance, _ = compare(result, both, both[1])
                assert error <= max(tolerance, 1e-5), (seed, original is model, error)

"""The derivations that an e-graph is given beside rules."""

from __future__ import annotations

from collections.abc import Sequence

from ....rules import Rule
from ..egraph import EGraph
from ..provenance import Application
from .attention import fuse_attention
from .derivation import Derivation
from .equal_halves import join_twins
from .narrow import split_narrow


def prepare(egraph: EGraph) -> list[Application]:
    """State of constants what rules ask of them; what was stated."""
    derivation = Derivation(egraph)
    join_twins(derivation)
    return derivation.applications


def derive(egraph: EGraph, rules: Sequence[Rule] = (), *, contributed: bool) -> list[Application]:
    """State what no rule can say, and apply the rules of passes that pay here; what came of it.

    With `contributed`, what ONNX Runtime's kernels for the CPU compute in one as well, or in
    blocks.
    """
    derivation = Derivation(egraph)
    applications = split_narrow(derivation, rules)
    if contributed:
        derivation = Derivation(egraph) if applications else derivation
        fuse_attention(derivation)
        applications += derivation.applications
    return applications

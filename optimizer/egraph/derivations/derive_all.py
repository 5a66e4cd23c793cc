"""The derivations that an e-graph is given beside rules."""

from __future__ import annotations

from ..egraph import EGraph
from ..provenance import Application
from .attention import fuse_attention
from .derivation import Derivation
from .narrow import split_narrow
from .rotary import fuse_rotary


def derive(egraph: EGraph, *, contributed: bool) -> list[Application]:
    """State what no rule can say; what was stated.

    With `contributed`, what ONNX Runtime's kernels for the CPU compute in one as well, or in
    blocks. Rotations come first: attention reads what they give.
    """
    derivation = Derivation(egraph)
    split_narrow(derivation)
    if contributed:
        fuse_rotary(derivation)
        fuse_attention(derivation)
    return derivation.applications

"""The derivations that an e-graph is given beside rules: kernels of one runtime."""

from __future__ import annotations

from .attention import fuse_attention
from .derive import Derivation
from .egraph import EGraph
from .provenance import Application
from .rotary import fuse_rotary


def derive(egraph: EGraph) -> list[Application]:
    """State what ONNX Runtime's kernels for the CPU compute in one; what was stated.

    Rotations come first: attention reads what they give.
    """
    derivation = Derivation(egraph)
    fuse_rotary(derivation)
    fuse_attention(derivation)
    return derivation.applications

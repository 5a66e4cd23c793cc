"""Where the taps of convolutions are computed as channels: where these are few.

Kernels compute the output channels of a convolution a vector at a time; one that gives three, as
the last of a network that draws an image does, leaves most of each vector empty. Along an axis of k
taps it is the sum of parts of one of k times as many channels with a tap there (SplitNarrowConv and
its like in rules/conv.rules). That pays for few channels only: to all others the rules aren't
applied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....rules import Match, Rule, check_conditions, match_of
from ....rules.compiler.bindings import Bindings
from ..congruence import NONE
from ..egraph import EGraph
from ..provenance import Application
from ..saturation.application import apply_matches
from ..saturation.e_matching import ANY, Patterns
from ..saturation.egraph_view import View
from .derivation import Derivation

# What the names of rules begin with that split along an axis, the first one first.
SPLITTING = "SplitNarrowConv"
# Channels of a vector, and how much less has to be computed then.
VECTOR, LEAST_LESS = 16, 0.7


def split_narrow(derivation: Derivation, rules: Sequence[Rule]) -> list[Application]:
    """Apply the rules that split convolutions to those of few channels; what came of it.

    Each is split along the first of the axes with the most taps.
    """
    splitting = [rule for rule in rules if rule.name.startswith(SPLITTING)]
    egraph = derivation.egraph
    narrow = [
        conv.node
        for _, conv in derivation.every("Conv")
        if splitting and _is_narrow(_filters(egraph, conv.operands[1]))
    ]
    if not narrow:
        return []
    patterns = Patterns(egraph, splitting)
    tables = patterns.tables(np.array(narrow, np.int64))
    view = View(egraph)
    matches: dict[int, Match] = {}
    for rule, rows in patterns.rows(tables, dict.fromkeys(splitting, ANY)):
        for match in (match_of(rule, row) for row in rows):
            if _is_along_longest(match, view) and check_conditions(match, view) is None:
                matches.setdefault(match.nodes["Y"], match)
    return apply_matches(egraph, list(matches.values()))


def _filters(egraph: EGraph, class_: int) -> tuple[int, ...]:
    """The sizes of filters: how many, of how many channels, and their taps; none if not known."""
    type_ = None if class_ == NONE else egraph.type(class_)
    shape = () if type_ is None or type_.dtype != "float32" else type_.shape or ()
    return tuple(size for size in shape if isinstance(size, int)) if len(shape) > 2 else ()


def _is_narrow(filters: Sequence[int]) -> bool:
    """Whether vectors of channels hold more of them where the most taps are channels, too."""
    if len(filters) < 3:
        return False
    channels, taps = filters[0], max(filters[2:])
    return _vectors(channels * taps) <= LEAST_LESS * _vectors(channels) * taps


def _vectors(channels: int) -> int:
    return math.ceil(channels / VECTOR)


def _is_along_longest(match: Match, view: View) -> bool:
    """Whether a match splits along an axis that no other has more taps than."""
    taps = (view.shape(match.values["W"]) or ())[2:]
    return bool(Bindings(match, view).names["k"] == max(taps))

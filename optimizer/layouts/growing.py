"""What can be computed on blocked values: e-nodes from blocked class to blocked class.

A convolution or pool is one e-node more beside the model's own; what acts element by element does
so on blocked values alike. So where a plan enters the layout, what stays in it and where it leaves
is decided by extraction, together with everything else that the e-graph holds. Which e-nodes may,
and by which rules, layouts.dl derives; here parts of channels are laid out, layout by layout.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...rules import Rule
from ..egraph.egraph import EGraph
from .blocking import Blocking, Operation
from .legal_steps import LegalSteps
from .operators.concatenations import push, split_layouts
from .operators.convolutions import Convolving
from .values import UnfitError

# Passes over the e-nodes, so that layouts of parts spread.
PASSES = 8


def grow(blocking: Blocking, rules: Sequence[Rule] = ()) -> None:
    """Add everything that can be computed in blocks to an e-graph.

    Of `rules` those that take activations before what is joined.
    """
    steps = LegalSteps(blocking, operations_of(blocking, rules))
    blocking.derived = steps.rows
    if not steps.is_worth:
        return
    blocking.values.may_enter = steps.may_enter
    convolving = Convolving(blocking, dict(split_layouts(blocking, steps.splits)))
    convolutions = steps.convolutions()
    for _ in range(PASSES):
        before = blocking.count
        blocking.refusals.clear()
        for node in steps.nodes:
            operation = blocking.operation(node)
            try:
                for form, ways in convolutions.get(node, ()):
                    convolving.convolve(operation.output, form, ways)
                for step in steps.of(node):
                    step(blocking, operation)
            except UnfitError as error:  # it stays as it is
                blocking.refuse(node, str(error))
        blocking.values.unite_pairs()
        if blocking.count == before:
            break
    for node, why in steps.refusals:
        blocking.refuse(node, why)


def operations_of(blocking: Blocking, rules: Sequence[Rule]) -> list[Operation]:
    """The e-nodes that may be computed in blocks at all, in order; of `rules` those of `grow`."""
    nodes = _run_with_the_model(blocking.egraph)
    nodes += push(blocking, rules)
    return [blocking.operation(node) for node in nodes]


def _run_with_the_model(egraph: EGraph) -> list[int]:
    """The e-nodes that a plan can contain and that depend on more than constants, in order."""
    columns = egraph.columns
    real = np.array([not op.is_virtual for op in egraph.vocabulary.operators], bool)
    living = columns.living()
    nodes, _, values = columns.gives(living[real[columns.operators_of(living)]])
    run: list[int] = np.unique(nodes[~np.array(egraph.known, bool)[values]]).tolist()
    return run

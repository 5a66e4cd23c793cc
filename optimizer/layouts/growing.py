"""What can be computed on blocked values: e-nodes from blocked class to blocked class.

A convolution or pool is one e-node more beside the model's own; what acts element by element does
so on blocked values alike. So where a plan enters the layout, what stays in it and where it leaves
is decided by extraction, together with everything else that the e-graph holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...rules import Rule
from ..egraph.egraph import EGraph
from .blocking import BLOCKED, Blocking, Operation
from .operators.channels_last import transpose
from .operators.concatenations import join, push, split, wanted
from .operators.convolution_epilogues import Convolution, convolutions
from .operators.convolutions import Convolving, tile
from .operators.elementwise import BINARY, UNARY, Elementwise
from .operators.normalizations import normalizations
from .operators.pools import OPERATORS as WINDOWS
from .operators.pools import pool
from .values import UnfitError

# Passes over the e-nodes, so that layouts of parts spread.
PASSES = 8
NO_FORM = "nothing is known of the operator in blocks"
NO_IMAGE = "what it gives is no image of float32 whose channels are known"


def grow(blocking: Blocking, rules: Sequence[Rule] = ()) -> None:
    """Add everything that can be computed in blocks to an e-graph.

    Of `rules` those that take activations before what is joined.
    """
    egraph = blocking.egraph
    nodes = _run_with_the_model(egraph)
    nodes += push(blocking, rules)
    first = [blocking.operation(node) for node in nodes]
    forms = convolutions(egraph, nodes, normalizations(egraph, first))
    if not forms and not any(operation.name in BLOCKED for operation in first):
        return
    convolving = Convolving(blocking, dict(wanted(blocking, first)))
    elementwise = Elementwise(blocking)
    elementwise.look(first)
    for _ in range(PASSES):
        before = blocking.count
        blocking.refusals.clear()
        for node in nodes:
            operation = blocking.operation(node)
            try:
                _convert(blocking, operation, forms, convolving, elementwise)
            except UnfitError as error:  # it stays as it is
                blocking.refuse(node, str(error))
        blocking.values.unite_pairs()
        if blocking.count == before:
            return


def _run_with_the_model(egraph: EGraph) -> list[int]:
    """The e-nodes that a plan can contain and that depend on more than constants, in order."""
    columns = egraph.columns
    real = np.array([not op.is_virtual for op in egraph.vocabulary.operators], bool)
    living = columns.living()
    nodes, _, values = columns.gives(living[real[columns.operators_of(living)]])
    run: list[int] = np.unique(nodes[~np.array(egraph.known, bool)[values]]).tolist()
    return run


def _convert(
    blocking: Blocking,
    operation: Operation,
    forms: Mapping[int, Sequence[Convolution]],
    convolving: Convolving,
    elementwise: Elementwise,
) -> None:
    name = operation.name
    if name == "Split":
        split(blocking, operation)
    if len(operation.outputs) != 1:
        return
    if name == "Transpose":
        transpose(blocking, operation)
        return
    if blocking.values.image(operation.output) is None:
        blocking.refuse(operation.node, NO_IMAGE)
        return
    for form in forms.get(operation.output, ()):
        if form.nodes[-1] == operation.node:
            convolving.convolve(operation.output, form)
    if name == "Conv" and not forms.get(operation.output):
        blocking.refuse(operation.node, "its weights are computed")
    elif name in WINDOWS:
        pool(blocking, operation)
    elif name == "ConvTranspose":
        tile(blocking, operation)
    elif name == "Concat":
        join(blocking, operation)
    elif name in UNARY or name in BINARY:
        elementwise.map(operation)
    elif name != "Conv":
        blocking.refuse(operation.node, NO_FORM)

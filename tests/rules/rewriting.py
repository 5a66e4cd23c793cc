"""Apply a replacement to an ONNX model, and run models: the tests' own, minimal optimizer."""

from __future__ import annotations

from itertools import count

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from tensolog.catalog.operators.contributed import DOMAINS

COUNTER = count()


def apply(replacement, view):
    """A new model with the replacement made; fold lines stay ordinary nodes."""
    model = onnx.ModelProto()
    model.CopyFrom(view.model)
    graph = model.graph
    del graph.value_info[:]
    prefix = f"new{next(COUNTER)}."
    # A new value takes the name of the one it replaces; an existing one is read instead of it.
    taken = {r: view.names[v] for v, r in replacement.outputs.items() if isinstance(r, str)}
    instead = {
        view.names[v]: view.names[r] for v, r in replacement.outputs.items() if isinstance(r, int)
    }
    replaced = {view.names[v] for v in replacement.outputs}

    def reference(item):
        if isinstance(item, int):
            return view.names[item]
        return taken.get(item, prefix + item) if item else ""

    new = [
        helper.make_node(
            node.op_type,
            [reference(i) for i in node.inputs],
            [reference(o) for o in node.outputs],
            domain=node.domain,
            **{k: v for k, v in node.attributes.items() if v != []},  # of a tensor of rank 0
        )
        for node in replacement.nodes
    ]
    for local, array in replacement.constants.items():
        graph.initializer.append(numpy_helper.from_array(np.asarray(array), reference(local)))
    kept = [
        n for i, n in enumerate(view.nodes) if i not in replacement.removed or _shared(n, replaced)
    ]
    del graph.node[:]
    for i, node in enumerate([*kept, *new]):
        is_kept = i < len(kept)
        copy = graph.node.add()
        copy.CopyFrom(node)
        outputs = [f"old.{prefix}{o}" if o in replaced and is_kept else o for o in node.output]
        inputs = [instead.get(i, i) for i in node.input]
        del copy.output[:]
        copy.output.extend(outputs)
        del copy.input[:]
        copy.input.extend(inputs)
    for old, existing in instead.items():
        if old in {o.name for o in graph.output}:
            graph.node.append(helper.make_node("Identity", [existing], [old]))
    _drop_dead(graph)
    _sort(graph)
    imported = {opset.domain for opset in model.opset_import}
    for domain in {node.domain for node in graph.node} & DOMAINS.keys() - imported:
        model.opset_import.append(helper.make_opsetid(domain, DOMAINS[domain]))
    return model


def _shared(node, replaced):
    """A matched node stays when an output of it is not replaced; dead ones go later."""
    return any(o and o not in replaced for o in node.output)


def _drop_dead(graph):
    while True:
        used = {i for n in graph.node for i in n.input} | {o.name for o in graph.output}
        dead = [n for n in graph.node if not any(o in used for o in n.output)]
        if not dead:
            return
        for node in dead:
            graph.node.remove(node)


def _sort(graph):
    ready = {i.name for i in graph.input} | {t.name for t in graph.initializer} | {""}
    waiting, ordered = list(graph.node), []
    while waiting:
        node = next(n for n in waiting if all(i in ready for i in n.input))
        waiting.remove(node)
        ready |= set(node.output)
        ordered.append(node)
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in ordered]
    del graph.node[:]
    graph.node.extend(copies)


def run(model, feeds):
    """The outputs of a model under ONNX Runtime without its optimizer."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    wanted = {i.name for i in session.get_inputs()}
    return session.run(None, {k: v for k, v in feeds.items() if k in wanted})

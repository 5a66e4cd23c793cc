"""Small models, and what their fused versions give beside ONNX Runtime's own operators."""

from contextlib import closing

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.codegen.compiler import FLAGS
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.graph.widen import widen
from tensolog.optimizer.layouts.runtime import NCHWC
from tensolog.optimizer.native.embed import embed, place
from tensolog.optimizer.native.fuse_graph import fused_graph
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import DOMAIN, build
from tensolog.optimizer.race.verify import Verifier
from tensolog.profiles.sessions.execution import Execution

# What a kernel may make of subnormal numbers, which it counts as zero: normalizations enlarge them.
SUBNORMAL = 1e-30
# This machine's instructions first, then those that every kernel is written for as well.
TRIED_LEVELS = [native_level(), *(level for level in ("avx2", "plain") if level != native_level())]
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


def model(nodes, inputs, outputs, constants=(), opset=20):
    """A model of nodes; inputs and outputs are {name: shape}, constants {name: array}."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(constants).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def blocked_model(nodes, types, constants):
    """A model in blocks whose result is y: `types` are {name: shape}, constants {name: array}."""
    info = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in types.items()
    }
    computed = {output for node in nodes for output in node.output}
    read = [entry for name, entry in info.items() if name not in computed]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "graph", read, [info["y"]], initializers)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(NCHWC, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def typed(proto):
    """The graph of a model, with the types that are inferred."""
    graph = load_graph(proto)
    graph.types = infer_types(graph)
    return graph


def built_together(regions, level=None):
    """Models with a region replaced by its kernel each, and the library of all these kernels.

    `regions` are {name: (graph, the kernel of a region of it)}.
    """
    for graph, region_kernel in regions.values():
        supply(graph, [region_kernel.kernel])
        assert place(graph, region_kernel.region.nodes, region_kernel.kernel)
    kernels = [region_kernel.kernel for _, region_kernel in regions.values()]
    library = build(kernels, levels=(level or native_level(),))
    return {n: to_model(embed(graph, library.domain)) for n, (graph, _) in regions.items()}, library


def replaced(graph, candidate, level=None, threads=1, flags=FLAGS):
    """A session of a graph with one region replaced by its kernel, built for one level."""
    library = build([candidate.kernel], levels=(level or native_level(),), flags=flags)
    assert place(graph, candidate.region.nodes, candidate.kernel)
    return opened(to_model(embed(graph, library.domain)), library, threads=threads)


def fused(proto, **options):
    """The model with all regions fused that can be, and its library; None where there is none."""
    fusion = fused_graph(typed(proto), **{"levels": (native_level(),), **options})
    if fusion is None:
        return None
    return to_model(fusion[0]), fusion[1]


def opened(proto, *libraries, threads=1, level="ORT_ENABLE_ALL"):
    """A session of a model with libraries of operators."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    for library in libraries:
        options.register_custom_ops_library(str(library.path))
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def kernels_of(proto):
    """The operators of a model that are kernels."""
    return [node.op_type for node in proto.graph.node if node.domain.startswith(DOMAIN)]


def check(proto, *feeds, expect=None, threads=1, **options):
    """Compare the fused model with the original; `expect` is how many kernels it has to have."""
    fusion = fused(proto, **options)
    if fusion is None:
        assert not expect, "nothing was fused"
        return None
    changed, library = fusion
    if expect is not None:
        assert len(kernels_of(changed)) == expect, kernels_of(changed)
    wide = widen(proto, double)
    verifier = Verifier(
        proto.SerializeToString(),
        {str(number): feed for number, feed in enumerate(feeds)},
        threads=threads,
        wide=None if wide is None else lambda: (wide.SerializeToString(), ""),
    )
    with closing(verifier):
        execution = Execution(libraries=(library.path,))
        for deviation in verifier.deviations("fused", changed.SerializeToString(), execution):
            assert deviation.within or deviation.max_absolute <= SUBNORMAL, deviation
    return changed, library


def double(tensor):
    """The same tensor in float64."""
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)

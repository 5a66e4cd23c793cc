"""What a model must fulfil to be read: a known version, one definition a name, an order, types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference
from google.protobuf.message import DecodeError, EncodeError

from ..attribute_text import attribute_type
from ..errors import ModelError
from ..operators import first_version, schema_for, specified
from ..subgraphs import graphs_of, initializer_names, nested, reads, subgraphs
from ..tensors import attribute_tensors
from .long_lists import infer_with_data
from .operator_sets import effective_imports

_CHECK_ERROR = onnx.checker.ValidationError
_INFERENCE_ERROR = onnx.shape_inference.InferenceError
# ONNX Runtime has it in ai.onnx from version 1 on, ONNX from 17 on.
_EARLY_IN_RUNTIMES = frozenset({"LayerNormalization"})
_GRAPH_TYPES = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def check_versions(model: onnx.ModelProto) -> None:
    """Raise ModelError for versions that are missing or newer than the onnx package knows."""
    if model.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"the model has IR version {model.ir_version}, the installed onnx "
            f"{onnx.__version__} knows up to {onnx.IR_VERSION}: upgrade onnx"
        )
    if not len(model.opset_import):
        raise ModelError("the model imports no operator set (opset_import is empty): is it whole?")
    newest = onnx.defs.C.schema_version_map()
    for domain, opset in effective_imports(model.opset_import).items():
        if isinstance(domain, bytes):
            raise ModelError(f"the model imports an operator set that is not UTF-8: {domain!r}")
        shown = domain or "ai.onnx"
        if opset.version < 1:
            raise ModelError(f"operator set {shown} version {opset.version} does not exist")
        if domain in newest and opset.version > newest[domain][1]:
            raise ModelError(
                f"the model needs operator set {shown} version {opset.version}, the installed onnx "
                f"{onnx.__version__} knows up to {newest[domain][1]}: upgrade onnx"
            )


def check_structure(model: onnx.ModelProto) -> None:
    """Raise ModelError unless names are defined once, before use, and without cycles.

    Attributes refer to those of functions inside of functions alone.
    """
    check_graph(model.graph, ())
    _check_attributes(model.graph)
    for function in model.functions:
        names = [*function.input]
        where = f"function {function.name!r}"
        if len(set(names)) < len(names):
            raise ModelError(f"{where} has an input twice")
        defined = set(names)
        _check_nodes(function.node, defined, (), where)
        for name in function.output:
            if name not in defined:
                raise ModelError(f"output {name!r} of {where} is not computed by any node")


def _check_attributes(main: onnx.GraphProto) -> None:
    """Refuse attributes that refer to one of a function, where there is none around them."""
    for graph in nested(main):
        for index, node in enumerate(graph.node):
            for attribute in node.attribute:
                if attribute.ref_attr_name:
                    raise ModelError(
                        f"attribute {attribute.name!r} of {describe(node, index)} refers to "
                        f"{attribute.ref_attr_name!r}, an attribute of a function, and stands in "
                        f"graph {graph.name!r}, which is in none: give it a value"
                    )


def check_graph(graph: onnx.GraphProto, outer: Sequence[set[str]]) -> None:
    """Check a graph within the names of the graphs around it, as `check_structure` does."""
    where = f"graph {graph.name!r}"
    defined: set[str] = set()
    for value in graph.input:
        _define(value.name, defined, where)
    constants: set[str] = set()
    for name in initializer_names(graph):
        _define(name, constants, where)
    defined |= constants  # an initializer may be the default of an input
    _check_nodes(graph.node, defined, outer, where)
    for value in graph.output:
        if value.name not in defined and not any(value.name in names for names in outer):
            raise ModelError(f"output {value.name!r} of {where} is not computed by any node")


def _define(name: str, defined: set[str], where: str) -> None:
    if not name:
        raise ModelError(f"an input or initializer of {where} has no name")
    if name in defined:
        raise ModelError(f"{name!r} is defined twice in {where}")
    defined.add(name)


def _check_nodes(
    nodes: Sequence[onnx.NodeProto],
    defined: set[str],
    outer: Sequence[set[str]],
    where: str,
) -> None:
    scopes = (*outer, defined)
    for index, node in enumerate(nodes):
        if not node.op_type:
            raise ModelError(f"node {index} of {where} has no op_type")
        if isinstance(node.op_type, bytes) or isinstance(node.domain, bytes):
            raise ModelError(f"node {index} of {where} has an operator that is not UTF-8")
        for name in node.input:
            if name and name not in defined and not any(name in names for names in outer):
                raise _undefined(name, index, nodes, where)
        for graph in subgraphs(node):
            check_graph(graph, scopes)
        for name in node.output:
            if name and name in defined:
                raise ModelError(
                    f"{name!r} is defined twice in {where} (again by {describe(node, index)})"
                )
            defined.add(name)
        defined.discard("")


def describe(node: onnx.NodeProto, index: int) -> str:
    """Return how messages name a node."""
    return f"{node.op_type} node {node.name!r}" if node.name else f"{node.op_type} node {index}"


def _undefined(name: str, index: int, nodes: Sequence[onnx.NodeProto], where: str) -> ModelError:
    reader = describe(nodes[index], index)
    makers = {output: i for i, node in enumerate(nodes) for output in node.output if output}
    if name not in makers:
        return ModelError(f"{reader} of {where} reads {name!r}, which nothing defines")
    cycle = _cycle(index, nodes, makers)
    if cycle:
        chain = " -> ".join(describe(nodes[i], i) for i in [*cycle, cycle[0]])
        return ModelError(f"{where} has a cycle: {chain}")
    maker = describe(nodes[makers[name]], makers[name])
    return ModelError(
        f"nodes of {where} are not in order: {reader} reads {name!r} before {maker} computes it"
    )


def _cycle(start: int, nodes: Sequence[onnx.NodeProto], makers: dict[str, int]) -> list[int]:
    """Return the nodes of a cycle that is reached from `start` against the data flow, or []."""

    def feeding(i: int) -> list[int]:
        return [makers[name] for name in reads(nodes[i]) if name in makers]

    path: list[int] = [start]
    on_path, done = {start}, set[int]()
    pending = [iter(feeding(start))]
    while pending:
        following = next(pending[-1], None)
        if following is None:
            pending.pop()
            on_path.discard(path[-1])
            done.add(path.pop())
        elif following in on_path:
            return path[path.index(following) :][::-1]
        elif following not in done:
            path.append(following)
            on_path.add(following)
            pending.append(iter(feeding(following)))
    return []


# ---------------------------------------------------------------------- operators and their types


def check_operators(model: onnx.ModelProto) -> None:
    """Raise ModelError where a node breaks its operator's specification.

    Unknown operators and domains without a specification pass: they are opaque.
    """
    try:
        onnx.checker.check_model(model)
        return
    except (_CHECK_ERROR, ValueError, EncodeError):
        pass  # the checker refuses some models that runtimes take: look at the nodes one by one
    local = frozenset((function.domain, function.name) for function in model.functions)
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version or 3
    _check_nodes_alone(model.graph.node, context, _versions(model.opset_import), local)
    for function in model.functions:
        _check_nodes_alone(function.node, context, _versions(function.opset_import), local)


def _versions(opsets: Sequence[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {domain: item.version for domain, item in effective_imports(opsets).items()}


def _check_nodes_alone(
    nodes: Iterable[onnx.NodeProto],
    context: onnx.checker.C.CheckerContext,
    versions: dict[str, int],
    local: frozenset[tuple[str, str]],
) -> None:
    context.opset_imports = versions
    for index, node in enumerate(nodes):
        for graph in subgraphs(node):
            _check_nodes_alone(graph.node, context, versions, local)
        if (node.domain, node.op_type) in local:
            continue
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain not in versions:
            raise ModelError(
                f"{describe(node, index)} is of operator set {domain or 'ai.onnx'}, "
                "which the model does not import"
            )
        if schema_for(domain, node.op_type, versions[domain]) is None:
            _check_known_later(node, index, domain, versions[domain])
            continue
        scope = onnx.checker.C.LexicalScopeContext()
        try:
            onnx.checker.C.check_node(_alone(node).SerializeToString(), context, scope)
        except (_CHECK_ERROR, ValueError) as error:
            raise ModelError(f"{describe(node, index)}: {one_line(error)}") from error


def _check_known_later(node: onnx.NodeProto, index: int, domain: str, version: int) -> None:
    """Refuse an operator that newer operator sets have; one that ONNX never had is opaque."""
    if node.op_type in _EARLY_IN_RUNTIMES:
        return
    since = first_version(domain, node.op_type)
    if since is not None:
        raise ModelError(
            f"{describe(node, index)} needs operator set {since} or newer, "
            f"the model imports {version}"
        )


def _alone(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return the node with empty graphs and large tensors: it is checked without their context."""
    absent = any(tensor.external_data for tensor in attribute_tensors(node.attribute))
    if not absent and all(attribute_type(item) not in _GRAPH_TYPES for item in node.attribute):
        return node
    alone = onnx.NodeProto()
    alone.CopyFrom(node)
    for attribute in alone.attribute:
        for graph in graphs_of(attribute):
            graph.Clear()
            graph.name = "graph"
    for tensor in attribute_tensors(alone.attribute):
        if tensor.external_data:
            del tensor.external_data[:]
            tensor.ClearField("data_location")
            tensor.dims[:] = [0]
            tensor.raw_data = b""
    return alone


def infer_types(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model with the types and shapes that ONNX infers; None where it can't.

    Raises ModelError for a model whose types contradict an operator's specification.
    """
    model = _sparse_as_dense(model)
    try:
        return infer_with_data(model, check_type=True, strict_mode=True)
    except _INFERENCE_ERROR as error:
        if (reason := type_error(str(error))) is not None:
            raise ModelError(f"the model is not well typed: {reason}") from error
    except (ValueError, RuntimeError, EncodeError, DecodeError, _CHECK_ERROR):
        pass
    try:
        return infer_with_data(model)
    except (_INFERENCE_ERROR, ValueError, RuntimeError, EncodeError, DecodeError, _CHECK_ERROR):
        return None


def _sparse_as_dense(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with sparse initializers declared as what nodes read: tensors.

    ONNX's inference takes them for values of a sparse type, which no operator accepts.
    """
    if not any(graph.sparse_initializer for graph in nested(model.graph)):
        return model
    declared = onnx.ModelProto()
    declared.CopyFrom(model)
    for graph in nested(declared.graph):
        for sparse in graph.sparse_initializer:
            tensor_type = graph.value_info.add(name=sparse.values.name).type.tensor_type
            tensor_type.elem_type = sparse.values.data_type
            for size in sparse.dims:
                tensor_type.shape.dim.add(dim_value=size)
        del graph.sparse_initializer[:]
    return declared


def type_error(message: str) -> str | None:
    """Return what strict inference finds wrong, in a line; None for what runtimes put up with.

    That is a declared shape that differs from the inferred one (it is only a hint), the body of a
    function that ONNX itself defines for an operator, and the types of a runtime's own operators,
    whose specifications don't tell which they take: those of packed weights, say.
    """
    _, _, listed = message.partition("Inference error(s):")
    for line in (listed or message).strip().splitlines():
        is_hint = "existing shape differ" in line or line.count("(op_type:") > 1
        if not is_hint and not _is_of_runtime(line):
            return one_line(line)
    return None


def _is_of_runtime(line: str) -> bool:
    """Tell whether a complaint is of a type that an operator takes which ONNX doesn't have."""
    named = re.search(r"\(op_type:(\w+)", line)
    return (
        named is not None
        and "has unsupported type" in line
        and first_version("", named[1]) is None
        and named[1] in specified("com.microsoft")
    )


def one_line(error: object) -> str:
    """Return a message of onnx without its headings and line breaks."""
    text = re.sub(r"==> Context: .*", "", str(error), flags=re.DOTALL)
    text = re.sub(r"\[\w+Error\] (Inference error\(s\): )?", "", text)
    return " ".join(text.split())

"""ONNX models into rows, without loss: what has no column is kept, serialized, in `rest`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import Message

from ..errors import ModelError
from ..store.catalog import Catalog
from ..store.constants import Constant, store_constants
from ..store.model_rows import Rows
from ..subgraphs import initializer_names
from ..tensors import CONSTANT_KEY, entry
from .attributes import columns_of
from .node_order import sort_nodes
from .operator_sets import with_effective_imports
from .payloads import find_payloads, with_small_data
from .source import Source, open_source
from .types import describe_type, tensor_type
from .validation import (
    check_operators,
    check_structure,
    check_versions,
    infer_types,
)

ModelSource = str | Path | bytes | onnx.ModelProto
_Scope = dict[str, int]
_Types = Mapping[str, tuple[onnx.TypeProto, str]]  # name -> type and where it is from
_NODE_COLUMNS = (
    "input", "output", "name", "op_type", "domain", "overload", "attribute", "doc_string",
)  # fmt: skip


def read_model(catalog: Catalog, source: ModelSource, *, name: str | None = None) -> int:
    """Store a model and return its model_id; `build_model` gives an equal one back.

    `source` is a path, serialized bytes or a ModelProto (left as it is). Raises ModelError, in one
    line, for a model that is missing, damaged, too new, not well formed or not well typed.
    """
    (result,) = read_models(catalog, [source], names=None if name is None else [name])
    if isinstance(result, ModelError):
        raise result
    return result


def read_models(
    catalog: Catalog, sources: Iterable[ModelSource], *, names: Sequence[str] | None = None
) -> list[int | ModelError]:
    """Store many models with one insert a table; a model that is refused gives its ModelError."""
    rows = Rows()
    constants: list[Constant] = []
    results: list[int | ModelError] = []
    with catalog.transaction():
        for index, source in enumerate(sources):
            try:
                with open_source(source) as opened:
                    name = names[index] if names is not None else opened.name
                    results.append(_add(rows, constants, catalog, opened, name, "imported", None))
            except ModelError as error:
                results.append(error)
        first = rows.store(catalog)
        store_constants(catalog, constants)
    return [item if isinstance(item, ModelError) else first + item for item in results]


def store_model(
    catalog: Catalog,
    model: onnx.ModelProto,
    *,
    name: str | None = None,
    parent_model_id: int | None = None,
) -> int:
    """Store a model made from one of the catalog and return its model_id.

    Tensors may be references to constants of the catalog, as `skeleton_model` leaves them and
    `constant_reference` makes them. Raises ModelError as `read_model` does.
    """
    rows = Rows()
    constants: list[Constant] = []
    with catalog.transaction():
        with open_source(model) as opened:
            _add(
                rows, constants, catalog, opened, name or opened.name, "optimized", parent_model_id
            )
        first = rows.store(catalog)
        store_constants(catalog, constants)
    return first


def _add(
    rows: Rows,
    constants: list[Constant],
    catalog: Catalog,
    source: Source,
    name: str,
    origin: str,
    parent_model_id: int | None,
) -> int:
    """Check one model, add its rows, and return its model_id counted from 0."""
    model = source.model
    try:
        check_versions(model)
        sort_nodes(model.graph)
        check_structure(model)
        payloads = find_payloads(catalog, source, references=origin == "optimized")
        readable = with_effective_imports(with_small_data(catalog, model, payloads))
        check_operators(readable)
        inferred = infer_types(readable)
        for item in payloads:
            item.refer()
        elsewhere = ("external", "reference")
        size = source.size_bytes + sum(
            item.constant.size_bytes for item in payloads if item.storage in elsewhere
        )
        reader = _Reader(rows)
        checkpoint = rows.checkpoint()
        try:
            result = reader.model(model, inferred, name, source, origin, parent_model_id, size)
            if (wrong := rows.undecodable(checkpoint)) is not None:
                raise ModelError(f"the model holds text that is not UTF-8: {wrong!r}")
        except BaseException:
            rows.restore(checkpoint)
            raise
    except UnicodeDecodeError as error:
        raise ModelError(f"the model holds text that is not UTF-8: {error.object!r}") from error
    constants += [item.constant for item in payloads if item.new]
    return result


class _Reader:
    """Walks one model, taking apart the message it is given."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.model_id = rows.new_id("model")

    def model(
        self,
        model: onnx.ModelProto,
        inferred: onnx.ModelProto | None,
        name: str,
        source: Source,
        origin: str,
        parent_model_id: int | None,
        size: int,
    ) -> int:
        columns = {
            field: _optional(model, field)
            for field in (
                "ir_version",
                "producer_name",
                "producer_version",
                "domain",
                "model_version",
                "doc_string",
            )
        }
        for position, opset in enumerate(model.opset_import):
            domain, version = _optional(opset, "domain"), _optional(opset, "version")
            rest = _rest(opset, ("domain", "version"))
            self.rows.add("model_opset", self.model_id, position, domain, version, rest)
        for position, item in enumerate(model.metadata_props):
            key, value = _optional(item, "key"), _optional(item, "value")
            rest = _rest(item, ("key", "value"))
            self.rows.add("model_metadata", self.model_id, position, key, value, rest)
        self.graph(model.graph, inferred.graph if inferred else None, "main", 0, {}, None)
        for position, function in enumerate(model.functions):
            self.function(function, position)
        rest = _rest(model, (*columns, "graph", "opset_import", "metadata_props", "functions"))
        self.rows.add(
            "model",
            self.model_id,
            name,
            None if source.path is None else str(source.path),
            origin,
            parent_model_id,
            *columns.values(),
            rest,
            size,
            datetime.now(UTC).replace(tzinfo=None),
        )
        return self.model_id

    def graph(
        self,
        graph: onnx.GraphProto,
        inferred: onnx.GraphProto | None,
        kind: str,
        position: int,
        outer: Mapping[str, int],
        holder: tuple[int, int] | None,
    ) -> int:
        graph_id = self.rows.new_id("graph")
        types = _types(graph, inferred)
        inner_scope: _Scope = {}
        for name in initializer_names(graph):
            self.value(graph_id, name, types, inner_scope)
        for value in graph.input:
            self.value(graph_id, value.name, types, inner_scope)
        for tensor_position, tensor in enumerate(graph.initializer):
            value_id = inner_scope[tensor.name]
            constant_hash = _reference(tensor)
            tensor.ClearField("name")
            rest = tensor.SerializeToString()
            self.rows.add(
                "initializer", graph_id, "dense", tensor_position, value_id, constant_hash, rest
            )
        for sparse_position, sparse in enumerate(graph.sparse_initializer):
            value_id = inner_scope[sparse.values.name]
            constant_hash = _reference(sparse.values)
            rest = sparse.SerializeToString()
            self.rows.add(
                "initializer", graph_id, "sparse", sparse_position, value_id, constant_hash, rest
            )
        scope = {**outer, **inner_scope}
        inferred_nodes = inferred.node if inferred is not None else ()
        if len(inferred_nodes) != len(graph.node):
            inferred_nodes = ()
        self.nodes(graph_id, graph.node, inferred_nodes, types, inner_scope, scope)
        for role, values in (
            ("input", graph.input),
            ("output", graph.output),
            ("value_info", graph.value_info),
        ):
            self.declarations(graph_id, role, values, types, inner_scope, scope)
        columns = (_optional(graph, "name"), None, None, _optional(graph, "doc_string"))
        rest = _rest(
            graph,
            (
                "node",
                "name",
                "initializer",
                "sparse_initializer",
                "doc_string",
                "input",
                "output",
                "value_info",
            ),
        )
        node_id, attribute = holder or (None, None)
        self.rows.add(
            "graph", graph_id, self.model_id, kind, position, node_id, attribute, *columns, rest
        )
        return graph_id

    def function(self, function: onnx.FunctionProto, position: int) -> None:
        graph_id = self.rows.new_id("graph")
        types = {value.name: (value.type, "declared") for value in function.value_info}
        inner_scope: _Scope = {}
        for name in function.input:
            self.value(graph_id, name, types, inner_scope)
        scope = dict(inner_scope)
        self.nodes(graph_id, function.node, (), types, inner_scope, scope)
        for role, names in (("input", function.input), ("output", function.output)):
            for i, name in enumerate(names):
                self.rows.add("graph_value", graph_id, role, i, inner_scope[name], None)
        self.declarations(graph_id, "value_info", function.value_info, types, inner_scope, scope)
        fields = ("name", "domain", "overload", "doc_string")
        columns = [_optional(function, field) for field in fields]
        rest = _rest(function, (*fields, "input", "output", "node", "value_info"))
        self.rows.add(
            "graph", graph_id, self.model_id, "function", position, None, None, *columns, rest
        )

    def declarations(
        self,
        graph_id: int,
        role: str,
        values: Iterable[onnx.ValueInfoProto],
        types: _Types,
        declared_scope: _Scope,
        scope: Mapping[str, int],
    ) -> None:
        for position, value in enumerate(values):
            value_id = declared_scope.get(value.name)
            if value_id is None and role == "output":
                value_id = scope.get(value.name)  # a branch may give out a value from around it
            if value_id is None:
                value_id = self.value(graph_id, value.name, types, declared_scope)
            rest = _rest(value, ("name",)) or b""
            self.rows.add("graph_value", graph_id, role, position, value_id, rest)

    def value(self, graph_id: int, name: str, types: _Types, scope: _Scope) -> int:
        if name in scope:
            return scope[name]
        value_id = scope[name] = self.rows.new_id("value")
        if name not in types:
            self.rows.add("value", value_id, graph_id, name, None, None, None, None)
            return value_id
        kind, origin = types[name]
        dtype, dimensions = describe_type(kind)
        rank = None if dimensions is None else len(dimensions)
        blob = kind.SerializeToString()
        self.rows.add("value", value_id, graph_id, name, dtype, rank, origin, blob)
        for axis, (size, symbol) in enumerate(dimensions or ()):
            self.rows.add("dimension", value_id, axis, size, symbol)
        return value_id

    def nodes(
        self,
        graph_id: int,
        nodes: Sequence[onnx.NodeProto],
        inferred: Sequence[onnx.NodeProto],
        types: _Types,
        declared_scope: _Scope,
        scope: _Scope,
    ) -> None:
        """Add the nodes of a graph; `scope` is `declared_scope` and what lies around it."""
        add = self.rows.add
        for position, node in enumerate(nodes):
            node_id = self.rows.new_id("node")
            for slot, name in enumerate(node.input):
                add("node_input", node_id, slot, name, scope[name] if name else None)
            for slot, attribute in enumerate(node.attribute):
                typed = inferred[position].attribute if inferred else ()
                self.attribute(
                    node_id, slot, attribute, typed[slot] if slot < len(typed) else None, scope
                )
            for slot, name in enumerate(node.output):
                value_id = self.value(graph_id, name, types, declared_scope) if name else None
                if value_id is not None:
                    scope[name] = value_id
                add("node_output", node_id, slot, name, value_id)
            columns = (
                node.op_type,
                node.domain if node.HasField("domain") else None,
                node.overload if node.HasField("overload") else None,
                node.name if node.HasField("name") else None,
                node.doc_string if node.HasField("doc_string") else None,
            )
            rest = _rest(node, _NODE_COLUMNS)
            add("node", node_id, graph_id, position, *columns, rest)

    def attribute(
        self,
        node_id: int,
        position: int,
        attribute: onnx.AttributeProto,
        inferred: onnx.AttributeProto | None,
        scope: Mapping[str, int],
    ) -> None:
        first: int | None = None
        if attribute.HasField("g") and len(attribute.graphs):
            raise ModelError(f"attribute {attribute.name!r} holds both a graph and a list of them")
        single = attribute.HasField("g")
        graphs = [attribute.g] if single else list(attribute.graphs)
        if inferred is not None:
            typed = [inferred.g] if single else list(inferred.graphs)
        for i, graph in enumerate(graphs):
            subgraph = self.graph(
                graph,
                typed[i] if inferred is not None and i < len(typed) else None,
                "subgraph",
                i,
                scope,
                (node_id, position),
            )
            first = subgraph if first is None else first
        constant_hash = _reference(attribute.t) if attribute.HasField("t") else None
        columns = columns_of(attribute)
        self.rows.add(
            "attribute",
            node_id,
            position,
            columns.name,
            columns.type,
            columns.value,
            columns.int_value,
            columns.float_value,
            constant_hash,
            first,
            columns.rest,
        )


def _optional(message: Message, field: str) -> Any:
    """Return the value of a field, None where it is absent: '' and absent are told apart."""
    return getattr(message, field) if message.HasField(field) else None


def _rest(message: Message, columns: Iterable[str]) -> bytes | None:
    """Return what the columns leave of a message, serialized; None if that is nothing."""
    for field in columns:
        message.ClearField(field)
    return message.SerializeToString() if message.ByteSize() else None


def _reference(tensor: onnx.TensorProto) -> str | None:
    return entry(tensor, CONSTANT_KEY)


def _types(graph: onnx.GraphProto, inferred: onnx.GraphProto | None) -> _Types:
    """Return the best known type of each value of a graph and whether the model states it."""
    types: dict[str, tuple[onnx.TypeProto, str]] = {}
    for tensor in graph.initializer:
        types[tensor.name] = (tensor_type(tensor.data_type, tensor.dims), "declared")
    for values in (graph.value_info, graph.output, graph.input):
        for value in values:
            if value.HasField("type"):
                types[value.name] = (value.type, "declared")
    if inferred is not None:
        for values in (inferred.value_info, inferred.output):
            for value in values:
                if value.HasField("type") and (
                    value.name not in types or types[value.name][0] != value.type
                ):
                    types[value.name] = (value.type, "inferred")
    return types

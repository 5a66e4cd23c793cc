"""Rows into model messages, with a reference in place of every tensor's data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import onnx

from ..errors import CatalogError
from ..store.catalog import Catalog
from ..store.constants import sound_rows
from .attributes import AttributeColumns, from_columns


def reference_models(catalog: Catalog, model_ids: Sequence[int]) -> list[onnx.ModelProto]:
    """Return models with a reference in place of every tensor's data.

    Raises CatalogError for a model that is not there, and for rows that make none.
    """
    tables = _Tables(catalog, list(model_ids))
    models = []
    for model_id in model_ids:
        if model_id not in tables.models:
            raise CatalogError(f"the catalog {catalog.path} has no model {model_id}")
        with sound_rows(catalog, f"model {model_id}"):
            models.append(tables.model(model_id))
    return models


Row = tuple[Any, ...]


class _Tables:
    """The rows of some models, by what they belong to."""

    def __init__(self, catalog: Catalog, model_ids: list[int]) -> None:
        self._connection = catalog.connection
        self._ids = model_ids
        graphs = "(SELECT graph_id FROM graph WHERE model_id IN (SELECT unnest(?)))"
        nodes = f"(SELECT node_id FROM node WHERE graph_id IN {graphs})"
        self.models = {
            row[0]: row[1:]
            for row in self._rows(
                "SELECT model_id, ir_version, producer_name, producer_version, domain, "
                "model_version, doc_string, rest FROM model WHERE model_id IN (SELECT unnest(?))"
            )
        }
        self.opsets = self._grouped(
            "SELECT model_id, domain, version, rest FROM model_opset "
            "WHERE model_id IN (SELECT unnest(?)) ORDER BY model_id, position"
        )
        self.metadata = self._grouped(
            "SELECT model_id, key, value, rest FROM model_metadata "
            "WHERE model_id IN (SELECT unnest(?)) ORDER BY model_id, position"
        )
        self.graphs = self._grouped(
            "SELECT model_id, graph_id, kind, name, domain, overload, doc_string, rest FROM graph "
            "WHERE kind <> 'subgraph' AND model_id IN (SELECT unnest(?)) "
            "ORDER BY model_id, kind = 'function', position"
        )
        self.subgraphs = self._grouped(
            "SELECT parent_node_id, attribute_position, graph_id, name, doc_string, rest "
            "FROM graph WHERE kind = 'subgraph' AND model_id IN (SELECT unnest(?)) "
            "ORDER BY parent_node_id, attribute_position, position"
        )
        self.values = self._grouped(
            "SELECT graph_id, role, name, rest FROM "
            "(SELECT graph_value.*, name FROM graph_value JOIN value USING (value_id)) "
            f"WHERE graph_id IN {graphs} ORDER BY graph_id, position"
        )
        self.initializers = self._grouped(
            "SELECT graph_id, kind, name, rest FROM "
            "(SELECT initializer.*, name FROM initializer JOIN value USING (value_id)) "
            f"WHERE graph_id IN {graphs} ORDER BY graph_id, position"
        )
        self.nodes = self._grouped(
            "SELECT graph_id, node_id, op_type, domain, overload, name, doc_string, rest "
            f"FROM node WHERE graph_id IN {graphs} ORDER BY graph_id, position"
        )
        self.inputs = self._grouped(
            f"SELECT node_id, name FROM node_input WHERE node_id IN {nodes} "
            "ORDER BY node_id, position"
        )
        self.outputs = self._grouped(
            f"SELECT node_id, name FROM node_output WHERE node_id IN {nodes} "
            "ORDER BY node_id, position"
        )
        self.attributes = self._grouped(
            "SELECT node_id, name, type, value, int_value, float_value, rest FROM attribute "
            f"WHERE node_id IN {nodes} ORDER BY node_id, position"
        )

    def _rows(self, query: str) -> list[Row]:
        return self._connection.execute(query, [self._ids]).fetchall()

    def _grouped(self, query: str) -> dict[int, list[Row]]:
        groups: dict[int, list[Row]] = defaultdict(list)
        for row in self._rows(query):
            groups[row[0]].append(row[1:])
        return groups

    def model(self, model_id: int) -> onnx.ModelProto:
        *columns, rest = self.models[model_id]
        model = onnx.ModelProto()
        model.MergeFromString(rest or b"")
        fields = ("ir_version", "producer_name", "producer_version", "domain", "model_version")
        _set(model, (*fields, "doc_string"), columns)
        for domain, version, rest in self.opsets.get(model_id, ()):
            opset = model.opset_import.add()
            opset.MergeFromString(rest or b"")
            _set(opset, ("domain", "version"), (domain, version))
        for key, value, rest in self.metadata.get(model_id, ()):
            item = model.metadata_props.add()
            item.MergeFromString(rest or b"")
            _set(item, ("key", "value"), (key, value))
        for graph_id, kind, *columns, rest in self.graphs.get(model_id, ()):
            if kind == "main":  # columns: name, domain, overload, doc_string
                model.graph.SetInParent()
                self.graph(model.graph, graph_id, columns[0], columns[3], rest)
            else:
                self.function(model.functions.add(), graph_id, columns, rest)
        return model

    def graph(
        self,
        graph: onnx.GraphProto,
        graph_id: int,
        name: str | None,
        doc_string: str | None,
        rest: bytes | None,
    ) -> None:
        graph.MergeFromString(rest or b"")
        _set(graph, ("name", "doc_string"), (name, doc_string))
        for role, value_name, value_rest in self.values.get(graph_id, ()):
            value = getattr(graph, role).add()
            value.MergeFromString(value_rest or b"")
            value.name = value_name
        for kind, value_name, tensor_rest in self.initializers.get(graph_id, ()):
            if kind == "dense":
                tensor = graph.initializer.add()
                tensor.MergeFromString(tensor_rest)
                tensor.name = value_name
            else:
                graph.sparse_initializer.add().MergeFromString(tensor_rest)
        self._add_nodes(graph.node, graph_id)

    def function(
        self, function: onnx.FunctionProto, graph_id: int, columns: list[Any], rest: bytes | None
    ) -> None:
        function.MergeFromString(rest or b"")
        _set(function, ("name", "domain", "overload", "doc_string"), columns)
        for role, name, value_rest in self.values.get(graph_id, ()):
            if role == "value_info":
                value = function.value_info.add()
                value.MergeFromString(value_rest or b"")
                value.name = name
            else:
                getattr(function, role).append(name)
        self._add_nodes(function.node, graph_id)

    def _add_nodes(self, nodes: Any, graph_id: int) -> None:
        for node_id, op_type, domain, overload, name, doc_string, rest in self.nodes.get(
            graph_id, ()
        ):
            node = nodes.add()
            if rest is not None:
                node.MergeFromString(rest)
            node.op_type = op_type
            _set(
                node,
                ("domain", "overload", "name", "doc_string"),
                (domain, overload, name, doc_string),
            )
            node.input.extend([row[0] for row in self.inputs.get(node_id, ())])
            node.output.extend([row[0] for row in self.outputs.get(node_id, ())])
            for row in self.attributes.get(node_id, ()):
                node.attribute.append(from_columns(AttributeColumns(*row)))
            for position, inner_id, *columns in self.subgraphs.get(node_id, ()):
                attribute = node.attribute[position]
                single = self.attributes[node_id][position][1] == "GRAPH"
                graph = attribute.g if single else attribute.graphs.add()
                graph.SetInParent()
                self.graph(graph, inner_id, *columns)


def _set(message: Any, fields: Sequence[str], values: Sequence[object]) -> None:
    for field, value in zip(fields, values, strict=True):
        if value is not None:
            setattr(message, field, value)

"""Rows of models, gathered in memory and stored with one insert a table."""

from __future__ import annotations

from .catalog import Catalog

# Columns in the order in which `Rows.add` takes them.
_COLUMNS = {
    "model": (
        "model_id name source_path origin parent_model_id ir_version producer_name "
        "producer_version domain model_version doc_string rest size_bytes created_at"
    ),
    "model_opset": "model_id position domain version rest",
    "model_metadata": "model_id position key value rest",
    "graph": (
        "graph_id model_id kind position parent_node_id attribute_position "
        "name domain overload doc_string rest"
    ),
    "value": "value_id graph_id name dtype rank type_source type",
    "dimension": "value_id axis size symbol",
    "graph_value": "graph_id role position value_id rest",
    "initializer": "graph_id kind position value_id constant_hash rest",
    "node": "node_id graph_id position op_type domain overload name doc_string rest",
    "node_input": "node_id position name value_id",
    "node_output": "node_id position name value_id",
    "attribute": (
        "node_id position name type value int_value float_value constant_hash subgraph_id rest"
    ),
}
_BLOBS = ("rest", "type")
_KEYS = {
    "model_id": "model",
    "graph_id": "graph",
    "value_id": "value",
    "node_id": "node",
    "parent_node_id": "node",
    "subgraph_id": "graph",
}


class Rows:
    """Rows whose keys count from 0; storing moves them to the next free keys of the catalog."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in _COLUMNS}
        self._next = {"model": 0, "graph": 0, "value": 0, "node": 0}

    def new_id(self, kind: str) -> int:
        """Return a new key of model, graph, value or node."""
        key = self._next[kind]
        self._next[kind] = key + 1
        return key

    def add(self, table: str, *row: object) -> None:
        """Append one row, with its values in the order of the columns."""
        self._rows[table].append(row)

    def checkpoint(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return a state to which `restore` goes back."""
        return {table: len(rows) for table, rows in self._rows.items()}, dict(self._next)

    def restore(self, checkpoint: tuple[dict[str, int], dict[str, int]]) -> None:
        """Drop what was added since the checkpoint."""
        lengths, self._next = checkpoint[0], dict(checkpoint[1])
        for table, length in lengths.items():
            del self._rows[table][length:]

    def undecodable(self, checkpoint: tuple[dict[str, int], dict[str, int]]) -> bytes | None:
        """Return a name that is no text, of the rows added since the checkpoint; None if all are.

        protobuf gives strings that are not UTF-8 as bytes.
        """
        for table, length in checkpoint[0].items():
            columns = _COLUMNS[table].split()
            added = self._rows[table][length:]
            for name, values in zip(columns, zip(*added, strict=True), strict=False):
                if name in _BLOBS:
                    continue
                for value in values:
                    if type(value) is bytes:
                        return value
        return None

    def store(self, catalog: Catalog) -> int:
        """Insert all rows and return the key that model 0 got; the caller holds the transaction."""
        first = {
            kind: catalog.reserve(f"{kind}_sequence", count) for kind, count in self._next.items()
        }
        for table, rows in self._rows.items():
            if not rows:
                continue
            columns: dict[str, list[object]] = {}
            for name, values in zip(_COLUMNS[table].split(), zip(*rows, strict=True), strict=True):
                if name in _KEYS:
                    start = first[_KEYS[name]]
                    columns[name] = [None if key is None else start + key for key in values]
                else:
                    columns[name] = list(values)
            catalog.insert(table, columns)
        return first["model"]

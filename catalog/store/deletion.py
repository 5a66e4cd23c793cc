"""Models taken out of the catalog, with all that only they needed."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import CatalogError
from ..tensors import CONSTANT_KEY
from .catalog import Catalog

# Rows are found through one another: those that lead to others are deleted after them.
_NODES = "SELECT node_id FROM node JOIN graph USING (graph_id) WHERE model_id = $1"
_VALUES = "SELECT value_id FROM value JOIN graph USING (graph_id) WHERE model_id = $1"
_GRAPHS = "SELECT graph_id FROM graph WHERE model_id = $1"
_PLANS = "SELECT plan_id FROM plan WHERE model_id = $1"
_STEPS = (
    *((table, "node_id", _NODES) for table in ("node_input", "node_output", "attribute")),
    ("dimension", "value_id", _VALUES),
    *((table, "graph_id", _GRAPHS) for table in ("graph_value", "initializer", "value", "node")),
    *((f"plan_{part}", "plan_id", _PLANS) for part in ("step", "candidate", "deviation", "rule")),
    *((f"plan_{part}", "plan_id", _PLANS) for part in ("region", "region_bound")),
    *((table, "model_id", "$1") for table in ("graph", "plan", "model_opset", "model_metadata")),
    ("model", "model_id", "$1"),
)
# Serialized remainders that may refer to constants; of dense initializers the column says it all.
_REMAINDERS = """
    SELECT rest FROM model WHERE rest IS NOT NULL
    UNION ALL SELECT rest FROM graph WHERE rest IS NOT NULL
    UNION ALL SELECT rest FROM attribute WHERE rest IS NOT NULL
    UNION ALL SELECT rest FROM initializer WHERE rest IS NOT NULL AND kind = 'sparse'"""
_REFERENCE = re.compile(CONSTANT_KEY.encode() + rb"\x12\x40([0-9a-f]{64})")  # a protobuf map entry
_ROWS = 1000


@dataclass(frozen=True)
class Forgotten:
    """What left the catalog: a model, its nodes and plans, and constants of `size_bytes`."""

    model_id: int
    name: str
    nodes: int
    plans: int
    constants: int
    size_bytes: int


def forget_model(catalog: Catalog, model_id: int) -> Forgotten:
    """Remove a model, its plans, and the constants that no model refers to any longer.

    Models made from it stay, without a parent; so do measurements and rules. The file of large
    constants beside the catalog goes when nothing in it is in use. Raises CatalogError for an
    unknown model and for a catalog that is read-only.
    """
    catalog.check_writable()
    connection = catalog.connection
    with catalog.transaction():
        rows = connection.execute("SELECT name FROM model WHERE model_id = $1", [model_id])
        names = rows.fetchall()
        if not names:
            raise CatalogError(
                f"the catalog {catalog.path} has no model {model_id}: "
                'tensolog sql "SELECT model_id, name FROM model" lists them'
            )
        ((nodes, plans),) = connection.execute(
            f"SELECT (SELECT count(*) FROM ({_NODES})), (SELECT count(*) FROM ({_PLANS}))",
            [model_id],
        ).fetchall()
        for table, column, keys in _STEPS:
            connection.execute(f"DELETE FROM {table} WHERE {column} IN ({keys})", [model_id])
        for table, column in (("model", "parent_model_id"), ("plan", "result_model_id")):
            connection.execute(
                f"UPDATE {table} SET {column} = NULL WHERE {column} = $1", [model_id]
            )
        removed = _remove_constants(catalog)
    catalog.spool.offsets = None
    if not catalog.in_transaction:
        _remove_spool(catalog)
    return Forgotten(model_id, names[0][0], nodes, plans, len(removed), sum(removed.values()))


def _remove_constants(catalog: Catalog) -> dict[str, int]:
    """Delete the constants that nothing refers to; return their sizes by hash."""
    connection = catalog.connection
    columns = "SELECT constant_hash FROM initializer UNION SELECT constant_hash FROM attribute"
    used = {row[0] for row in connection.execute(columns).fetchall()}
    remainders = connection.execute(_REMAINDERS)
    while rows := remainders.fetchmany(_ROWS):
        for (rest,) in rows:
            used.update(reference.decode() for reference in _REFERENCE.findall(rest))
    removed = {
        constant_hash: size
        for constant_hash, size in connection.execute(
            "SELECT constant_hash, size_bytes FROM constant"
        ).fetchall()
        if constant_hash not in used
    }
    connection.execute(
        "DELETE FROM constant WHERE constant_hash IN (SELECT unnest($1::VARCHAR[]))",
        [list(removed)],
    )
    for constant_hash in removed:
        catalog.verified.pop(constant_hash, None)
    return removed


def _remove_spool(catalog: Catalog) -> None:
    location = catalog.spool.location
    if location is None:
        return
    ((count,),) = catalog.connection.execute(
        "SELECT count(*) FROM constant WHERE location = $1", [location]
    ).fetchall()
    if not count:
        with suppress(OSError):
            Path(location).unlink()

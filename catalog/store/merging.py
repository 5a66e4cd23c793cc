"""What one catalog has found becomes rows of another: keys are given anew, known rows stay.

Machines, kernels, rules and constants are the same in both by their fingerprint or hash. Models and
plans with their parts, and measurements, are new: their keys move behind those of the catalog. Of
the proofs of a rule, and of what a search for rules saw, the newest stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from ..errors import CatalogError
from .catalog import Catalog
from .constants import Constant, read_chunks, spool_constant, store_constants
from .schema_check import schema_tables

# Tables whose rows join, by the column that says which: those with a key below 1 were known before.
NEW_BY_KEY = {
    "model": "model_id",
    "model_opset": "model_id",
    "model_metadata": "model_id",
    "graph": "graph_id",
    "value": "value_id",
    "dimension": "value_id",
    "graph_value": "graph_id",
    "initializer": "graph_id",
    "node": "node_id",
    "node_input": "node_id",
    "node_output": "node_id",
    "attribute": "node_id",
    "measurement": "measurement_id",
    "kernel_configuration": "kernel_configuration_id",
    "plan": "plan_id",
    "plan_step": "plan_id",
    "plan_candidate": "plan_id",
    "plan_deviation": "plan_id",
    "plan_rule": "plan_id",
    "plan_region": "plan_id",
    "plan_region_bound": "plan_id",
}
# Rows that are the same in every catalog, by the table and column that name them.
BY_HASH = {
    "kernel": ("kernel", "kernel_hash"),
    "rule_node": ("rule", "rule_hash"),
    "rule_edge": ("rule", "rule_hash"),
    "rule_condition": ("rule", "rule_hash"),
    "rule_source": ("rule", "rule_hash"),
    "rule": ("rule", "rule_hash"),  # last: it says which ones are known
    "script": ("script", "script_hash"),
    "link": ("cluster", "cluster_hash"),
    "placement_operator": ("placement", "placement_hash"),
    "placement_device": ("placement", "placement_hash"),
    "cut": ("placement", "placement_hash"),
    "placement": ("placement", "placement_hash"),
    "deployment_setting": ("deployment", "deployment_hash"),
    "deployment_reason": ("deployment", "deployment_hash"),
    "deployment": ("deployment", "deployment_hash"),
    "cluster": ("cluster", "cluster_hash"),
    "cost_graph_node": ("cost_graph", "graph_hash"),
    "cost_graph_edge": ("cost_graph", "graph_hash"),
    "cost_graph_configuration": ("cost_graph", "graph_hash"),
    "cost_graph": ("cost_graph", "graph_hash"),
}
# What was found of a rule, the proof first; and the questions to solvers, which proofs share.
PROOFS = (
    "proof",
    "proof_specification",
    "proof_case",
    "obligation",
    "floating_behaviour",
    "floating_special",
    "floating_proof",
)
# What searches for rules saw, the run first: the newest of the same run stands.
GENERATIONS = ("generation_run", "generation_level", "generation_class", "generation_candidate")
_OLDER = """
    SELECT rule_hash FROM tensolog_rows AS found WHERE NOT EXISTS (
        FROM proof AS known
        WHERE known.rule_hash = found.rule_hash AND known.proved_at >= found.proved_at)"""
_STATUS = """
    UPDATE rule SET proof = found.proof FROM tensolog_rows AS found
    WHERE rule.rule_hash = found.rule_hash AND rule.proof IS DISTINCT FROM found.proof"""
# What keys count, and the columns that hold them.
_COUNTED = ("model", "graph", "value", "node", "measurement", "kernel_configuration", "plan")
_KEYS = {
    **{f"{kind}_id": kind for kind in _COUNTED},
    "parent_model_id": "model",
    "result_model_id": "model",
    "parent_node_id": "node",
    "subgraph_id": "graph",
}
_MOST_KEYS = 20_000_000
_CONSTANTS = 1000  # of at most 64 KiB each


@dataclass(frozen=True)
class Keys:
    """Where keys have gone: what was added to those of each kind, and the devices by number."""

    added: dict[str, int]
    devices: dict[int, int]

    def moved(self, kind: str, key: int) -> int:
        """Return the key that a row of a kind, as `model`, has now."""
        return key + self.added[kind]


def merge(source: Catalog, target: Catalog) -> Keys:
    """Add what `source` has found to `target`; the caller holds a transaction of `target`.

    Rows of `source` with keys below 1 came from `target`, and are left there. Raises CatalogError.
    """
    with source.transaction():  # one state of it
        keys = Keys(
            {kind: _reserve(source, target, kind) for kind in _COUNTED}, _devices(source, target)
        )
        for table, column in NEW_BY_KEY.items():
            _append(source, target, table, f"{column} > 0", keys)
        _append_processors(source, target, keys)
        for table, (named_by, column) in BY_HASH.items():
            present_keys = target.sql(f"SELECT {column} FROM {named_by}").to_arrow_table()
            with registered(source, present_keys):
                new = f"{column} NOT IN (SELECT {column} FROM tensolog_rows)"
                rows = source.sql(f"FROM {table} WHERE {new}").to_arrow_table()
            insert_rows(target, table, rows)
        _replace_proofs(source, target)
        _replace_generations(source, target)
        for constants in _constants(source):
            store_constants(target, [_brought(source, target, constant) for constant in constants])
    return keys


def _reserve(source: Catalog, target: Catalog, kind: str) -> int:
    """Take keys for the rows of a kind; return what is to be added to theirs."""
    ((largest,),) = source.connection.execute(f"SELECT max({kind}_id) FROM {kind}").fetchall()
    if largest is None or largest < 1:
        return 0
    if largest > _MOST_KEYS:
        raise CatalogError(f"{source.path} is damaged: no run stores {largest} rows of {kind}")
    return target.reserve(f"{kind}_sequence", largest) - 1


def _devices(source: Catalog, target: Catalog) -> dict[int, int]:
    """Number the machines of `source` as `target` does; those that it lacks are added."""
    columns = [
        column.name for column in schema_tables()["device"].columns if column.default is None
    ]
    names = ", ".join(columns)
    rows = source.sql(f"SELECT {names} FROM device").to_arrow_table()
    insert_rows(target, "device", rows, " ON CONFLICT DO NOTHING")
    number = "SELECT fingerprint, device_id FROM device"
    numbers = dict(target.connection.execute(number).fetchall())
    return {
        device_id: numbers[fingerprint]
        for fingerprint, device_id in source.connection.execute(number).fetchall()
    }


def _append(source: Catalog, target: Catalog, table: str, new: str, keys: Keys) -> None:
    columns = []
    for column in schema_tables()[table].columns:
        name = column.name
        if name == "device_id":
            cases = " ".join(f"WHEN {old} THEN {now}" for old, now in keys.devices.items())
            columns.append(f"CASE device_id {cases} END AS device_id" if cases else name)
        elif name in _KEYS:
            columns.append(f"{name} + {keys.added[_KEYS[name]]} AS {name}")
        else:
            columns.append(f'"{name}"')
    query = f"SELECT {', '.join(columns)} FROM {table} WHERE {new}"
    insert_rows(target, table, source.sql(query).to_arrow_table())


def _append_processors(source: Catalog, target: Catalog, keys: Keys) -> None:
    """Add the processors that the catalog lacks: a row a machine and level of instructions."""
    known = set(target.connection.execute("SELECT device_id, level FROM processor").fetchall())
    for device_id, level, *rest in source.connection.execute("FROM processor").fetchall():
        row = (keys.devices.get(device_id, device_id), level, *rest)
        if row[:2] not in known:
            target.connection.execute("INSERT INTO processor VALUES (?, ?, ?, ?, ?, ?)", row)


def _replace_proofs(source: Catalog, target: Catalog) -> None:
    """Put what was found of rules in the place of what was known of them before."""
    new_proofs = source.sql("SELECT rule_hash, proved_at FROM proof").to_arrow_table()
    with registered(target, new_proofs):
        hashes = [row[0] for row in target.connection.execute(_OLDER).fetchall()]
    here = "WHERE rule_hash IN (SELECT unnest(?::VARCHAR[]))"
    for table in PROOFS if hashes else ():
        target.connection.execute(f"DELETE FROM {table} {here}", [hashes])
        insert_rows(target, table, source.sql(f"FROM {table} {here}", [hashes]).to_arrow_table())
    unproved = "rule_hash NOT IN (SELECT rule_hash FROM proof)"
    query = f"SELECT rule_hash, proof FROM rule {here} OR {unproved}"
    with registered(target, source.sql(query, [hashes]).to_arrow_table()):
        target.connection.execute(_STATUS)


def _replace_generations(source: Catalog, target: Catalog) -> None:
    """Put what a search for rules saw in the place of what the same search saw before."""
    rows = source.connection.execute("SELECT run_hash FROM generation_run").fetchall()
    hashes = [row[0] for row in rows]
    here = "WHERE run_hash IN (SELECT unnest(?::VARCHAR[]))"
    for table in GENERATIONS if hashes else ():
        target.connection.execute(f"DELETE FROM {table} {here}", [hashes])
        insert_rows(target, table, source.sql(f"FROM {table}").to_arrow_table())


@contextmanager
def registered(catalog: Catalog, rows: pa.Table) -> Iterator[None]:
    """Let the statements of the block read rows as the table `tensolog_rows`."""
    catalog.connection.register("tensolog_rows", rows)
    try:
        yield
    finally:
        catalog.connection.unregister("tensolog_rows")


def insert_rows(target: Catalog, table: str, rows: pa.Table, otherwise: str = "") -> None:
    """Append rows to a table, by the names of their columns; `otherwise` is what SQL adds."""
    if not rows.num_rows:
        return
    names = ", ".join(f'"{name}"' for name in rows.column_names)
    with registered(target, rows):
        target.connection.execute(
            f"INSERT INTO {table} ({names}) SELECT {names} FROM tensolog_rows{otherwise}"
        )


def _constants(source: Catalog) -> Iterator[list[Constant]]:
    rows = source.connection.execute(
        "SELECT constant_hash, dtype, shape, size_bytes, data, location, location_offset "
        "FROM constant"
    )
    while part := rows.fetchmany(_CONSTANTS):
        yield [Constant(row[0], row[1], tuple(row[2]), *row[3:]) for row in part]


def _brought(source: Catalog, target: Catalog, constant: Constant) -> Constant:
    """Return a constant whose bytes stay when the file of large ones beside `source` goes."""
    if constant.location is None or constant.location != source.spool.location:
        return constant
    with Path(constant.location).open("rb", buffering=0) as file:
        chunks = read_chunks(file, constant.location_offset or 0, constant.size_bytes)
        offset = spool_constant(target, constant.constant_hash, chunks)
    return replace(constant, location=target.spool.location, location_offset=offset)

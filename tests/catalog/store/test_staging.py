"""Many runs on one catalog: all that they find is in it, once, and nobody waits for another."""

import datetime
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
from tensolog.catalog import Catalog, CatalogError
from tensolog.catalog.errors import CatalogWarning
from tensolog.catalog.onnx.writer import build_model
from tensolog.catalog.store import database_file, merging, schema_check, staging
from tensolog.catalog.store.staging import Stage, has_staged, stage

from .processes import Holder, model_of, run

# Columns that name rows of other tables, and where those are.
REFERENCES = {
    **{f"{kind}_id": (kind, f"{kind}_id") for kind in ("model", "graph", "value", "node", "plan")},
    "device_id": ("device", "device_id"),
    "parent_model_id": ("model", "model_id"),
    "result_model_id": ("model", "model_id"),
    "parent_node_id": ("node", "node_id"),
    "subgraph_id": ("graph", "graph_id"),
    "kernel_hash": ("kernel", "kernel_hash"),
    "constant_hash": ("constant", "constant_hash"),
}


def count(catalog, table):
    return catalog.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0]


def check(path, numbers, measurements):
    """All runs are there, once, and every key leads to a row."""
    with Catalog(path, read_only=True) as catalog:
        for table, described in schema_check.schema_tables().items():
            for column in described.columns:
                if column.name not in REFERENCES:
                    continue
                other, key = REFERENCES[column.name]
                lost = catalog.sql(
                    f'SELECT count(*) FROM {table} WHERE "{column.name}" IS NOT NULL '
                    f'AND "{column.name}" NOT IN (SELECT {key} FROM {other})'
                ).fetchall()
                assert lost == [(0,)], f"{table}.{column.name}"
        plans = catalog.sql(
            "SELECT chosen, m.name, m.model_id, made.parent_model_id, made.model_id, fingerprint "
            "FROM plan JOIN model m USING (model_id) JOIN device USING (device_id) "
            "JOIN model made ON result_model_id = made.model_id"
        ).fetchall()
        assert sorted(row[0] for row in plans) == sorted(f"chosen {number}" for number in numbers)
        for chosen, name, model_id, parent, derived_id, machine in plans:
            number = int(chosen.split()[1])
            assert (name, parent, machine) == (f"model {number}", model_id, "here")
            assert build_model(catalog, model_id) == model_of(number)
            assert build_model(catalog, derived_id) == model_of(100 + number)
        for table in ("plan_step", "plan_candidate", "plan_deviation"):
            assert count(catalog, table) == len(numbers)
        assert count(catalog, "measurement") == measurements
        assert (count(catalog, "rule"), count(catalog, "rule_source")) == (1, 1)
        assert count(catalog, "model") == 2 * len(numbers)
    assert not has_staged(path)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(database_file, "LOCK_PATIENCE_S", 0.2)
    monkeypatch.setattr(staging, "RUN_PATIENCE_S", 0.2)


def test_every_table_is_merged_or_every_catalog_has_its_rows():
    merged = {
        *(*merging.NEW_BY_KEY, *merging.BY_HASH, *merging.PROOFS, *merging.GENERATIONS),
        *("device", "processor", "constant"),
    }
    assert set(schema_check.schema_tables()) - merged == {
        *("catalog_version", "catalog_property", "operator", "operator_attribute")
    }


def prove(catalog, rule, status, year):
    """Store what the gate does: a proof with its parts."""
    execute = catalog.connection.execute
    for table in (*merging.PROOFS, "rule"):
        execute(f"DELETE FROM {table} WHERE rule_hash = ?", [rule])
    values = {
        "rule_hash": rule,
        "status": status,
        "proof": status,
        "tag": "always",
        "equal": "exact",
        "recheck": "agree",
        "verdict": "equal",
        "script_hash": "script",
        "result": "unsat",
        "algebras": ["a"],
        "conditions": [],
        "proved_at": datetime.datetime(year, 1, 1),
    }
    allowed = {"proof_case": {"status": "open"}, "floating_special": {"verdict": "kept"}}
    allowed["floating_proof"] = {"result": "proved"}
    numbers = ("INTEGER", "BIGINT", "DOUBLE")
    for table in ("rule", *merging.PROOFS):
        columns = schema_check.schema_tables()[table].columns
        row = {
            column.name: 1 if column.type in numbers else column.type == "BOOLEAN" or "text"
            for column in columns
            if not column.nullable
        }
        row |= {name: value for name, value in values.items() if name in {c.name for c in columns}}
        row |= allowed.get(table, {})
        if table == "floating_proof":
            row["solver"] = status
        catalog.insert(table, {name: [value] for name, value in row.items()})
    if not count(catalog, "script"):
        execute("INSERT INTO script VALUES ('script', 'text')")


def test_the_newest_proof_stands(path):
    with Catalog(path) as catalog:
        prove(catalog, "older here", "unknown", 2001)
        prove(catalog, "newer here", "unknown", 2001)
        prove(catalog, "only here", "bounded", 2001)
    with Stage(path) as staged:
        assert count(staged, "proof") == 3
        prove(staged, "older here", "proved", 2002)
        prove(staged, "newer here", "proved", 2002)
        prove(staged, "only there", "refuted", 2002)
        with Catalog(path) as catalog:
            prove(catalog, "newer here", "refused", 2003)
    expected = {
        "older here": "proved",
        "newer here": "refused",
        "only here": "bounded",
        "only there": "refuted",
    }
    with Catalog(path, read_only=True) as catalog:
        for query in (
            "SELECT rule_hash, status FROM proof",
            "SELECT rule_hash, proof FROM rule",
            "SELECT rule_hash, solver FROM floating_proof",
        ):
            assert sorted(catalog.sql(query).fetchall()) == sorted(expected.items())
        for table in merging.PROOFS:
            assert count(catalog, table) == 4, table
        assert count(catalog, "script") == 1


def test_runs_at_the_same_time_are_merged(path):
    with Catalog(path) as catalog:
        run(catalog, 1)
    with Stage(path) as first, Stage(path) as second:
        ids = [run(first, 2, ["shared", "first"]), run(second, 3), run(second, 4, ["second"])]
        assert count(first, "measurement") == 1 + 2
        keys = second.merge()
        merged = [
            (keys.moved("plan", plan), *(keys.moved("model", model) for model in models))
            for plan, *models in ids[1:]
        ]
    check(path, [1, 2, 3, 4], 5)
    with Catalog(path, read_only=True) as catalog:
        query = "SELECT plan_id, model_id, result_model_id FROM plan WHERE chosen = ?"
        rows = [catalog.sql(query, [f"chosen {number}"]).fetchall() for number in (3, 4)]
        assert rows == [[ids] for ids in merged]
        assert count(catalog, "device") == 1
        newest = "SELECT median_ns FROM measurement WHERE kernel_hash = 'shared' ORDER BY ALL"
        assert catalog.sql(newest).fetchall() == [(1.0,), (2.0,), (3.0,)]
    assert sorted(file.name for file in path.parent.iterdir()) == [
        path.name,
        f"{path.name}.constants",
    ]


def test_a_run_knows_what_was_measured_in_its_order(path):
    with Catalog(path) as catalog:
        run(catalog, 1)
        run(catalog, 2, machine="elsewhere")
        run(catalog, 3)
    query = (
        "SELECT fingerprint, median_ns FROM measurement JOIN device USING (device_id) "
        "ORDER BY measurement_id"
    )
    with Stage(path) as staged:
        assert staged.sql(query).fetchall() == [("here", 1.0), ("elsewhere", 2.0), ("here", 3.0)]
        run(staged, 4, machine="elsewhere")
        assert staged.sql(query).fetchall()[3:] == [("elsewhere", 4.0)]
    with Catalog(path, read_only=True) as catalog:
        assert [time for _, time in catalog.sql(query).fetchall()] == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("column", ["median_ns", "spread_ns", "minimum_ns"])
@pytest.mark.parametrize("value", ["'nan'", "'inf'", "-1", "NULL"])
def test_times_that_are_none_are_not_used(column, value, path):
    with Catalog(path) as catalog:
        run(catalog, 1)
        catalog.connection.execute(f"UPDATE measurement SET {column} = {value}")
    with Stage(path) as staged:
        assert count(staged, "measurement") == 0


def test_readers_and_writers_are_not_shut_out(path, impatient):
    with Stage(path) as staged:
        run(staged, 1)
        with Holder(path, "read"), Catalog(path, read_only=True) as catalog:
            assert count(catalog, "plan") == 0
        with Holder(path, "write"):
            pass
        with Catalog(path) as catalog:
            run(catalog, 2)
    check(path, [1, 2], 2)


def test_a_catalog_in_memory_is_its_own():
    with stage(":memory:") as catalog:
        assert type(catalog) is Catalog


def test_a_catalog_is_made(tmp_path):
    path = tmp_path / "folder" / "catalog.duckdb"
    with Stage(path) as staged:
        run(staged, 1)
    check(path, [1], 1)


def test_a_catalog_that_can_not_be_used_is_refused_before_work_is_done(path, impatient):
    path.write_bytes(b"something else")
    with pytest.raises(CatalogError, match="is not a DuckDB file"):
        Stage(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


# ------------------------------------------------------------------------- who can't merge now


def test_what_can_not_be_merged_waits(path, impatient):
    with Holder(path, "read") as process:
        warned = pytest.warns(CatalogWarning, match=f"joins the catalog .*PID {process.pid}")
        with warned, Stage(path) as staged:
            run(staged, 1)
            assert staged.merge() is None
            assert count(staged, "plan") == 1
        assert has_staged(path)
    Catalog(path).close()
    check(path, [1], 1)


def test_a_run_knows_nothing_of_a_catalog_that_a_writer_has_locked(path, impatient):
    with Catalog(path) as catalog:
        run(catalog, 1)
    with Holder(path, "write") as process:
        with pytest.warns(CatalogWarning, match=f"nothing .* is used: .*PID {process.pid}"):
            staged = Stage(path)
        assert count(staged, "measurement") == 0
        run(staged, 2)
    with staged:
        pass
    check(path, [1, 2], 2)


def test_a_folder_that_can_not_be_written(path, monkeypatch):
    with Catalog(path) as catalog:
        run(catalog, 1)
    before = path.read_bytes()
    monkeypatch.setattr(staging.os, "access", lambda name, mode: mode != os.W_OK)
    with pytest.warns(CatalogWarning, match="can't be written: what is measured now is not kept"):
        staged = Stage(path)
    with staged:
        assert count(staged, "measurement") == 1
        run(staged, 2)
        assert staged.merge() is None
    assert path.read_bytes() == before
    assert not has_staged(path)


def test_what_a_run_left_damaged_is_set_aside_once(path):
    left = path.with_name(f"{path.name}.staged-123-{'0' * 16}")
    left.write_bytes(b"something else" * 1000)
    with pytest.warns(CatalogWarning, match="can't be used, and was set aside as"):
        Catalog(path).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Catalog(path).close()
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == [path.name, left.name.replace("staged", "damaged")]


def test_keys_that_no_run_gives_are_not_merged(path):
    left = path.with_name(f"{path.name}.staged-123-{'0' * 16}")
    with staging.StageFile(left) as staged:
        run(staged, 1)
        staged.connection.execute("UPDATE measurement SET measurement_id = 9223372036854775807")
    with pytest.warns(CatalogWarning, match="can't be merged, remove or restore it"):
        Catalog(path).close()
    left.unlink()
    Path(f"{left}.constants").unlink()
    with Catalog(path) as catalog:
        assert count(catalog, "model") == 0


def test_what_a_newer_release_left_is_left_to_it(path):
    left = path.with_name(f"{path.name}.staged-123-{'0' * 16}")
    shutil.copy(path, left)
    with Catalog(left) as catalog:
        catalog.connection.execute("INSERT INTO catalog_version VALUES (99, '9', now()::TIMESTAMP)")
    before = left.read_bytes()
    Catalog(path).close()
    assert left.read_bytes() == before


def test_a_file_is_merged_once(path, tmp_path):
    """As after a crash between merging it and removing it."""
    with Stage(path) as staged:
        run(staged, 1)
        file = staged.path
        staged.connection.execute("CHECKPOINT")
        for ending in ("", ".constants"):
            shutil.copy(file + ending, tmp_path / f"copy{ending}")
    for ending in ("", ".constants"):
        shutil.move(tmp_path / f"copy{ending}", file + ending)
    Catalog(path).close()
    check(path, [1], 1)
    with Catalog(path) as catalog:
        noted = "SELECT name FROM catalog_property WHERE starts_with(name, 'staged')"
        assert catalog.sql(noted).fetchall() == []


# ------------------------------------------------------------------------ processes and threads

RUN = """
import sys
from tensolog.catalog.store import staging
from tensolog.catalog.store.staging import Stage
from tests.catalog.store.processes import run
staging.RUN_PATIENCE_S = 600  # the machine may be busy
with Stage(sys.argv[1]) as staged:
    run(staged, int(sys.argv[2]), ["shared", "of " + sys.argv[2]])
    print("stored", flush=True)
    sys.stdin.readline()
"""


def start(path, number):
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(path), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        text=True,
    )


def test_four_processes_one_of_them_killed_and_a_reader(tmp_path):
    path = tmp_path / "catalog.duckdb"  # made by whoever is first
    processes = [start(path, number) for number in (1, 2, 3, 4)]
    for process in processes:
        assert process.stdout.readline() == "stored\n", process.stderr.read()
    processes[0].send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    processes[0].wait()
    with Catalog(path, read_only=True) as catalog:
        assert count(catalog, "plan") == 0
    for process in processes[1:]:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate()
        assert errors == "", errors
    assert [process.returncode == 0 for process in processes] == [False, True, True, True]
    check(path, [1, 2, 3, 4], 8)


def test_threads_of_a_process(path):
    problems = []

    def work(number):
        try:
            with Stage(path) as staged:
                run(staged, number)
            with Catalog(path, read_only=True) as catalog:
                count(catalog, "plan")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    check(path, [1, 2, 3], 3)


def test_a_run_in_a_process_that_has_the_catalog_open(path):
    with Catalog(path) as catalog:
        with Stage(path) as staged:
            run(staged, 1)
        assert count(catalog, "plan") == 1
    check(path, [1], 1)


def test_a_run_in_a_process_that_reads_the_catalog_waits_for_its_end(path):
    warned = pytest.warns(CatalogWarning, match="already open in this process, read-only")
    with Catalog(path, read_only=True), warned, Stage(path) as staged:
        run(staged, 1)
    Catalog(path).close()
    check(path, [1], 1)

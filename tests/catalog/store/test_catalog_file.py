"""The catalog as a file: made, shared, migrated, refused and left alone."""

import time

import duckdb
import pyarrow as pa
import pytest
from tensolog.catalog import Catalog, CatalogError
from tensolog.catalog.store import catalog as store
from tensolog.catalog.store import database_file, migrations, schema_check
from tensolog.catalog.store.queries import describe, query

from .processes import Holder


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "catalog.duckdb"
    Catalog(path).close()
    return path


def test_every_table_and_column_has_a_comment(catalog):
    tables = describe(catalog)
    assert len(tables) > 25
    assert [table.name for table in tables if not table.comment] == []
    columns = [(table.name, name, text) for table in tables for name, _, text in table.columns]
    assert [(table, name) for table, name, text in columns if not text] == []


def test_what_is_stored_is_there_again(path):
    with Catalog(path) as catalog:
        catalog.insert("rule_source", {"rule_hash": ["a"], "position": [0], "source": ["here"]})
    with Catalog(path, read_only=True) as catalog:
        assert catalog.sql("FROM rule_source").fetchall() == [("a", 0, "here")]
        assert catalog.sql("SELECT ? + 1", [2]).fetchall() == [(3,)]


def test_the_default_lies_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSOLOG_CATALOG", str(tmp_path / "folder" / "mine.duckdb"))
    with Catalog() as catalog:
        assert catalog.path == str(tmp_path / "folder" / "mine.duckdb")
    assert (tmp_path / "folder" / "mine.duckdb").exists()


def test_the_default_lies_in_the_data_folder_of_the_user(monkeypatch):
    monkeypatch.delenv("TENSOLOG_CATALOG", raising=False)
    assert store.default_path().parts[-2:] == ("tensolog", "catalog.duckdb")


def test_reading_needs_a_catalog(tmp_path):
    with pytest.raises(CatalogError, match="there is no catalog at"):
        Catalog(tmp_path / "none.duckdb", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_not_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CatalogError, match="can't make the folder"):
        Catalog(tmp_path / "file" / "catalog.duckdb")


# ---------------------------------------------------------------------------- several processes


def test_several_processes_read(path):
    with Holder(path, "read"), Holder(path, "read"), Catalog(path, read_only=True) as catalog:
        assert catalog.sql("SELECT count(*) > 600 FROM operator").fetchall() == [(True,)]


@pytest.mark.parametrize(
    ("theirs", "ours"), [("write", "write"), ("write", "read"), ("read", "write")]
)
def test_a_lock_names_the_process_that_has_it(theirs, ours, path, monkeypatch):
    monkeypatch.setattr(database_file, "LOCK_PATIENCE_S", 0.2)
    with Holder(path, theirs) as process, pytest.raises(CatalogError) as caught:
        Catalog(path, read_only=ours == "read")
    message = str(caught.value)
    assert f"PID {process.pid}" in message
    assert "wait until it ends, or give another file with --catalog PATH" in message
    assert "\n" not in message
    Catalog(path).close()


def test_a_lock_that_is_given_back_soon_is_waited_for(path, monkeypatch):
    monkeypatch.setattr(database_file, "LOCK_PATIENCE_S", 60)
    sleep, waits = time.sleep, []
    with Holder(path, "write") as process:

        def release(seconds):
            waits.append(seconds)
            process.stdin.close()
            sleep(seconds)

        monkeypatch.setattr(database_file.time, "sleep", release)
        with Catalog(path) as catalog:
            assert catalog.sql("SELECT count(*) > 600 FROM operator").fetchall() == [(True,)]
    assert waits


def test_one_process_opens_it_twice(path):
    with Catalog(path) as first, Catalog(path) as second:
        first.insert("rule_source", {"rule_hash": ["a"], "position": [0], "source": ["here"]})
        assert second.sql("FROM rule_source").fetchall() == [("a", 0, "here")]
        with pytest.raises(CatalogError, match="already open in this process"):
            Catalog(path, read_only=True)


# ------------------------------------------------------------------------- files that are refused


def refused(path, reason):
    before = path.read_bytes(), sorted(path.parent.iterdir())
    for read_only in (True, False):
        with pytest.raises(CatalogError, match=reason) as caught:
            Catalog(path, read_only=read_only)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert (path.read_bytes(), sorted(path.parent.iterdir())) == before


@pytest.mark.parametrize("data", [b"", b"text\n" * 100, bytes(10_000)])
def test_a_file_of_another_kind(data, tmp_path):
    (tmp_path / "c.duckdb").write_bytes(data)
    refused(tmp_path / "c.duckdb", "is not a DuckDB file")


def test_a_cut_catalog(path):
    path.write_bytes(path.read_bytes()[:100_000])
    refused(path, "can't be opened")


def test_a_catalog_whose_end_is_missing(path):
    path.write_bytes(path.read_bytes()[:-300_000])
    before = path.read_bytes()
    with Catalog(path, read_only=True) as catalog, pytest.raises(CatalogError, match="read"):
        for table in describe(catalog):
            query(catalog, f"SELECT sum(hash(COLUMNS(*))) FROM {table.name}")
    assert path.read_bytes() == before


def test_an_overwritten_catalog(path):
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)
    refused(path, "can't be opened")


def test_a_catalog_of_a_newer_release(path):
    with Catalog(path) as catalog:
        migrations.record(catalog.connection, 999, "9.9")
    refused(path, "has schema version 999, this release knows .*: upgrade tensolog")


def test_a_database_of_something_else(tmp_path):
    with duckdb.connect(str(tmp_path / "other.duckdb")) as connection:
        connection.execute("CREATE TABLE mine (a INTEGER)")
    refused(tmp_path / "other.duckdb", "is a DuckDB file but not a tensolog catalog")


def test_an_empty_database_becomes_a_catalog(tmp_path):
    duckdb.connect(str(tmp_path / "empty.duckdb")).close()
    with Catalog(tmp_path / "empty.duckdb") as catalog:
        assert catalog.sql("FROM model").fetchall() == []


def test_a_folder_is_no_catalog(tmp_path):
    with pytest.raises(CatalogError, match="can't read the catalog"):
        Catalog(tmp_path)


# ------------------------------------------------------------------------------------- migrations

NEWEST = migrations.newest_version()
STEPS = (
    *migrations.MIGRATIONS,
    migrations.Migration(NEWEST + 1, "ALTER TABLE rule_source ADD COLUMN year INTEGER"),
    migrations.Migration(NEWEST + 2, "UPDATE rule_source SET year = position"),
)


@pytest.fixture
def next_schema(monkeypatch):
    """The tables that STEPS lead to."""
    tables = dict(schema_check.schema_tables())
    source = tables["rule_source"]
    year = schema_check.Column("year", "INTEGER", nullable=True)
    tables["rule_source"] = schema_check.Table((*source.columns, year), source.keys)
    monkeypatch.setattr(schema_check, "schema_tables", lambda: tables)


def test_an_older_catalog_is_migrated_step_by_step(path, monkeypatch, request):
    with Catalog(path) as catalog:
        assert migrations.version_of(catalog.connection) == NEWEST
        catalog.insert("rule_source", {"rule_hash": ["a"], "position": [7], "source": ["here"]})
    monkeypatch.setattr(migrations, "MIGRATIONS", STEPS)
    request.getfixturevalue("next_schema")
    for _ in range(2):
        with Catalog(path) as catalog:
            assert catalog.sql("FROM rule_source").fetchall() == [("a", 7, "here", 7)]
            versions = catalog.sql("SELECT version FROM catalog_version ORDER BY 1").fetchall()
            assert versions == [(NEWEST,), (NEWEST + 1,), (NEWEST + 2,)]


def test_a_migration_that_fails_leaves_the_catalog_as_it_was(path, monkeypatch):
    broken = migrations.Migration(NEWEST + 3, "SELECT error('broken')")
    shipped = migrations.MIGRATIONS
    monkeypatch.setattr(migrations, "MIGRATIONS", (*STEPS, broken))
    with pytest.raises(CatalogError, match="broken"):
        Catalog(path)
    monkeypatch.setattr(migrations, "MIGRATIONS", shipped)
    with Catalog(path) as catalog:
        assert migrations.version_of(catalog.connection) == NEWEST
        assert len(catalog.sql("FROM rule_source").columns) == 3


PROOF_1 = """
CREATE TABLE proof (
    rule_hash VARCHAR NOT NULL,
    status VARCHAR NOT NULL CHECK (status IN ('proved', 'bounded', 'refuted')),
    method VARCHAR NOT NULL,
    evidence VARCHAR NOT NULL,
    solver VARCHAR,
    time_ns BIGINT,
    proved_at TIMESTAMP NOT NULL
);
DROP TABLE proof_specification;
DROP TABLE proof_case;
DROP TABLE obligation;
DROP TABLE script;
DROP TABLE floating_behaviour;
DROP TABLE floating_special;
DROP TABLE floating_proof;
"""
BEFORE_3 = """
ALTER TABLE rule DROP COLUMN proof;
DROP TABLE plan_deviation;
CREATE TABLE plan_deviation (
    plan_id BIGINT NOT NULL,
    candidate VARCHAR NOT NULL,
    distribution VARCHAR NOT NULL,
    output VARCHAR NOT NULL,
    max_absolute DOUBLE NOT NULL,
    max_relative DOUBLE NOT NULL,
    tolerance DOUBLE NOT NULL,
    within BOOLEAN NOT NULL
);
INSERT INTO plan_deviation VALUES (1, 'a', 'n', 'y', 0, 3e-7, 1e-5, true),
    (1, 'b', 'n', 'y', 0.5, 3e-7, 1e-5, true), (1, 'c', 'n', 'y', 0.25, 0.25, 0, false);
COMMENT ON COLUMN plan_candidate.ratio IS 'Latency of the original over latency of the candidate.';
"""
COLUMNS = """
SELECT table_name, column_index, column_name, data_type, is_nullable, column_default, c.comment,
       t.comment, t.sql
FROM duckdb_columns() c JOIN duckdb_tables() t USING (table_name)
WHERE NOT c.internal ORDER BY 1, 2
"""


BEFORE_4 = "".join(
    f"DROP TABLE generation_{table};" for table in ("run", "level", "class", "candidate")
)
OF_CLUSTERS = (
    *("cluster_hash", "kind", "node", "flops_per_s", "memory_bytes_per_s", "launch_s", "machine"),
    *("stage_s", "contention_s_per_byte"),
)
BEFORE_5 = "DROP TABLE link; DROP TABLE cluster;" + "".join(
    f"ALTER TABLE device DROP COLUMN {name};" for name in OF_CLUSTERS
)
BEFORE_6 = "DROP TABLE plan_rule;"
BEFORE_7 = "".join(
    f"DROP TABLE {name};" for name in ("placement", "placement_operator", "placement_device", "cut")
)
BEFORE_8 = "".join(
    f"DROP TABLE cost_graph{part};" for part in ("", "_node", "_edge", "_configuration")
)
BEFORE_9 = "".join(f"DROP TABLE deployment{part};" for part in ("", "_setting", "_reason"))
BEFORE_10 = (
    "DROP TABLE processor; DROP TABLE kernel_configuration;"
    "DROP SEQUENCE kernel_configuration_sequence;"
)
BEFORE_14 = "ALTER TABLE device DROP COLUMN address;"
BEFORE_16 = "DROP TABLE plan_region; DROP TABLE plan_region_bound;"


def test_a_catalog_of_version_1_becomes_one_of_the_schema(path):
    with Catalog(path) as catalog:
        expected = catalog.sql(COLUMNS).fetchall()
        earlier = PROOF_1 + BEFORE_3 + BEFORE_4 + BEFORE_5 + BEFORE_6 + BEFORE_7 + BEFORE_8
        earlier += BEFORE_9 + BEFORE_10 + BEFORE_14 + BEFORE_16
        catalog.connection.execute("DROP TABLE proof;" + earlier)
        catalog.connection.execute("UPDATE catalog_version SET version = 1")
        assert catalog.sql(COLUMNS).fetchall() != expected
    with Catalog(path) as catalog:
        assert migrations.version_of(catalog.connection) == NEWEST
        assert catalog.sql(COLUMNS).fetchall() == expected
        kept = catalog.sql("SELECT max_relative, max_error, within FROM plan_deviation")
        assert kept.fetchall() == [(0.0, 3e-7, True), (None, 3e-7, True), (0.25, 0.25, False)]


def test_a_migration_that_leads_elsewhere_leaves_the_catalog_as_it_was(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr(migrations, "MIGRATIONS", STEPS)
    with pytest.raises(CatalogError, match="rule_source has a column year that is none of its own"):
        Catalog(path)
    assert path.read_bytes() == before


def test_migrations_are_in_order():
    versions = [step.version for step in migrations.MIGRATIONS]
    assert versions == list(range(2, 2 + len(versions)))


# ------------------------------------------------------------------------- inserts, transactions


def test_insert_takes_columns_and_leaves_defaults(catalog):
    catalog.insert(
        "device",
        {"fingerprint": ["f"], "name": pa.array(["n"]), "cores": [2], "memory_bytes": [2**40]},
    )
    rows = catalog.sql("SELECT device_id, fingerprint, cores, measured_at FROM device").fetchall()
    assert rows == [(1, "f", 2, None)]


def test_insert_refuses_columns_of_different_length(catalog):
    with pytest.raises(ValueError, match="differ in length"):
        catalog.insert("rule_source", {"rule_hash": ["a"], "position": [], "source": ["b"]})


def test_a_catalog_that_is_read_takes_no_rows(path):
    with (
        Catalog(path, read_only=True) as catalog,
        pytest.raises(CatalogError, match="reading only"),
    ):
        catalog.insert("rule_source", {"rule_hash": ["a"], "position": [0], "source": ["b"]})


def test_a_transaction_is_stored_whole_or_not_at_all():
    row = {"rule_hash": ["a"], "position": [0], "source": ["b"]}
    with Catalog(":memory:") as catalog:
        with pytest.raises(KeyError), catalog.transaction():
            catalog.insert("rule_source", row)
            with catalog.transaction():
                catalog.insert("rule_source", row)
            raise KeyError
        assert catalog.sql("FROM rule_source").fetchall() == []
        with catalog.transaction(), catalog.transaction():
            catalog.insert("rule_source", row)
        assert len(catalog.sql("FROM rule_source").fetchall()) == 1


def test_keys_are_taken_in_a_row(catalog):
    first = catalog.reserve("plan_sequence", 5)
    assert catalog.reserve("plan_sequence", 2) == first + 5

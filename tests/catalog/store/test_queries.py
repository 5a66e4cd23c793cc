"""Queries read unless they are told that they may write."""

import pytest
from tensolog.catalog import Catalog, CatalogError
from tensolog.catalog.store.queries import query

READING = [
    ("SELECT 1 AS a", [{"a": 1}]),
    ("SELECT 1 AS a; SELECT 2 AS a", [{"a": 2}]),
    ("FROM range(2)", [{"range": 0}, {"range": 1}]),
    ("VALUES (3)", [{"col0": 3}]),
    ("WITH t AS (SELECT 4 AS a) FROM t", [{"a": 4}]),
    ("SELECT count(*) AS n FROM model", [{"n": 0}]),
]
RUNNING = [
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE SELECT 1",
    "DESCRIBE model",
    "SUMMARIZE operator",
    "SHOW TABLES",
    "PRAGMA table_info('node')",
    "PIVOT operator ON class USING count(*) GROUP BY domain",
]
WRITING = [
    "DELETE FROM operator",
    "SELECT 1; DELETE FROM operator",
    "EXPLAIN ANALYZE DELETE FROM operator",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{path}'",
    "UPDATE operator SET class = 'opaque'",
    "INSERT INTO rule_source VALUES ('a', 0, 'b') RETURNING *",
    "DROP TABLE model",
    "CREATE TABLE mine (a INTEGER)",
    "CREATE TEMP TABLE mine AS SELECT 1",
    "SELECT nextval('model_sequence')",
    "COPY (SELECT 1) TO '{path}'",
    "EXPORT DATABASE '{path}'",
    "ATTACH '{path}' AS other",
    "INSTALL httpfs",
    "SET threads = 1",
    "PRAGMA enable_profiling",
    "CHECKPOINT",
    "BEGIN; DELETE FROM operator; COMMIT",
    "COMMIT; DELETE FROM operator",
    "VACUUM",
]


@pytest.fixture(params=["memory", "file", "file, read-only"])
def opened(request, tmp_path):
    path = ":memory:" if request.param == "memory" else tmp_path / "catalog.duckdb"
    if request.param == "file, read-only":
        Catalog(path).close()
    with Catalog(path, read_only="read-only" in request.param) as catalog:
        yield catalog


@pytest.mark.parametrize(("text", "rows"), READING)
def test_queries_that_read_give_the_rows_of_the_last_one(text, rows, catalog):
    assert query(catalog, text).to_pylist() == rows


@pytest.mark.parametrize("text", RUNNING)
def test_queries_about_the_catalog_run(text, catalog):
    assert query(catalog, text).num_rows > 0


def test_nothing_is_written_unasked(opened, tmp_path):
    path = tmp_path / "out"
    before = opened.sql("SELECT op_type, class FROM operator ORDER BY ALL").fetchall()
    for text in WRITING:
        with pytest.raises(CatalogError, match="--write") as caught:
            query(opened, text.format(path=path))
        assert "\n" not in str(caught.value)
        assert not path.exists()
    assert opened.sql("SELECT op_type, class FROM operator ORDER BY ALL").fetchall() == before
    assert query(opened, "SELECT 1 AS a").to_pylist() == [{"a": 1}]


def test_what_is_allowed_is_written(tmp_path):
    with Catalog(":memory:", allow_files=True) as catalog:
        assert query(catalog, "INSERT INTO rule_source VALUES ('a', 0, 'b')", write=True)
        query(catalog, f"COPY rule_source TO '{tmp_path / 'out.csv'}'", write=True)
        assert catalog.sql("FROM rule_source").fetchall() == [("a", 0, "b")]
    assert (tmp_path / "out.csv").read_text().splitlines() == ["rule_hash,position,source", "a,0,b"]


def test_statements_that_write_are_stored_together(catalog):
    with pytest.raises(CatalogError):
        query(catalog, "INSERT INTO rule_source VALUES ('a', 0, 'b'); SELECT nothing", write=True)
    assert catalog.sql("FROM rule_source").fetchall() == []


def test_writing_to_a_catalog_that_is_read(tmp_path):
    Catalog(tmp_path / "c.duckdb").close()
    with (
        Catalog(tmp_path / "c.duckdb", read_only=True) as catalog,
        pytest.raises(CatalogError, match="open for reading only"),
    ):
        query(catalog, "DELETE FROM model", write=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("SELEC 1", "syntax error"), ("SELECT a FROM node", '"a" not found'), ("FROM nil", "nil")],
)
def test_mistakes_are_one_line(text, reason, catalog):
    with pytest.raises(CatalogError, match=reason) as caught:
        query(catalog, text)
    assert "\n" not in str(caught.value)


def test_no_statement_gives_nothing(catalog):
    assert query(catalog, "-- nothing") is None

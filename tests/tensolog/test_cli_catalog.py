"""`sql`, `catalog` and `rules` as a user types them."""

import csv
import io
import json
import os
import subprocess
import sys

import onnx
import pyarrow.parquet as pq
import pytest
from tensolog.catalog.store import database_file

import tensolog

from .commandline import leftovers, process


def test_the_users_catalog_is_made_on_first_use(cli, own_catalog):
    own_catalog.unlink()
    outcome = cli("sql", "SELECT count(*) AS models FROM model")
    assert outcome.code == 0
    assert outcome.out.split() == ["models", "──────", "0", "(1", "row)"]
    assert own_catalog.exists()


def test_a_named_catalog_must_exist(cli, tmp_path):
    line = cli("sql", "SELECT 1", "--catalog", tmp_path / "typo.duckdb").refused()
    assert "typo.duckdb" in line
    assert leftovers(tmp_path) == []


QUERY = (
    "SELECT * FROM (VALUES (1, 'a,b\"c', NULL, 1.5, true, [1, 2]), "
    "(2, E'two\\nlines', 7, 'nan'::DOUBLE, false, [])) AS t(n, s, m, d, b, l)"
)


def test_sql_writes_csv(cli):
    rows = list(csv.reader(io.StringIO(cli("sql", QUERY, "--format", "csv").out)))
    assert rows == [
        ["n", "s", "m", "d", "b", "l"],
        ["1", 'a,b"c', "", "1.5", "true", "[1, 2]"],
        ["2", "two\nlines", "7", "nan", "false", "[]"],
    ]


def test_sql_writes_json(cli):
    assert json.loads(cli("sql", QUERY, "--format", "json").out) == [
        {"n": 1, "s": 'a,b"c', "m": None, "d": 1.5, "b": True, "l": [1, 2]},
        {"n": 2, "s": "two\nlines", "m": 7, "d": None, "b": False, "l": []},
    ]


def test_sql_writes_a_table(cli):
    assert cli("sql", QUERY).out.splitlines() == [
        "n  s      m    d  b      l",
        "───────────────────────────────",
        '1  a,b"c     1.5  true   [1, 2]',
        "2  two    7  nan  false  []",
        "   lines",
        "(2 rows)",
    ]


def test_sums_of_integers_are_integers(cli):
    query = "SELECT sum(range) AS total FROM range(10)"  # HUGEINT
    assert json.loads(cli("sql", query, "--format", "json").out) == [{"total": 45}]


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "txt"])
def test_files_by_their_ending(ending, cli, tmp_path):
    path = tmp_path / f"result.{ending}"
    outcome = cli("sql", "SELECT 42 AS answer", "-o", path)
    assert (outcome.code, outcome.out) == (0, "")
    if ending == "parquet":
        assert pq.read_table(path).to_pylist() == [{"answer": 42}]
    else:
        text = path.read_text(encoding="utf-8")
        assert "42" in text and text.endswith("\n")
    assert leftovers(tmp_path, path.name) == []
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_the_file_behind_a_link_is_replaced(cli, small_model, tmp_path):
    link, real = tmp_path / "link", tmp_path / "real"
    link.symlink_to(real)
    for arguments in (["sql", "SELECT 42 AS answer"], ["catalog", "export", "1"]):
        if arguments[0] == "catalog":
            cli("catalog", "import", small_model)
        assert cli(*arguments, "-o", link).code == 0
        assert link.is_symlink() and real.read_bytes()
    assert leftovers(tmp_path, "link", "real", "small.onnx") == []


def test_parquet_needs_a_file(cli):
    assert "-o FILE" in cli("sql", "SELECT 1", "--format", "parquet").refused()


def test_reads_only_unless_told(cli):
    assert "--write" in cli("sql", "CREATE TABLE mine(a INT)").refused()
    assert cli("sql", "CREATE TABLE mine(a INT)", "--write").code == 0
    assert cli("sql", "INSERT INTO mine VALUES (1), (2)", "--write").code == 0
    assert json.loads(cli("sql", "FROM mine", "--format", "json").out) == [{"a": 1}, {"a": 2}]
    dropped = cli("sql", "DROP TABLE mine", "--write")
    assert (dropped.code, dropped.out) == (0, "")


@pytest.mark.parametrize(
    "query", ["COPY (SELECT 1) TO '{path}'", "ATTACH '{path}' AS other", "EXPORT DATABASE '{path}'"]
)
def test_no_file_is_written_unless_told(query, cli, tmp_path):
    assert "--write" in cli("sql", query.format(path=tmp_path / "out")).refused()
    assert leftovers(tmp_path) == []


def test_files_are_written_when_told(cli, tmp_path):
    path = tmp_path / "out.csv"
    query = f"COPY (SELECT 1 AS one) TO '{path}'"
    assert "--allow-files" in cli("sql", query, "--write").refused()
    assert leftovers(tmp_path) == []
    assert cli("sql", query, "--write", "--allow-files").code == 0
    assert path.read_text(encoding="utf-8") == "one\n1\n"


def test_files_are_read_when_told(cli, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("one\n1\n")
    query = f"FROM '{path}'"
    assert "--allow-files" in cli("sql", query).refused()
    assert "--allow-files" in cli("sql", query, "--write").refused()
    assert cli("sql", query, "--allow-files", "--format", "csv").out == "one\n1\n"
    assert "--write" in cli("sql", f"COPY (SELECT 1) TO '{path}'", "--allow-files").refused()


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "txt"])
def test_the_result_is_written_without_files_for_the_query(ending, cli, tmp_path):
    path = tmp_path / f"out.{ending}"
    assert cli("sql", "SELECT 1 AS one", "-o", path).code == 0
    assert path.stat().st_size > 0


def test_statements_that_write_are_stored_together(cli):
    cli("sql", "CREATE TABLE mine(a INT); FROM nowhere", "--write").refused()
    cli("sql", "FROM mine").refused()


@pytest.mark.parametrize(
    "query", ["SELEC 1", "FROM nowhere", "SELECT 1/'x'", "SELECT error('a\nb')"]
)
def test_bad_queries_are_one_line(query, cli):
    cli("sql", query).refused()


def test_query_from_standard_input():
    done = process("sql", "-", "--format", "csv", input="SELECT 1 AS one")
    assert (done.returncode, done.stdout) == (0, "one\n1\n")


def test_a_reader_that_leaves_is_no_error():
    command = [sys.executable, "-m", "tensolog", "sql", "SELECT 1"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_damaged_catalog_is_reported_and_left_alone(cli, tmp_path):
    path = tmp_path / "catalog.duckdb"
    for content in (b"not a database", b"", os.urandom(20_000)):
        path.write_bytes(content)
        line = cli("sql", "SELECT 1", "--catalog", path).refused()
        assert str(path) in line
        assert path.read_bytes() == content
    assert leftovers(tmp_path, path.name) == []


HOLD = """
import sys, tensolog
with tensolog.Catalog(sys.argv[1]) as catalog:
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_catalog_locked_by_another_process_is_a_clear_error(cli, own_catalog, monkeypatch):
    monkeypatch.setattr(database_file, "LOCK_PATIENCE_S", 0.2)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(own_catalog)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout.readline() == b"held\n"
    try:
        line = cli("sql", "SELECT 1").refused()
        assert str(own_catalog) in line
    finally:
        holder.communicate()
    assert cli("sql", "SELECT 1").code == 0


def test_catalog_lists_every_table_with_its_meaning(cli, own_catalog):
    out = cli("catalog").out
    assert out.startswith(f"{own_catalog}\n")
    with tensolog.Catalog(own_catalog, read_only=True) as catalog:
        query = "SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal"
        tables = catalog.sql(query).fetchall()
    assert len(tables) > 20
    for name, comment in tables:
        line = next(line for line in out.splitlines() if line.split()[:1] == [name])
        assert line.endswith(comment)


def test_catalog_of_one_table(cli):
    lines = cli("catalog", "measurement").out.splitlines()
    assert lines[0].startswith("measurement: ")
    assert lines[1] == "0 rows"
    assert any(line.startswith("median_ns") and "DOUBLE" in line for line in lines)
    assert "measurement" in cli("catalog", "measurment").refused()


def test_models_go_in_and_come_out(cli, small_model, tmp_path):
    number = cli("catalog", "import", small_model).out.strip()
    out = tmp_path / "again.onnx"
    assert cli("catalog", "export", number, "-o", out).code == 0
    assert onnx.load(out).SerializeToString() == onnx.load(small_model).SerializeToString()
    cli("catalog", "export", "999", "-o", tmp_path / "none.onnx").refused()
    assert leftovers(tmp_path, "again.onnx", "small.onnx") == []


def test_models_are_forgotten(cli, small_model, tmp_path):
    kept, gone = (cli("catalog", "import", small_model).out.strip() for _ in range(2))
    outcome = cli("catalog", "forget", gone)
    assert outcome.out == f"forgot model {gone} (small): 4 nodes, 0 plans, 0 constants (0 B)\n"
    assert cli("catalog", "export", kept, "-o", tmp_path / "kept.onnx").code == 0
    assert f"no model {gone}" in cli("catalog", "forget", gone).refused()
    assert cli("catalog", "forget", kept).out.endswith(" 2 constants (288 B)\n")
    assert json.loads(cli("sql", "FROM model", "--format", "json").out) == []
    typo = tmp_path / "typo.duckdb"
    assert "typo.duckdb" in cli("catalog", "--catalog", typo, "forget", "1").refused()
    assert not typo.exists()


def test_rules_are_listed(cli):
    listed = json.loads(cli("rules", "list", "--json").out)
    assert listed
    for rule in listed[::20]:
        text = cli("rules", "show", rule["name"], "--text").out
        assert text.count(f"rule {rule['name']}\n") == 1


def test_an_unknown_rule_has_near_names(cli):
    name = json.loads(cli("rules", "list", "--json").out)[0]["name"]
    assert name in cli("rules", "show", name[:-1]).refused()


def test_rules_check(cli, tmp_path):
    name = json.loads(cli("rules", "list", "--json").out)[0]["name"]
    text = cli("rules", "show", name, "--text").out
    path = tmp_path / "mine.rules"
    path.write_text(text, encoding="utf-8")
    assert "nothing found against it" in cli("rules", "check", path, "--seconds", "0.1").out
    path.write_text(text.replace("match", "mtach"), encoding="utf-8")
    assert "mine.rules:" in cli("rules", "check", path).refused()

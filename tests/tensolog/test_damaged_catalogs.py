"""Damaged catalogs: each command does its work or says in one line why not, and leaves the file."""

import random
import shutil

import duckdb
import numpy as np
import onnx
import pytest
from onnx import helper
from tensolog.catalog.onnx.reader import read_model
from tensolog.catalog.store import schema_check

from tensolog import Catalog
from tensolog import cli as command_line

from .commandline import model_proto

RULE = "EliminateIdentity"
ROW_VALUES = {
    "VARCHAR": ("''", "'x'", "'\x1b[31m'", "repeat('long', 30000)", "'[1'", "NULL"),
    "BIGINT": ("-1", "0", "9223372036854775807", "-9223372036854775808", "NULL"),
    "INTEGER": ("-1", "0", "2147483647", "NULL"),
    "DOUBLE": ("'nan'", "'inf'", "-1", "0", "1e308", "NULL"),
    "BOOLEAN": ("NOT {}", "NULL"),
    "BLOB": ("''", "'\\xFF\\xFF\\xFF'::BLOB", "'\\x0A\\x02'::BLOB", "NULL"),
    "TIMESTAMP": ("'infinity'", "'0001-01-01'", "NULL"),
    "BIGINT[]": ("[]", "[-1]", "[NULL]", "[9223372036854775807, 9223372036854775807]"),
    "VARCHAR[]": ("[]", "[NULL]"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A catalog with a model that has a subgraph and attributes, a plan, a proof, and times."""
    folder = tmp_path_factory.mktemp("sound")
    branches = [
        helper.make_graph(
            [helper.make_node("Softmax", ["x"], [name], axis=1)],
            name,
            [],
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 8))],
        )
        for name in ("then", "other")
    ]
    value = onnx.numpy_helper.from_array(np.array(True))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=value),
        helper.make_node("If", ["c"], ["branch"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Add", ["branch", "branch"], ["sum"], name="sum"),
        helper.make_node("Identity", ["sum"], ["same"], name="same"),
        helper.make_node("Relu", ["same"], ["y"], name="relu"),
    ]
    onnx.save(model_proto(nodes), folder / "model.onnx")
    path = folder / "sound.duckdb"
    arguments = [folder / "model.onnx", "-o", folder / "out.onnx", "--catalog", path]
    options = ["--budget", "0.1", "--target", "onnx", "--threads", "1", "--quiet"]
    assert command_line.run(["optimize", *map(str, arguments), *options]) == 0
    return folder


@pytest.fixture
def path(sound, tmp_path):
    for name in ("sound.duckdb", "model.onnx"):
        shutil.copy(sound / name, tmp_path / name)
    return tmp_path / "sound.duckdb"


def commands(path):
    model, out = path.with_name("model.onnx"), path.with_name("out.onnx")
    return [
        ("catalog",),
        ("catalog", "measurement"),
        ("sql", "SELECT * FROM node JOIN graph USING (graph_id) JOIN model USING (model_id)"),
        ("catalog", "export", "1", "-o", out),
        ("explain", model, "--node", "same"),
        ("rules", "show", RULE),
        ("profile", model, "--budget", "0"),
        ("catalog", "import", model),
        ("catalog", "forget", "1"),
    ]


def check(cli, path, chosen):
    """Run some of the commands."""
    for arguments in chosen:
        subcommand = arguments[0] == "catalog"
        where = ("--catalog", path)
        line = (arguments[0], *where, *arguments[1:]) if subcommand else (*arguments, *where)
        before = path.read_bytes() if path.is_file() else None
        outcome = cli(*line)
        assert outcome.code in (0, 2), (arguments, outcome.err)
        assert "defect" not in outcome.err
        assert "Traceback" not in outcome.err + outcome.out
        if outcome.code:
            outcome.refused()
            reads = arguments[0] in ("sql", "explain", "rules") or "export" in arguments
            assert not reads or path.read_bytes() == before


def some(random_, path, number=2):
    return random_.sample(commands(path), number)


def test_a_sound_catalog(cli, path):
    for arguments in commands(path):
        check(cli, path, [arguments])
    with Catalog(path) as catalog:
        assert read_model(catalog, path.with_name("model.onnx")) > 1


@pytest.mark.parametrize("seed", range(8))
def test_flipped_bytes(seed, cli, path):
    draw = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice([1, 3, 30])):
        # Half of them among the first blocks, which say where all others are.
        place = draw.randrange(draw.choice([12288, len(data)]))
        data[place] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    check(cli, path, some(draw, path))


@pytest.mark.parametrize("seed", range(4))
def test_cut_and_overwritten_files(seed, cli, path):
    draw = random.Random(seed)
    data = path.read_bytes()
    start = draw.randrange(len(data))
    damaged = [data[:start], data[:start] + bytes(len(data) - start), data[start:], data[:5]]
    path.write_bytes(damaged[seed])
    check(cli, path, some(draw, path))


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_log(seed, cli, path):
    """The log that DuckDB replays after a crash."""
    draw = random.Random(seed)
    copy = path.with_name("copy.duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET wal_autocheckpoint = '1GB'")
        connection.execute("INSERT INTO rule_source SELECT 'r', range, 'text' FROM range(500)")
        shutil.copy(path, copy)
        shutil.copy(f"{path}.wal", f"{copy}.wal")
    log = copy.with_name(f"{copy.name}.wal")
    data = bytearray(log.read_bytes())
    if seed == 0:
        data = data[: len(data) // 2]
    elif seed == 1:
        data = bytearray(b"something else")
    else:
        data[draw.randrange(len(data))] ^= 16
    log.write_bytes(data)
    check(cli, copy, [("sql", "SELECT count(*) FROM rule_source"), *some(draw, path, 2)])


@pytest.mark.parametrize("seed", range(6))
def test_tables_that_are_others(seed, cli, path):
    draw = random.Random(seed)
    table = draw.choice(sorted(schema_check.schema_tables()))
    column = draw.choice(schema_check.schema_tables()[table].columns).name
    change = [
        f"DROP TABLE {table}",
        f"ALTER TABLE {table} RENAME TO moved; CREATE VIEW {table} AS FROM moved",
        f"CREATE TABLE moved AS SELECT * EXCLUDE ({column}) FROM {table}; DROP TABLE {table}; "
        f"ALTER TABLE moved RENAME TO {table}",
    ][seed % 3]
    with duckdb.connect(str(path)) as connection:
        connection.execute(change)
    for arguments in some(draw, path):
        check(cli, path, [arguments])


@pytest.mark.parametrize("seed", range(10))
def test_rows_that_no_release_writes(seed, cli, path):
    draw = random.Random(seed)
    tables = [t for t in schema_check.schema_tables() if t not in ("catalog_version", "operator")]
    changed = []
    with duckdb.connect(str(path)) as connection:
        for _ in range(8):
            table = draw.choice(tables)
            column = draw.choice(schema_check.schema_tables()[table].columns)
            value = draw.choice(ROW_VALUES[column.type]).format(f'"{column.name}"')
            try:
                connection.execute(f'UPDATE {table} SET "{column.name}" = {value}')
                changed.append((table, column.name, value))
            except duckdb.Error:
                pass  # its constraints keep it
    assert changed
    check(cli, path, some(draw, path, 3))

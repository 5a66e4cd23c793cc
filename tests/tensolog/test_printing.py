"""Names steer no terminal and flood no screen; JSON and files have them as they are."""

import json

import duckdb
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tensolog import cli as command_line
from tensolog.json_text import json_text
from tensolog.printing import LONGEST_LINE, LONGEST_WORD, one_line, printable
from tensolog.progress import Progress

from .commandline import model_proto

EVIL = "\x1b]0;title\x07\x1b[31m\x9b2J\u202eab\x7f"
LONG = "long" * 25_000
NAME = EVIL + LONG

TEXTS = st.text(st.sampled_from("ab c\n\t\x1b\x07\x9b\u202e\u00e9\U0001f600"), max_size=300)


@given(TEXTS | st.text(), st.integers(1, 400))
def test_a_line_is_safe_and_short(text, times):
    line = one_line(text * times)
    assert line.isprintable()
    assert len(line) <= LONGEST_LINE
    assert max(map(len, line.split()), default=0) <= LONGEST_WORD


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=LONGEST_WORD))
def test_a_usual_name_is_shown_as_it_is(text):
    assert one_line(text) == text


def test_the_ends_of_a_long_name_are_shown():
    line = one_line("first" + LONG + "last")
    assert len(line) == LONGEST_WORD
    assert line.startswith("firstlong")
    assert line.endswith("longlast")


@given(TEXTS)
def test_lines_stay_lines(text):
    assert printable(text).count("\n") == text.count("\n")


@given(TEXTS | st.text())
def test_json_is_safe_and_exact(text):
    written = json_text({text: [text]})
    assert json.loads(written) == {text: [text]}
    assert written.replace("\n", "").isprintable()


def test_progress_is_safe(capsys):
    with Progress() as progress:
        progress("reading", 0, 1, NAME)
    check(capsys.readouterr().err)


def check(text):
    """Nothing steers the terminal, and no line is long."""
    assert text.replace("\n", "").isprintable(), ascii(text[:3000])
    assert max(map(len, text.split("\n"))) <= LONGEST_LINE + 100


@pytest.fixture
def evil_model(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product" + NAME], name="product" + NAME),
        helper.make_node("Add", ["product" + NAME, "b"], ["sum" + NAME], name="sum" + NAME),
        helper.make_node("Identity", ["sum" + NAME], ["same"], name="same" + NAME),
        helper.make_node("Relu", ["same"], ["y"], name="relu" + NAME),
    ]
    model = model_proto(nodes)
    model.graph.name = NAME
    onnx.save(model, tmp_path / "evil.onnx")
    return tmp_path / "evil.onnx"


def test_a_model_of_names(cli, evil_model, tmp_path):
    out = tmp_path / "out.onnx"
    number = cli("catalog", "import", evil_model, "--name", NAME).out.strip()
    for arguments in (
        ("explain", evil_model),
        ("explain", evil_model, "--node", "same" + NAME),
        ("explain", evil_model, "--node", "none" + NAME),
        ("explain", evil_model, "--rule", "EliminateIdentity" + NAME),
        ("optimize", evil_model, "-o", out, "--budget", "0", "--target", "onnx"),
        ("profile", evil_model, "--budget", "0"),
        ("rules", "impact", "EliminateIdentity", evil_model, "--budget", "0"),
        ("sql", "SELECT name FROM node"),
        ("sql", f'SELECT 1 AS "{EVIL}{"n" * 1000}"'),
        ("sql", f"SELECT error('{NAME}')"),
        ("sql", f"FROM {NAME}"),
        ("catalog", NAME),
        ("catalog", "export", number, "-o", tmp_path / "folder" / EVIL),
        ("catalog", "forget", number),
    ):
        outcome = cli(*arguments)
        assert outcome.code in (0, 2), outcome.err
        check(outcome.out)
        check(outcome.err)
    assert out.exists()


def test_json_and_files_have_names_as_they_are(cli, evil_model, tmp_path):
    cli("catalog", "import", evil_model)
    query = "SELECT name FROM node ORDER BY position LIMIT 1"
    shown = cli("sql", query, "--format", "json").out
    check(shown.replace(LONG, ""))
    assert json.loads(shown) == [{"name": "product" + NAME}]
    assert cli("sql", query, "--format", "csv").out == f"name\nproduct{NAME}\n"
    assert cli("sql", query, "-o", tmp_path / "names.csv").code == 0
    assert (tmp_path / "names.csv").read_text() == f"name\nproduct{NAME}\n"


def test_a_table_of_a_stranger(cli, own_catalog):
    assert cli("catalog").code == 0
    with duckdb.connect(str(own_catalog)) as connection:
        connection.execute(f'CREATE TABLE "{EVIL}" ("{EVIL}" INTEGER)')
        connection.execute(f"COMMENT ON TABLE \"{EVIL}\" IS '{NAME}'")
    for arguments in (("catalog",), ("catalog", EVIL), ("sql", f'FROM "{EVIL}"')):
        outcome = cli(*arguments)
        assert outcome.code == 0, outcome.err
        check(outcome.out)


def test_a_defect_is_safe(capsys, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError(NAME)

    monkeypatch.setattr("tensolog.catalog.store.queries.query", fails)
    assert command_line.run(["sql", "SELECT 1"]) == 70
    check(capsys.readouterr().err)

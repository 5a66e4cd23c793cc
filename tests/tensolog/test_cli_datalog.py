"""`datalog` as a user types it."""

import pytest

from tests.endless import PROGRAM

from .commandline import leftovers

REACH = """// What reaches what?
.decl edge(a: symbol, b: symbol)
.decl reaches(a: symbol, b: symbol)
.input edge
.output reaches
reaches(a, b) :- edge(a, b).
reaches(a, c) :- reaches(a, b), edge(b, c).
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text("a\tb\nb\tc\n", encoding="utf-8")
    path = tmp_path / "reach.dl"
    path.write_text(REACH, encoding="utf-8")
    return path


def test_datalog_runs_as_souffle_does(cli, program, tmp_path):
    outcome = cli("datalog", "run", program, "-F", tmp_path / "facts", "-D", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    rows = (tmp_path / "out" / "reaches.csv").read_text(encoding="utf-8").splitlines()
    assert sorted(rows) == ["a\tb", "a\tc", "b\tc"]


def test_datalog_explains(cli, program):
    out = cli("datalog", "explain", program).out
    assert "reaches" in out and "SELECT" in out.upper()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (".decl p(x: number)\np(x) :- q(x).\n", ":2:"),
        (".decl p(x: number\n", ":1:"),
        (".decl p(x: number)\n.decl q(x: number)\np(x) :- q(x), !p(x).\n", ":3:"),
    ],
)
def test_datalog_errors_have_a_place(text, part, cli, tmp_path):
    path = tmp_path / "bad.dl"
    path.write_text(text, encoding="utf-8")
    line = cli("datalog", "run", path, "-F", tmp_path, "-D", tmp_path / "out").refused()
    assert f"bad.dl{part}" in line.replace(", line ", ":")
    assert leftovers(tmp_path, "bad.dl") == []


def test_datalog_without_facts(cli, program, tmp_path):
    cli("datalog", "run", program, "-F", tmp_path, "-D", tmp_path / "out").refused()


def test_datalog_of_binary_nonsense(cli, tmp_path):
    path = tmp_path / "bad.dl"
    path.write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in cli("datalog", "explain", path).refused()


def test_what_a_program_prints_is_printed(cli, program, tmp_path):
    text = REACH + '.printsize reaches\n.output edge(IO=stdout)\n.pragma "verbose"\n'
    program.write_text(text, encoding="utf-8")
    outcome = cli("datalog", "run", program, "-F", tmp_path / "facts", "-D", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    edges = "---------------\nedge\n===============\na\tb\nb\tc\n===============\n"
    assert outcome.out == f"{edges}reaches\t3\n"
    assert "pragma" in outcome.err


def test_a_quiet_program_prints_nothing(cli, program, tmp_path):
    outcome = cli("datalog", "run", program, "-F", tmp_path / "facts", "-D", tmp_path)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


DEFINED = """#ifdef TWICE
.decl n(x: number) n(N). n(N + N).
#else
.decl n(x: number) n(N).
#endif
.output n
"""


def test_macros_are_defined(cli, tmp_path):
    path = tmp_path / "n.dl"
    path.write_text(DEFINED, encoding="utf-8")
    ran = ["datalog", "run", path, "-D", tmp_path, "--define", "N=20 + 1"]
    assert cli(*ran).code == 0
    assert (tmp_path / "n.csv").read_text() == "21\n"
    assert cli(*ran, "--define", "TWICE=").code == 0
    assert sorted((tmp_path / "n.csv").read_text().split()) == ["21", "42"]
    assert "21" in cli("datalog", "explain", path, "--define", "N=21").out


@pytest.mark.parametrize("given", [["N"], ["=1"], ["1N=1"], ["N=1", "--define", "N=2"]])
def test_bad_definitions_are_refused(given, cli, tmp_path):
    path = tmp_path / "n.dl"
    path.write_text(DEFINED, encoding="utf-8")
    assert "--define" in cli("datalog", "run", path, "-D", tmp_path, "--define", *given).refused()
    assert leftovers(tmp_path, "n.dl") == []


def test_all_errors_of_a_program_are_printed_a_line_each(cli, tmp_path):
    program = tmp_path / "wrong.dl"
    program.write_text('.decl a(x:number)\na("s").\na(y) :- a(x), x > 1.\n', encoding="utf-8")
    outcome = cli("datalog", "explain", program)
    assert outcome.code == 2
    lines = outcome.err.splitlines()
    assert [line.partition(": ")[2].removeprefix(str(program))[:5] for line in lines] == [
        ":2:3:",
        ":3:3:",
    ]


@pytest.mark.parametrize("option", [("--limit-s", "0.3"), ("--limit-rows", "50")])
def test_a_program_without_end_is_ended_by_a_limit(option, cli, tmp_path):
    path = tmp_path / "endless.dl"
    path.write_text(PROGRAM, encoding="utf-8")
    line = cli("datalog", "run", path, "-D", tmp_path / "out", *option).refused()
    assert "endless.dl:4:3: a: ended" in line and f"({option[0]})" in line
    assert leftovers(tmp_path, "endless.dl") == []


@pytest.mark.parametrize(
    "options",
    [("--limit-s", "-1"), ("--limit-rows", "0"), ("--limit-s", "1", "--engine", "souffle")],
)
def test_bad_limits_are_refused(options, cli, program, tmp_path):
    cli("datalog", "run", program, "-F", tmp_path / "facts", *options).refused()

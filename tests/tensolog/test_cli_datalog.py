"""`datalog` as a user types it."""

import json
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.catalog.datalog.program_files import run_files
from tensolog.optimizer.explain.graph_relations import matches_of, write
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.match.matcher import Matcher
from tensolog.rules.gate.ledger.admission import applicable

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


@pytest.mark.parametrize("arguments", [["N"], ["=1"], ["1N=1"], ["N=1", "--define", "N=2"]])
def test_bad_definitions_are_refused(arguments, cli, tmp_path):
    path = tmp_path / "n.dl"
    path.write_text(DEFINED, encoding="utf-8")
    assert (
        "--define" in cli("datalog", "run", path, "-D", tmp_path, "--define", *arguments).refused()
    )
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


def test_datalog_says_why_a_row_holds_and_why_another_does_not(cli, program, tmp_path):
    facts = ("-F", tmp_path / "facts")
    holds = cli("datalog", "why", program, 'reaches("a", "c")', *facts)
    assert holds.out.startswith("reaches('a', 'c') holds: reaches(a, c) :- reaches(a, b)")
    fails = cli("datalog", "why", program, 'reaches("c", "a").', *facts, "--json")
    reason = json.loads(fails.out)
    assert (reason["holds"], reason["literal"]) == (False, "edge(a, b)")


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ("reaches(a, b)", "give each a constant"),
        ('reaches("a")', "is no row of reaches(symbol, symbol)"),
        ('reaches("a", 1)', "is no row of reaches(symbol, symbol)"),
        ('leads("a", "b")', "has no relation leads"),
        ("counted(1.5)", "is no row of counted(number)"),
        ('edge("a", "b"). edge("b", "c")', "write it as a fact"),
        ('reaches("a"', "<row>"),
    ],
)
def test_what_is_no_row_has_no_reason(row, part, cli, program, tmp_path):
    with program.open("a", encoding="utf-8") as file:
        file.write(".decl counted(n: number)\ncounted(1).\n")
    assert part in cli("datalog", "why", program, row, "-F", tmp_path / "facts").refused()


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.onnx"
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
        helper.make_node("Tanh", ["product"], ["tanh"], name="tanh"),
        helper.make_node("Softmax", ["tanh"], ["y"], name="softmax", axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")],
    )
    imports = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


def test_a_model_is_exported_with_the_programs_that_are_asked_of_it(cli, model, tmp_path):
    out = cli("datalog", "export", model, "-o", tmp_path / "facts").out
    assert "regions.dl" in out and "matches.dl" in out and "layouts.dl" in out
    folder, derived = tmp_path / "facts" / "regions", tmp_path / "derived"
    outcome = cli("datalog", "run", folder / "regions.dl", "-F", folder, "-D", derived)
    assert outcome.code == 0, outcome.err
    names = dict(line.split("\t") for line in (folder / "node_name.facts").read_text().splitlines())
    nodes_by_sink = {}
    for line in (derived / "region.csv").read_text(encoding="utf-8").splitlines():
        sink, frame, number = line.split("\t")
        nodes_by_sink.setdefault((names[sink], frame), set()).add(names[number])
    assert nodes_by_sink == {
        ("tanh", "n,4"): {"tanh"},
        ("softmax", "n,4 over 4 at 1"): {"tanh", "softmax"},
    }
    followed = (derived / "follows.csv").read_text(encoding="utf-8").splitlines()
    assert ["product", "tanh"] in [[names[n] for n in line.split("\t")] for line in followed]


def test_layouts_of_an_exported_model_are_asked_for_and_explained(cli, tmp_path):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 16, 4, 4]) for n in "xy")
    w = numpy_helper.from_array(np.ones((16, 16, 1, 1), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Floor", ["c"], ["y"], name="floor"),
    ]
    graph = helper.make_graph(nodes, "layouts", [x], [y], [w])
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    folder, derived = tmp_path / "facts" / "layouts", tmp_path / "derived"
    cli("datalog", "export", tmp_path / "m.onnx", "-o", tmp_path / "facts")
    outcome = cli("datalog", "run", folder / "layouts.dl", "-F", folder, "-D", derived)
    assert outcome.code == 0, outcome.err
    names = dict(line.split("\t") for line in (folder / "node_name.facts").read_text().splitlines())
    rows = [line.split("\t") for line in (derived / "convolves.csv").read_text().splitlines()]
    assert [(names[n], way, rule) for _, n, *_, way, rule in rows] == [
        ("conv", "dense", "ConvertConvToBlocks")
    ]
    ((number, why),) = [
        line.split("\t") for line in (derived / "refused.csv").read_text().splitlines()
    ]
    assert names[number] == "floor" and why == "nothing is known of the operator in blocks"
    row = f"in_blocks({rows[0][0]})"
    explanation = cli("datalog", "why", folder / "layouts.dl", row, "-F", folder).out
    assert "holds: in_blocks(c) :- enters(c)" in explanation and "channels % 4" in explanation


def test_matches_of_an_exported_model_are_those_of_the_optimizer(model, tmp_path):
    graph = load_graph(onnx.load(model))
    graph.types = infer_types(graph)
    rules = applicable()
    matched = Counter(match.rule.name for match in Matcher(rules).find(graph))
    asked = [rule for rule in rules if rule.name in matched] + [*rules[:3]]
    ((_, program),) = write([matches_of(graph, asked)], tmp_path / "facts")
    report = run_files(program, program.parent, tmp_path)
    # what rules want of the elements of constants is looked at afterwards
    assert matched and all(report.rows[f"match_{rule}"] >= n for rule, n in matched.items())


def test_explain_says_what_keeps_two_nodes_out_of_one_region(cli, model):
    explanation = cli("explain", model, "--node", "product", "--with", "tanh").out
    assert "product and tanh can't be in one region of a product" in explanation
    assert "fills(w, 0) fails at depth >= 16" in explanation
    together = json.loads(cli("explain", model, "--node", "tanh", "--with", "y", "--json").out)
    assert together["is_possible"] and together["nodes"] == ["tanh", "softmax"]


def test_two_nodes_have_to_be_there_and_be_two(cli, model):
    assert "one node" in cli("explain", model, "--node", "tanh", "--with", "tanh").refused()
    assert "no node is called" in cli("explain", model, "--node", "tanh", "--with", "z").refused()
    assert "--node" in cli("explain", model, "--with", "tanh").refused()

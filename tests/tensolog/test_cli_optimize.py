"""`optimize`, `explain` and `profile` on models that work."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import tensolog
from tensolog import progress
from tensolog.progress import Progress

from .commandline import TALKATIVE, leftovers, model_proto

KERNELS = ("--target", "onnxruntime-cpu+kernels")


def run_model(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def test_optimize_writes_a_model_and_a_report(cli, monkeypatch, small_model, tmp_path):
    monkeypatch.setattr(progress, "PLAIN_INTERVAL_S", 0.0)
    out, report = tmp_path / "fast.onnx", tmp_path / "report.html"
    outcome = cli("optimize", small_model, "-o", out, "--budget", "1", "--report", report)
    assert outcome.code == 0, outcome.err
    x = np.random.default_rng(1).normal(size=(1, 8)).astype(np.float32)
    np.testing.assert_allclose(run_model(out, x), run_model(small_model, x), rtol=1e-5, atol=1e-5)
    for part in (f"{small_model} -> {out}", "nodes", "latency"):
        assert part in outcome.out
    for phase in ("reading", "rewriting", "running the original", "recording", "writing"):
        assert phase in outcome.err
    assert "<!doctype html>" in report.read_text(encoding="utf-8")
    assert leftovers(tmp_path, "small.onnx", "fast.onnx", "report.html") == []


def test_json_is_one_object_and_nothing_else(cli, small_model, tmp_path):
    out = tmp_path / "fast.onnx"
    outcome = cli("optimize", small_model, "-o", out, "--budget", "0.2", "--json")
    summary = json.loads(outcome.out, parse_constant=pytest.fail)
    assert summary["output"] == str(out)
    assert summary["nodes_before"] == 4
    assert summary["size_after_bytes"] > 0
    assert summary["nodes_after"] == len(onnx.load(out).graph.node)
    assert summary["tensolog"] == tensolog.__version__
    assert "graphs" not in summary
    names = [candidate["candidate"] for candidate in summary["candidates"]]
    assert "original" in names and summary["chosen"] in names


def test_any_other_name_is_a_folder(cli, small_model, tmp_path):
    folder = tmp_path / "fast"
    for _ in range(2):  # its own result is replaced
        outcome = cli("optimize", small_model, "-o", f"{folder}/", "--budget", "0", "--json")
        summary = json.loads(outcome.out)
        assert summary["form"] == "folder"
        assert {Path(file) for file in summary["files"]} == set(folder.iterdir())
    x = np.random.default_rng(1).normal(size=(1, 8)).astype(np.float32)
    (result,) = tensolog.open_session(folder).run(None, {"x": x})
    np.testing.assert_allclose(result, run_model(small_model, x), rtol=1e-5, atol=1e-5)
    outcome = cli("optimize", small_model, "-o", folder, "--budget", "0")
    assert f"the folder {folder} (model.onnx, README.txt)" in outcome.out
    assert leftovers(tmp_path, "small.onnx", "fast") == []


@pytest.mark.parametrize("name", ["fast", "fast.onnx"])
def test_a_folder_of_somebody_is_refused_before_any_work(name, cli, small_model, tmp_path):
    (tmp_path / name).mkdir()
    (tmp_path / name / "notes.txt").touch()
    outcome = cli("optimize", small_model, "-o", tmp_path / name)
    assert "notes.txt" in outcome.refused()
    assert "racing" not in outcome.err


def test_what_auto_stands_for_and_what_it_loses(cli, small_model, tmp_path):
    out = tmp_path / "fast.onnx"
    asked = ("optimize", small_model, "-o", out, "--budget", "0")
    outcome = cli(*asked)  # there is no compiler: see tests/conftest.py
    assert "auto" in outcome.out and "no C compiler" in outcome.out
    assert "0.79" in outcome.out
    assert (
        f"pip install 'tensolog[kernels]' && tensolog optimize {small_model} -o {out}"
        in outcome.out
    )
    target = json.loads(cli(*asked, "--json").out)["target"]
    assert (target["asked"], target["chosen"]) == ("auto", "onnxruntime-cpu")
    portable = cli(*asked, "--portable")
    assert "one plain file was asked for" in portable.out and "--portable" in portable.out
    both = cli(*asked, "--portable", *KERNELS)
    assert "no native code" in both.refused()
    assert "no native code" in cli(*asked[:2], "--in-place", *KERNELS).refused()


@pytest.mark.with_kernels
def test_a_compiler_that_compiles_nothing_is_told(cli, small_model, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSOLOG_CC", f"{sys.executable} -c pass")
    asked = ("optimize", small_model, "-o", tmp_path / "fast.onnx", "--budget", "0")
    outcome = cli(*asked)
    assert outcome.code == 0, outcome.err
    assert "said nothing" in outcome.out and "TENSOLOG_CC" in outcome.out
    assert "said nothing" in cli(*asked, *KERNELS).refused()


@pytest.mark.parametrize("option", ["-o", "--report", "--keep"])
@pytest.mark.parametrize("there", [False, True])
def test_nothing_is_written_over_the_catalog(option, there, cli, small_model, tmp_path):
    catalog = tmp_path / "own.duckdb"
    if there:
        tensolog.Catalog(catalog).close()
    output = () if option == "-o" else ("-o", tmp_path / "fast.onnx")
    outcome = cli("optimize", small_model, *output, option, catalog, "--catalog", catalog)
    assert "is a catalog" in outcome.refused()
    outcome = cli("sql", "SELECT 1 AS one", "-o", catalog, "--catalog", catalog)
    assert "is a catalog" in outcome.refused()
    tensolog.Catalog(catalog, read_only=True).close()


def test_a_link_to_itself_is_no_place(cli, small_model, tmp_path):
    first, other = tmp_path / "one.onnx", tmp_path / "other.onnx"
    first.symlink_to(other)
    other.symlink_to(first)
    assert "back to itself" in cli("optimize", small_model, "-o", first).refused()


def test_quiet(cli, small_model, tmp_path):
    outcome = cli("optimize", small_model, "-o", tmp_path / "o.onnx", "--budget", "0", "-q")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


@pytest.mark.parametrize("name", ["small.onnx", "small.bin", "small"])
def test_in_place(name, cli, small_model, tmp_path):
    x = np.ones((1, 8), np.float32)
    before = run_model(small_model, x)
    model = small_model.rename(tmp_path / name)
    assert cli("optimize", model, "--in-place", "--budget", "0").code == 0
    np.testing.assert_allclose(run_model(model, x), before, rtol=1e-5)
    assert leftovers(tmp_path, name) == []


def test_a_link_stays_a_link(cli, small_model, tmp_path):
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "link.onnx", tmp_path / "real" / "größe 形.onnx"
    link.symlink_to(real)
    assert cli("optimize", small_model, "-o", link, "--budget", "0").code == 0
    assert link.is_symlink()
    onnx.checker.check_model(onnx.load(real))
    assert leftovers(tmp_path / "real", real.name) == []


def test_replaces_an_older_output(cli, small_model, tmp_path):
    out = tmp_path / "fast.onnx"
    out.write_text("older", encoding="utf-8")
    assert cli("optimize", small_model, "-o", out, "--budget", "0").code == 0
    onnx.checker.check_model(onnx.load(out))


def test_a_dynamic_model_stays_dynamic(cli, tmp_path):
    path, out = tmp_path / "dynamic.onnx", tmp_path / "fast.onnx"
    onnx.save(model_proto(inputs=[("x", ("batch", 8))], outputs=[("y", ("batch", 8))]), path)
    outcome = cli("optimize", path, "-o", out, "--budget", "0.2", "--input-shape", "x=3,8")
    assert outcome.code == 0, outcome.err
    axis = onnx.load(out).graph.input[0].type.tensor_type.shape.dim[0]
    assert axis.dim_param == "batch"
    for size in (1, 3, 7):
        x = np.random.default_rng(size).normal(size=(size, 8)).astype(np.float32)
        np.testing.assert_allclose(run_model(out, x), run_model(path, x), rtol=1e-5, atol=1e-5)


def test_inputs_larger_than_the_memory_are_not_made(cli, tmp_path):
    path, out = tmp_path / "dynamic.onnx", tmp_path / "fast.onnx"
    onnx.save(model_proto(inputs=[("x", ("batch", 8))], outputs=[("y", ("batch", 8))]), path)
    outcome = cli("optimize", path, "-o", out, "--input-shape", f"x={10**13},8", "--budget", "0")
    assert f"{10**13} x 8 is too large" in outcome.refused()
    assert leftovers(tmp_path, "dynamic.onnx") == []


def test_what_the_runtime_can_not_run_is_refused_in_a_line_and_nothing_is_written(cli, tmp_path):
    nodes = [helper.make_node("Mystery", ["x"], ["y"], domain="example.com", name="mystery")]
    model = model_proto(nodes)
    model.opset_import.append(helper.make_opsetid("example.com", 1))
    path, out = tmp_path / "custom.onnx", tmp_path / "out.onnx"
    path.write_bytes(model.SerializeToString())
    refusal = cli("optimize", path, "-o", out, "--budget", "0").refused()
    assert "can't run the model here" in refusal and "nothing is written" in refusal
    assert "example.com" in refusal and "[ONNXRuntimeError]" not in refusal
    assert leftovers(tmp_path, "custom.onnx") == []


def test_a_value_larger_than_the_memory_is_not_computed(cli, tmp_path):
    """The system would end this process: the runtime folds such a range when it opens the model."""
    nodes = [
        helper.make_node("ConstantOfShape", ["sizes"], ["zeros"]),
        helper.make_node("ReduceMax", ["zeros"], ["largest"], keepdims=0),
        helper.make_node("Add", ["x", "largest"], ["y"]),
    ]
    model = model_proto(nodes)
    sizes = numpy_helper.from_array(np.array([1 << 22, 1 << 20]), "sizes")
    model.graph.initializer[0].CopyFrom(sizes)
    path = tmp_path / "vast.onnx"
    path.write_bytes(model.SerializeToString())
    refusal = cli("optimize", path, "-o", tmp_path / "out.onnx", "--budget", "0").refused()
    assert "'zeros' of 4194304 x 1048576 (float32) is larger than the memory" in refusal
    assert leftovers(tmp_path, "vast.onnx") == []


def test_an_operator_of_thousands_of_inputs_stays_as_it_is(cli, tmp_path):
    nodes = [
        helper.make_node("Concat", ["x"] * 3000, ["wide"], axis=0),
        helper.make_node("ReduceMax", ["wide"], ["y"], axes=[0]),
    ]
    path = tmp_path / "wide.onnx"
    path.write_bytes(model_proto(nodes, outputs=[("y", (1, 8))]).SerializeToString())
    outcome = cli("optimize", path, "-o", tmp_path / "out.onnx", "--budget", "0")
    assert outcome.code == 0, outcome.err


def test_an_operator_that_the_runtime_lacks_is_not_a_matter_of_sizes(cli, tmp_path):
    """As converters write those of another framework that ONNX doesn't have, under its domain."""
    nodes = [helper.make_node("Erfc", ["x"], ["y"])]
    model = model_proto(nodes, inputs=[("x", ("batch", 8))], outputs=[("y", ("batch", 8))])
    path, out = tmp_path / "converted.onnx", tmp_path / "out.onnx"
    path.write_bytes(model.SerializeToString())
    refusal = cli("optimize", path, "-o", out, "--budget", "0").refused()
    assert "Erfc" in refusal and "--input-shape" not in refusal
    assert "export it again" in refusal
    assert leftovers(tmp_path, "converted.onnx") == []


def test_what_happened_is_in_the_catalog(cli, small_model, tmp_path):
    cli("optimize", small_model, "-o", tmp_path / "fast.onnx", "--budget", "0.2")
    plans = json.loads(cli("sql", "FROM plan", "--format", "json").out)
    assert len(plans) == 1
    assert json.loads(cli("sql", "FROM plan_candidate", "--format", "json").out)
    rules = json.loads(cli("sql", "SELECT name FROM rule", "--format", "json").out)
    assert {row["name"] for row in rules} >= {"EliminateIdentity"}


def test_explain_names_rules_and_refuses_unknown_ones(cli, small_model, tmp_path):
    outcome = cli("explain", small_model)
    assert outcome.code == 0, outcome.err
    assert "EliminateIdentity" in outcome.out
    only = cli("explain", small_model, "--rule", "EliminateIdentity", "--json")
    assert "EliminateIdentity" in json.dumps(json.loads(only.out))
    assert "Eliminate" in cli("explain", small_model, "--rule", "EliminateIdentty").refused()
    assert leftovers(tmp_path, "small.onnx") == []


def test_explain_tells_the_story_of_a_node(cli, small_model, tmp_path):
    name = onnx.load(small_model).graph.node[0].output[0]
    outcome = cli("explain", small_model, "--node", name)
    assert outcome.code == 0, outcome.err
    assert "the model" in outcome.out or "since" in outcome.out
    empty = cli("explain", small_model, "--node", name, "--catalog", ":memory:")
    assert empty.code == 0, empty.err
    values = json.loads(cli("explain", small_model, "--node", name, "--json").out)
    assert {"node", "operator", "fate", "ways", "uses", "refusals"} <= set(values)
    assert "no node" in cli("explain", small_model, "--node", "Nothing").refused()
    both = cli("explain", small_model, "--node", name, "--rule", "EliminateIdentity", "--json")
    assert {refusal["rule"] for refusal in json.loads(both.out)["refusals"]} == {
        "EliminateIdentity"
    }
    other = ("explain", small_model, "--node", name, "--rule")
    assert "no rule" in cli(*other, "EliminateIdentty").refused()
    assert leftovers(tmp_path, "small.onnx") == []


def test_profile_measures_once(cli, small_model):
    first = cli("profile", small_model, "--budget", "5", "--threads", "1")
    assert first.code == 0, first.err
    assert first.out.splitlines()[0].split() == [
        "kernel",
        "calls",
        "median",
        "spread",
        "total",
        "share",
    ]
    count = "SELECT count(*) AS n FROM measurement"
    measured = cli("sql", count, "--format", "json").out
    assert json.loads(measured)[0]["n"] > 0
    again = cli("profile", small_model, "--budget", "5", "--threads", "1", "--json")
    assert {row["source"] for row in json.loads(again.out)} == {"measured"}
    assert cli("sql", count, "--format", "json").out == measured


def start(*arguments):
    """Start a command whose progress can be watched, ready to be interrupted."""
    return subprocess.Popen(
        [sys.executable, "-c", TALKATIVE, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )


def wait_for_phase(process, phase):
    seen = ""
    while phase not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line


@pytest.fixture
def slow_model(tmp_path):
    """Enough different kernels to keep the measuring phase busy."""
    nodes, last = [], "x"
    for index in range(60):
        name = "y" if index == 59 else f"t{index}"
        nodes.append(helper.make_node("LeakyRelu", [last], [name], alpha=0.01 + index / 100))
        last = name
    path = tmp_path / "slow.onnx"
    shape = (64, 1024)
    onnx.save(model_proto(nodes, inputs=[("x", shape)], outputs=[("y", shape)]), path)
    return path


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
@pytest.mark.parametrize("phase", ["reading", "measuring"])
def test_an_interrupt_leaves_no_file(phase, number, code, word, slow_model, tmp_path):
    process = start(
        "optimize", slow_model, "-o", tmp_path / "out.onnx", "--report", tmp_path / "report.html"
    )
    wait_for_phase(process, phase)
    time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert out == ""
    assert err.splitlines()[-1].startswith(word)
    assert "Traceback" not in err
    assert leftovers(tmp_path, "slow.onnx") == []


def test_an_interrupted_profile_keeps_what_it_measured(cli, monkeypatch, slow_model, own_catalog):
    def strike_at_the_tenth(self, phase, done, *_):
        if phase == "measuring" and done == 10:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Progress, "__call__", strike_at_the_tenth)
    outcome = cli("profile", slow_model, "--budget", "60")
    assert outcome.code == 130, outcome.err
    assert outcome.err.splitlines()[-1] == "interrupted; what was measured is kept"
    with tensolog.Catalog(own_catalog, read_only=True) as catalog:
        assert 0 < catalog.sql("SELECT count(*) FROM measurement").fetchall()[0][0] < 60


def test_the_first_progress_line_needs_no_heavy_module(small_model, tmp_path):
    """What comes before the first line decides how soon it comes."""
    code = (
        "import sys\nfrom tensolog import progress\nfrom tensolog.cli import run\n"
        "def first(self, *_):\n    print(*sys.modules)\n    raise KeyboardInterrupt\n"
        "progress.Progress.__call__ = first\n"
        f"sys.exit(run(['optimize', {str(small_model)!r}, '-o', {str(tmp_path / 'o.onnx')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    loaded = set(done.stdout.split())
    assert not loaded & {"duckdb", "numpy", "onnx", "onnxruntime", "pyarrow", "lark"}


OWN = """\
# EliminateIdentityTwice is not needed; it shows that rules of one's own are used.
rule EliminateIdentityTwice
  tags    always
  source  ["a test"]
  match
    Y = Identity(X)
  rewrite
    Y = X
  equal   exact
"""


def test_rules_of_the_user_must_be_proved_or_allowed(cli, small_model, tmp_path):
    rules, out = tmp_path / "own.rules", tmp_path / "fast.onnx"
    rules.write_text(OWN)
    options = ("optimize", small_model, "-o", out, "--budget", "0", "--rules", rules)
    assert "EliminateIdentityTwice is not proved" in cli(*options).refused()
    assert not out.exists()
    assert cli(*options, "--unproven").code == 0
    assert cli("rules", "prove", rules, "--jobs", "1").code == 0
    assert cli(*options).code == 0
    rules.write_text(OWN.replace("equal   exact", "equal   rounding"))
    assert "is not proved" in cli(*options).refused()


def test_a_file_that_holds_no_rules_to_apply_is_an_error(cli, small_model, tmp_path):
    rules = tmp_path / "own.rules"
    rules.write_text("rule R")
    options = ("optimize", small_model, "-o", tmp_path / "o.onnx", "--rules", rules)
    assert "own.rules:1" in cli(*options).refused()

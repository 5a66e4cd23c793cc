"""Every rewrite that is written in code is a row of what is not proved, and is marked."""

import ast
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from tensolog.optimizer.egraph.saturation.chains import OPERATIONS
from tensolog.optimizer.explain.reason_text import explain_text
from tensolog.optimizer.layouts.values import FAMILY
from tensolog.optimizer.match.rewrite import _BY_CODE, Step
from tensolog.optimizer.race.contest import Plan
from tensolog.optimizer.report.schema import steps_json
from tensolog.optimizer.result.outcome import verdict_of
from tensolog.optimizer.rewrites.unproved import BY_DEFINITION, UNPROVED, is_unproved, table
from tensolog.rules import load_rules

from tests.optimizer.egraph.derived import RNG, Net
from tests.optimizer.egraph.pricing import graph_of, searched
from tests.optimizer.egraph.test_derived_convolutions import SPLITTING, price_of_narrow

from ..builders import model, value

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "docs"))

from unproved_table import MARK, PAGE  # noqa: E402

# Who makes a step of a plan, and which argument is the name of the rewrite; the last three are
# methods of what grows an e-graph.
MAKERS = {"Step": 0, "Application": 0, "state": 0, "note": 0, "give": 6}
GROWING = ("egraph", "layouts")


def names_in_code():
    """(name, file) of each rewrite that some code of the optimizer names itself."""
    names = [(operation.rule, "chains.py") for operation in OPERATIONS]
    names += [(name, "rewrite.py") for name, *_ in _BY_CODE]
    for path in sorted((ROOT / "optimizer").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = path.relative_to(ROOT).with_suffix("").parts
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            maker = getattr(call.func, "id", getattr(call.func, "attr", ""))
            if maker not in MAKERS or (maker.islower() and parts[1] not in GROWING):
                continue
            rule_arguments = [keyword.value for keyword in call.keywords if keyword.arg == "rule"]
            rule_arguments += call.args[MAKERS[maker] : MAKERS[maker] + 1]
            for argument in rule_arguments:
                for name in strings(argument, parts):
                    names.append((name, path.name))
    return names


def strings(argument, parts):
    """The texts that an argument is: constants of the module, or written there."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield argument.value
    elif isinstance(argument, ast.IfExp):
        yield from strings(argument.body, parts)
        yield from strings(argument.orelse, parts)
    elif isinstance(argument, ast.Name):
        module = importlib.import_module(".".join(("tensolog", *parts)).removesuffix(".__init__"))
        text = getattr(module, argument.id, None)
        if isinstance(text, str):
            yield text


def test_every_rewrite_in_code_is_listed_and_nothing_else():
    named = names_in_code()
    listed = {row.name for row in UNPROVED}
    stated = {rule.name for rule in load_rules() if rule.family == FAMILY}
    known = listed | set(BY_DEFINITION) | stated
    missing = {(name, file) for name, file in named if name not in known}
    assert not missing
    assert not (listed | set(BY_DEFINITION)) - {name for name, _ in named}


def test_names_of_rows_are_unique():
    names = [row.name for row in UNPROVED]
    assert len(set(names)) == len(names)
    assert not set(names) & set(BY_DEFINITION)
    assert not set(names) & {rule.name for rule in load_rules()}  # what is proved is no row


@pytest.mark.parametrize("row", UNPROVED, ids=lambda row: row.name)
def test_the_test_of_a_row_is_there(row):
    path, _, name = row.test.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in functions
    assert row.states and row.reason


def test_the_page_is_up_to_date():
    text = PAGE.read_text(encoding="utf-8")
    assert text.split(MARK)[1].strip() == table().strip(), "run python docs/unproved_table.py"


def test_steps_of_a_search_are_rules_or_rows():
    net = Net(17, x=(1, 2, 7, 6))
    conv = net.op("Conv", "x", RNG.normal(size=(3, 2, 3, 3)))
    built = net.model(net.op("Sub", net.op("Add", conv, np.float32(2)), np.float32(3)))
    _, search_result = searched(built, (), price=price_of_narrow, of_passes=SPLITTING)
    assert {step.rule for step in search_result.steps} >= {"SplitNarrowConv", "reorder sum"}
    stated = {rule.name for rule in load_rules()}
    assert all(is_unproved(step.rule) != (step.rule in stated) for step in search_result.steps)


def steps():
    return [
        Step("SplitMaskedAttention", ("n",), 1, 2, True, "cheaper"),
        Step("EliminateIdentity", ("m",), 1, 0, True, "cheaper"),
    ]


def test_not_proved_is_said_wherever_a_step_is_shown():
    text = str(explain_text(steps(), []))
    assert "SplitMaskedAttention (not proved): cheaper" in text
    assert "EliminateIdentity: cheaper" in text
    assert [step["proved"] for step in steps_json(steps())] == [False, True]
    built = model([("Relu", ["x"], ["y"])], [value("x", [1])], [value("y", [1])])
    plan = Plan("searched", graph_of(built), steps=steps())
    sentence = "Not proved, but compared with the original's outputs: SplitMaskedAttention."
    assert sentence in verdict_of(plan, [plan])
    plan.steps = steps()[1:]
    assert "Not proved" not in verdict_of(plan, [plan])

"""Which plans race on: the fastest of many; and which need no race, being the same."""

import numpy as np
import onnx
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.signature import signature
from tensolog.optimizer.race.contest import Plan
from tensolog.optimizer.race.qualifying import FINALISTS, qualify
from tensolog.profiles.races.race import Lap

from tests.optimizer.builders import model, value


class Contest:
    """Stands for the real one: laps as given, a plan without one can't be timed."""

    def __init__(self, ratios, seats=FINALISTS):
        self.original, self.seats = Plan("original", None), seats
        self.ratios, self.asked = ratios, []

    def time_runnable(self, plans, budget_s, *, phase, reference, finalists):
        assert finalists == FINALISTS
        names = [plan.name for plan in plans]
        self.asked.append((phase, reference, names, budget_s))
        placing = sorted((ratio, name) for name, ratio in self.ratios.items() if name in names)
        return {
            name: Lap(1e6, 1e3, ratio, ratio - 0.02, ratio + 0.02, 9)
            for ratio, name in [(1.0, reference), *placing]
        }


def plans(*names):
    return [Plan(name, None) for name in names]


def test_few_plans_race_at_once():
    contest, few = Contest({}), plans(*"abc"[:FINALISTS])
    assert qualify(contest, few, 1.0) == few
    assert not contest.asked


def test_plans_too_large_to_be_alive_together_race_at_once():
    contest, many = Contest({}, seats=FINALISTS - 1), plans(*"abcde")
    assert qualify(contest, many, 1.0) == many
    assert not contest.asked


def test_of_plans_too_large_those_race_that_promise_most():
    contest, many = Contest({}, seats=FINALISTS - 1), plans(*"abcde")
    for plan, expected in zip(many, (5.0, 1.0, 4.0, 2.0, 3.0), strict=True):
        plan.predicted_ns = expected
    assert [plan.name for plan in qualify(contest, many, 1.0)] == ["b", "d", "e"]
    many[0].predicted_ns = None
    assert qualify(contest, many, 1.0) == many


def test_the_fastest_race_on_in_their_order_and_the_others_keep_their_lap():
    contest = Contest({"a": 1.1, "b": 0.8, "c": 0.9, "d": 1.2, "e": 0.7})
    field = plans(*"abcde")
    assert [plan.name for plan in qualify(contest, field, 2.0)] == ["b", "c", "e"]
    assert contest.asked == [("qualifying", "original", ["original", *"abcde"], 2.0)]
    assert field[3].lap.ratio == 1.2


def test_what_deviates_or_does_not_run_is_left_out():
    contest = Contest({"a": 0.9, "c": 0.9, "d": 0.9, "e": 0.9})
    field = plans(*"abcde")
    field[0].refusal = "deviates"
    assert [plan.name for plan in qualify(contest, field, 1.0)] == ["c", "d", "e"]
    assert "a" not in contest.asked[0][2]


def spelled(nodes, constants, outputs=("y",)):
    built = model(
        nodes,
        [value("x", [2])],
        [value(name, [2]) for name in outputs],
        {n: np.array(c, np.float32) for n, c in constants.items()},
    )
    return signature(load_graph(built))


PAIR = [1.0, 2.0]
BASE = [("Add", ["x", "c"], ["t"]), ("Relu", ["t"], ["y"])]


def test_names_and_the_order_of_nodes_make_no_other_plan():
    first = spelled(BASE, {"c": PAIR})
    assert first == spelled([("Add", ["x", "k"], ["u"]), ("Relu", ["u"], ["y"])], {"k": PAIR})
    second = [("Neg", ["x"], ["z"]), *BASE]
    turned = [BASE[0], ("Neg", ["x"], ["z"]), BASE[1]]
    assert spelled(second, {"c": PAIR}, ("y", "z")) == spelled(turned, {"c": PAIR}, ("y", "z"))


def test_constants_operators_operands_attributes_and_dead_nodes_do():
    plans = [
        (BASE, {"c": PAIR}),
        (BASE, {"c": [1.0, 3.0]}),
        ([("Sub", ["x", "c"], ["t"]), BASE[1]], {"c": PAIR}),
        ([("Add", ["c", "x"], ["t"]), BASE[1]], {"c": PAIR}),
        ([("Softmax", ["x"], ["y"])], {}),
        ([onnx.helper.make_node("Softmax", ["x"], ["y"], axis=0)], {}),
        ([*BASE, ("Relu", ["y"], ["z"])], {"c": PAIR}),
    ]
    assert len({spelled(nodes, constants) for nodes, constants in plans}) == len(plans)

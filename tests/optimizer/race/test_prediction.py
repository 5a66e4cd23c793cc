"""Plans priced by what runs: the same is raced once, hopeless ones never; little is measured."""

from collections import Counter

import pytest
from tensolog.optimizer.phases import Phases
from tensolog.optimizer.price import Prices
from tensolog.optimizer.race.contest import ORIGINAL, Plan
from tensolog.optimizer.race.prediction import HOPELESS, Prediction
from tensolog.optimizer.race.session_options import PLAIN_LEVEL, promising
from tensolog.profiles.kernel import Kernel, TensorSpec
from tensolog.profiles.kernels.costs import Cost
from tensolog.profiles.sessions.execution import DEFAULTS


def kernel(name):
    return Kernel("test", name, 1, (), (TensorSpec("float32", (8,)),))


class Costs:
    """A cost model of kernels named by one letter; a bound is half of what is measured."""

    predictions = None

    def __init__(self, ns):
        self.ns = {kernel(name): value for name, value in ns.items()}
        self.known = []

    def cost(self, kernel):
        if kernel in self.known:
            return Cost(self.ns[kernel], 0.0, "measured")
        return Cost(self.ns[kernel] / 2, 0.0, "bound")

    def unmeasured(self, kernels):
        return [kernel for kernel in kernels if kernel not in self.known]

    def measure(self, kernels, *, budget_s, progress=None):
        self.known += kernels
        return len(kernels)

    @property
    def measured(self):
        return "".join(sorted(kernel.op_type for kernel in self.known))


class Contest:
    """Stands for the real one: what runs for a plan is given by letters, opened as it is."""

    asking_s = 1.0

    def __init__(self, runs):
        self.original = Plan(ORIGINAL, None)
        self.runs, self.asked, self.now = runs, [], 0.0

    def kernels_run(self, plan):
        self.now += 1.0
        self.asked.append(plan.name)
        run = self.runs[plan.name]
        return None if run is None else Counter(map(kernel, run))


def predict(runs, ns, budget_s=100.0, measuring_s=100.0):
    contest, costs = Contest(runs), Costs(ns)
    prices = Prices(costs, budget_s=measuring_s)
    prediction = Prediction(contest, prices, Phases(), clock=lambda: contest.now)
    plans = [Plan(name, None) for name in runs if name != ORIGINAL]
    prediction.ask([contest.original, *plans], budget_s)
    return prediction, plans, prediction.rivals(plans), contest, costs


def names(plans):
    return [plan.name for plan in plans]


def test_what_runs_the_same_is_raced_once():
    runs = {ORIGINAL: "aab", "first": "aba", "second": "abb", "third": "bba"}
    _, plans, rivals, *_ = predict(runs, {"a": 10, "b": 9})
    assert names(rivals) == ["second"]
    assert [plan.same_kernels_as for plan in plans] == [ORIGINAL, "", "second"]
    assert not any(plan.refusal for plan in plans)


def test_a_prediction_is_the_sum_of_what_runs():
    prediction, plans, *_ = predict({ORIGINAL: "aab", "less": "ab"}, {"a": 10, "b": 9})
    assert prediction.contest.original.predicted_ns == 29
    assert plans[0].predicted_ns == 19


def test_what_takes_far_longer_is_no_rival():
    runs = {ORIGINAL: "a", "far": "b", "near": "c"}
    _, plans, rivals, *_ = predict(runs, {"a": 10, "b": 10 * HOPELESS + 1, "c": 10 * HOPELESS - 1})
    assert names(rivals) == ["near"]
    assert plans[0].refusal == "predicted to take 2.1 times as long"


def test_what_its_bound_rules_out_is_not_measured():
    runs = {ORIGINAL: "a", "far": "bd", "near": "c"}
    *_, costs = predict(runs, {"a": 10, "b": 40 * HOPELESS, "c": 12, "d": 1})
    assert costs.measured == "ac"


def test_measuring_ends_as_soon_as_a_plan_is_ruled_out():
    many = "bcdefghijklmnopqrst"
    ns = {"a": 10.0, **dict.fromkeys(many, 1.0), "b": 15.0 * HOPELESS}
    *_, rivals, _, costs = predict({ORIGINAL: "a", "far": many}, ns)
    assert not rivals
    assert len(costs.known) < 1 + len(many)


def test_of_an_original_that_is_not_measured_nothing_is_said():
    runs = {ORIGINAL: "a", "far": "b"}
    _, plans, rivals, *_ = predict(runs, {"a": 10, "b": 100}, measuring_s=0.0)
    assert rivals == plans


@pytest.mark.parametrize(("budget_s", "asked"), [(0.5, 0), (1.5, 1), (2.5, 2), (9.0, 3)])
def test_what_nobody_had_time_to_ask_about_stays(budget_s, asked):
    runs = {ORIGINAL: "a", "same": "a", "far": "b"}
    _, plans, rivals, contest, _ = predict(runs, {"a": 10, "b": 100}, budget_s)
    assert contest.asked == list(runs)[:asked]
    gone = plans[: max(0, asked - 1)]
    assert names(rivals) == [plan.name for plan in plans if plan not in gone]


def test_what_can_not_be_asked_about_stays():
    runs = {ORIGINAL: "a", "unknown": None, "strange": None}
    _, plans, rivals, *_ = predict(runs, {"a": 10})
    assert rivals == plans
    assert plans[0].predicted_ns is None
    runs[ORIGINAL] = None
    _, plans, rivals, *_ = predict(runs, {"a": 10})
    assert rivals == plans


def test_of_the_winner_all_is_measured():
    ns = {"a": 10, "b": 1, "c": 1}
    prediction, (plan,), *_, costs = predict({ORIGINAL: "a", "less": "bc"}, ns, measuring_s=0.0)
    assert plan.predicted_ns is None
    prediction.prices.remaining_s = 1.0
    prediction.measure([plan])
    assert plan.predicted_ns == 2 and costs.measured == "bc"


def test_ways_to_open_are_tried_in_the_order_of_their_promise():
    plain = f"(level {PLAIN_LEVEL})"
    runs = {ORIGINAL: "aa", "good": "ab", "same": "aa", "twin": "aa"}
    prediction, plans, *_ = predict(runs, {"a": 10, "b": 9, "c": 1})
    prediction.contest.runs |= {
        f"{ORIGINAL} {plain}": "aaa",
        f"good {plain}": "aab",
        f"same {plain}": "ac",
        f"twin {plain}": "aaa",
    }
    good, same, twin = plans
    chosen = promising(prediction, (prediction.contest.original, good), [same, twin], 100.0)
    assert names(chosen) == ["same", "good", ORIGINAL]
    assert all(plan.execution == DEFAULTS for plan in chosen)

"""The final on a simulated track: gains are found, noise is not taken for one."""

from dataclasses import replace

import pytest
from tensolog.optimizer.race.contest import ORIGINAL, Plan
from tensolog.optimizer.race.final import options_in_vain, run_final
from tensolog.optimizer.race.session_options import with_execution
from tensolog.profiles.races.race import Lap, race
from tensolog.profiles.sessions.execution import DEFAULTS, Execution

from tests.profiles.track import Track

MS = 1e6


def lap(ratio, ms=20):
    return Lap(ms * MS * ratio, 1.0, ratio, ratio - 0.001, ratio + 0.001, 50)


class OnTrack:
    """Stands for a contest whose models are simulated; `times` are in ms, by plan."""

    def __init__(self, times, *, seats=100, load_s=0.1, openings=None, opening_ms=20, **noise):
        self._track = Track({name: ms * MS for name, ms in times.items()}, load_s=load_s, **noise)
        self.clock = self._track.clock
        self._seats, self._load_s, self._run_s = seats, load_s, times[ORIGINAL] * 1e-3
        self._openings, self._opening_ms = openings or {}, opening_ms
        self.original = Plan(ORIGINAL, None)
        self.phases = []

    def rounds_s(self, rounds):
        return 2 * (self._load_s + rounds * self._run_s)

    def affordable(self, budget_s, rounds):
        entering = self._load_s + 4 * self._run_s
        return int((budget_s - entering) / (entering + 2 * rounds * self._run_s))

    def opening(self, plan, budget_s):
        if plan.name not in self._openings:
            return None
        return lap(self._openings[plan.name], self._opening_ms)

    def time(self, plans, budget_s, *, phase, **options):
        self.phases.append((phase, [plan.name for plan in plans]))
        return race(
            {plan.name: b"" for plan in plans},
            {},
            threads=1,
            budget_s=budget_s,
            reference=ORIGINAL,
            seats=self._seats,
            loader=self._track.load,
            clock=self._track.clock,
            **options,
        )


def winners(times, *, budget_s=20.0, runs=20, **track):
    """Who wins in so many runs of the final, and what the longest of them took."""
    names, longest = [], 0.0
    for seed in range(runs):
        contest = OnTrack(times, seed=seed, **track)
        plans = [Plan(name, None) for name in times if name != ORIGINAL]
        names.append(run_final(contest, plans, budget_s).name)
        longest = max(longest, contest.clock())
    return names, longest


def field(original_ms, **others):
    """Twelve plans: as fast as the original, but for those whose factors are given."""
    factors = {f"plan {number}": 1.0 for number in range(12 - len(others))} | others
    return {ORIGINAL: original_ms} | {
        name: original_ms * factor for name, factor in factors.items()
    }


@pytest.mark.parametrize("track", [{"noise": 0.03}, {"noise": 0.01, "disturbed": 0.5}])
def test_a_gain_of_three_percent_among_twelve_is_found_mostly(track):
    names, longest = winners(field(60, better=0.97), **track)
    assert names.count("better") >= 14
    assert set(names) <= {"better", ORIGINAL}
    assert longest < 21


@pytest.mark.parametrize(
    "track", [{"noise": 0.05}, {"noise": 0.01, "disturbed": 0.5}, {"noise": 0.05, "seats": 2}]
)
def test_twelve_copies_of_the_original_rarely_win(track):
    names, _ = winners(field(60), runs=40, **track)
    assert names.count(ORIGINAL) >= 37


@pytest.mark.parametrize("budget_s", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("original_ms", [0.1, 60, 1000])
@pytest.mark.parametrize("seats", [1, 2, 100])
def test_ten_times_as_fast_is_found_always(budget_s, original_ms, seats):
    names, _ = winners(
        field(original_ms, better=0.1), budget_s=budget_s, runs=3, seats=seats, load_s=0.02
    )
    assert set(names) == {"better"}


def test_slower_plans_take_no_time_from_the_others():
    slow = {f"slow {number}": 3.0 for number in range(11)}
    contest = OnTrack(field(60, better=0.97, **slow), noise=0.02)
    plans = [Plan(name, None) for name in ("better", *slow)]
    assert run_final(contest, plans, 20.0).name == "better"
    assert plans[1].lap.samples < 6 < 40 < plans[0].lap.samples
    assert plans[1].lap.verdict == "slower"


def test_where_nothing_is_faster_the_time_is_not_spent():
    contest = OnTrack({ORIGINAL: 60, "slow": 90, "slower": 120})
    plans = [Plan(name, None) for name in ("slow", "slower")]
    assert run_final(contest, plans, 20.0) is contest.original
    assert contest.phases == [("racing", [ORIGINAL, "slow", "slower"])]
    assert contest.clock() < 5


@pytest.mark.parametrize("original_ms", [0.5, 5])
@pytest.mark.parametrize("spell_s", [0.3, 1.0])
def test_a_slow_spell_at_the_start_puts_nobody_out(original_ms, spell_s):
    """Three rounds of small models are over before whatever disturbs one of them is."""
    factors = {"kernels": 0.59, "by gain": 0.41, "without products": 0.7}
    times = {ORIGINAL: original_ms} | {name: original_ms * f for name, f in factors.items()}
    names, _ = winners(times, runs=5, noise=0.02, spells={"by gain": (spell_s, 1.9)})
    assert set(names) == {"by gain"}


class Scripted(OnTrack):
    """Stands for a contest whose heats find what they are told: (ratio, half of its interval)."""

    def __init__(self, times, heats, **options):
        super().__init__(times, **options)
        self._heats = heats

    def time(self, plans, budget_s, *, phase, **options):
        laps = super().time(plans, budget_s, phase=phase, **options)
        if phase != "racing":
            return laps
        heats = {name: Lap(1e6, 1.0, r, r - half, r + half, 40) for name, (r, half) in self._heats}
        return {ORIGINAL: laps[ORIGINAL], **heats}


def confirmed(heats, times, **options):
    contest = Scripted({ORIGINAL: 60} | times, heats, **options)
    plans = [Plan(name, None) for name in times]
    winner = run_final(contest, plans, 20.0).name
    return winner, contest.phases[1][1], plans


def test_what_looks_faster_than_the_one_that_heats_leave_races_again_beside_it():
    heats = [("selected", (0.8, 0.01)), ("one product", (0.73, 0.01)), ("slow", (0.9, 0.01))]
    winner, again, plans = confirmed(heats, {"selected": 48, "one product": 44, "slow": 54})
    assert winner == "one product"
    assert again == [ORIGINAL, "selected", "one product"]
    assert [plan.behind for plan in plans] == ["", "", "selected"]


def test_what_looked_faster_and_is_not_does_not_win():
    heats = [("selected", (0.8, 0.01)), ("one product", (0.73, 0.01))]
    winner, _, plans = confirmed(heats, {"selected": 48, "one product": 52})
    assert winner == "selected"
    assert plans[0].lap.ratio < plans[1].lap.ratio


def test_who_may_be_as_fast_and_has_no_time_to_race_again_lacks_it():
    heats = [("a", (0.8, 0.01)), *((name, (0.79, 0.02)) for name in "bcd")]
    winner, again, plans = confirmed(heats, dict.fromkeys("abcd", 48))
    assert again == [ORIGINAL, "a", "b"] and winner in again
    assert [plan.lacks_s > 0 for plan in plans] == [False, False, True, True]


def test_a_plan_that_dropped_out_is_recalled_where_the_winner_is_slower_than_it_was():
    """The heats saw all models at half of their ratios, as on a machine that was busy then."""
    heats = [("a", (0.45, 0.01)), ("b", (0.6, 0.01)), ("c", (0.99, 0.001))]
    contest = Scripted({ORIGINAL: 2, "a": 1.8, "b": 1.2, "c": 2.0}, heats, load_s=0.01)
    plans = [Plan(name, None) for name in "abc"]
    assert run_final(contest, plans, 20.0) is plans[1]
    assert [names for _, names in contest.phases[1:]] == [[ORIGINAL, "a"], [ORIGINAL, "a", "b"]]
    assert [plan.behind for plan in plans] == ["", "", "a"]
    assert contest.clock() < 21


class Disturbed(Scripted):
    """Its third race tells nothing."""

    def time(self, plans, budget_s, *, phase, **options):
        laps = super().time(plans, budget_s, phase=phase, **options)
        if len(self.phases) < 3:
            return laps
        return {name: replace(lap, ratio_low=0.5, ratio_high=2.0) for name, lap in laps.items()}


def test_who_was_sure_once_stays_where_recalling_others_tells_nothing():
    heats = [("a", (0.45, 0.01)), ("b", (0.6, 0.01))]
    contest = Disturbed({ORIGINAL: 2, "a": 1.6, "b": 1.7}, heats, load_s=0.01)
    plans = [Plan(name, None) for name in "ab"]
    assert run_final(contest, plans, 20.0) is plans[0]
    assert len(contest.phases) == 3 and not plans[0].refusal
    assert plans[0].lap.verdict == "faster"


def test_a_contender_that_takes_longer_to_open_does_not_win():
    heats = [("a", (0.8, 0.01)), ("b", (0.7, 0.01))]
    winner, _, plans = confirmed(heats, {"a": 48, "b": 42}, openings={"b": 1.5}, opening_ms=600)
    assert winner == "a" and plans[1].refusal == "takes 1.50 times as long to open"


def test_without_plans_the_original_is_timed_for_the_record():
    contest = OnTrack({ORIGINAL: 60, "refused": 1})
    plan = Plan("refused", None, refusal="deviates")
    assert run_final(contest, [plan], 20.0) is contest.original
    assert contest.original.lap.samples > 5 and contest.clock() < 5


def test_what_wins_by_its_options_races_its_rivals_again():
    contest = OnTrack({ORIGINAL: 60, "plan": 55, "other": 58, "plan (level basic)": 40})
    plan, other = Plan("plan", None), Plan("other", None)
    way = with_execution(plan, Execution("basic"))
    assert run_final(contest, [plan, other, way], 20.0) is way
    assert contest.phases[1] == ("confirming", [ORIGINAL, way.name, "plan"])


@pytest.mark.parametrize(("naive", "chosen"), [(60, "plan (level basic)"), (70, "other")])
def test_options_must_not_be_needed(naive, chosen):
    """A model that is slower where nobody knows its options loses to one that has none."""
    contest = OnTrack({ORIGINAL: 60, "plan": naive, "other": 45, "plan (level basic)": 40})
    plan, other = Plan("plan", None), Plan("other", None)
    way = with_execution(plan, Execution("basic"))
    assert run_final(contest, [plan, other, way], 20.0).name == chosen
    assert bool(way.refusal) == (chosen == "other")


@pytest.mark.parametrize(
    ("openings", "chosen"),
    [
        ({}, "better"),
        ({"better": 0.7}, "better"),
        ({"better": 1.05}, "better"),
        ({"better": 1.3, "good": 1.0}, "good"),
        ({"better": 1.3, "good": 1.3}, ORIGINAL),
    ],
)
def test_what_takes_longer_to_open_does_not_win(openings, chosen):
    times = {ORIGINAL: 60, "better": 30, "good": 40, "bad": 70}
    contest = OnTrack(times, openings=openings, opening_ms=600)
    plans = [Plan(name, None) for name in ("better", "good", "bad")]
    assert run_final(contest, plans, 20.0).name == chosen
    slow = [plan.name for plan in plans if plan.refusal == "takes 1.30 times as long to open"]
    assert slow == [name for name, ratio in openings.items() if ratio == 1.3]


@pytest.mark.parametrize(("opening_ms", "chosen"), [(2, "better"), (10, "good")])
def test_less_than_a_millisecond_of_opening_is_not_felt(opening_ms, chosen):
    times = {ORIGINAL: 1.0, "better": 0.5, "good": 0.6}
    contest = OnTrack(times, openings={"better": 1.3}, opening_ms=opening_ms)
    plans = [Plan(name, None) for name in ("better", "good")]
    assert run_final(contest, plans, 20.0).name == chosen


@pytest.mark.parametrize(("opening_ms", "chosen"), [(90, "better"), (110, "good")])
def test_the_first_run_may_make_up_for_opening(opening_ms, chosen):
    """Beside 100 milliseconds for the original 30 are lost, and a run gains 30."""
    times = {ORIGINAL: 60, "better": 30, "good": 40}
    contest = OnTrack(times, openings={"better": 1.3}, opening_ms=opening_ms)
    plans = [Plan(name, None) for name in ("better", "good")]
    assert run_final(contest, plans, 20.0).name == chosen


def test_options_must_be_worth_it():
    plan, other = Plan("selected", graph=None, lap=lap(0.8)), Plan("explored", None, lap=lap(0.7))
    way = with_execution(plan, DEFAULTS.without("SkipLayerNormFusion"))
    for ratio, rivals, reason in (
        (0.7, [plan], ""),
        (0.79, [plan], "hardly faster"),
        (0.7, [plan, other], "hardly faster"),
    ):
        way.lap = lap(ratio)
        assert reason in options_in_vain(way, [*rivals, way])
        assert bool(reason) == bool(options_in_vain(way, [*rivals, way]))
    plan.lap, way.lap = lap(1.2), lap(0.5)
    assert "slower than the original" in options_in_vain(way, [plan, way])
    assert options_in_vain(plan, [plan, way]) == ""


@pytest.mark.parametrize("budget_s", [8.0, 30.0])
def test_of_large_models_those_race_that_promise_most(budget_s):
    """Seven plans whose sessions take two seconds: the time tells of one or two, not of all."""
    times = {ORIGINAL: 170, "good": 150} | {f"plan {number}": 168 for number in range(6)}
    wins = 0
    for seed in range(10):
        contest = OnTrack(times, seats=2, load_s=2.0, noise=0.03, seed=seed)
        plans = [Plan(name, None) for name in times if name != ORIGINAL]
        winner = run_final(contest, plans, budget_s, lambda plan: (False, times[plan.name]))
        wins += winner.name == "good"
        assert winner.name in ("good", ORIGINAL)
        left_out = [plan for plan in plans if plan.refusal.startswith("no time to race it")]
        assert len(left_out) >= 2 and plans[0] not in left_out
        assert contest.clock() < budget_s + 8
    assert wins >= 8


def test_where_rounds_are_few_the_two_that_promise_most_share_them():
    """Swin-like: 60 ms a run; seven plans would have a few rounds each, of which none can tell."""
    times = {ORIGINAL: 60, "good": 48, "next": 52} | {f"plan {number}": 57 for number in range(5)}
    promised = times | {"next": 50}  # it is told apart by its laps alone
    wins = 0
    for seed in range(10):
        contest = OnTrack(times, seats=3, load_s=0.3, noise=0.1, seed=seed)
        plans = [Plan(name, None) for name in times if name != ORIGINAL]
        winner = run_final(contest, plans, 9.0, lambda plan: (False, promised[plan.name]))
        wins += winner.name == "good"
        assert sum(not plan.refusal.startswith("no time to race it") for plan in plans) == 2
    assert wins >= 8


def test_where_there_is_time_for_all_no_promise_counts():
    contest = OnTrack({ORIGINAL: 60, "good": 50, "plan": 59})
    plans = [Plan(name, None) for name in ("good", "plan")]
    promised = {"good": (False, 2.0), "plan": (False, 1.0)}
    assert run_final(contest, plans, 20.0, lambda plan: promised[plan.name]) is plans[0]
    assert not plans[1].refusal


@pytest.mark.parametrize("guessed", [False, True])
def test_what_is_known_is_raced_before_guesses(guessed):
    contest = OnTrack({ORIGINAL: 170, "good": 150, "plan": 168}, seats=2, load_s=2.0)
    plans = [Plan(name, None) for name in ("good", "plan")]
    promised = {"good": (False, 150.0), "plan": (guessed, 100.0)}
    run_final(contest, plans, 8.0, lambda plan: promised[plan.name])
    assert [plan.refusal.startswith("no time") for plan in plans] == [not guessed, guessed]

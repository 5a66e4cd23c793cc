"""What an interrupt leaves: nothing, or the best plan that was verified and raced by then."""

import numpy as np
import pytest
from tensolog.catalog import Catalog
from tensolog.optimizer import ORIGINAL, plan_selection
from tensolog.optimizer.phases import BEST
from tensolog.optimizer.race import contest
from tensolog.optimizer.setting import OptionError
from tensolog.profiles.races.race import Lap

import tensolog

from .builders import run
from .test_driver import slow_model

RNG = np.random.default_rng(3)


@pytest.fixture
def clear_races(monkeypatch):
    """Races in which every plan takes half of the original's time, however they run here."""

    def lap(ratio):
        return Lap(1e6 * ratio, 1e3, ratio, ratio, ratio, 20)

    def raced(models, feeds, *, reference, **_):
        return {name: lap(1.0 if name == reference else 0.5) for name in models}

    monkeypatch.setattr(contest, "race", raced)
    # However busy the machine is:
    monkeypatch.setattr(plan_selection, "EARLY_SHARE", 1000.0)
    monkeypatch.setattr("tensolog.optimizer.setting.GRACE_S", 1000.0)
    monkeypatch.setattr(contest.Contest, "opening", lambda *_: None)


class Stop:
    """Progress that is interrupted once, in the first phase of a name after something was best."""

    def __init__(self, phase, after_best=True):
        self.phase, self.waits = phase, after_best
        self.best, self.reports = [], 0

    def __call__(self, phase, done, total, detail):
        if phase == BEST:
            self.best.append(detail)
            self.waits = False
        if phase == self.phase and not self.waits:
            self.phase = None
            raise KeyboardInterrupt


def optimize(progress, **options):
    options |= {"threads": 1, "budget": 1, "portable": True, "search": "gains"}
    return tensolog.optimize(slow_model(), progress=progress, **options)


@pytest.mark.parametrize("phase", ["searching", "explaining", BEST])
def test_the_best_verified_plan_is_kept_on_request(phase, clear_races):
    progress = Stop(phase)
    with Catalog(":memory:") as catalog:
        result = optimize(progress, catalog=catalog, on_interrupt="keep")
        assert result.interrupted and result.verdict.startswith("Interrupted.")
        assert progress.best[-1] == f"2.00x, plan {result.chosen!r}"
        of_chosen = [item for item in result.deviations if item.candidate == result.chosen]
        assert of_chosen and all(item.within for item in of_chosen)
        x = RNG.standard_normal((4, 65536)).astype(np.float32)
        assert np.allclose(
            run(result.model, {"x": x})[0], run(slow_model(), {"x": x})[0], rtol=1e-5
        )


@pytest.mark.parametrize("phase", ["running the original", "rewriting"])
def test_before_any_plan_was_raced_the_original_is_kept(phase, clear_races):
    with Catalog(":memory:") as catalog:
        result = optimize(Stop(phase, after_best=False), catalog=catalog, on_interrupt="keep")
        assert result.interrupted and result.chosen == ORIGINAL
        assert result.model == slow_model()


def test_by_default_an_interrupt_is_passed_on(clear_races):
    with pytest.raises(KeyboardInterrupt):
        optimize(Stop("explaining"), catalog=":memory:")


def test_who_was_not_verified_is_never_the_best(clear_races, monkeypatch):
    def refused(self, plan):
        plan.refusal = "off by 1"

    monkeypatch.setattr(contest.Contest, "verify", refused)
    progress = Stop("explaining", after_best=False)
    with Catalog(":memory:") as catalog:
        result = optimize(progress, catalog=catalog, on_interrupt="keep")
        assert result.chosen == ORIGINAL and not progress.best


def test_an_unknown_way_to_be_interrupted_is_refused():
    with pytest.raises(OptionError, match="known: raise, keep"):
        tensolog.optimize(slow_model(), on_interrupt="write", catalog=":memory:")

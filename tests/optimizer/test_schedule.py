"""Seconds shared out: a pass gets its share, what was left over, and never what is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.optimizer.schedule import Schedule


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def run(shares, taken, seconds=10.0, end=100.0):
    """Let passes with (share, most) take so many seconds; return what each was granted."""
    clock = Clock()
    schedule = Schedule(seconds, end=end, clock=clock)
    granted = []
    for place, ((share, most), took) in enumerate(zip(shares, taken, strict=True)):
        kept = sum(share for share, _ in shares[place + 1 :])
        granted.append(schedule.grant(share, most, kept))
        clock.now += took
        schedule.charge(took)
    return granted


@pytest.mark.parametrize(
    ("taken", "granted"),
    [
        ((0, 0, 0), (4, 5, 10)),
        ((4, 3, 3), (4, 3, 3)),
        ((2, 2, 3), (4, 5, 6)),
        ((9, 1, 1), (4, 3, 3)),  # who takes too much takes from nobody's share
    ],
)
def test_what_a_pass_leaves_is_for_the_next_and_a_share_is_kept(taken, granted):
    assert run([(3, 4), (3, 5), (3, 10)], taken) == pytest.approx(list(granted))


def test_what_nobody_was_granted_comes_out_of_the_time_until_the_end():
    clock = Clock()
    schedule = Schedule(10.0, end=20.0, clock=clock)
    for now, granted in ((9.0, 6.0), (14.0, 2.0), (17.0, 1.0), (25.0, 0.0)):
        clock.now = now
        assert schedule.grant(2.0, 8.0, 4.0) == pytest.approx(granted)


def test_a_pass_is_cut_when_it_would_take_what_is_kept_but_not_before_half_of_the_time():
    clock = Clock()
    schedule = Schedule(10.0, end=20.0, clock=clock)
    assert schedule.cut(7.5) == 12.5
    clock.now = 14.0
    assert schedule.cut(7.5) == 17.0
    assert schedule.cut(0.0) == 20.0


SECONDS = st.floats(0, 10)


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1), st.floats(0, 100), st.data())
def test_no_two_passes_are_granted_the_same_second(shares, end, data):
    total = sum(share for share, _ in shares) or 1.0
    shares = [(share / total, most) for share, most in shares]
    clock = Clock()
    schedule = Schedule(1.0, end=end, clock=clock)
    spent = 0.0
    for place, (share, most) in enumerate(shares):
        kept = sum(share for share, _ in shares[place + 1 :])
        granted = schedule.grant(share, most, kept)
        assert granted >= 0
        took = granted * data.draw(st.floats(0, 1))
        clock.now += took
        schedule.charge(took)
        spent += took
    assert spent <= 1.0 + 1e-9
    assert clock.now <= end + 1e-9

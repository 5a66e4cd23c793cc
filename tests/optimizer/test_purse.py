"""Seconds shared out: nobody gets more than there is, and the last phase what is kept for it."""

import pytest
from tensolog.optimizer.purse import Purse


def spend(shares, taken, reserve=0.4):
    now = [0.0]
    purse = Purse(10.0, reserve=reserve, clock=lambda: now[0])
    granted = []
    for part, seconds in zip(shares, taken, strict=True):
        with purse.share(part) as share_s:
            granted.append(share_s)
            now[0] += seconds
    return granted, purse.left


@pytest.mark.parametrize(
    ("taken", "granted", "left"),
    [
        ((0, 0, 0), (3, 3, 3), 10),
        ((3, 3, 3), (3, 3, 0), 4),
        ((1, 3, 3), (3, 3, 2), 4),
        ((9, 1, 1), (3, 0, 0), 4),
    ],
)
def test_what_a_phase_leaves_is_for_the_next_and_what_is_kept_is_for_the_last(taken, granted, left):
    assert spend((0.3, 0.3, 0.3), taken) == (list(granted), left)


def test_work_that_nothing_was_granted_for_comes_out_of_the_shares():
    now = [0.0]
    purse = Purse(10.0, reserve=0.4, end=20.0, clock=lambda: now[0])
    for passed, granted, left in ((9.0, 3.0, 10.0), (14.0, 2.0, 6.0), (25.0, 0.0, 0.0)):
        now[0] = passed
        assert purse.left == left
        with purse.share(0.3) as share_s:
            assert share_s == granted


def test_a_phase_that_fails_is_counted():
    now = [0.0]
    purse = Purse(10.0, reserve=0.0, clock=lambda: now[0])
    with pytest.raises(KeyError), purse.share(0.5):
        now[0] = 4.0
        raise KeyError
    assert purse.left == 6.0

"""The benchmark's race tells what a contender takes from what the one before it left running."""

from __future__ import annotations

from benchmarks.fusion.race import race


class Machine:
    """A clock that stands still but for what runs: `left` is what others still take of it."""

    def __init__(self) -> None:
        self.now = self.spinning_s = 0.0
        self.calls: list[str] = []

    def contender(self, name: str, seconds: float, spins: float, waking: float) -> None:
        """Run for so long, beside what is left of others, and longer where one comes anew."""
        anew = not self.calls or self.calls[-1] != name
        self.now += seconds + self.spinning_s + waking * anew
        self.spinning_s = 0.0 if spins == 0 else spins * anew
        self.calls.append(name)

    def rest(self) -> None:
        self.spinning_s = 0.0


def test_counts_neither_threads_of_others_nor_waking_ones_own() -> None:
    machine = Machine()
    contenders = {
        "kept awake": lambda: machine.contender("kept awake", 0.004, 0.003, 0.0),
        "woken": lambda: machine.contender("woken", 0.002, 0.0, 0.001),
        "slow": lambda: machine.contender("slow", 0.5, 0.0, 0.0),
    }
    times_s = race(contenders, 7, lambda: machine.now, machine.rest)
    assert {name: round(seconds.min(), 9) for name, seconds in times_s.items()} == {
        "kept awake": 0.004,
        "woken": 0.002,
        "slow": 0.5,
    }
    assert {len(seconds) for seconds in times_s.values()} == {7}


def test_each_takes_a_turn_in_each_round_once_untimed_and_slow_ones_once_timed() -> None:
    machine = Machine()
    contenders = {
        name: lambda name=name, seconds=seconds: machine.contender(name, seconds, 0.0, 0.0)
        for name, seconds in (("quick", 0.001), ("slow", 0.5))
    }
    race(contenders, 4, lambda: machine.now, machine.rest)
    assert machine.calls.count("quick") == 4 * 6
    assert machine.calls.count("slow") == 4 * 2

"""Questions to Z3 that a signal ends: it would take an interrupt for its own, and go on."""

import signal

import pytest
import z3
from tensolog.catalog.interruption import end_all, interruptible
from tensolog.rules.gate.counterexample import symbol_values

from tests.endless import struck


def test_an_interrupt_ends_a_question_and_what_asked_it():
    x, y, u, v = z3.Ints("x y u v")
    hard = symbol_values.endable_solver()
    hard.add(x**3 + y**3 + u**3 == 114, x * y * u * v == y * v + 77)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), struck(), interruptible():
            hard.check()
    finally:
        signal.signal(signal.SIGINT, before)
    easy = z3.Solver()
    easy.add(x > 3)
    assert easy.check() == z3.sat


def test_an_interrupt_while_nothing_is_asked_spoils_no_later_question():
    early, x = symbol_values.endable_solver(), z3.Int("x")
    end_all()
    for solver in (early, symbol_values.endable_solver()):
        solver.push()
        solver.add(x > 3)
        assert solver.check() == z3.sat

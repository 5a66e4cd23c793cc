"""The search for numbers on which the sides of a statement differ, for certain.

Float64 and the prime field only suspect; what they suspect is computed again in exact intervals.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ....catalog.terms.index_notation import looks_up
from ...prover.statement import Statement
from ..evaluation.arithmetic import Arithmetic, Assignment, NoValueError, Number, TooLargeError
from ..evaluation.exact import Exact
from ..evaluation.field import Field
from ..evaluation.float64 import Float
from .difference import Difference, differences
from .operand_values import FAMILIES, assign, elements
from .symbol_values import SymbolSampler

FLOAT, FIELD, EXACT = Float(), Field(), Exact()
# An assignment of more numbers than this is not tried.
_ELEMENTS = 1 << 17


def find_first(
    statements: Sequence[Statement],
    seconds: float,
    counts: Callable[[Statement, Assignment], bool] = lambda *_: True,
    hints: Sequence[Mapping[str, int]] = (),
    seed: int = 0,
    draws: float = math.inf,
) -> tuple[Statement, Difference] | None:
    """The first difference that exact numbers confirm, as large as it was met.

    Statements take turns, so that one of many cases that is false is met early. Only numbers for
    which `counts` holds are of interest. At most so many `draws` of numbers are looked at, of all
    statements together.
    """
    until = time.thread_time() + seconds
    searches = [_suspects(statement, hints, seed) for statement in statements]
    running = dict(enumerate(searches))
    while running and time.thread_time() < until:
        for number, search in list(running.items()):
            if draws <= 0 or time.thread_time() > until:
                return None
            draws -= 1
            try:
                suspect = next(search)
            except StopIteration:
                del running[number]
                continue
            if suspect is None:
                continue
            confirmed = confirm(statements[number], suspect, seed)
            if confirmed is not None and counts(statements[number], confirmed.assignment):
                return statements[number], confirmed
    return None


def _suspects(
    statement: Statement, hints: Sequence[Mapping[str, int]], seed: int
) -> Iterator[Assignment | None]:
    """Assignments on which the sides seem to differ, None after each that found nothing."""
    sizes = SymbolSampler(statement, seed)
    rng = np.random.default_rng(seed)
    for symbols in _all_sizes(statement, sizes, hints):
        if symbols is None:
            yield None
            continue
        try:
            if elements(statement, symbols) > _ELEMENTS:
                yield None
                continue
        except NoValueError:
            yield None
            continue
        for family in FAMILIES:
            assignment = assign(statement, symbols, family, rng)
            yield assignment if _seems(statement, assignment, FLOAT) else None
        assignment = assign(statement, symbols, "small", rng)
        yield assignment if _seems(statement, assignment, FIELD) else None


def _all_sizes(
    statement: Statement, sizes: SymbolSampler, hints: Sequence[Mapping[str, int]]
) -> Iterator[dict[str, Number] | None]:
    for hint in hints:
        hinted = {name: value for name, value in hint.items() if name in sizes.symbols}
        yield sizes.complete(hinted, first=tuple(hinted)) or sizes.complete(hinted)
    if not sizes.symbols:
        while True:
            yield {}
    drawn = sizes.schedule()
    yield from itertools.islice(drawn, 6)
    for obligation in statement.obligations:
        if obligation.condition not in statement.assumptions:
            yield sizes.violating(obligation.condition)
    yield from drawn


def _seems(statement: Statement, assignment: Assignment, arithmetic: Arithmetic) -> bool:
    try:
        return next(differences(statement, assignment, arithmetic), None) is not None
    except (NoValueError, TooLargeError):
        return False


def confirm(statement: Statement, suspect: Assignment, seed: int) -> Difference | None:
    """The suspected difference in exact numbers, at the same sizes; None where it isn't certain."""
    rng = np.random.default_rng(seed)
    tries = [suspect]
    tries += [assign(statement, suspect.symbols, family, rng) for family in FAMILIES[1:4]]
    for assignment in tries:
        difference = certain(statement, assignment)
        if difference is not None:
            return difference
    return None


def certain(
    statement: Statement, assignment: Assignment, arithmetic: Exact = EXACT
) -> Difference | None:
    """A difference at these numbers that no rounding explains."""
    try:
        difference = next(differences(statement, assignment, arithmetic), None)
    except (NoValueError, TooLargeError):
        return None
    if difference is not None and difference.kind in ("undefined", "defined") and difference.output:
        # An index out of range is a mistake even where, for want of elements, nothing is read.
        empty = any(value == 0 for value in assignment.symbols.values())
        if empty and any(looks_up(d.value) for d in statement.definitions):
            return None
    return difference

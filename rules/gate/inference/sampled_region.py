"""A guess at where the two sides of a statement differ, from what they are at a number of sizes.

It is a union of conjunctions of simple conditions on the indices that holds at those elements that
differ there and at no others. Whoever uses it has it proved.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ....catalog.terms.index_notation import Apply, Symbol, Term, apply, substitute
from ...prover.statement import Statement
from ..counterexample.difference import differ
from ..counterexample.operand_values import assign
from ..counterexample.symbol_values import SymbolSampler, integers_in
from ..evaluation.arithmetic import Array, NoValueError, Number, TooLargeError, number
from ..evaluation.evaluate import compute
from ..evaluation.float64 import Float

_SAMPLES = 14
# How often a guess may turn out wrong at other sizes.
_ROUNDS = 6


@dataclass(frozen=True)
class _Sample:
    symbols: Mapping[str, Number]
    differs: Array


def learned_region(statement: Statement, names: Sequence[str], until: float) -> Term | None:
    """A condition on the indices `names` of the output that holds where the sides differ.

    It was seen to be neither larger nor smaller at the sizes looked at. None where none is found,
    where the sides differ everywhere, or nowhere.
    """
    samples = list(_samples(statement, until, 0))
    if not any(s.differs.any() for s in samples) or all(s.differs.all() for s in samples):
        return None
    atoms = list(_atoms(statement, len(names)))
    for seed in range(1, _ROUNDS):
        region = _union(atoms, samples)
        if region is None:
            return None
        fresh = list(_samples(statement, until, seed))
        if not fresh or _agrees(region, fresh):
            return region
        samples += fresh
    return None


def _samples(statement: Statement, until: float, seed: int) -> Iterator[_Sample]:
    """Which elements differ, at small sizes and at such of which one is larger."""
    sizes, rng = SymbolSampler(statement, seed), np.random.default_rng(seed)
    integers = [s.name for s in statement.symbols if s.kind != "real"]
    equation = statement.equations[0]
    count = 0
    for attempt in range(8 * _SAMPLES):
        if count == _SAMPLES or time.thread_time() > until:
            return
        if attempt % 2 and integers:
            symbols = sizes.spike(integers[attempt // 2 % len(integers)], 6 + attempt % 9)
        else:
            symbols = sizes.small(5 + attempt % 4, 1)
        if symbols is None:
            continue
        try:
            if not all(
                number(obligation.condition, symbols) for obligation in statement.obligations
            ):
                continue
            differs: Array | None = None
            for family in ("normal", "positive"):
                tensors = compute(statement, assign(statement, symbols, family, rng), Float())
                left, right = tensors[equation.source], tensors[equation.target]
                differing = left.defined & right.defined & differ(left, right, Float())
                differing |= left.defined != right.defined
                differs = differing if differs is None else differs | differing
        except (NoValueError, TooLargeError, ValueError):
            continue
        if differs is not None and differs.size:
            count += 1
            yield _Sample(symbols, differs)


# ---------------------------------------------------------------------------------- the guess


def _atoms(statement: Statement, rank: int) -> Iterator[Term]:
    """Simple conditions on one index: at or beside an end or a symbol, below it, odd or even."""
    equation = statement.equations[0]
    shape = next(d.shape for d in statement.definitions if d.name == equation.source)
    marks: list[Term] = [s for s in statement.symbols if s.kind != "real"]
    marks += [n for n in sorted(integers_in(statement)) if 1 < n < 100]
    for axis in range(rank):
        index = Symbol(f"i{axis}", "integer")
        places: list[Term] = [0, 1, *(apply("-", shape[axis], d) for d in (1, 2))]
        places += [
            apply("+", mark, d) if d >= 0 else apply("-", mark, -d)
            for mark in marks
            for d in (-2, -1, 0, 1)
        ]
        for place in dict.fromkeys(places):
            if place != 0:
                yield Apply("<", (index, place))
            yield Apply(">=", (index, place))
            yield Apply("=", (index, place))
        for remainder in (0, 1):
            yield Apply("=", (Apply("%", (index, 2)), remainder))


def _agrees(region: Term, samples: list[_Sample]) -> bool:
    """Whether a region holds where the sides differ, and nowhere else, at other sizes too."""
    wanted = np.concatenate([sample.differs.reshape(-1) for sample in samples])
    values = _everywhere(region, samples)
    return values is not None and bool((values == wanted).all())


def _everywhere(region: Term, samples: list[_Sample]) -> Array | None:
    match region:
        case Apply(("and" | "or") as junction, (left, right)):
            first, other = _everywhere(left, samples), _everywhere(right, samples)
            if first is None or other is None:
                return None
            return first & other if junction == "and" else first | other
        case _:
            return _holds(region, samples)


def _union(atoms: list[Term], samples: list[_Sample]) -> Term | None:
    """A union that covers what differs and nothing else: whole atoms first, then pairs of them."""
    wanted = np.concatenate([sample.differs.reshape(-1) for sample in samples])
    known = [(atom, holds) for atom in atoms if (holds := _holds(atom, samples)) is not None]
    parts = [(atom, holds) for atom, holds in known if not (holds & ~wanted).any()]
    useful = [(atom, holds) for atom, holds in known if (holds & wanted).any()]
    parts += [
        (Apply("and", (first, other)), a & b)
        for (first, a), (other, b) in combinations(useful, 2)
        if (a & b).any() and not (a & b & ~wanted).any()
    ]
    chosen: list[Term] = []
    uncovered = wanted.copy()
    while uncovered.any():
        best = max(parts, key=lambda part: int((part[1] & uncovered).sum()), default=None)
        if best is None or not (best[1] & uncovered).any() or len(chosen) == 4:
            return None
        chosen.append(best[0])
        uncovered &= ~best[1]
    region = chosen[0]
    for atom in chosen[1:]:
        region = Apply("or", (region, atom))
    return region


def _holds(atom: Term, samples: list[_Sample]) -> Array | None:
    """Where an atom holds, over all elements of all samples."""
    assert isinstance(atom, Apply)
    results = []
    for sample in samples:
        left, right = (substitute(side, _symbol_terms(sample)) for side in atom.arguments)
        places: Array = np.indices(sample.differs.shape)
        grids = {f"i{axis}": places[axis] for axis in range(sample.differs.ndim)}
        first, other = _on_grid(left, grids), _on_grid(right, grids)
        if first is None or other is None:
            return None
        relation = {"<": np.less, ">=": np.greater_equal, "=": np.equal}[atom.function]
        results.append(np.broadcast_to(relation(first, other), sample.differs.shape).reshape(-1))
    return np.concatenate(results)


def _symbol_terms(sample: _Sample) -> dict[str, Term]:
    return {name: int(v) for name, v in sample.symbols.items() if isinstance(v, int)}


def _on_grid(term: Term, grids: Mapping[str, Array]) -> Array | None:
    match term:
        case int():
            return np.asarray(term)
        case Symbol(name) if name in grids:
            return grids[name]
        case Apply("%", (Symbol(name), int() as divisor)) if name in grids:
            return np.asarray(grids[name] % divisor)
        case _:
            return None

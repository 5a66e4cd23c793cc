"""A slice of the differential fuzzer; `python -m tests.optimizer.fuse.fuzz` runs as much as asked.

What it found is kept here as cases of their own.
"""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensolog import fuse
from tests.campaigns import examples
from tests.optimizer.fuse.compare import DifferenceError, compare
from tests.optimizer.fuse.fuzz import failure
from tests.optimizer.fuse.random_programs import random_case


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**31))
def test_traced_programs_compute_what_numpy_does(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        from tensolog.optimizer.fuse.tracing import prepare, region_engine

        def prepared(program: prepare.Program, options: prepare.Options) -> prepare.Prepared:
            return prepare.Prepared(program, prepare.rewrite(program), options)

        patch.setattr(region_engine, "prepare", prepared)
        case = random_case(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compare(case.function(), fuse(case.function()), list(case.inputs.values()))


@pytest.mark.parametrize("seed", range(12))
def test_fused_programs_compute_what_numpy_does(seed: int) -> None:
    wrong, _ = failure(random_case(seed), "all" if seed % 2 else "cost")
    assert wrong is None, random_case(seed).source


def test_the_fuzzer_finds_a_wrong_kernel() -> None:
    """A check that can't fail checks nothing: a result off by a little is found."""
    case = random_case(3)

    def function(*arguments: object) -> object:
        return case.function()(*arguments)

    def wrong(*arguments: object) -> object:
        results = case.function()(*arguments)
        return tuple(part * (1 + 1e-9) + 1e-9 for part in results)

    with pytest.raises(DifferenceError):
        compare(function, wrong, list(case.inputs.values()))

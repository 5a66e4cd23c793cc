"""The engine against the naive evaluator on random programs."""

from unittest import mock

import duckdb
from hypothesis import HealthCheck, given, settings
from tensolog.catalog.datalog.sql import engine, liveness

from tests.campaigns import examples

from .conftest import checked, sets
from .programs import programs, structured_programs
from .reference import run as reference


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_agree_with_the_naive_evaluator(text):
    checked(text)
    expected = reference(text)
    # Every constant is probed; the second run finds the first one's tables, and numbers symbols.
    with (
        mock.patch.object(liveness, "ENOUGH", 1),
        duckdb.connect(":memory:") as connection,
    ):
        assert sets(text, connection) == expected
        with mock.patch.object(engine, "MANY_ROWS", 0):
            assert sets(text, connection) == expected


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(structured_programs())
def test_random_programs_over_structures_agree_with_the_naive_evaluator(text):
    expected = reference(text)
    with duckdb.connect(":memory:") as connection:
        assert sets(text, connection) == expected

"""The engine against the naive evaluator on random programs."""

import duckdb
from hypothesis import HealthCheck, given, settings

from .conftest import sets
from .programs import programs
from .reference import run as reference


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_agree_with_the_naive_evaluator(text):
    with duckdb.connect(":memory:") as connection:
        assert sets(text, connection) == reference(text)

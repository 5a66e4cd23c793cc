"""Programs in the style of those that people publish, checked by the naive evaluator."""

from pathlib import Path

import duckdb
import pytest
from tensolog.catalog.datalog.program_files import run_files

from .conftest import sets
from .reference import run as reference

EXAMPLES = sorted((Path(__file__).parent / "examples").glob("*.dl"))
SKIPPED_BY_THE_REFERENCE = {"components", "inline_predicates"}  # it knows neither

KNOWN = {
    "fibonacci": {"last": {(2880067194370816120,)}},
    "queens": {"solutions": {(10,)}},
    "orbit": {"transfer": {(4,)}},
    "turing": {"halted": {(6, 4)}},
    "cyk": {"accepted": {("yes",)}},
    "circuit": {"wrong": set()},
    "two_sat": {"Satisfiable": {("Yes",)}},
    "primes": {"summary": {(17, 440, 59, 440 / 17)}},
    "inline_predicates": {
        "middle": {(4,), (9,)},
        "outer": {(1,), (16,)},
        "twice": {(1, 4), (4, 16), (9, 36), (16, 64)},
    },
    "components": {
        "roads.reach": {("a", "b"), ("a", "c"), ("b", "c")},
        "rails.reach": {(2, 1), (2, 3)},
        "pair.inner.reach": {(2, 1), (2, 3)},
        "pair.both": set(),
        "roads.empty": set(),
        "nothing.empty": {()},
    },
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_agrees_with_the_naive_evaluator(path):
    text = path.read_text()
    with duckdb.connect(":memory:") as connection:
        relations = sets(text, connection)
    for name, rows in KNOWN.get(path.stem, {}).items():
        assert relations[name] == rows
    if path.stem not in SKIPPED_BY_THE_REFERENCE:
        assert relations == reference(text)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_runs_from_the_files(path, tmp_path):
    report = run_files(path, tmp_path, tmp_path)
    assert report.files or report.text
    assert all(p.exists() for p in report.files.values())
    assert not list(tmp_path.glob(".*tmp"))

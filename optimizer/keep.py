"""Plans as tables: what was derived, what it was expected to take, what it took, and how."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from ..catalog.errors import TensologError
from .race.contest import Plan
from .result import Candidate
from .unproved import is_unproved

Rows = Sequence[Mapping[str, object]]

SCHEMA = """
CREATE OR REPLACE TABLE plan (
    plan VARCHAR, nodes INTEGER, predicted_ns DOUBLE, median_ns DOUBLE, spread_ns DOUBLE,
    ratio DOUBLE, ratio_low DOUBLE, ratio_high DOUBLE, samples INTEGER, verdict VARCHAR
);
COMMENT ON TABLE plan IS 'Plans that were derived, the original first.';
COMMENT ON COLUMN plan.predicted_ns IS 'Sum of the costs of its kernels.';
COMMENT ON COLUMN plan.median_ns IS 'Measured median; NULL if it was not raced.';
COMMENT ON COLUMN plan.ratio IS 'Its time over that of the original, paired by round.';
COMMENT ON COLUMN plan.verdict IS 'Chosen, or why not.';
CREATE OR REPLACE TABLE plan_step (
    plan VARCHAR, position INTEGER, rule VARCHAR, nodes VARCHAR[], removed INTEGER, added INTEGER,
    cost_before_ns DOUBLE, cost_after_ns DOUBLE, accepted BOOLEAN, reason VARCHAR, proved BOOLEAN
);
COMMENT ON TABLE plan_step IS 'Rewrites that lead to a plan, and those that were tried and left.';
COMMENT ON COLUMN plan_step.nodes IS 'Names of the nodes matched: of a kernel, those it computes.';
COMMENT ON COLUMN plan_step.accepted IS 'Whether the rewrite was made.';
COMMENT ON COLUMN plan_step.reason IS 'Why, or why not.';
COMMENT ON COLUMN plan_step.proved IS 'False where no proof speaks of the equality.';
"""


def keep_plans(plans: Sequence[Plan], candidates: Sequence[Candidate], path: Path) -> None:
    """Write plans, with what was measured of them, to a DuckDB file.

    Raises TensologError where the file can't be written.
    """
    found = {candidate.candidate: candidate for candidate in candidates}
    measured = [
        {"plan": plan.name, **{name: getattr(found[plan.name], name) for name in MEASURED}}
        for plan in plans
    ]
    steps = [
        {
            "plan": plan.name,
            "position": place,
            **{name: getattr(step, name) for name in STEP},
            "proved": not is_unproved(step.rule),
        }
        for plan in plans
        for place, step in enumerate(plan.steps)
    ]
    write_tables(path, SCHEMA, {"plan": measured, "plan_step": steps})


MEASURED = (
    *("nodes", "predicted_ns", "median_ns", "spread_ns", "ratio", "ratio_low", "ratio_high"),
    *("samples", "verdict"),
)
STEP = (
    *("rule", "nodes", "removed", "added", "cost_before_ns", "cost_after_ns", "accepted"),
    "reason",
)


_OF_A_CATALOG = "SELECT 1 FROM duckdb_tables() WHERE table_name = 'catalog_version'"


def write_tables(path: Path, schema: str, tables: Mapping[str, Rows]) -> None:
    """Make tables in a DuckDB file, in the place of what an earlier run left there, and fill them.

    Raises TensologError where the file can't be written, or is a catalog: it has tables of the same
    names. A file that it made itself is gone then.
    """
    is_new = not path.exists()
    try:
        with duckdb.connect(str(path)) as connection:
            if connection.execute(_OF_A_CATALOG).fetchall():
                raise TensologError(f"{path} is a catalog: name another file for the plans")
            connection.execute(schema).fetchall()
            for table, rows in tables.items():
                if not rows:
                    continue
                names = list(rows[0])
                arrow = pa.table({name: [row[name] for row in rows] for name in names})
                connection.register("rows_in", arrow)
                connection.execute(
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT * FROM rows_in"
                ).fetchall()
                connection.unregister("rows_in")
    except duckdb.Error as error:
        if is_new:
            for left in (path, path.with_name(f"{path.name}.wal")):
                with contextlib.suppress(OSError):
                    left.unlink()
        raise TensologError(f"can't keep the search in {path}: {error}") from error

"""A search as tables: e-nodes, classes, matches and the plan, for whoever wants to ask why."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from ...catalog.errors import TensologError
from .congruence import NONE
from .extraction.merges import canonical
from .extraction.problem import Selection
from .plan_steps import name_of
from .provenance import Application
from .search import SearchResult

Rows = Sequence[Mapping[str, object]]

SCHEMA = """
CREATE OR REPLACE TABLE e_node (
    node_id BIGINT, class_id BIGINT, output INTEGER, operator VARCHAR, attributes VARCHAR,
    operands BIGINT[], name VARCHAR, rule VARCHAR, cost_ns DOUBLE
);
COMMENT ON TABLE e_node IS 'Living e-nodes, one row for each class that one gives.';
COMMENT ON COLUMN e_node.class_id IS 'Class that the e-node gives.';
COMMENT ON COLUMN e_node.output IS 'Which of its outputs that is.';
COMMENT ON COLUMN e_node.operands IS 'Classes that it reads; -1 for one left out.';
COMMENT ON COLUMN e_node.name IS 'Node of the model, or the rule that made the e-node.';
COMMENT ON COLUMN e_node.rule IS 'Rule that made it; empty for the model''s own.';
COMMENT ON COLUMN e_node.cost_ns IS 'Cost in the last extraction; infinite if not to be used.';
CREATE OR REPLACE TABLE e_class (
    class_id BIGINT, dtype VARCHAR, shape VARCHAR, known BOOLEAN, layout VARCHAR, plain_id BIGINT
);
COMMENT ON TABLE e_class IS 'Classes that some e-node gives.';
COMMENT ON COLUMN e_class.known IS 'Whether the value is known before the model runs.';
COMMENT ON COLUMN e_class.layout IS 'How channels lie in blocks; empty where they do not.';
COMMENT ON COLUMN e_class.plain_id IS 'Class of the same value outside of blocks, else NULL.';
CREATE OR REPLACE TABLE e_refusal (node_id BIGINT, reason VARCHAR);
COMMENT ON TABLE e_refusal IS 'E-nodes that are not computed in blocks, and why.';
CREATE OR REPLACE TABLE e_match (
    match_id BIGINT, rule VARCHAR, nodes BIGINT[], target_nodes BIGINT[], refusal VARCHAR
);
COMMENT ON TABLE e_match IS 'Matches that were applied, in order.';
COMMENT ON COLUMN e_match.nodes IS 'E-nodes matched.';
COMMENT ON COLUMN e_match.target_nodes IS 'E-nodes of the right side, new ones or not.';
COMMENT ON COLUMN e_match.refusal IS 'Why it was not applied; empty where it was.';
CREATE OR REPLACE TABLE e_plan (
    rank INTEGER, cost_ns DOUBLE, bound_ns DOUBLE, without VARCHAR[], laid_out BOOLEAN
);
COMMENT ON TABLE e_plan IS 'Plans taken out, cheapest first; one naming kernels; those laid out.';
COMMENT ON COLUMN e_plan.bound_ns IS 'What no plan of its kind is below; of the best one alone.';
COMMENT ON COLUMN e_plan.without IS 'Rules that it had to do without.';
COMMENT ON COLUMN e_plan.laid_out IS 'Whether layouts were chosen; reorders count then.';
CREATE OR REPLACE TABLE e_choice (
    rank INTEGER, position INTEGER, class_id BIGINT, node_id BIGINT, cost_ns DOUBLE
);
COMMENT ON TABLE e_choice IS 'Of each plan the e-node that each class is computed by, in order.';
"""


@dataclass(frozen=True)
class LayoutSearch:
    """What the layouts of values add to a search: classes, matches, costs, and the plan laid out.

    `layouts` maps blocked classes to the class of the same value outside, and how channels lie.
    """

    layouts: Mapping[int, tuple[int, str]]
    refusals: Mapping[int, str]
    applications: Sequence[Application]
    price: Callable[[int], float]
    selection: Selection
    cost_ns: float
    bound_ns: float
    without: tuple[str, ...]


def write_search(
    search_result: SearchResult, path: Path, layouts: LayoutSearch | None = None
) -> None:
    """Write a search to a DuckDB file, in the place of what an earlier one left there.

    `layouts` is what came of it when layouts were chosen. Raises TensologError where the file
    can't be written.
    """
    write_tables(path, SCHEMA, _tables(search_result, layouts))


def _tables(
    search_result: SearchResult, layout_search: LayoutSearch | None
) -> dict[str, list[dict[str, object]]]:
    egraph, columns = search_result.egraph, search_result.egraph.columns
    price: Callable[[int], float] = (
        search_result.costs if layout_search is None else layout_search.price
    )
    nodes: list[dict[str, object]] = []
    classes: dict[int, dict[str, object]] = {}
    for node in columns.living().tolist():
        operator = egraph.vocabulary.operators[columns.operator(node)]
        values = egraph.vocabulary.attributes[columns.attribute(node)].values
        origin = egraph.made_by.get(node)
        for place, class_ in enumerate(columns.outputs(node)):
            if class_ == NONE:
                continue
            type_ = egraph.type(class_)
            classes[class_] = {
                "class_id": class_,
                "dtype": type_.dtype if type_ else None,
                "shape": str(list(type_.shape)) if type_ and type_.shape is not None else None,
                "known": egraph.is_known(class_),
                "layout": "",
                "plain_id": None,
            }
            if layout_search is not None and class_ in layout_search.layouts:
                plain, layout = layout_search.layouts[class_]
                classes[class_] |= {"layout": layout, "plain_id": plain}
            nodes.append(
                {
                    "node_id": node,
                    "class_id": class_,
                    "output": place,
                    "operator": operator.name,
                    "attributes": ", ".join(f"{k}={v}" for k, v in sorted(values.items())),
                    "operands": list(columns.operands(node)),
                    "name": name_of(egraph, node),
                    "rule": origin.rule if origin else "",
                    "cost_ns": 0.0 if operator.is_virtual else float(price(node)),
                }
            )
    applications = [
        *search_result.growth.applications,
        *(layout_search.applications if layout_search else ()),
    ]
    matches: list[dict[str, object]] = [
        {
            "match_id": number,
            "rule": application.rule,
            "nodes": list(application.nodes),
            "target_nodes": application.target_nodes,
            "refusal": application.refusal,
        }
        for number, application in enumerate(applications)
    ]
    refusals: list[dict[str, object]] = [
        {"node_id": node, "reason": reason}
        for node, reason in (layout_search.refusals.items() if layout_search else ())
    ]
    return {
        "e_node": nodes,
        "e_class": list(classes.values()),
        "e_match": matches,
        "e_refusal": refusals,
        **_plans(search_result, layout_search),
    }


def _plans(
    search_result: SearchResult, layout_search: LayoutSearch | None
) -> dict[str, list[dict[str, object]]]:
    """Every plan that was taken out, and what it computes each class by."""
    plans: list[dict[str, object]] = []
    chosen: list[dict[str, object]] = []

    def add(
        selection: Selection,
        cost: float,
        bound: float | None,
        without: tuple[str, ...],
        is_laid_out: bool,
    ) -> None:
        rank = len(plans) + 1
        row = {"rank": rank, "cost_ns": cost, "bound_ns": bound, "without": list(without)}
        plans.append({**row, "laid_out": is_laid_out})
        for place, (class_, choice) in enumerate(selection.items()):
            root_columns = {
                "rank": rank,
                "position": place,
                "class_id": search_result.egraph.find(class_),
            }
            chosen.append({**root_columns, "node_id": choice.node, "cost_ns": choice.cost})

    for plan in (*search_result.plans, *([search_result.named] if search_result.named else ())):
        current = canonical(search_result.egraph, search_result.costs, plan.selection)
        add(current, plan.cost_ns, None if plans else search_result.bound_ns, plan.without, False)
    if layout_search is not None:
        add(
            layout_search.selection,
            layout_search.cost_ns,
            layout_search.bound_ns,
            layout_search.without,
            True,
        )
    return {"e_plan": plans, "e_choice": chosen}


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
            for stale in (path, path.with_name(f"{path.name}.wal")):
                with contextlib.suppress(OSError):
                    stale.unlink()
        raise TensologError(f"can't keep the search in {path}: {error}") from error

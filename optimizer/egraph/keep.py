"""A search as tables: e-nodes, classes, matches and the plan, for whoever wants to ask why."""

from __future__ import annotations

from pathlib import Path

from ..keep import write_tables
from .columns import NONE
from .search import Found
from .trace import name_of

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
CREATE OR REPLACE TABLE e_class (class_id BIGINT, dtype VARCHAR, shape VARCHAR, known BOOLEAN);
COMMENT ON TABLE e_class IS 'Classes that some e-node gives.';
COMMENT ON COLUMN e_class.known IS 'Whether the value is known before the model runs.';
CREATE OR REPLACE TABLE e_match (
    match_id BIGINT, rule VARCHAR, nodes BIGINT[], made BIGINT[], refusal VARCHAR
);
COMMENT ON TABLE e_match IS 'Matches that were applied, in order.';
COMMENT ON COLUMN e_match.nodes IS 'E-nodes matched.';
COMMENT ON COLUMN e_match.made IS 'E-nodes of the right side, new ones or not.';
COMMENT ON COLUMN e_match.refusal IS 'Why it was not applied; empty where it was.';
CREATE OR REPLACE TABLE e_plan (
    rank INTEGER, cost_ns DOUBLE, bound_ns DOUBLE, without VARCHAR[]
);
COMMENT ON TABLE e_plan IS 'Plans that were taken out, the cheapest first.';
COMMENT ON COLUMN e_plan.bound_ns IS 'What no plan is below; of the first one alone.';
COMMENT ON COLUMN e_plan.without IS 'Rules that it had to do without.';
CREATE OR REPLACE TABLE e_choice (
    rank INTEGER, position INTEGER, class_id BIGINT, node_id BIGINT, cost_ns DOUBLE
);
COMMENT ON TABLE e_choice IS 'Of each plan the e-node that each class is computed by, in order.';
"""


def keep(found: Found, path: Path) -> None:
    """Write a search to a DuckDB file, in the place of what an earlier one left there.

    Raises TensologError where the file can't be written.
    """
    write_tables(path, SCHEMA, _tables(found))


def _tables(found: Found) -> dict[str, list[dict[str, object]]]:
    egraph, columns = found.egraph, found.egraph.columns
    nodes: list[dict[str, object]] = []
    classes: dict[int, dict[str, object]] = {}
    for node in columns.living().tolist():
        operator = egraph.vocabulary.operators[columns.operator(node)]
        values = egraph.vocabulary.attributes[columns.attribute(node)].values
        made = egraph.made_by.get(node)
        for place, class_ in enumerate(columns.outputs(node)):
            if class_ == NONE:
                continue
            type_ = egraph.type(class_)
            classes[class_] = {
                "class_id": class_,
                "dtype": type_.dtype if type_ else None,
                "shape": str(list(type_.shape)) if type_ and type_.shape is not None else None,
                "known": egraph.is_known(class_),
            }
            nodes.append(
                {
                    "node_id": node,
                    "class_id": class_,
                    "output": place,
                    "operator": operator.name,
                    "attributes": ", ".join(f"{k}={v}" for k, v in sorted(values.items())),
                    "operands": list(columns.operands(node)),
                    "name": name_of(egraph, node),
                    "rule": made.rule if made else "",
                    "cost_ns": 0.0 if operator.is_virtual else float(found.costs(node)),
                }
            )
    matches = [
        {
            "match_id": number,
            "rule": application.rule,
            "nodes": list(application.nodes),
            "made": application.made,
            "refusal": application.refusal,
        }
        for number, application in enumerate(found.growth.applications)
    ]
    plans: list[dict[str, object]] = [
        {
            "rank": rank,
            "cost_ns": plan.cost_ns,
            "bound_ns": found.bound_ns if rank == 1 else None,
            "without": list(plan.without),
        }
        for rank, plan in enumerate(found.plans, 1)
    ]
    chosen: list[dict[str, object]] = [
        {
            "rank": rank,
            "position": place,
            "class_id": class_,
            "node_id": choice.node,
            "cost_ns": choice.cost,
        }
        for rank, plan in enumerate(found.plans, 1)
        for place, (class_, choice) in enumerate(plan.selection.items())
    ]
    return {
        "e_node": nodes,
        "e_class": list(classes.values()),
        "e_match": matches,
        "e_plan": plans,
        "e_choice": chosen,
    }

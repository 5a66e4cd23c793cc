"""A plan in the catalog: all that it says is there, its cuts with their proofs."""

import tensolog.parallel as parallel
from tensolog.catalog import Catalog

from .models import cluster, perceptron


def test_the_catalog_keeps_a_plan():
    model = perceptron(rows=1, width=1024, layers=1, data=False)
    with Catalog(":memory:") as catalog:
        plan = parallel.plan(model, cluster(2), catalog=catalog)
        assert plan.instances[0].plan[0].cuts
        for _ in range(2):
            key = parallel.store_plan(catalog, plan, "perceptron")
        assert catalog.sql(
            "SELECT placement_hash, model, goal, latency_s, c.name FROM placement"
            " JOIN cluster c USING (cluster_hash)"
        ).fetchall() == [(key, "perceptron", "latency", plan.latency_s, "alike")]
        rows = catalog.sql(
            "SELECT operator, devices FROM placement_operator ORDER BY position"
        ).fetchall()
        assert rows == [
            (operator.name, [f"d{n}" for n in config.devices])
            for operator, config in zip(
                plan.problem.workload.operators, plan.instances[0].plan, strict=True
            )
        ]
        proofs = catalog.sql(
            "SELECT kind, parts, status FROM cut JOIN rule USING (rule_hash)"
            " JOIN proof USING (rule_hash)"
        ).fetchall()
        assert len(proofs) == sum(len(step.cuts) for step in plan.instances[0].plan)
        assert {status for _, _, status in proofs} == {"proved"}
        memory_bytes = dict(
            catalog.sql("SELECT device, memory_bytes FROM placement_device").fetchall()
        )
        assert memory_bytes == {f"d{n}": size for n, size in plan.memory_bytes.items()}


def test_a_plan_is_said_in_words():
    plan = parallel.plan(perceptron(), cluster(1), prove=False)
    first, *rest = plan.text().splitlines()
    assert first.startswith("one device: ") and "requests/s" in first
    assert rest == ["  d0: n0 to n3 (4)"]
    assert parallel.to_toml(plan.problem.cluster).startswith('name = "alike"')

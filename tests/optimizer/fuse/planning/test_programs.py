"""The programs of the paper's evaluation: templates as it argues them, and what heuristics lose."""

import pytest
from tensolog.optimizer.fuse.planning import Machine, Pruning
from tensolog.optimizer.fuse.planning.fusion_candidates import conditions
from tensolog.optimizer.fuse.planning.fusion_planner import FusionError, make_plan, plan

from .build import Build
from .programs import ALL, autoencoder, glm, kmeans, l2svm_inner, mlogreg, two_sums

PROGRAMS = {name: make() for name, make in ALL.items()}
HELD = {name: conditions(program) for name, program in PROGRAMS.items()}
TWO_CORES = Machine(cores=2)


def planned(name, heuristic="cost", machine=TWO_CORES, **options):
    return make_plan(PROGRAMS[name], HELD[name], machine, heuristic, **options)


def kernels(fusion_plan):
    return [(kernel.template, kernel.variant, kernel.sparse) for kernel in fusion_plan.fused]


# One pass over the inputs each: sections 2.2 and 5.2 of the paper.
ONE_KERNEL = {
    "product_sum": ("Cell", "full", False),
    "product_sum_sparse": ("Cell", "full", True),
    "two_sums": ("MultiAgg", "full", False),
    "weighted_distance": ("Cell", "full", False),
    "chain": ("Row", "column", False),
    "chain_weighted": ("Row", "column", False),
    "chain_sparse": ("Row", "column", True),
    "mlogreg_core": ("Row", "column", False),
    "cross_entropy": ("Outer", "full", True),
    "cross_entropy_100": ("Outer", "full", True),
    "als_right": ("Outer", "right", True),
    "als_left": ("Outer", "left", True),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_an_expression_is_one_kernel(name):
    fusion_plan = planned(name)
    assert kernels(fusion_plan) == [ONE_KERNEL[name]]
    assert len(fusion_plan.steps) == 1
    computed = [node for node in PROGRAMS[name].nodes if not node.is_leaf]
    assert len(fusion_plan.steps[0].nodes) == len(computed)
    assert fusion_plan.complete


def test_a_sparse_operator_is_driven_by_the_sparse_matrix():
    for name in ("product_sum_sparse", "chain_sparse", "cross_entropy", "als_left"):
        (kernel,) = planned(name).fused
        assert PROGRAMS[name].nodes[kernel.driver].nnz is not None


def test_an_outer_product_reads_its_factors():
    (kernel,) = planned("cross_entropy").fused
    nodes = PROGRAMS["cross_entropy"].nodes
    left, right = nodes[kernel.outer_product].inputs
    assert nodes[left].shape[1] == 20
    assert nodes[right].op == "Transpose" and right in kernel.nodes
    assert {left, *nodes[right].inputs, kernel.driver} < set(kernel.inputs)


def test_the_line_search_of_l2svm_is_one_pass():
    fusion_plan = planned("l2svm_inner")
    assert kernels(fusion_plan)[0] == ("MultiAgg", "full", False)
    assert len(fusion_plan.fused[0].outputs) == 2


def test_cells_alone_are_never_walked_by_rows():
    """Row could hold them too: it has to keep its rows in a cache, and so costs more."""
    for name in ("product_sum", "weighted_distance", "two_sums"):
        assert "Row" not in [kernel.template for kernel in planned(name).fused]
    fuses = HELD["product_sum"].fuses
    assert all(templates == {"Cell", "Row"} for templates in fuses.values())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("on", [Machine(), TWO_CORES, Machine(flops=1e9, products=1e9)])
def test_no_heuristic_is_cheaper(name, on):
    cost = planned(name, machine=on).cost_s
    for heuristic in ("all", "no_redundancy", "none"):
        assert cost <= planned(name, heuristic, on).cost_s * (1 + 1e-9)


def test_fuse_all_loses_where_much_is_computed_again():
    """Fuse-all reads X three times for KMeans' distances, and computes them as often."""
    assert planned("kmeans", "all").cost_s > 1.2 * planned("kmeans").cost_s
    assert planned("l2svm_inner", "all").cost_s > 1.5 * planned("l2svm_inner").cost_s


def test_fuse_no_redundancy_loses_where_little_is_computed_again():
    """It stores what is cheaper to compute again, and so reads X twice."""
    lost = planned("mlogreg_core", "no_redundancy").cost_s
    assert lost > 1.8 * planned("mlogreg_core").cost_s
    lost = planned("l2svm_inner", "no_redundancy").cost_s
    assert lost > 3 * planned("l2svm_inner").cost_s


def test_pruning_skips_nearly_all_plans():
    counts = planned("mlogreg").counts
    whole = planned("mlogreg", pruning=Pruning(False, False, 10**9)).counts
    assert whole.costed == whole.space == counts.space == 2**14
    assert counts.costed < counts.space / 50
    assert planned("mlogreg").complete


def test_all_programs_are_planned_exactly():
    assert [name for name in ALL if not planned(name).complete] == []


def test_sums_over_the_rows_of_one_matrix_share_a_pass():
    """GLM's gradient, Hessian product and three sums, of which each alone reads X."""
    (kernel,) = planned("glm").fused
    assert kernel.template == "Row"
    assert len(kernel.outputs) == 5
    assert planned("glm").cost_s < planned("glm", "all").cost_s / 3


def test_heuristics_lose_clearly_on_one_program():
    """Fuse-all computes and reads again for each sum what fuse-no-redundancy writes and reads."""
    for heuristic in ("all", "no_redundancy"):
        assert planned("glm", heuristic).cost_s > 2 * planned("glm").cost_s


def test_what_is_over_before_a_kernel_is_called_is_left_to_numpy():
    def fused(size, more=0):
        b = Build()
        value = b.op("Mul", b.input(size), b.input(size))
        for _ in range(more):
            value = b.op("Exp", value)
        program = b.program(b.sum(value), b.op("Abs", b.input(5000)))
        derived_conditions = conditions(program)
        fusion_plan = make_plan(program, derived_conditions, TWO_CORES)
        assert fusion_plan.complete
        return [len(kernel.nodes) for kernel in fusion_plan.fused]

    assert fused(10) == [1]
    assert sorted(fused(1000)) == [1, 2]
    assert sorted(fused(10, more=5)) == [1, 7]


def test_the_memory_budget_decides():
    """X * Y * Z of 8 MB each: four matrices at once, three, or not even those."""
    b = Build()
    x, y, z = (b.input(1000, 1000) for _ in range(3))
    program = b.program(b.op("Mul", b.op("Mul", x, y), z))
    derived_conditions = conditions(program)

    def steps(megabytes):
        return len(
            make_plan(program, derived_conditions, Machine(), memory_bytes=megabytes * 1e6).steps
        )

    assert steps(32) == 1
    assert steps(31) == 2
    assert steps(24) == 2
    with pytest.raises(FusionError, match="allow more memory"):
        steps(23)


def test_plans_are_kept():
    first = plan(two_sums())
    assert plan(two_sums()) is first
    assert plan(two_sums(), heuristic="all") is not first
    assert plan(two_sums(), memory_bytes=1e12) is not first
    assert plan(two_sums(), Machine(cores=7)) is not first


def test_a_plan_is_tables():
    fusion_plan = planned("l2svm_outer")
    tables = fusion_plan.tables()
    for name, (columns, rows) in tables.items():
        assert rows, name
        assert all(len(row) == len(columns) for row in rows)
    covered = {row[1] for row in tables["fusion_cover"][1]}
    assert covered == {node.id for node in PROGRAMS["l2svm_outer"].nodes if not node.is_leaf}


def test_the_nary_product_fuses():
    """SystemDS's n-ary multiplication is in no template: longer chains stay unfused there."""
    b = Build()
    value = b.input(500, 400)
    for _ in range(7):
        value = b.op("Mul", value, b.input(500, 400))
    most = b._add("Max", [value, b.input(500, 400), b.input(500, 400)], (500, 400))
    program = b.program(b.sum(most))
    derived_conditions = conditions(program)
    assert kernels(make_plan(program, derived_conditions, Machine())) == [("Cell", "full", False)]


def test_loop_bodies_are_fused():
    """Fewer kernels than half of their operators, and fewer bytes than alone."""
    for make in (l2svm_inner, kmeans, mlogreg, glm, autoencoder):
        name = make.__name__
        fusion_plan, alone = planned(name), planned(name, "none")
        assert len(fusion_plan.steps) < len(alone.steps) * 0.7
        moved = [
            sum(step.read_bytes + step.write_bytes for step in plan_.steps)
            for plan_ in (fusion_plan, alone)
        ]
        assert moved[0] < moved[1]

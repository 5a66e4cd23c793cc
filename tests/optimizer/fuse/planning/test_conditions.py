"""Each condition of templates.dl: where it holds, and where exactly one thing is missing."""

import dataclasses
import random
from pathlib import Path

import duckdb
import pytest
from tensolog.catalog.datalog import evaluate
from tensolog.catalog.datalog.memory import program_cache as shipped_programs
from tensolog.catalog.datalog.memory.program_plans import database_only
from tensolog.catalog.datalog.program_files import read_program
from tensolog.optimizer.fuse.planning.fusion_candidates import (
    conditions,
    derived,
    facts,
    templates,
)
from tensolog.optimizer.fuse.program.dag import Program

from tensolog.cli import run

from .build import Build, random_program, shared_program
from .programs import ALL

ROOT = Path(__file__).parents[4]
TEMPLATES = ROOT / "optimizer" / "fuse" / "planning" / "templates.dl"


def cell_chain(b, shape=(50, 40), other=(50, 40), op="Exp", dtype="float64"):
    c = b.op(op, b.input(*shape))
    b.nodes[c] = dataclasses.replace(b.nodes[c], dtype=dtype)
    h = b.op("Mul", c, b.input(*other))
    return h, c, [h]


def aggregated(b, op="ReduceSum", axes=None, shape=(50, 40)):
    c = b.op("Exp", b.input(*shape))
    h = b.reduce(op, c, axes)
    return h, c, [h]


def after_aggregate(b, axes):
    """A cell operation over an aggregate that it broadcasts."""
    c = b.reduce("ReduceSum", b.input(50, 40), axes, 1)
    h = b.op("Mul", b.input(50, 40), c)
    return h, c, [h]


def dot(b, shape=(50,)):
    c = b.op("Exp", b.input(*shape))
    column = b.t(c) if len(shape) == 2 else c
    h = b.matmul(column, b.input(*shape))
    return h, c, [h]


def of_sparse(b, op="Mul", other=100, meets=None, product=False):
    """A value of two matrices (`other` entries; None: dense), and what reads it with a third."""
    c = b.op(op, b.input(50, 40, nnz=100), b.input(50, 40, nnz=other))
    if product:
        h = b.matmul(c, b.input(40))
    else:
        h = b.op("Mul", c, b.input(50, 40, nnz=meets))
        b.nodes[h] = dataclasses.replace(b.nodes[h], nnz=50, layout="csr")
    b.nodes[c] = dataclasses.replace(b.nodes[c], nnz=50, layout="csr")
    return h, c, [h]


CELL = {
    "two sparse values and a dense one": (of_sparse, False),
    "two sparse values and a sparse one": (lambda b: of_sparse(b, meets=100), True),
    "a sparse value, a dense one, and one more": (lambda b: of_sparse(b, other=None), True),
    "a chain of one shape": (cell_chain, True),
    "a vector that broadcasts": (lambda b: cell_chain(b, shape=(40,)), False),
    "a column that broadcasts": (lambda b: cell_chain(b, shape=(50, 1)), False),
    "scalars": (lambda b: cell_chain(b, shape=(), other=()), False),
    "an integer type": (lambda b: cell_chain(b, dtype="int64"), False),
    "three axes": (lambda b: cell_chain(b, shape=(2, 50, 40), other=(2, 50, 40)), False),
    "a full aggregate": (aggregated, True),
    "a row aggregate": (lambda b: aggregated(b, axes=(1,)), True),
    "a column aggregate": (lambda b: aggregated(b, axes=(0,)), True),
    "an aggregate that no kernel does": (lambda b: aggregated(b, op="ReduceLogSumExp"), False),
    "an aggregate of nothing": (lambda b: aggregated(b, axes=()), False),
    "over an aggregate": (lambda b: after_aggregate(b, (1,)), False),
    "v @ w": (dot, True),
    "t(v) @ w of columns": (lambda b: dot(b, shape=(50, 1)), True),
    "t(V) @ W of two columns": (lambda b: dot(b, shape=(50, 2)), False),
}


def row_product(b, width=None, n=40, m=50):
    c = b.op("Exp", b.input(m, n))
    h = b.matmul(c, b.input(n) if width is None else b.input(n, width))
    return h, c, [h]


def over_product(b, m=50, n=40, broadcast=False):
    """w * (X @ v); broadcast: along the columns of a square matrix, where all of it is needed."""
    c = b.matmul(b.input(m, n), b.input(n))
    h = b.op("Mul", b.input(m, m) if broadcast else b.input(m), c)
    return h, c, [h]


def turned_product(b, width=3, n=40, m=50, turned=True):
    c = b.op("Exp", b.input(m, n) if turned else b.input(n, m))
    h = b.matmul(b.t(c) if turned else c, b.input(m, width))
    return h, c, [h]


def added_side(b, rank=2):
    """t(X) @ f(B), or f(v) @ X."""
    x = b.input(50, 40)
    if rank == 2:
        c = b.op("Exp", b.input(50, 3))
        h = b.matmul(b.t(x), c)
    else:
        c = b.op("Exp", b.input(50))
        h = b.matmul(c, x)
    return h, c, [h]


def side_of_row_product(b):
    c = b.op("Exp", b.input(40, 3))
    h = b.matmul(b.input(50, 40), c)
    return h, c, [h]


def lifted(b, width=1):
    x = b.op("Exp", b.input(50, 40))
    c = b.sum(x, 1)
    h = b.column(c)
    if width != 1:
        h = b._add("Reshape", [c], (25, 2), axes=())
    return h, c, [h]


ROW = {
    "a product with two sparse values": (lambda b: of_sparse(b, product=True), False),
    "a product with one": (lambda b: of_sparse(b, other=None, product=True), True),
    "X @ v": (row_product, True),
    "X @ V for a narrow V": (lambda b: row_product(b, 4), True),
    "X @ V for a wide V": (lambda b: row_product(b, 65, m=500), False),
    "X @ V for a V as wide as X is tall": (lambda b: row_product(b, 50), False),
    "a matrix of one row": (lambda b: row_product(b, m=1), False),
    "a matrix of one column": (lambda b: row_product(b, n=1), False),
    "V is read from outside": (side_of_row_product, False),
    "w * (X @ v)": (over_product, True),
    "X * (X @ v) along columns": (lambda b: over_product(b, broadcast=True), False),
    "t(f(X)) @ B": (turned_product, True),
    "f(X) @ B whose rows aren't narrow": (
        lambda b: turned_product(b, 70, n=90, m=80, turned=False),
        False,
    ),
    "t(f(X)) @ B both wide": (lambda b: turned_product(b, 65, n=66, m=500), False),
    "t(f(X)) @ B, one narrow": (lambda b: turned_product(b, 64, n=66, m=500), True),
    "t(X) @ f(B)": (added_side, True),
    "f(v) @ X": (lambda b: added_side(b, 1), True),
    "over a row aggregate": (lambda b: after_aggregate(b, (1,)), True),
    "over a column aggregate": (lambda b: after_aggregate(b, (0,)), False),
    "sums as a column": (lifted, True),
    "sums in two columns": (lambda b: lifted(b, 2), False),
    "column aggregate": (lambda b: aggregated(b, axes=(0,)), True),
    "column aggregate of one row": (lambda b: aggregated(b, axes=(0,), shape=(1, 40)), False),
}


def outer(b, m=90, n=80, rank=5, nnz=100, op="Mul", close=None):
    """The edge from X * (U @ t(V)) to its product, or from an aggregate of it."""
    x = b.input(m, n, nnz=nnz)
    product = b.matmul(b.input(m, rank), b.t(b.input(n, rank)))
    value = b.op(op, x, product, nnz=nnz)
    if close is None:
        return value, product, [value]
    closing = close(b, value)
    return closing, value, [closing]


def left(b, value):
    return b.matmul(b.t(value), b.input(90, 5))


def right(b, value):
    return b.matmul(value, b.input(80, 5))


OUTER = {
    "X * (U @ t(V))": (outer, True),
    "a dense driver": (lambda b: outer(b, nnz=None), False),
    "a rank beyond the rows": (lambda b: outer(b, m=5, rank=5), False),
    "a rank beyond the columns": (lambda b: outer(b, n=4, rank=5), False),
    "sum": (lambda b: outer(b, close=lambda b, v: b.sum(v)), True),
    "row sums": (lambda b: outer(b, close=lambda b, v: b.sum(v, 1)), False),
    "max": (lambda b: outer(b, close=lambda b, v: b.reduce("ReduceMax", v)), False),
    "W @ V": (lambda b: outer(b, close=right), True),
    "t(W) @ U": (lambda b: outer(b, close=left), True),
}


CASES = {
    (template, name): case
    for template, cases in (("Cell", CELL), ("Row", ROW), ("Outer", OUTER))
    for name, case in cases.items()
}


@pytest.fixture(scope="module")
def fused():
    """Say of each case whether its edge may be fused in its template."""
    edges, programs = [], []
    for make, _ in CASES.values():
        b = Build()
        h, c, outputs = make(b)
        edges.append((h, c))
        programs.append(b.program(*outputs))
    cases = zip(CASES, edges, map(conditions, programs), strict=True)
    return {
        case: case[0] in derived_conditions.fuses.get(edge, ())
        for case, edge, derived_conditions in cases
    }


@pytest.mark.parametrize("case", CASES, ids="{0[0]}: {0[1]}".format)
def test_an_edge_may_be_fused(case, fused):
    assert fused[case] is CASES[case][1]


def joined(same=True, shape=(50, 40), chained=False):
    b = Build()
    x = b.input(50, 40)
    y = x if same else b.input(*shape)
    first = b.sum(b.op("Exp", x))
    second = b.sum(b.op("Abs", b.op("Mul", y, first) if chained else y))
    derived_conditions = conditions(b.program(first, second))
    return (first, second) in derived_conditions.joins


def test_aggregates_join_over_an_input():
    assert joined()
    assert not joined(same=False)


def joined_over_rows(first="turned", second="column", same=True):
    """Whether two aggregates over the rows of X, or of two matrices, may share a pass."""
    b = Build()
    x = b.input(50, 40)
    y = x if same else b.input(50, 40)

    def aggregate(kind, matrix):
        match kind:
            case "turned":
                return b.matmul(b.t(matrix), b.input(50))
            case "column":
                return b.sum(b.op("Exp", matrix), 0)
            case "row":
                return b.sum(b.op("Exp", matrix), 1)
            case "product":
                return b.sum(b.matmul(matrix, b.input(40)))
            case "other way":
                return b.matmul(matrix, b.input(40, 3))

    total = aggregate(first, x)
    other = aggregate(second, y)
    derived_conditions = conditions(b.program(total, other))
    return (min(total, other), max(total, other)) in derived_conditions.joins


def test_aggregates_join_over_rows():
    assert joined_over_rows()
    assert joined_over_rows("turned", "product")
    assert joined_over_rows("product", "column")
    assert not joined_over_rows(same=False)
    assert not joined_over_rows("turned", "row")  # a number for each row is no sum over rows
    assert not joined_over_rows("turned", "other way")


def test_points_are_edges_of_and_below_shared_nodes_and_of_changing_templates():
    b = Build()
    x, v = b.input(50, 40), b.input(40)
    once = b.op("Exp", x)
    twice = b.op("Abs", once)
    product = b.matmul(twice, v)
    weighted = b.op("Mul", b.input(50), product)
    total = b.sum(twice)
    derived_conditions = conditions(b.program(weighted, total))
    assert derived_conditions.points == {
        (product, twice): "consumers",
        (total, twice): "consumers",
        (weighted, product): "template",
        (twice, once): "repeated",
    }
    assert len(set(derived_conditions.partition.values())) == 1


def test_what_a_product_of_vectors_reads_is_a_point():
    b = Build()
    x = b.op("Abs", b.input(50))
    product = b.matmul(x, b.input(50))
    assert conditions(b.program(product)).points == {(product, x): "library"}


def test_what_a_sum_reads_is_no_point():
    b = Build()
    total = b.sum(b.op("Abs", b.input(50)))
    assert conditions(b.program(total)).points == {}


def test_an_edge_beside_a_sparse_matrix_is_a_point():
    def points(nnz):
        b = Build()
        c = b.op("Mul", b.input(50, 40, nnz=nnz), b.input(50, 40), nnz=nnz)
        h = b.op("Add", c, b.input(50, 40))
        derived_conditions = conditions(b.program(h))
        return derived_conditions.points

    assert set(points(100).values()) == {"sparse"}
    assert points(None) == {}


def test_conditions_of_one_shape_are_derived_once():
    b = Build()
    program = b.program(b.sum(b.op("Exp", b.input(33, 22))))
    again = Build()
    other = again.program(again.sum(again.op("Exp", again.input(33, 22))))
    assert conditions(program) is conditions(other)


def test_conditions_depend_on_how_extents_compare_alone():
    """Of all cases the same is derived for ranks as for extents, and for others of their order."""
    programs = []
    for make, _ in CASES.values():
        b = Build()
        programs.append(b.program(*make(b)[2]))
    for program in programs:
        assert conditions(program) == derived(facts(program))

    def chain(m, n):
        b = Build()
        return b.program(b.matmul(b.t(x := b.input(m, n)), b.matmul(x, b.input(n))))

    assert conditions(chain(1000, 100)) is conditions(chain(2000, 65))
    assert conditions(chain(1000, 100)) is not conditions(chain(1000, 63))  # skinny
    assert conditions(chain(1000, 100)) is not conditions(chain(100, 1000))


def test_the_planner_derives_what_the_database_does():
    """Of the paper's programs, of all cases and of random programs: every relation, row by row."""
    source = random.Random(5)
    programs = [make() for make in ALL.values()]
    for make, _ in CASES.values():
        b = Build()
        programs.append(b.program(*make(b)[2]))
    for _ in range(40):
        programs += [shared_program(source, 20), random_program(source, 14)]
    rules = read_program(TEMPLATES)
    fact_rows = dict(facts(side_by_side(programs)))
    with duckdb.connect() as connection:
        relations = evaluate(
            rules, connection, inputs={n: _values(r) for n, r in fact_rows.items()}
        )
        expected = {name: set(relations[name].fetchall()) for name in relations}
    assert {name: set(rows) for name, rows in templates()(fact_rows).items()} == expected
    assert all(expected.values())  # every rule's relation was met


def test_the_command_derives_what_the_planner_does(tmp_path):
    """`tensolog datalog run` of the rules on a program's facts, written as files."""
    program = ALL["mlogreg"]()
    described = facts(program)
    for name, rows in described:
        lines = ["\t".join(map(str, row)) + "\n" for row in rows]
        (tmp_path / f"{name}.facts").write_text("".join(lines), encoding="utf-8")
    folders = ["--facts", str(tmp_path), "--out", str(tmp_path)]
    assert run(["datalog", "run", str(TEMPLATES), *folders]) == 0
    rows_of = templates()(dict(described))
    for name in ("fuses", "opens", "closes", "point", "joins", "partition"):
        text = (tmp_path / f"{name}.csv").read_text(encoding="utf-8")
        written = {tuple(line.split("\t")) for line in text.splitlines()}
        assert written == {tuple(map(str, row)) for row in rows_of[name]}, name
    derived_conditions = conditions(program)
    assert {(h, c) for h, c, _ in rows_of["point"]} == derived_conditions.points.keys() != set()
    assert {(h, c, t) for (h, c), ts in derived_conditions.fuses.items() for t in ts} == {
        *rows_of["fuses"]
    }


def test_the_rules_need_no_database_and_their_plan_is_read_from_disk(tmp_path, monkeypatch):
    rules = read_program(TEMPLATES)
    assert database_only(rules) is None
    monkeypatch.setattr(shipped_programs, "cache_path", lambda: tmp_path)
    fact_rows = dict(facts(ALL["mlogreg"]()))
    rows = shipped_programs.shipped(TEMPLATES)(fact_rows)
    monkeypatch.setattr(shipped_programs, "_planned", None)  # read, not made again
    assert shipped_programs.shipped(TEMPLATES)(fact_rows) == rows == templates()(fact_rows)


def side_by_side(programs):
    """Programs as one, the nodes of each after those of the ones before."""
    nodes, inputs, outputs = [], [], []
    for program in programs:
        first = len(nodes)
        for node in program.nodes:
            read = tuple(first + number for number in node.inputs)
            nodes.append(dataclasses.replace(node, id=first + node.id, inputs=read))
        inputs += [first + number for number in program.inputs]
        outputs += [first + number for number in program.outputs]
    return Program(tuple(nodes), tuple(inputs), tuple(outputs))


def _values(rows):
    return "VALUES " + ", ".join(f"({', '.join(map(repr, row))})" for row in rows)


def test_dead_nodes_have_no_facts():
    b = Build()
    x = b.input(50, 40)
    dead = b.op("Exp", x)
    program = b.program(b.op("Abs", x))
    assert all(row[0] != dead for name, rows in facts(program) for row in rows if name == "node")

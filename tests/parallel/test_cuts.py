"""Cuts follow from specifications, and those that are used are proved."""

import pytest
from tensolog.catalog import Catalog
from tensolog.catalog.datalog import evaluate, parse
from tensolog.parallel.cuts.cut_rules import admit, rule_of
from tensolog.parallel.cuts.index_facts import index_facts
from tensolog.parallel.cuts.operator_cuts import Slicing, cuts_of, expanded, part_of
from tensolog.profiles.kernel import Kernel, TensorSpec

F = "float32"


def f32(*shape, **more):
    return TensorSpec(F, shape, **more)


def weight(*shape):
    return f32(*shape, constant=True)


def ints(*values):
    return TensorSpec("int64", (len(values),), True, values)


def kernel(op_type, *inputs, outputs=1, **attributes):
    return Kernel("", op_type, 17, tuple(attributes.items()), inputs, outputs)


def suggested_cuts(kernel):
    return [(cut.kind, cut.combine, cut.axes) for cut in cuts_of(kernel)]


SAMPLE, BATCH = ("sample", "concat", (0,)), ("attribute", "concat", (1,))
CONV = kernel("Conv", f32(2, 8, 16, 16), weight(12, 8, 3, 3), weight(12), pads=(1, 1, 1, 1))


@pytest.mark.parametrize(
    ("kernel_", "cuts"),
    [
        (
            kernel("MatMul", f32(2, 8, 16), weight(16, 32)),
            [SAMPLE, BATCH, ("parameter", "concat", (2,)), ("reduction", "sum", ())],
        ),
        (
            kernel("Gemm", f32(8, 16), weight(32, 16), weight(32), transB=1),
            [SAMPLE, ("parameter", "concat", (1,)), ("reduction", "sum", ())],
        ),
        (
            CONV,
            [
                *(SAMPLE, ("parameter", "concat", (1,)), ("attribute", "concat", (2,))),
                *(("attribute", "concat", (3,)), ("reduction", "sum", ())),
            ],
        ),
        (kernel("Softmax", f32(2, 8, 16), axis=-1), [SAMPLE, BATCH]),
        (kernel("Softmax", f32(2, 8, 16), axis=0), [BATCH, ("attribute", "concat", (2,))]),
        (kernel("LayerNormalization", f32(2, 8, 16), weight(16)), [SAMPLE, BATCH]),
        (
            kernel("ReduceMax", f32(2, 8, 16), axes=(2,)),
            [SAMPLE, BATCH, ("reduction", "max", ())],
        ),
        # Its window would be another one, also where it has room for one step alone.
        (
            kernel("MaxPool", f32(2, 4, 3, 5), kernel_shape=(2, 2), strides=(2, 1)),
            [SAMPLE, BATCH, ("attribute", "concat", (3,))],
        ),
        # A mean of means is no mean, where parts differ in size.
        (kernel("ReduceMean", f32(2, 8, 16), axes=(2,)), [SAMPLE, BATCH]),
        (kernel("CumSum", f32(2, 8), ints(1)), [SAMPLE]),
        (kernel("Split", f32(2, 8), ints(3, 5), axis=1, outputs=2), [("sample", "concat", (0, 0))]),
        # Nothing is said of it.
        (kernel("NonZero", f32(2, 8)), []),
    ],
    ids=lambda value: value.op_type if isinstance(value, Kernel) else "",
)
def test_cuts_that_follow_from_specifications(kernel_, cuts):
    assert suggested_cuts(kernel_) == cuts


def test_halves_of_merged_axes_begin_where_the_inner_one_does():
    (_, _, merged) = cuts_of(kernel("Reshape", f32(2, 8, 4, 4), ints(0, 0, -1)))
    assert (merged.granule, merged.slices[0]) == (4, Slicing(2, divisor=4))
    assert merged.ranges(3) == ((0, 4), (4, 8), (8, 16))
    divided = kernel("Reshape", f32(2, 8, 16), ints(2, 8, 4, 4))
    assert cuts_of(divided)[2].slices[0] == Slicing(2, stride=4, reach=4)
    part = part_of(divided, cuts_of(divided)[2], 1, 3)
    assert (part.inputs[0].shape, part.inputs[1].value) == ((2, 8, 8), (2, 8, 2, 4))


def test_parts_of_what_is_expanded_have_shapes_of_their_own():
    expand = kernel("Expand", f32(4, 1, 6), ints(4, 3, 6))
    assert suggested_cuts(expand) == [SAMPLE, ("attribute", "concat", (2,))]
    part = part_of(expand, cuts_of(expand)[1], 2, 6)
    assert (part.inputs[0].shape, part.inputs[1].value) == ((4, 1, 4), (4, 3, 4))


def test_parts_of_windows_overlap_and_pad_at_the_ends_alone():
    rows = cuts_of(CONV)[2]
    first, middle, last = (part_of(CONV, rows, *ends) for ends in ((0, 5), (5, 10), (10, 16)))
    assert [config.inputs[0].shape[2] for config in (first, middle, last)] == [6, 7, 7]
    assert first.attribute("pads") == (1, 1, 0, 1)
    assert middle.attribute("pads") == (0, 1, 0, 1)
    assert last.attribute("pads") == (0, 1, 1, 1)


def test_the_bias_of_a_sum_is_added_once():
    channels = cuts_of(CONV)[4]
    first, second = (part_of(CONV, channels, *ends) for ends in ((0, 4), (4, 8)))
    assert (len(first.inputs), len(second.inputs)) == (3, 2)


def test_duckdb_derives_the_same_cuts():
    from importlib import resources

    import duckdb
    import pyarrow as pa
    from tensolog.catalog.datalog import derive

    text = (resources.files("tensolog.parallel.cuts") / "cuts.dl").read_text()
    program = parse(text)
    facts = index_facts(expanded(CONV), expanded(CONV).outputs[0])
    connection = duckdb.connect()
    types = {"number": pa.int64(), "symbol": pa.string()}
    for name, rows in facts.items():
        kinds = [types[kind] for kind in program.kinds[name]]
        columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
        connection.register(
            f"given_{name}", pa.table(columns, names=[f"c{i}" for i in range(len(kinds))])
        )
        connection.execute(f"CREATE TABLE {name} AS FROM given_{name}")
    by_sql = evaluate(program, connection)
    in_memory = derive(program, facts)
    for name in ("cut", "slice", "granule", "once", "alike", "offset"):
        assert sorted(by_sql[name].fetchall()) == sorted(in_memory[name])


@pytest.fixture(scope="module")
def catalog():
    with Catalog(":memory:") as in_memory:
        yield in_memory


PROVED = [
    kernel("MatMul", f32(8, 16), weight(16, 32)),
    kernel("Conv", f32(2, 8, 15, 6), weight(4, 8, 3, 1), pads=(1, 0, 1, 0), strides=(2, 1)),
    kernel("Reshape", f32(2, 16), ints(2, 4, 4)),
    kernel("Expand", f32(4, 1, 6), ints(4, 3, 6)),
]


@pytest.mark.parametrize("kernel_", PROVED, ids=lambda kernel_: kernel_.op_type)
def test_cuts_are_proved_for_all_sizes(kernel_, catalog):
    pairs = [(kernel_, cut) for cut in cuts_of(kernel_)]
    assert pairs
    admitted = admit(pairs, catalog)
    assert all(admitted.holds(*pair) for pair in pairs)
    assert len(admitted.verdicts) == len(pairs)
    # The catalog keeps the proofs.
    assert not admit(pairs, catalog).verdicts
    status = catalog.sql(
        "SELECT status FROM proof JOIN rule USING (rule_hash) WHERE rule_hash IN"
        " (SELECT unnest(?::VARCHAR[]))",
        [[rule_of(*pair).hash for pair in pairs]],
    ).fetchall()
    assert status == [("proved",)] * len(pairs)


def test_a_cut_that_is_false_is_not_admitted(catalog):
    """Whatever the derivation says: Softmax divided along its own axis is another function."""
    import dataclasses

    softmax = kernel("Softmax", f32(4, 8), axis=-1)
    (rows,) = cuts_of(softmax)
    false = dataclasses.replace(rows, axes=(1,), slices=(Slicing(1),), extent=8)
    admitted = admit([(softmax, rows), (softmax, false)], catalog)
    assert admitted.holds(softmax, rows) and not admitted.holds(softmax, false)
    assert not admit([(softmax, false)], catalog).holds(softmax, false)

"""Programs that would run for ever, and the limits that end them."""

import pytest
from tensolog.catalog.datalog import DatalogError, Limits, derive, evaluate, parse

COUNTING = ".decl a(x:number)\na(0).\na(x + 1) :- a(x).\n"
ENDLESS = {
    "a number": (COUNTING, [(3, 3)]),
    "a variable that is computed": (
        ".decl a(x:number)\na(0).\na(y) :- a(x), z = y, z = x + 3.\n",
        [(3, 26)],
    ),
    "rounds": (
        ".decl a(x:number, y:number)\na(0, 0).\na(x + 1, y) :- a(x, y).\n"
        "a(x, c) <= a(x, d) :- c <= d.\n",
        [(3, 3)],
    ),
    "symbols, in mutual recursion": (
        '.decl a(x:symbol)\n.decl b(x:symbol)\na("").\nb(cat(x, "a")) :- a(x).\na(x) :- b(x).\n',
        [(4, 3)],
    ),
    "records": (".type L = [h:number, t:L]\n.decl a(x:L)\na(nil).\na([1, x]) :- a(x).\n", [(4, 3)]),
    "two clauses": (
        ".decl a(x:number)\na(0).\na(x + 1) :- a(x).\na(-x) :- a(x).\n",
        [(3, 3), (4, 3)],
    ),
    "what a choice leaves": (
        ".decl a(x:number, y:number) choice-domain x\na(0, 0).\na(x + 1, y) :- a(x, y).\n",
        [(3, 3)],
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        (Limits(seconds=0.2), "0.2 s have passed"),
        (Limits(growth_s=0.2), "0.2 s have passed"),
        (Limits(growth_s=None, rows=20), "more than 20 rows"),
    ],
)
def test_what_makes_values_for_ever_is_ended_and_named(name, limits, reached):
    text, places = ENDLESS[name]
    with pytest.raises(DatalogError, match=reached) as error:
        derive(parse(text), {}, limits=limits)
    assert [(e.line, e.column) for e in error.value.errors] == places
    assert "makes a value of" in error.value.reason and "--limit-" in error.value.reason


def test_a_connection_goes_on_after_a_limit(connection):
    with pytest.raises(DatalogError):
        evaluate(parse(COUNTING), connection, limits=Limits(seconds=0.1))
    relations = evaluate(parse(".decl a(x:number) a(1)."), connection, limits=Limits(seconds=100))
    assert relations["a"].fetchall() == [(1,)]


PRODUCT = ".decl a(x:number, y:number, z:number)\n"
PRODUCT += "a(x, y, z) :- x = range(0, 3000), y = range(0, 3000), z = range(0, 3000).\n"


@pytest.mark.parametrize("limits", [Limits(seconds=0.2), Limits(rows=5000)])
def test_a_product_of_too_many_rows_is_ended(limits):
    with pytest.raises(DatalogError, match=r"a: ended, since .* --limit-.* allows more") as error:
        derive(parse(PRODUCT), {}, limits=limits)
    assert (error.value.line, error.value.column) == (1, 7)


BOUNDED = [
    ("a(x + 1) :- a(x), x < 99.", 100),
    ("a(x) :- b(x). b(x) :- a(x).", 2),
    ("a(x) :- x = range(1, 100).", 100),
]


@pytest.mark.parametrize(("rule", "size"), BOUNDED)
def test_a_relation_may_have_as_many_rows_as_the_limit(rule, size):
    program = parse(f".decl a(x:number) .decl b(x:number) a(0). {rule}")
    most = Limits(seconds=100, rows=size)
    assert sum(map(len, derive(program, {}, limits=most).values())) == size
    with pytest.raises(DatalogError, match=f"more than {size - 1} rows"):
        derive(program, {}, limits=Limits(rows=size - 1))


def test_many_symbols_are_limited_by_the_rows_that_are_derived():
    edges = [(f"s{i}", f"s{i + 1}") for i in range(1500)]
    program = parse(
        '.decl e(x:symbol, y:symbol) .input e .decl r(x:symbol)\nr("s1450"). r(y) :- r(x), e(x, y).'
    )
    assert len(derive(program, {"e": edges}, limits=Limits(rows=51))["r"]) == 51
    with pytest.raises(DatalogError, match="r: ended, since there are more than 50 rows"):
        derive(program, {"e": edges}, limits=Limits(rows=50))


MOVES = [
    ("a(x, y) :- a(y, x).", False),
    ("a(x, z) :- a(x, y), a(y, z), x < z + 1.", False),
    ("a(x, y) :- a(x, _), y = 3 + 4.", False),
    ("a(x, y + 1) :- b(x, y).", False),
    ("a(x, y + 1) :- b(x, y), a(y, x).", False),
    ("a(x, n) :- a(x, _), n = count : { b(_, _) }.", False),
    ("a(as(x, number), y) :- a(x, y).", False),
    ("a(h, x) :- a(x, _), c([h, _]).", False),
    ("c(t) :- c([_, t]).", False),
    ("c(t) :- c(x), x = [_, t].", False),
    ("a(x, n) :- a(x, _), n = count : { b(x, _) }.", True),
    ("a(x, n) :- a(x, _), n = sum y + x : { b(y, _) }.", True),
    ("a(x, y) :- a(x, z), y = z, z = w, w < 3, y = w.", False),
    ("a(x, y) :- a(x, z), y = -z.", True),
    ("a(x, strlen(to_string(y))) :- a(x, y).", True),
    ("c([h, t]) :- c(t), a(h, _).", True),
    ("c([h + 1, nil]) :- c([h, _]).", True),
    ("a(x, y) :- a(x, _), y = range(0, x).", True),
]


@pytest.mark.parametrize(("rule", "grows"), MOVES)
def test_only_what_is_computed_from_the_recursion_can_grow(rule, grows):
    program = parse(
        ".type L = [h:number, t:L] .decl a(x:number, y:number)\n"
        ".decl b(x:number, y:number) .input b\n"
        f".decl c(x:L)\na(1, 2). b(3, 4). c([1, nil]).\n{rule}"
    )
    assert any(step.growing for step in program.steps) == grows


def test_full_memory_names_what_grows(connection):
    connection.execute("SET memory_limit = '30MB'")
    connection.execute("SET temp_directory = ''")
    program = parse('.decl a(x:symbol)\na("ab").\na(cat(x, x)) :- a(x).\n')
    with pytest.raises(DatalogError, match="memory is full: this makes a value of a"):
        evaluate(program, connection, limits=Limits())


def test_limits_do_not_end_what_is_read(connection):
    connection.execute("CREATE TABLE b AS SELECT range AS x FROM range(1000)")
    program = parse(".decl b(x:number) .input b .decl a(x:number) a(x) :- b(x), x < 3.")
    assert len(evaluate(program, connection, limits=Limits(rows=3))["a"].fetchall()) == 3
    with pytest.raises(DatalogError, match="more than 2 rows"):
        evaluate(program, connection, limits=Limits(rows=2))

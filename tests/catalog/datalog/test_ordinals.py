"""`ord` and `autoinc()`: numbers that a program gives to symbols and to solutions."""

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.catalog.datalog import DatalogError, derive, parse
from tensolog.catalog.datalog.sql import ordinals
from tensolog.catalog.datalog.sql.ordinals import Ordinals

from tests.campaigns import examples

symbols = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=4)


def test_symbols_are_numbered_as_they_appear(run):
    relations = run(
        '.decl n(x:symbol)\nn("Homer").\nn("Marge").\nn("Bart").\n'
        ".decl o(x:symbol, n:number)\no(x, ord(x)) :- n(x).\n"
        '.decl r(x:number)\nr(1) :- n(x), n(y), ord(x) < ord(y), x = "Homer", y = "Bart".\n'
        'r(2) :- n(x), n(y), ord(x) > ord(y), x = "Marge", y = "Bart".'
    )
    assert relations["o"] == {("Homer", 0), ("Marge", 1), ("Bart", 2)}
    assert relations["r"] == {(1,)}


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(symbols, symbols), max_size=8))
def test_numbers_tell_symbols_apart_those_that_are_computed_too(pairs):
    program = parse(
        ".decl a(x:symbol, y:symbol) .input a\n"
        ".decl s(x:symbol) s(x) :- a(x, _). s(y) :- a(_, y).\n"
        ".decl c(x:symbol) c(x) :- s(x). c(cat(x, y)) :- a(x, y). c(cat(y, x)) :- a(x, y).\n"
        ".decl o(x:symbol, n:number) o(x, ord(x)) :- c(x).\n"
        ".decl p(x:symbol, y:symbol) p(x, y) :- c(x), c(y), ord(x) = ord(y), x != y."
    )
    relations = derive(program, {"a": pairs})
    assert len({n for _, n in relations["o"]}) == len(relations["o"]) == len(relations["c"])
    assert relations["p"] == []
    appearing = dict.fromkeys(symbol for pair in pairs for symbol in pair)
    numbers = dict(relations["o"])
    assert [numbers[symbol] for symbol in appearing] == list(range(len(appearing)))
    assert set(derive(program, {"a": pairs})["o"]) == set(relations["o"])


def test_two_symbols_of_one_number_are_an_error():
    with mock.patch.object(ordinals, "_COMPUTED", 1):
        numbers = Ordinals(["a"])
        assert (numbers("a"), numbers("b"), numbers("b")) == (0, 1, 1)
        with pytest.raises(ValueError, match="'c' and of 'b'"):
            numbers("c")


E_ = ".decl e(x:number, y:number) e(1, 2). e(1, 3). e(2, 3). e(3, 3).\n"


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("r($, x) :- e(x, _).", [1, 1, 2, 3]),
        ("r(autoinc(), x) :- e(x, 3).", [1, 2, 3]),
        ("r($, x) :- e(x, y), e(y, _).", [1, 1, 2, 3]),
        ("r($, x) :- x = range(0, 3), e(_, _).", [0, 1, 2]),
        ("r(5 + $ * 2, x) :- e(x, x).", [3]),
        ("r($, x), q($) :- e(x, 2).", [1]),
        ("r($, x) :- e(x, 2) ; e(_, x), x > 2.", [1, 3, 3, 3]),
        ("r($, n) :- e(2, _), n = count : { e(_, _) }.", [4]),
        ("r($, count : { e(x, _) }) :- e(x, 3).", [2, 1, 1]),
        ("r($, 7) :- true.", [7]),
        ("r($, x) :- e(x, _), x > 9.", []),
    ],
)
def test_each_solution_has_a_number_of_its_own(run, rule, values):
    other = ".decl other(n:number, x:number) other($, x) :- e(x, _).\n"
    declared = ".decl r(n:number, x:number) .decl q(n:number)\n"
    relations = run(E_ + declared + other + rule)
    assert sorted(x for _, x in relations["r"]) == sorted(values)
    numbers = [row[0] for name in ("r", "q", "other") for row in relations[name] if "5" not in rule]
    assert len(numbers) == len(set(numbers)) and all(n >= 0 for n in numbers)


def test_one_counter_counts_from_zero_in_the_order_of_the_rows():
    program = parse(".decl a(s:symbol) .input a .decl r(n:number, s:symbol) r($, s) :- a(s).")
    rows = [("b",), ("a",), ("c",)]
    for given_rows in (rows, rows[::-1]):
        assert set(derive(program, {"a": given_rows})["r"]) == {(0, "a"), (1, "b"), (2, "c")}


def test_numbers_go_into_records_and_start_a_recursion(run):
    relations = run(
        E_ + ".type P = [n:number, x:number] .decl p(x:P) p([$, x]) :- e(x, _).\n"
        ".decl t(n:number, x:number) t($, x) :- e(x, _). t(n, y) :- t(n, x), e(x, y)."
    )
    assert len({n for ((n, _),) in relations["p"]}) == 4
    starts = {n: {x for m, x in relations["t"] if m == n} for n, _ in relations["t"]}
    assert sorted(map(sorted, starts.values())) == [[1, 2, 3], [1, 2, 3], [2, 3], [3]]


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("r($).", "can't stand in facts"),
        ("r([$]).", "can't stand in facts"),
        ("r(x) :- e(x, _), x = $.", "can't stand in bodies"),
        ("r(x) :- e(x, $).", "can't stand in bodies"),
        ("r(x) :- x = count : { e(_, $) }.", "can't stand in bodies"),
        ("r(sum $ : { e(_, _) }) :- e(1, 2).", "can't stand in bodies"),
        ("r($) :- r(_).", "in a recursive clause"),
        ("r($) :- q(_).\n.decl q(x:number) q(x) :- r(x).", "in a recursive clause"),
        ("q($) :- e(_, _).\n.decl q(x:symbol)", "autoinc is number, but symbol is needed"),
    ],
)
def test_counters_are_refused_where_they_number_no_solutions(rule, reason):
    kind = "R" if "[" in rule else "number"
    with pytest.raises(DatalogError, match=reason):
        parse(f".type R = [x:number]\n{E_}.decl r(x:{kind})\n{rule}")

"""One walk through expressions, two arithmetics: where sizes are known, numbers and terms agree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.catalog.terms.syntax_tree import Binary, Call, Index, ListOf, Literal, Name, Unary
from tensolog.rules.language.canonical_text import expression_text
from tensolog.rules.language.expressions import KnownNumbers
from tensolog.rules.language.functions import UnknownError
from tensolog.rules.language.syntax import Star
from tensolog.rules.prover.cases.symbolic_expressions import TermExpressions

SHAPES = {"X": (2, 3, 1), "Y": (4, 2, 3, 5), "c": (3, 1), "d": ()}
NAMES = {"m": 2, "n": 3, "z": 0, "l": (3, 1, 2), "p": (2, 0, 1), "e": ()}
NUMBERS, LISTS = ("m", "n", "z"), ("l", "p", "e")


class _Facts:
    names = NAMES

    def shape_of(self, name):
        return SHAPES[name]

    def dtype_of(self, name):
        return "float32" if name in ("X", "Y") else "int64"

    def integers_of(self, name):
        return {"c": (2, 0, 1), "d": (5,)}[name]

    def shapes_of(self, name):
        return (SHAPES["X"], SHAPES["Y"])


class Numbers(_Facts, KnownNumbers):
    pass


class Terms(_Facts, TermExpressions):
    def __init__(self):
        self.granted = []

    def take_for_granted(self, term):
        self.granted.append(term)


OPERANDS = st.sampled_from(["X", "Y", "c", "d"]).map(Name)


def _calls(name, *arguments):
    return st.tuples(*arguments).map(lambda parts: Call(name, parts))


def _numbers(numbers, lists):
    operators = st.sampled_from(["+", "-", "*", "/", "//", "%"])
    return st.one_of(
        st.builds(Binary, operators, numbers, numbers),
        st.builds(lambda operand: Unary("-", operand), numbers),
        st.builds(lambda of, place: Index(of, (place,)), lists, numbers),
        *(_calls(name, numbers, numbers) for name in ("min", "max", "place")),
        *(_calls(name, lists) for name in ("min", "max", "sum", "prod", "len")),
        *(_calls(name, OPERANDS) for name in ("rank", "size")),
        _calls("dim", OPERANDS, numbers),
        _calls("axis", numbers, OPERANDS),
    )


def _lists(numbers, lists):
    stars = st.sampled_from(LISTS).map(Star)
    pairs = ("plus", "times", "at", "without", "permute", "compose")
    return st.one_of(
        st.lists(numbers | stars, max_size=3).map(lambda items: ListOf(tuple(items))),
        st.builds(lambda left, right: Binary("++", left, right), lists, lists),
        *(_calls(name, lists, lists) for name in pairs),
        *(_calls(name, lists, numbers) for name in ("take", "drop", "axes")),
        *(_calls(name, numbers) for name in ("range", "identity")),
        _calls("range", numbers, numbers),
        _calls("repeat", numbers, numbers),
        _calls("inverse", lists),
        _calls("shape", OPERANDS),
        _calls("ints", st.sampled_from(["c", "d"]).map(Name)),
        _calls("sizes", st.just(Star("A")), numbers),
    )


LITERALS = st.integers(-3, 4).map(Literal)
NUMBER_0, LIST_0 = LITERALS | st.sampled_from(NUMBERS).map(Name), st.sampled_from(LISTS).map(Name)
NUMBER_1, LIST_1 = NUMBER_0 | _numbers(NUMBER_0, LIST_0), LIST_0 | _lists(NUMBER_0, LIST_0)
NUMBER = NUMBER_1 | _numbers(NUMBER_1, LIST_1)
LIST = LIST_1 | _lists(NUMBER_1, LIST_1)
COMPARISONS = st.one_of(
    st.builds(Binary, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), NUMBER, NUMBER),
    st.builds(Binary, st.sampled_from(["=", "!="]), LIST, LIST),
    st.builds(lambda item, items: Binary("in", item, items), NUMBER, LIST),
    _calls("fits", OPERANDS, OPERANDS),
)
CONDITIONS = st.one_of(
    COMPARISONS,
    st.builds(Binary, st.sampled_from(["and", "or"]), COMPARISONS, COMPARISONS),
    st.builds(lambda operand: Unary("not", operand), COMPARISONS),
)


@settings(max_examples=400)
@given(st.one_of(NUMBER, LIST, CONDITIONS))
def test_what_the_matcher_knows_the_prover_knows(expression):
    try:
        value = Numbers().evaluate(expression)
    except UnknownError:
        return
    terms = Terms()
    assert terms.evaluate(expression) == value, expression_text(expression)
    assert all(term is True for term in terms.granted), expression_text(expression)


@pytest.mark.parametrize("kind", [Numbers, Terms])
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (Call("dtype", (Name("X"),)), "float32"),
        (Call("equation", (Literal(" bij , bjk -> bik"),)), "abc,acd->abd"),
        (Binary("=", Call("dtype", (Name("c"),)), Literal("int64")), True),
        (Binary("!=", Literal("NOTSET"), Literal("VALID")), True),
    ],
)
def test_texts_are_no_numbers(kind, expression, value):
    assert kind().evaluate(expression) == value
    with pytest.raises(UnknownError):
        kind().evaluate(Index(expression, (Literal(0),)))

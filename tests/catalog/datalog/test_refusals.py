"""Each program breaks one thing; the error says where and what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.catalog.datalog import DatalogError, parse

D = ".decl a(x:number)\n.decl b(x:number, y:symbol)\n"

S = (
    ".type P = [x:number, y:symbol]\n.type Q = [x:number, y:symbol]\n"
    ".type T = A {x:number} | B {p:P}\n.decl r(x:P) .decl t(x:T)\n"
)

N = (
    ".type Even <: number .type Odd <: number .type Any = Even | Odd\n"
    ".decl e(x:Even) .decl o(x:Odd) .decl u(x:Any) .decl n(x:number)\n"
)

CASES = [
    # syntax
    ("a(x) :- b(x", 1, 12, "ends in the middle"),
    (D + "a(1) :- , a(2).", 3, 9, "syntax error at ','"),
    (D + "a(1)\na(2).", 4, 1, "syntax error at 'a'"),
    (D + "a(1) :- a(x) ~ 1.", 3, 14, "unexpected character '~'"),
    (D + ".declare c(x:number)", 3, 1, "unknown directive .declare"),
    (D + 'b(1, "x).', 3, 6, "this string is never closed"),
    (D + "/* a(1).", 3, 1, "this comment is never closed"),
    (D + " @[a(1).", 3, 2, "this annotation is never closed"),
    (D + 'b(1, "\\q").', 3, 6, "unknown escape"),
    (D + "a(256.1.1.1).", 3, 3, "IP address"),
    (D + "a(99999999999999999999).", 3, 3, "does not fit in 64 bits"),
    (D + "a(x) :- a(x), sum : { a(_) } = 1.", 3, 15, "sum needs an expression"),
    (D + "a(x) :- a(x), count x : { a(x) } = 1.", 3, 15, "count takes no expression"),
    # declarations
    (D + ".decl a(x:number)", 3, 7, "relation a is declared twice"),
    (D + ".decl c(x:nmber)", 3, 11, "type nmber is not defined"),
    (D + ".decl c(x:number, x:number)", 3, 21, "two columns named x"),
    (".type T = U", 1, 7, "built on U, which is undefined"),
    (".type T = number | symbol", 1, 7, "mixes number and symbol"),
    (".type T = U .type U = T", 1, 19, "by way of itself"),
    (".type number <: symbol", 1, 7, "predefined"),
    (".type T <: number .type T <: symbol", 1, 25, "declared twice"),
    (".decl e(x:number) eqrel", 1, 7, "needs two columns of one type"),
    (D + ".output c", 3, 9, "relation c is not declared"),
    # atoms
    (D + "c(1).", 3, 1, "relation c is not declared"),
    (D + "a(1, 2).", 3, 1, "has 1 column, not 2"),
    (D + "a(x) :- b(x).", 3, 9, "has 2 columns, not 1"),
    (D + "a(x) :- a(x), !c(x).", 3, 16, "relation c is not declared"),
    (D + "a(_) :- a(_).", 3, 3, "underscore can't stand in a head"),
    (D + "a(1) :- a(x), x < _.", 3, 19, "underscore can't stand in a constraint"),
    # kinds
    (D + 'a("s").', 3, 3, "this string is symbol, but number is needed"),
    (D + "b(1, 2).", 3, 6, "but symbol is needed"),
    (D + "a(x) :- b(_, x).", 3, 3, "variable x is symbol, but number is needed"),
    (D + "a(x) :- b(x, x).", 3, 14, "variable x is number, but symbol is needed"),
    (D + "a(x) :- b(x, y), x < y.", 3, 22, "variable y is symbol, but number is needed"),
    (D + 'a(x) :- a(x), x = "1".', 3, 19, "this string is symbol"),
    (D + "a(x) :- b(x, y), match(x, y).", 3, 24, "variable x is number, but symbol is needed"),
    (D + "a(x) :- a(y), x = strlen(y).", 3, 26, "variable y is number, but symbol is needed"),
    (D + "a(x * 1.5) :- a(x).", 3, 7, "the constant 1.5 is float"),
    (D + "a(x) :- a(x), x = 3u.", 3, 19, "the constant 3 is unsigned"),
    (D + 'a(substr("x", 1)) :- a(_).', 3, 3, "substr does not take 2 arguments"),
    (D + "a(as(x, symbol)) :- a(x).", 3, 3, "type clash"),
    (D + "a(as(x, foo)) :- a(x).", 3, 3, "type foo is not defined"),
    # groundedness
    (D + "a(x) :- a(y).", 3, 3, "variable x is not grounded"),
    (D + "a(x).", 3, 3, "variable x is not grounded"),
    (D + "a(x) :- a(x), !b(x, y).", 3, 21, "variable y is not grounded"),
    (D + "a(x) :- a(x), y > 1.", 3, 15, "variable y is not grounded"),
    (D + "a(x) :- a(x + 1).", 3, 11, "variable x is not grounded"),
    (D + "a(x) :- x = y, y = x.", 3, 9, "variable x is not grounded"),
    (D + "a(x) :- (a(x) ; b(_, _)).", 3, 3, "variable x is not grounded"),
    (D + "a(n) :- n = sum z : { a(x) }, a(n).", 3, 17, "variable z is not grounded"),
    (D + 'a(n) :- n = count : { b(x, y) }, y != "a".', 3, 28, "bound inside count"),
    # strata
    (D + "a(x) :- a(x), !a(x).", 3, 16, "negation of a in the cycle a <- a"),
    (
        D + ".decl c(x:number)\nc(x) :- a(x).\na(x) :- b(x, _), !c(x).",
        5,
        19,
        "negation of c in the cycle a <- c <- a",
    ),
    (
        D + ".decl c(x:number)\nc(x) :- b(x, _), x = count : { a(_) }.\na(x) :- c(x).",
        4,
        32,
        "aggregation of a in the cycle c <- a <- c",
    ),
    (
        D + ".decl c(x:number, z:number)\n"
        "c(x, z) :- x = sum y : { a(y), y < z }, z = sum y : { a(y), y < x }.",
        4,
        12,
        "these aggregates depend on each other",
    ),
    # subtypes
    (N + "e(x) :- o(x).", 3, 3, "variable x is Odd, which is no subtype of Even"),
    (N + "e(x) :- n(x).", 3, 3, "variable x is number, which is no subtype of Even"),
    (N + "e(x) :- u(x).", 3, 3, "variable x is Any, which is no subtype of Even"),
    (N + "e(x) :- u(x), x = y, n(y).", 3, 3, "variable x is Any, which is no subtype of Even"),
    (N + "n(x) :- e(x), o(x).", 3, 17, "variable x would have to be both Even and Odd"),
    (N + "n(x) :- e(x), n(y), o(y), x = y.", 3, 23, "would have to be both Even and Odd"),
    (N + "e(as(x, Odd)) :- n(x).", 3, 3, "this value is Odd, which is no subtype of Even"),
    # arithmetic
    (D + "a(1). a(1 / 0).", 3, 9, "division by zero"),
    (D + "a(-(2 % 0)).", 3, 5, "division by zero"),
    # records and algebraic types
    (".type P = [x:nmber]", 1, 14, "type nmber is not defined"),
    (".type P = [x:number, x:symbol]", 1, 24, "type P has two fields named x"),
    (".type P = A {} | A {x:number}", 1, 18, "branch A is declared twice"),
    (".type P = A {}\n.type Q = A {}", 2, 11, "branch A is declared twice (first in line 1)"),
    (".type P = [x:number] .type Q = P | number", 1, 28, "mixes P and number"),
    (D + "a(x) :- a(x), nil = nil.", 3, 15, "no record type is declared"),
    (D + "a(x) :- a(x), _ = [x, 1].", 3, 15, "underscore can't stand in a constraint"),
    (D + "a(x) :- a(x), [x, 1] != [1, 1].", 3, 15, "no record type of 2 fields is declared"),
    (S + "r([1]).", 5, 3, "no record type of 1 field is declared"),
    (S + "r([1, 2]).", 5, 7, "the constant 2 is number or unsigned or float, but symbol"),
    (S + "r($A(1)).", 5, 3, "branch A is T, but P is needed"),
    (S + "t($A()).", 5, 3, "branch A has 1 field, not 0"),
    (S + "t($C(1)).", 5, 3, "branch C is not declared"),
    (S + "r(nil).\nt(nil).", 6, 3, "nil is P or Q, but T is needed"),
    (S + "r(x) :- r([y, _]).", 5, 3, "variable x is not grounded"),
    (S + "r([1, _]) :- r(_).", 5, 7, "underscore can't stand in a head"),
    (S + "r(x) :- r(x), r(y), x < y.", 5, 21, "variable x is P, but number or unsigned or"),
    (S + 'r(x) :- r(x), [1, y] != [1, z], y = "", z = y.', 5, 15, "may be of type P or Q"),
    (S + "r(x) :- x = [1, y].", 5, 9, "variable x is not grounded"),
    (S + "t(x) :- t(x), !r([y, _]).", 5, 19, "variable y is not grounded"),
    # outside the dialect
    (D + "a(@f(1)).", 3, 3, "the functor f is not declared"),
    (D + "a(@@f x : 1, { a(x) }).", 3, 3, "use count, sum, min, max or mean"),
    (".functor f(x:nmber):number", 1, 10, "type nmber is not defined"),
    (".type R = [x:number] .functor f(R):number", 1, 31, "records stay inside"),
    (".functor f():number .functor f():float", 1, 30, "the functor f is declared twice"),
    (D + ".functor f(x:symbol):number\na(@f(1)).", 4, 6, "constant 1 is number or"),
    (D + '.functor f(x:symbol):symbol\na(@f("x")).', 4, 3, "the result of @f is symbol"),
    (D + ".functor f():number\na(@f(1)).", 4, 3, "f takes 0 arguments, not 1"),
    (D + "a(autoinc()).", 3, 3, "can't stand in facts"),
    (D + "a($) :- a(_).", 3, 3, "in a recursive clause"),
    (D + "a(__ITERATION__()) :- a(_).", 3, 3, "__ITERATION__ is outside the dialect: rounds"),
    (D + "a(x + 1) :- a(x), __ITERATION__ < 9.", 3, 19, "count them in a column of the relation"),
    (D + ".limitsize a(n=x)", 3, 1, ".limitsize needs a number"),
    (D + ".limitsize c(n=1)", 3, 12, "relation c is not declared"),
    (".decl c(x:number) choice-domain x, y", 1, 7, "names y, which is no column of it"),
    (".decl c(x:number) choice-domain (x, z)", 1, 7, "names z, which is no column of it"),
    (".decl c(x:number, y:number) eqrel choice-domain x", 1, 7, "the eqrel relation c is outside"),
    (
        ".decl c(x:number) choice-domain x\nc(x) <= c(y) :- x < y.",
        1,
        7,
        "choice-domain and subsumption of c are outside",
    ),
    (".decl f(x:float)\n" + D + "a(ord(x)) :- f(x).", 4, 3, "ord of a float is outside"),
    (".lattice L<> {Lub -> 1}", 1, 1, "a subsumption (a(x, c) <= a(x, d) :- ...) keeps"),
    (D + "a(x) :- x = count : { a(1) ; a(2) }.", 3, 13, "disjunction inside count is outside"),
    (D + 'a(1) :- match("(?=x)", "x").', 3, 15, "look-ahead, back-references"),
    (D + 'a(1) :- match("(a)\\\\1", "x").', 3, 15, "look-ahead, back-references"),
    # subsumption
    (D + "a(x) <= b(x, _) :- true.", 3, 9, "subsumption compares tuples of one relation"),
    (".decl n()\nn() <= n() :- true.", 2, 1, "subsumption needs columns"),
    # components
    (".init x = C", 1, 11, "component C is not declared"),
    (".comp C<T> {}\n.init x = C", 2, 11, "component C has 1 parameters, not 0"),
    (".comp C {}\n.comp C {}\n.init x = C", 2, 7, "component C is declared twice"),
    (".comp C {}\n.init x = C\n.init x = C", 3, 7, "x is instantiated twice"),
    (".comp C { .init c = C }\n.init x = C", 1, 7, "unfolds without end"),
    (
        ".comp A { .decl r(x:number) }\n.comp B : A { .override r r(1). }\n.init b = B",
        2,
        7,
        "overrides r, which is not overridable",
    ),
    (
        ".comp A { .decl r(x:number) overridable }\n"
        ".comp B : A { .decl s(x:number) .override s s(2). }",
        2,
        7,
        "B overrides s, which it does not inherit",
    ),
    # inline
    (
        ".decl i(x:number) inline\ni(x) :- i(x), x > y.\n.decl a(x:number)\na(x) :- i(x).",
        2,
        1,
        "cycle",
    ),
    # long runs of facts
    (D + "\n".join(["a(1)."] * 80 + ["a(1, 2)."] * 80), 83, 1, "has 1 column, not 2"),
    (D + "\n".join(['b(1, "s").'] * 80 + ["b(1,  2)."] * 80), 83, 7, "symbol is needed"),
    (D + "\n".join(["a(1)."] * 80 + ["c(1)."] * 80), 83, 1, "relation c is not declared"),
    # the preprocessor
    (D + "#if X\na(1).", 3, 1, "#if has no #endif"),
    (D + "#endif", 3, 1, "#endif without #if"),
    (D + "#error stop here", 3, 1, "#error stop here"),
    (D + '#include "nowhere.dl"', 3, 1, "can't include nowhere.dl"),
    (D + "#if (1", 3, 1, "#if can't evaluate"),
    (D + "#define F(x, y) a(x)\nF(1).", 4, 1, "macro F takes 2 arguments, not 1"),
]


@pytest.mark.parametrize(("text", "line", "column", "reason"), CASES)
def test_refused_with_place_and_reason(text, line, column, reason):
    with pytest.raises(DatalogError) as error:
        parse(text, "p.dl")
    assert reason in error.value.reason
    assert (error.value.path, error.value.line, error.value.column) == ("p.dl", line, column)
    assert str(error.value).startswith(f"p.dl:{line}:{column}: ")


def test_all_errors_of_a_program_are_told_in_order():
    text = (
        ".decl a(x:number)\n.decl b(x:number, y:nmber)\n.decl c(x:symbol)\n"
        'a("s"). a(x) :- c(x), x > 1. a(x) :- b(x, _).\n'
        "a(y) :- !a(z), d(y).\nc(x) :- c(x), !c(x).\na(1) :- 1 < a.\n.output q\n"
    )
    with pytest.raises(DatalogError) as error:
        parse(text, "p.dl")
    places = [(e.line, e.column) for e in error.value.errors]
    assert places == [(2, 21), (4, 3), (4, 27), (5, 12), (5, 16), (6, 16), (7, 13), (8, 9)]
    assert str(error.value).splitlines() == [
        f"p.dl:{e.line}:{e.column}: {e.reason}" for e in error.value.errors
    ]


def test_all_syntax_errors_of_a_program_are_told():
    text = ".decl a(x:number)\na(1) :- , a(2).\na(2).\na(1 2). a(3).\n.decl b(x)\nb(1)"
    with pytest.raises(DatalogError) as error:
        parse(text)
    places = [(e.line, e.column) for e in error.value.errors]
    assert places == [(2, 9), (4, 5), (5, 10)]
    with pytest.raises(DatalogError) as error:
        parse('.decl s(x:symbol)\ns("\\q").\ns(x) :- s(x), x = "\\w". s(count x : { s(x) }).')
    assert [(e.line, e.column) for e in error.value.errors] == [(2, 3), (3, 19), (3, 27)]


def test_subtypes_that_fit():
    text = N + (
        "n(x) :- e(x). u(x) :- e(x). u(x) :- o(x). n(x) :- u(x). e(x) :- u(x), e(x).\n"
        "e(2). e(x + 1) :- o(x). e(c) :- c = count : { o(_) }. e(as(x, Even)) :- o(x).\n"
        "n(s) :- s = sum x : { u(x) }, o(y), !e(y)."
    )
    assert set(parse(text).relations) == {"e", "o", "u", "n"}
    assert set(parse(N + '.pragma "legacy"\ne(x) :- n(x).').relations) == {"e", "o", "u", "n"}


def test_variables_that_stand_once_are_noted():
    program = parse(
        ".decl a(x:number, y:number)\na(x, 1) :- a(x, y), a(_v, _) ; a(x, _w), _w > 1.\n"
        "a(x, _n) :- a(x, _n).\na(x, y) <= a(x, z) :- true.",
        "p.dl",
    )
    assert [note.partition(": variable ")[::2] for note in program.notes] == [
        ("p.dl:2:17", "y stands only once: _ or _y says so"),
        ("p.dl:2:37", "_w is marked as single, and is not"),
        ("p.dl:3:6", "_n is marked as single, and is not"),
        ("p.dl:4:6", "y stands only once: _ or _y says so"),
        ("p.dl:4:17", "z stands only once: _ or _z says so"),
    ]


PIECES = st.sampled_from(
    [
        "a", "(", ")", "x", ",", ".", ":-", "1", '"s"', "!", ";", "{", "}", "count", ":", "=", "<=",
        ".decl", " ", "\n", "number", "_", "-", "+", "^", "#define", "#if", "/*", "//", "[", "min",
        "sum", "range", ".type", "|", ".comp", ".init", "<", ">", "@", "$", "inline", "\\", '"', "é"
    ]
)  # fmt: skip


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=40).map("".join)))
def test_any_text_parses_or_is_refused_in_words(text):
    try:
        parse(text)
    except DatalogError as error:
        assert error.line >= 1 and error.column >= 1 and error.reason


@given(st.lists(PIECES, max_size=12).map(" ".join), st.integers(0, 40))
def test_a_damaged_program_is_refused_in_words(noise, place):
    text = D + 'a(x) :- b(x, y), x > 1, !b(x, "q"), x = count : { a(_) }.\n'
    text = text.replace("a(x) :- b", ".decl c(x:number)\nc(x) :- b")
    try:
        parse(text[:place] + noise + text[place:])
    except DatalogError as error:
        assert error.line >= 1 and error.column >= 1 and error.reason

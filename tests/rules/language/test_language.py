"""The rule language: what is read, printed, refused, and evaluated."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings
from tensolog.catalog.errors import TensologError
from tensolog.catalog.terms.syntax_tree import Binary, Call, Index, ListOf, Literal, Name, Unary
from tensolog.rules import RuleError, compile_program, load_rules, parse_rules
from tensolog.rules.compiler.symmetry import mirrored_nodes
from tensolog.rules.language.canonical_text import expression_text, format_rules, rule_text
from tensolog.rules.language.expressions import KnownNumbers
from tensolog.rules.language.functions import FUNCTIONS, Symbol, UnknownError
from tensolog.rules.language.syntax import Rule, Star

from tests.campaigns import examples
from tests.rules.finding import compile_near_misses

MERGE = """
# Merge runs two products as one.
rule Merge
  tags    explore
  source  [taso, "a book"]
  opset   >= 13
  given   X [*b, m, k] float,  W1 [k, n1],  W2 [k, n2] const
  match
    Y1 = MatMul(X, W1)
    Y2 = MatMul(X, W2)
  rewrite
    W      = Concat<axis=1>(W1, W2)
    Y      = MatMul(X, W)
    Y1, Y2 = Split<axis=-1>(Y, [n1, n2])
  equal   rounding
"""


def single_rule(text: str) -> Rule:
    (rule,) = parse_rules(text)
    return rule


def with_given(items: str, match: str = "Y = Add(X, c)", rewrite: str = "Y = Add(c, X)") -> str:
    sides = f"match\n {match}\n rewrite\n {rewrite}\n"
    return f"rule R\n tags always\n given {items}\n {sides} equal exact\n"


# --------------------------------------------------------------------------------- reading


def test_a_rule_is_read_whole():
    rule = single_rule(MERGE)
    assert (rule.name, rule.tag, rule.equal, rule.family) == (
        "Merge",
        "explore",
        "rounding",
        "rules",
    )
    assert (rule.opset_from, rule.opset_to, rule.target) == (13, None, None)
    assert rule.sources == ("taso", "a book")
    assert rule.summary == "runs two products as one"
    assert rule.outputs == ("Y1", "Y2")
    assert rule.operand("X").shape == (Star("b"), Name("m"), Name("k"))
    assert rule.operand("W2").const
    assert [node.op_type for node in rule.match] == ["MatMul", "MatMul"]
    assert rule.rewrite[2].inputs[1].literal == ListOf((Name("n1"), Name("n2")))


def test_partial_equality_has_a_region():
    text = with_given("X float, c").replace("equal exact", "equal partial except rank(X) > 3")
    rule = single_rule(text + " finite_math\n target onnxruntime-cpu\n opset 7..12\n")
    assert rule.equal == "partial"
    assert expression_text(rule.region) == "rank(X) > 3"
    assert rule.finite_math
    assert (rule.target, rule.opset_from, rule.opset_to) == ("onnxruntime-cpu", 7, 12)


def test_nested_operations_become_nodes():
    rule = single_rule(with_given("X", "Y = Mul(X, Tanh(Softplus(X)))", "Y = X"))
    assert [node.op_type for node in rule.match] == ["Softplus", "Tanh", "Mul"]
    inner = rule.match[0].outputs[0].value
    assert rule.match[1].inputs[0].value == inner


def test_contributed_operators_keep_their_domain():
    text = with_given("X", "Y = Erf(X)", "Y = com.microsoft.FastGelu(X)")
    rule = single_rule(text + " target onnxruntime-cpu\n")
    assert (rule.rewrite[0].domain, rule.rewrite[0].op_type) == ("com.microsoft", "FastGelu")
    assert rule.rewrite[0].operator == "com.microsoft:FastGelu"


def test_contributed_operators_belong_to_a_target():
    with pytest.raises(RuleError, match="say which runtime"):
        single_rule(with_given("X", "Y = Erf(X)", "Y = com.microsoft.FastGelu(X)"))
    with pytest.raises(RuleError, match=r"no operator com\.microsoft:FastGelo"):
        text = with_given("X", "Y = Erf(X)", "Y = com.microsoft.FastGelo(X)")
        single_rule(text + " target onnxruntime-cpu\n")


def test_files_may_hold_no_rule():
    assert parse_rules("") == ()
    assert parse_rules("# nothing yet\n") == ()


def test_the_hash_is_of_the_meaning():
    spaced = MERGE.replace("  given   ", "  given\n").replace(",  ", ",\n ")
    commented = spaced.replace("# Merge runs two products as one.\n", "")
    assert single_rule(spaced).hash == single_rule(MERGE).hash == single_rule(commented).hash
    assert single_rule(MERGE.replace("axis=1>", "axis=0>")).hash != single_rule(MERGE).hash
    assert (
        single_rule(MERGE.replace("W2 [k, n2] const", "W2 [k, n2]")).hash != single_rule(MERGE).hash
    )


# --------------------------------------------------------------------------------- printing


def test_shipped_rules_print_and_read_back():
    rules = load_rules()
    again = parse_rules(format_rules(rules))
    assert [rule.hash for rule in again] == [rule.hash for rule in rules]
    assert [rule.comment for rule in again] == [rule.comment for rule in rules]
    assert [rule_text(rule) for rule in again] == [rule_text(rule) for rule in rules]


names = st.sampled_from(["m", "k", "n1", "perm"])
leaves = st.one_of(
    st.integers(-9, 99).map(Literal),
    st.floats(0.25, 64, allow_nan=False).map(Literal),
    st.sampled_from(["edge", "a,b->c"]).map(Literal),
    names.map(Name),
)


def grown(inner):
    arithmetic = st.sampled_from(["+", "-", "*", "/", "//", "%", "++"])
    return st.one_of(
        st.builds(Binary, arithmetic, inner, inner),
        st.builds(ListOf, st.lists(st.one_of(inner, names.map(Star)), max_size=3).map(tuple)),
        st.builds(lambda a, b: Call("max", (a, b)), inner, inner),
        st.builds(lambda a, b: Index(a, (b,)), names.map(Name), inner),
        st.builds(Unary, st.just("-"), names.map(Name)),
    )


numbers = st.recursive(leaves, grown, max_leaves=8)
comparisons = st.builds(
    Binary, st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "in"]), numbers, numbers
)
logic = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(["and", "or"]), inner, inner),
        st.builds(Unary, st.just("not"), inner),
    ),
    max_leaves=4,
)


@given(logic)
@settings(max_examples=examples(200), deadline=None)
def test_expressions_print_and_read_back(expression):
    text = with_given(f"X [m, k, n1], c [*perm], {expression_text(expression)}")
    assert single_rule(text).given == (expression,)


# --------------------------------------------------------------------------------- refusals

REFUSED = [
    ("rule R\n tags always\n", 1, "no `match`", "add a line"),
    ("role R\n", 1, "unexpected", "rule Name"),
    ("rule R\n tagz always\n", 2, "unexpected", "clauses of a rule"),
    (with_given("X float c"), 3, "'c' is no element type", "known are"),
    (with_given("X 3"), 3, "unexpected", "commas"),
    (with_given("X, c").replace("tags always", "tags ever"), 2, "unknown tag", "always"),
    (with_given("X, c").replace("exact", "roughly"), 8, "unknown class", "rounding"),
    (with_given("X, c").replace("exact", "exact except i0 = 0"), 1, "belong together", "except"),
    (with_given("X, c", "Y = Addd(X, c)"), 5, "no operator Addd", "did you mean Add?"),
    (with_given("X, c", "Y = Add(X, c", "Y = X"), 6, "unexpected", "expected"),
    (with_given("X, c", "Y = Transpose<prem=p>(X)", "Y = X"), 5, "no attribute 'prem'", "perm"),
    (with_given("X, c", "Y = Add(X, c, X)"), 5, "takes 2 inputs", "drop"),
    (with_given("X, c, Q float"), 3, "Q is not in the match", "X"),
    (with_given("X flaot, c"), 3, "no element type", "did you mean float?"),
    (with_given("X, X, c"), 3, "declared twice", "one place"),
    (with_given("X, c, m = 3"), 3, "nothing gives m a value", "bind it"),
    (with_given("X, c, c = 3"), 3, "nothing gives c a value", "scalar"),
    (with_given("X, c, rnk(X) = 3"), 3, "no function rnk", "did you mean rank?"),
    (with_given("X, c, rank(X, c) = 3"), 3, "number of arguments", "rank(X)"),
    (with_given("X [*a, *b], c"), 3, "two lists", "one"),
    (with_given("X default 0, c"), 3, "can't be absent", "X?"),
    (with_given("X, c", rewrite="Z = X"), 1, "nothing of the match is replaced", "again"),
    (with_given("X, c", rewrite="Y = Add(Q, c)"), 7, "used before it is made", "known"),
    (with_given("X, c", rewrite="Y = Relu(Y)"), 7, "before it binds it", "anew"),
    (with_given("X, c", "Y = Add(X, c)\n Z = Add(U, V)"), 6, "not connected", "share"),
    (
        with_given("X", "Y = Relu(X)\n Z = Relu(Y)", "Z = Tanh(Y)"),
        8,
        "which the match removes",
        "Y shared",
    ),
    (with_given("X", "Y = Conv(X, X, b?)", "Y = Conv(X, X, b)"), 7, "may be absent", "b?"),
    (with_given("X", "Y = Relu(X)", "Y = Relu(X)\n fold\n Z = Neg(X)"), 9, "constant", "const"),
    (with_given("X", "Y = Softmax(X)", "Y = X"), 5, "depending on the opset", "axis"),
    (MERGE.replace("# Merge runs", "# Marge runs"), 3, "opens with 'Marge'", "rule's name"),
    (MERGE + MERGE, 18, "defined twice", "name of its own"),
    (with_given("X, c", "Y, Y = Split(X, c)", "Y = X"), 5, "made twice", "name of its own"),
    (with_given("X", "*A, Z, *B = Split(X)\n Y = Neg(Z)", "Y = X"), 1, "other users", "shared"),
    (with_given("X", "Y = Concat<axis=0>(*A, *B)", "Y = X"), 5, "can't match", "*A, X, *B"),
    (with_given("X", "Y = Relu(*A)", "Y = X"), 5, "no variable inputs", "one by one"),
    (with_given("X, c").replace("tags always", "tags always\n opset 9..7"), 1, "empty", "lower"),
]


@pytest.mark.parametrize(("text", "line", "reason", "hint"), REFUSED)
def test_refusals_name_the_place_and_a_way_out(text, line, reason, hint):
    with pytest.raises(RuleError) as caught:
        parse_rules(text, "my.rules")
    error = caught.value
    assert isinstance(error, TensologError)
    assert reason in error.reason
    assert hint in (error.hint or "")
    assert error.line == line, str(error)
    assert error.column >= 1
    assert str(error).startswith(f"my.rules:{line}:")
    assert "\n" not in str(error)


def test_all_that_is_wrong_is_told():
    wrong = ("tags never", "source  taso", "Addd")
    text = "\n".join(
        (
            with_given("X, c").replace("tags always", "tags never"),
            MERGE.replace("source  [taso,", "source  taso,"),
            with_given("X, c", "Y = Addd(X, c)").replace("rule R", "rule S"),
        )
    )
    with pytest.raises(RuleError) as caught:
        parse_rules(text, "my.rules")
    reported = [line.split(":")[:2] for line in str(caught.value).splitlines()]
    lines = text.splitlines()
    line_numbers = [
        next(number for number, line in enumerate(lines, 1) if part in line) for part in wrong
    ]
    assert reported == [["my.rules", str(line)] for line in line_numbers]


def test_errors_of_one_rule_are_told_together():
    text = with_given("X, c, rank(Q) = 3", rewrite="Y = Add(Q, c)")
    with pytest.raises(RuleError) as caught:
        parse_rules(text)
    assert len(str(caught.value).splitlines()) == 2


def test_errors_of_several_files_are_told(tmp_path):
    paths = [tmp_path / f"{name}.rules" for name in "ab"]
    for path in paths:
        path.write_text("rule")
    with pytest.raises(RuleError) as caught:
        load_rules(paths)
    assert len(str(caught.value).splitlines()) == 2


@given(st.data())
@settings(max_examples=examples(300), deadline=None)
def test_damaged_rules_are_refused_or_read(data):
    cut = data.draw(st.integers(0, len(MERGE)))
    width = data.draw(st.integers(0, 12))
    filler = data.draw(st.text("()[]<>=*?,.#\"' \nabXY01-|", max_size=6))
    try:
        parse_rules(MERGE[:cut] + filler + MERGE[cut + width :])
    except RuleError as error:
        assert error.line >= 1 and error.column >= 1 and error.reason


@given(st.text(max_size=60))
@example("rule \x00")
@example("rule R tags always match *")
@settings(max_examples=examples(200), deadline=None)
def test_any_text_is_refused_or_read(text):
    try:
        parse_rules(text)
    except RuleError as error:
        assert error.reason


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(RuleError, match="can't read"):
        load_rules([tmp_path / "none.rules"])
    (tmp_path / "a.rules").write_text(MERGE)
    (tmp_path / "b.rules").write_text(MERGE)
    with pytest.raises(RuleError, match=r"also defined in .*a\.rules:3"):
        load_rules([tmp_path / "a.rules", tmp_path / "b.rules"])
    (rule,) = load_rules([tmp_path / "a.rules"])
    assert rule.family == "a"


# ------------------------------------------------------------------------------- evaluation


class Shapes(KnownNumbers):
    def __init__(self, names):
        self.names = names

    def shape_of(self, name):
        return {"X": (2, 3, Symbol("N"), 5), "c": (1, 5), "d": ()}[name]

    def integers_of(self, name):
        return (2, 0, 1)


def value(text: str):
    rule = single_rule(
        with_given(f"X [m], c [n, k, *l], d, {text} = 0", "Y = Add(Add(X, c), d)", "Y = X")
    )
    names = {"m": 2, "n": Symbol("N"), "k": 3, "l": (1, 2, 3), "p": (2, 0, 1)}
    return Shapes(names).evaluate(rule.given[0].left)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m + k * 2", 8),
        ("7 // 2 - 7 % 2", 2),
        ("rank(X)", 4),
        ("dim(X, -1)", 5),
        ("axis(-1, X)", 3),
        ("axes([-1, 0], 3)", (0, 2)),
        ("[m, *l] ++ repeat(1, 2)", (2, 1, 2, 3, 1, 1)),
        ("len(l)", 3),
        ("prod(l) + sum(l)", 12),
        ("min(l) + max(2, k)", 4),
        ("compose([1, 2, 0], [1, 2, 0])", (2, 0, 1)),
        ("inverse([1, 2, 0])", (2, 0, 1)),
        ("permute([7, 8, 9], [2, 0, 1])", (9, 7, 8)),
        ("identity(3)", (0, 1, 2)),
        ("range(1, 3)", (1, 2)),
        ("take(l, 2) ++ drop(l, 2)", (1, 2, 3)),
        ("plus(l, [1, 1, 1])", (2, 3, 4)),
        ("ints(c)[0]", 2),
        ("place(-1, 5) + place(99, 5)", 9),
        ('equation(" bij , bjk -> bik")', "abc,acd->abd"),
    ],
)
def test_functions_compute(text, expected):
    if "equation" in text:
        rule_value = FUNCTIONS["equation"].apply(KnownNumbers(), " bij , bjk -> bik")
        assert rule_value == expected
    else:
        assert value(text) == expected


@pytest.mark.parametrize(
    "text", ["n + 1", "dim(X, 2) * 2", "dim(X, 9)", "size(X)", "k / m", "k % 0", "axis(7, X)"]
)
def test_what_is_not_known_is_unknown(text):
    with pytest.raises(UnknownError):
        value(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n = dim(X, 2)", True),  # one symbol is itself
        ("n = 3 or k = 3", True),
        ("n = 3 and k = 4", False),
        ("n = 3 or k = 4", None),
        ("n != 3", None),
        ("not n = 3", None),
        ("[1, n] = [2, 3]", False),  # decided by the first size
        ("[1, n] = [1, 3]", None),
        ("fits(c, X)", True),
        ("fits(d, X) and not fits(X, c)", True),
        ("k in [1, 3]", True),
    ],
)
def test_unknown_sizes_are_neither_equal_nor_different(text, expected):
    rule = single_rule(
        with_given(f"X [m], c [n, k, *l], d, {text}", "Y = Add(Add(X, c), d)", "Y = X")
    )
    names = {"m": 2, "n": Symbol("N"), "k": 3, "l": (1, 2, 3)}
    if expected is None:
        with pytest.raises(UnknownError):
            Shapes(names).evaluate(rule.given[0])
    else:
        assert Shapes(names).evaluate(rule.given[0]) is expected


# ------------------------------------------------------------------------------ compilation


def test_mirror_images_come_out_once():
    even, lopsided = single_rule(MERGE.replace("n2] const", "n2]")), single_rule(MERGE)
    assert mirrored_nodes(even) == {("Y1", "Y2")}
    assert "n_Y1 < n_Y2" in compile_program([even])
    assert mirrored_nodes(lopsided) == set()
    assert "n_Y1 != n_Y2" in compile_program([lopsided])


def test_literals_are_compared_as_their_type_rounds_them():
    text = compile_program(
        [single_rule(with_given("X float, c", "Y = Add(Mul(X, 0.1), c)", "Y = X"))]
    )
    assert 'dtype(v_Y_1_1, "float64"), scalar(v_Y_1_1, 0.1)' in text
    assert 'dtype(v_Y_1_1, "float32"), scalar(v_Y_1_1, 0.10000000149011612)' in text
    plain = compile_program(
        [single_rule(with_given("X float, c", "Y = Add(Mul(X, 0.5), c)", "Y = X"))]
    )
    assert "scalar(v_Y_1_1, 0.5)" in plain


# Souffle's keywords (src/parser/scanner.ll) that read like names.
RESERVED = """
    as autoinc band bnot bor brie bshl bshr bshru btree btree_delete bxor cat contains count eqrel
    false fold inline input land lnot lor lxor magic match max mean min nil no_inline no_magic ord
    output overridable printsize range stateful strlen substr sum to_float to_number to_string
    to_unsigned true
"""


@pytest.mark.parametrize("compiled", [compile_program, compile_near_misses])
def test_programs_keep_to_what_souffle_reads(compiled):
    text = re.sub(r"//.*", "", compiled(load_rules()))
    assert set(re.findall(r"\\.", text)) <= {'\\"', "\\\\", "\\n", "\\t"}
    code = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    code = re.sub(r"= count : {", "= : {", code)
    assert set(re.findall(r"(?<![.\w])[a-z_]+\b", code)) & set(RESERVED.split()) == set()
    numbers = re.findall(r"(?<![\w.])\d[\w.+]*", code)
    assert [n for n in numbers if not re.fullmatch(r"\d+(\.\d+)?\.?", n)] == []


# ----------------------------------------------------------------------------- documentation


def test_the_page_names_every_function_and_clause():
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "rules.md").read_text(encoding="utf-8")
    for function in FUNCTIONS.values():
        assert f"{function.name}(" in page, function.name
    for clause in ("tags", "source", "opset", "target", "given", "match", "fold", "rewrite"):
        assert f'"{clause}"' in page
    assert 'finite_math"' in page


def test_the_rule_of_the_page_is_read():
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "rules.md").read_text(encoding="utf-8")
    text = page.split("```")[1]
    assert single_rule(text).name == "MergeMatMulsSharingLeft"

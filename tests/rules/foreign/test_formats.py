"""Reading both formats: what is written back is read again, and what is wrong is told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.rules.foreign import ForeignError, ForeignRule, Problem, read_foreign
from tensolog.rules.foreign.equations import equation_text, read_equations
from tensolog.rules.foreign.jsonl import read_lines
from tensolog.rules.foreign.operators import permutation, permutation_number
from tensolog.rules.foreign.terms import Apply, Variable

from .by_hand import EQUATIONS, RULES, TASO_SAMPLE, TENSAT_SAMPLE, op, rule

RELU = [op("RELU", [-1])]
variables = st.integers(1, 20).map(lambda number: Variable(f"input_{number}"))
constants = st.one_of(
    st.sampled_from(["imatmul", "ones"]).map(lambda name: Apply(name, (), ())),
    st.builds(
        lambda name, h, w: Apply(name, (("kernel_h", h), ("kernel_w", w)), ()),
        st.sampled_from(["iconv", "cpool"]),
        st.integers(1, 9),
        st.integers(1, 9),
    ),
)


def applied(terms):
    first = st.tuples(terms)
    second = st.tuples(terms, terms)
    small = st.integers(1, 9)
    window = ("kernel_h", "kernel_w", "stride_h", "stride_w")
    return st.one_of(
        st.builds(Apply, st.sampled_from(["relu", "sigmoid", "tanh"]), st.just(()), first),
        st.builds(
            Apply, st.sampled_from(["ewadd", "ewmul", "smul", "matmul"]), st.just(()), second
        ),
        st.builds(
            lambda name, sizes, pad, x: Apply(
                name, (*zip(window, sizes, strict=True), ("pad", pad)), x
            ),
            st.sampled_from(["poolavg", "poolmax"]),
            st.tuples(small, small, small, small),
            st.integers(0, 1),
            first,
        ),
        st.builds(
            lambda h, w, pad, x: Apply(
                "conv2d", (("stride_h", h), ("stride_w", w), ("pad", pad)), x
            ),
            small,
            small,
            st.integers(0, 1),
            second,
        ),
        st.builds(
            lambda axis, rank, x: Apply("concat", (("axis", axis), ("rank", rank)), tuple(x)),
            st.integers(0, 4),
            st.integers(0, 4),
            st.lists(terms, min_size=2, max_size=3),
        ),
        st.builds(
            lambda axis, output, x: Apply("split", (("axis", axis), ("parts", 0)), x, output),
            st.integers(0, 4),
            st.integers(0, 3),
            first,
        ),
        st.builds(
            lambda order, x: Apply(
                "transpose", (("rank", len(order)), ("perm", permutation_number(order))), x
            ),
            st.integers(2, 4).flatmap(lambda n: st.permutations(range(n))).map(tuple),
            first,
        ),
        st.builds(
            lambda h, w, x: Apply("enlarge", (("kernel_h", h), ("kernel_w", w)), x),
            small,
            small,
            first,
        ),
    )


terms = st.recursive(variables | constants, applied, max_leaves=8)


@given(terms, terms)
def test_equations_are_read_as_they_were_written(left, right):
    (equation,) = read_equations(f"{equation_text(left)} == {equation_text(right)}")
    assert isinstance(equation, ForeignRule)
    assert equation.outputs == ((left, right),)


@given(st.lists(st.tuples(terms, variables), min_size=1, max_size=4), st.booleans())
def test_equations_may_stand_close_together(pairs, spaced):
    said = [f"{equation_text(a)}=={equation_text(b)}" for a, b in pairs]
    equations = read_equations(" ".join(said) if spaced else "".join(said))
    assert [rule.outputs for rule in equations] == [((a, b),) for a, b in pairs]


def test_comments_blanks_and_continued_lines():
    first = "\n# a comment\n relu( input_1 )==relu(input_1)  # and another\n"
    text = f"{first}\nrelu(input_2)\n  == input_3\n"
    equations = read_equations(text)
    assert [(rule.name, rule.line) for rule in equations] == [("Tensat1", 3), ("Tensat2", 5)]


@pytest.mark.parametrize(
    ("text", "reason", "malformed"),
    [
        ("foo(input_1) == input_1", "unknown operator foo", False),
        ("matmul(input_1) == input_1", "matmul needs 2 operands, not 1", True),
        ("relu(input_1)", "ends too early", True),
        ("== input_1", "the left side is missing; an equation reads `lhs == rhs` (column 1)", True),
        ("  ==", "the left side is missing; an equation reads `lhs == rhs` (column 3)", True),
        ("\trelu(input_1) ==", "the right side is missing; an equation reads `lhs == rhs`", True),
        ("input_1 == input_1 == input_1", "unexpected '== input_1' (column 20)", True),
        ("  relu(input_1) == @", "unexpected '@' (column 20)", True),
        (f"poolmax({'9' * 5000},3,1,1,0,input_1) == input_1", "a number of 5000 digits", True),
        (f"split_{'9' * 5000}(0,input_1) == input_1", "a number of 5000 digits", True),
        ("relu(" * 300_000 + "input_1", "500000 are the most", True),
        ("relu(input_1 == input_1", "unexpected '== input_1'", True),
        ("conv2d(1,1,0,input_1,input_2) == input_1", "conv2d lacks acti", True),
        ("conv2d(1,1,2,0,input_1,input_2) == input_1", "unknown padding 2", True),
        ("conv2d(1,1,0,9,input_1,input_2) == input_1", "unknown activation 9", True),
        ("poolmax(0,3,1,1,0,input_1) == input_1", "kernel_h of poolmax is 0", True),
        ("relu(input_1,2) == input_1", "stand before its operands", True),
        ("transpose(0,2,input_1) == input_1", "no permutation", True),
    ],
)
def test_what_is_wrong_with_an_equation_is_told(text, reason, malformed):
    good = "relu(input_1) == input_1"
    first, wrong, last = read_equations(f"{good}\n{text}\n{good}")
    assert isinstance(first, ForeignRule)
    assert isinstance(last, ForeignRule)
    assert isinstance(wrong, Problem)
    assert reason in wrong.reason
    assert (wrong.line, wrong.malformed) == (2, malformed)


def test_a_place_is_that_of_the_file():
    text = "relu(input_1) == relu(\n\n  # a comment\n   relu(@))\nrelu(input_1) == input_1\n"
    wrong, good = read_equations(text)
    assert (wrong.line, good.line) == (1, 5)
    assert "unexpected '@))' (line 4, column 9)" in wrong.reason


def test_what_begins_with_an_equals_sign_spoils_only_itself():
    text = "relu(input_1)\n== input_1\n== input_2\nrelu(input_1) == input_1\n"
    first, wrong, last = read_equations(text)
    assert [error.line for error in (first, wrong, last)] == [1, 3, 4]
    assert "the left side is missing" in wrong.reason


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_byte_order_marks_are_none_of_the_text(end, tmp_path):
    lines = ["\ufeff# a comment", "", "relu(input_1) == input_1", "\ufeffrelu(@) == input_1"]
    path = tmp_path / "equations.txt"
    path.write_bytes(end.join(lines).encode())
    _, (good, wrong) = read_foreign(path)
    assert (good.line, wrong.line) == (3, 4)
    assert "unexpected '@) == input_' (column 6)" in wrong.reason
    path.write_bytes(end.join([f"\ufeff{rule(1, RELU, RELU)}", "", "{"]).encode())
    system, (good, wrong) = read_foreign(path)
    assert (system, good.line, wrong.line) == ("taso", 1, 3)


words = '== input_1 relu ( ) , # // 7 -3 @ é conv2d(1,1,0,0, split_0(0, Iconv(3,3) { "src" : ['
tokens = st.sampled_from([*words.split(), " ", "\n", "\r", "\x00", "\ufeff", "\u2028"])


@given(st.lists(tokens, max_size=25))
def test_nothing_that_is_read_ends_in_a_traceback(words):
    text = "".join(words)
    count = text.count("\n") + text.count("\r") + 1
    for read in (read_equations, read_lines):
        assert all(1 <= rule.line <= count for rule in read(text))


@pytest.mark.parametrize(
    ("line", "reason", "malformed"),
    [
        ("{", "not JSON", True),
        ("[1]", "a rule is a JSON object", True),
        (rule(1, [op("FFT", [-1])], RELU), "unknown operator FFT", False),
        (rule(1, [op("RELU", [-1, -2])], RELU), "relu needs 1 operand, not 2", True),
        (rule(1, [op("RELU", [3])], RELU), "src has no node 3", True),
        (rule(1, [op("RELU", [0])], RELU), "node 0 of src reads itself", True),
        (rule(1, RELU, [op("CONV2D", [-1, -2], ACTI=0)]), "conv2d lacks stride_h", True),
        (rule(1, RELU, RELU, [0, 1, 0, 0]), "has no output 1", True),
        (rule(1, RELU, RELU, [0, 0, 0]), "an output is", True),
        (rule(1, [op("CONCAT", [-1, -2], AXIS=0, NUM_INPUTS=3)], RELU), "has 2 inputs", True),
        (json.dumps({"id": 1, "src": [], "outputs": []}), "'dst' is missing", True),
        (json.dumps({"id": 1, "src": [], "dst": [], "outputs": []}), "no outputs", True),
    ],
)
def test_what_is_wrong_with_a_rule_is_told(line, reason, malformed):
    good = rule(7, RELU, RELU)
    first, wrong, last = read_lines(f"{good}\n{line}\n{good}")
    assert isinstance(first, ForeignRule)
    assert isinstance(last, ForeignRule)
    assert first.name != last.name, "one id twice is two names"
    assert isinstance(wrong, Problem)
    assert reason in wrong.reason
    assert (wrong.line, wrong.malformed) == (2, malformed)


def test_constants_of_number_22_are_the_identity_of_their_product():
    imm = {"op_id": 22, "inputs": []}
    (product,) = read_lines(rule(1, [imm, op("MATMUL", [-1, 0], ACTI=0)], RELU))
    (sum_,) = read_lines(rule(1, [imm, op("EW_MUL", [-1, 0])], RELU))
    assert isinstance(product, ForeignRule)
    assert isinstance(sum_, ForeignRule)
    assert equation_text(product.sources[0]) == "matmul(input_1,Imatmul)"
    assert equation_text(sum_.sources[0]) == "ewmul(input_1,Iewmul)"


@given(st.integers(1, 5).flatmap(lambda n: st.permutations(range(n))).map(tuple))
def test_permutations_have_numbers(order):
    assert permutation(permutation_number(order), len(order)) == order


@given(st.integers(0, 300), st.integers(1, 4))
def test_only_permutations_come_out_of_numbers(number, rank):
    order = permutation(number, rank)
    if order is not None:
        assert permutation_number(order) == number


def test_files_are_told_apart(tmp_path):
    file = tmp_path / "rules"
    file.write_text(f"\n// TASO\n{RULES[0][0]}\n")
    assert read_foreign(file)[0] == "taso"
    file.write_text(f"# TENSAT\n{EQUATIONS[0][0]}\n")
    assert read_foreign(file)[0] == "tensat"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"hello\n", "neither rules of TASO"), (b"\n#\n", "no rules"), (b"\xff\xfe", "no UTF-8 text")],
)
def test_other_files_are_refused(tmp_path, content, reason):
    file = tmp_path / "rules"
    file.write_bytes(content)
    with pytest.raises(ForeignError, match=reason):
        read_foreign(file)
    with pytest.raises(ForeignError, match="can't read"):
        read_foreign(tmp_path / "absent")


@pytest.mark.skipif(not TENSAT_SAMPLE.exists(), reason="the sample is not here")
def test_the_sample_of_equations_is_read():
    system, rules = read_foreign(TENSAT_SAMPLE)
    assert (system, len(rules)) == ("tensat", 225)
    assert all(isinstance(rule, ForeignRule) for rule in rules)


@pytest.mark.skipif(not TASO_SAMPLE.exists(), reason="the sample is not here")
def test_the_sample_of_rules_is_read():
    system, rules = read_foreign(TASO_SAMPLE)
    assert (system, len(rules)) == ("taso", 45)
    assert all(isinstance(rule, ForeignRule) for rule in rules)


@pytest.mark.parametrize(
    "deep",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        rule(1, [op("RELU", [-1]), *(op("RELU", [i]) for i in range(5000))], [op("RELU", [-1])]),
        rule(1, [op("RELU", [-1])], [op("CONCAT", [-1, -2], AXIS=0, NUMDIM=10**7)]),
    ],
    ids=["list", "object", "chain", "rank"],
)
def test_what_is_too_large_costs_only_itself(deep):
    problem, kept = read_lines(f"{deep}\n{RULES[0][0]}")
    assert isinstance(problem, Problem)
    assert problem.malformed
    assert isinstance(kept, ForeignRule)
    assert kept.line == 2


def test_equations_that_nest_too_deeply_cost_only_themselves():
    deep = "relu(" * 5000 + "input_1" + ")" * 5000
    problem, kept = read_equations(f"{deep} == input_1\n{EQUATIONS[0][0]}")
    assert isinstance(problem, Problem)
    assert problem.reason == "nested too deeply"
    assert isinstance(kept, ForeignRule)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[{}]", "one JSON object to a line"),
        (b'{\n"id": 1\n}', "one JSON object to a line"),
        ("relu(input_1) == input_1".encode("utf-16"), "no UTF-8 text (byte 0)"),
    ],
)
def test_a_file_of_another_form_is_told(content, reason, tmp_path):
    path = tmp_path / "rules.jsonl"
    path.write_bytes(content)
    with pytest.raises(ForeignError, match="1: ") as error:
        read_foreign(path)
    assert reason in str(error.value)


def test_a_number_that_no_machine_reads_is_told():
    (wrong,) = read_lines('{"id": 1' + "0" * 9000 + "}")
    assert wrong.reason.startswith("not JSON")

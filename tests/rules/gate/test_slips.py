"""False rules that an expert might let pass, each beside a true one that differs in one point."""

import pytest
from tensolog.rules.gate.floating.numeric_class import measured
from tensolog.rules.gate.gate import prove_rule
from tensolog.rules.gate.onnx_models import draw_sides
from tensolog.rules.language.parser import parse_rules

ADMITTED = ("proved", "bounded")
LARGEST = "[9223372036854775807]"


def rule_of(given, match, rewrite, equal="exact", opset=">= 13"):
    """A rule; statements of a side are divided by semicolons."""

    def lines(text):
        return "".join(f"    {line}\n" for line in text.split("; "))

    rewrite, _, correct = rewrite.partition(" correct ")
    (rule,) = parse_rules(
        f"# ConvertSome is a rule.\nrule ConvertSome\n  tags    explore\n  source  [test]\n"
        f"  opset   {opset}\n  given   {given}\n  match\n{lines(match)}  rewrite\n{lines(rewrite)}"
        + (f"  correct\n{lines(correct)}" if correct else "")
        + f"  equal   {equal}\n"
    )
    return rule


def verdict_of(rule):
    return measured(rule, prove_rule(rule, 10.0, infer=0), 10.0)


FALSE = {
    # An attribute has the digits of a float32.
    "digits": (
        "A float64, c scalar, fits(c, A)",
        "S = Mul(A, c); Y = Gemm<alpha=f>(S, B)",
        "Y = Gemm<alpha=f * c>(A, B)",
        "rounding\n  finite_math",
    ),
    # Powers of integers are taken in floating point: 65536 ** 4 saturates.
    "power": ("X int32", "Y = Pow(X, 4)", "S = Mul(X, X); Y = Mul(S, S)"),
    "complement": ("X int32", "Y = BitwiseNot(X)", "Y = Neg(X)", "exact", ">= 18"),
    # Of no axes, all dimensions of 1 go.
    "squeeze": ("X float32, a", "S = Squeeze(X, a); Y = Unsqueeze(S, a)", "Y = X"),
    "unsqueeze": ("X float32, a", "S = Unsqueeze(X, a); Y = Squeeze(S, a)", "Y = X"),
    "squeezes": (
        "A float32, B, rank(A) = rank(B)",
        "S = Squeeze(A, a); T = Squeeze(B, a); Y = Add(S, T)",
        "Z = Add(A, B); Y = Squeeze(Z, a)",
    ),
    # The largest integer is the end that a slice runs to, here the front.
    "slice": (
        "X [n] float32",
        f"Y = Slice(X, [-1], {LARGEST}, [0], [-1])",
        "Y = Slice(X, [0], [0], [0])",
    ),
    # What is cropped is no part of the copy.
    "wrap": (
        "X [n] float32, n > 2",
        'Y = Pad<mode="wrap">(X, [-1, 1])',
        f"A = Slice(X, [1], {LARGEST}, [0]); B = Slice(X, [0], [1], [0]); Y = Concat<axis=0>(A, B)",
        "exact",
        ">= 19",
    ),
    # Nothing is put between windows that leave gaps at the end.
    "transposed": (
        "X [n, c, w] float32, W [c, m, 1]",
        'Y = ConvTranspose<auto_pad="SAME_UPPER", strides=[2]>(X, W)',
        'Y = ConvTranspose<auto_pad="NOTSET", output_padding=[1], strides=[2]>(X, W)',
        "rounding",
    ),
    # A Range may be of real numbers.
    "range": ("a float32, b, d", "Y = Floor(Range(a, b, d))", "Y = Range(a, b, d)"),
    # Both directions have two states.
    "directions": (
        "X [1, b, i] float32, W, R",
        "Y, H, C = LSTM<direction=d, hidden_size=h>(X, W, R)",
        "V = Slice(W, [0], [1], [0]); S = Slice(R, [0], [1], [0]); "
        "Y, H, C = LSTM<hidden_size=h>(X, V, S)",
        "rounding",
        ">= 14",
    ),
    # 8-bit floats saturate or don't.
    "saturate": (
        "X float32",
        "Y = Cast<saturate=s, to=t>(X)",
        "Y = Cast<to=t>(X)",
        "exact",
        ">= 19",
    ),
    # Before 13 Softmax is over all axes behind its own.
    "correction": (
        "X [m, n] float32",
        'E = Exp(X); S = Einsum<equation="ij->j">(E); Y = Div(E, S)',
        'F = Exp(X); T = Einsum<equation="ij->j">(F); Y = Mul(F, Reciprocal(T)) '
        "correct Y = Softmax<axis=0>(X)",
        "partial except i0 = 0\n  finite_math",
        ">= 12",
    ),
    # Sums of rounded products round otherwise than rounded sums.
    "sums": (
        "X [n] float32",
        "Y = CumSum<exclusive=e, reverse=r>(Mul(X, 0.1), 0)",
        "Y = Mul(CumSum<exclusive=e, reverse=r>(X, 0), 0.1)",
        "exact\n  finite_math",
    ),
    # 0 times infinity is no number.
    "zero": (
        "X float32, Z float32, c scalar, c >= 0, fits(c, X)",
        "Y = Max(Mul(X, c), Mul(Z, c))",
        "Y = Mul(Max(X, Z), c)",
        "rounding",
    ),
    "slope": (
        "X float32, a < 1",
        "Y = LeakyRelu<alpha=a>(X)",
        "Y = Max(X, Mul(X, a))",
        "rounding",
    ),
    # The fill is 0.0, and not its opposite.
    "fill": (
        "X [n] float32",
        "Y = Neg(Pad<mode=m>(X, p))",
        "Y = Pad<mode=m>(Neg(X), p)",
        "exact",
        ">= 18",
    ),
    # Each differs from a law of bits in one operator or operand.
    "bits of itself": ("A int32", "Y = BitwiseXor(A, A)", "Y = A", "exact", ">= 18"),
    "absorbed bits": (
        "A [*s] int32, B [*s]",
        "T = BitwiseOr(A, B); Y = BitwiseXor(A, T)",
        "Y = A",
        "exact",
        ">= 18",
    ),
    "bits twice": (
        "A [*s] int32, B [*s]",
        "T = BitwiseOr(A, B); Y = BitwiseOr(T, B)",
        "Y = A",
        "exact",
        ">= 18",
    ),
    # A product of one row is computed by other code than one of two.
    "row": (
        "A [m, k] float32, B [m, k], W [k, n]",
        "Y = Concat<axis=0>(MatMul(A, W), MatMul(B, W))",
        "Y = MatMul(Concat<axis=0>(A, B), W)",
        "exact\n  finite_math",
    ),
    # Integers have more digits than short floats.
    "half": (
        "X int64",
        "Y = Cast<to=1>(X)",
        "Y = Cast<to=1>(Cast<to=10>(X))",
        "rounding\n  finite_math",
    ),
    "difference": (
        "X int32, Z int32",
        "Y = Sub(Cast<to=11>(X), Cast<to=11>(Z))",
        "Y = Cast<to=11>(Sub(Cast<to=1>(X), Cast<to=1>(Z)))",
        "rounding",
    ),
    "quotient": (
        "X int32",
        "Y = Div(Cast<to=1>(X), 3)",
        "Y = Cast<to=1>(Div(Cast<to=11>(X), 3))",
    ),
}
# What makes each of them true, part by part; and one of which no false one was seen.
MENDED = {
    "digits": {"given": "A float32, c scalar, fits(c, A)"},
    "complement": {"rewrite": "Y = Sub(Neg(X), 1)"},
    "power": {"equal": "rounding", "given": "X float32"},
    "squeeze": {"given": "X float32, a, dim(a, 0) > 0"},
    "unsqueeze": {"given": "X float32, a, dim(a, 0) > 0"},
    "squeezes": {"given": "A float32, B, rank(A) = rank(B), dim(a, 0) > 0"},
    "slice": {"match": "Y = Slice(X, [-1], [9223372036854775806], [0], [-1])"},
    "wrap": {
        "rewrite": f"A = Slice(X, [1], {LARGEST}, [0]); B = Slice(X, [1], [2], [0]); "
        "Y = Concat<axis=0>(A, B)"
    },
    "transposed": {"rewrite": 'Y = ConvTranspose<auto_pad="NOTSET", strides=[2]>(X, W)'},
    "saturate": {"match": "Y = Cast<saturate=1, to=t>(X)"},
    "correction": {"opset": ">= 13"},
    "sums": {
        "match": "Y = CumSum<exclusive=e, reverse=r>(Mul(X, 2), 0)",
        "rewrite": "Y = Mul(CumSum<exclusive=e, reverse=r>(X, 0), 2)",
    },
    "zero": {"equal": "rounding\n  finite_math"},
    "slope": {"equal": "rounding\n  finite_math"},
    "fill": {"equal": "rounding"},
    "bits of itself": {"match": "Y = BitwiseOr(A, A)"},
    "absorbed bits": {"match": "T = BitwiseOr(A, B); Y = BitwiseAnd(A, T)"},
    "bits twice": {"match": "T = BitwiseXor(A, B); Y = BitwiseXor(B, T)"},
    "order of bits": {
        "given": "A [*s] int32, B [*s], C [*s]",
        "match": "T = BitwiseAnd(A, B); Y = BitwiseAnd(T, C)",
        "rewrite": "S = BitwiseAnd(C, B); Y = BitwiseAnd(S, A)",
        "equal": "exact",
        "opset": ">= 18",
    },
    "row": {"equal": "rounding\n  finite_math"},
    "half": {"equal": "exact", "given": "X uint8"},
    "difference": {"given": "X int16, Z int16"},
    "quotient": {"given": "X int16"},
}
PARTS = ("given", "match", "rewrite", "equal", "opset")


@pytest.mark.parametrize("name", FALSE)
def test_a_slip_is_not_admitted(name):
    assert verdict_of(rule_of(*FALSE[name])).status not in ADMITTED


@pytest.mark.parametrize("name", MENDED)
def test_its_neighbour_is(name):
    false = dict(zip(PARTS, FALSE.get(name, ()), strict=False))
    verdict = verdict_of(rule_of(**{**false, **MENDED[name]}))
    assert verdict.status in ADMITTED, verdict.reason


def test_what_says_exact_is_drawn_at_sizes_where_kernels_turn_to_other_code():
    sides = draw_sides(rule_of(*FALSE["row"]), 8, 0, "float32")
    assert {1, 9} <= {size for side in sides for o in side.operands for size in o.shape}

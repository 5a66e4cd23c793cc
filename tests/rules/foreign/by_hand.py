"""Rules in the foreign formats, written for the tests, with what must become of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
TASO_SAMPLE = SHARED / "taso_rules_sample.jsonl"
TENSAT_SAMPLE = SHARED / "tensat_equations_sample.txt"

# (equation, status): proved as it stands, under a condition, or refuted.
EQUATIONS = (
    (
        "matmul(input_1,matmul(input_2,input_3)) == matmul(matmul(input_1,input_2),input_3)",
        "proved",
    ),
    ("matmul(input_1,input_2) == matmul(input_2,input_1)", "refuted"),
    ("relu(ewadd(input_1,input_2)) == ewadd(relu(input_1),relu(input_2))", "refuted"),
    ("relu(relu(input_1)) == relu(input_1)", "proved"),
    ("input_1 == transpose(transpose(input_1))", "proved"),
    ("input_1 == relu(input_1)", "refuted"),
    ("relu(input_1) == relu(input_2)", "refuted"),
    ("matmul(Imatmul,input_1) == matmul(input_1,Imatmul)", "proved"),
    ("ewmul(input_1,Iewmul) == input_1", "proved"),
    ("smul(smul(input_1,input_20),input_20) == smul(input_1,input_20)", "refuted"),
    # Broadcasting makes the right side's concatenations impossible.
    (
        "concat(0,ewadd(input_1,input_2),ewadd(input_3,input_4))"
        " == ewadd(concat(0,input_1,input_3),concat(0,input_2,input_4))",
        "conditional",
    ),
    ("concat(0,input_1,input_2) == concat(0,input_2,input_1)", "refuted"),
    ("relu(input_1) == split_0(0,relu(concat(0,input_1,input_2)))", "proved"),
    ("relu(input_1) == split_1(0,relu(concat(0,input_1,input_2)))", "refuted"),
    # Two kernel sizes on the left, one on the right.
    (
        "concat(1,conv2d(2,2,0,0,input_7,input_10),conv2d(2,2,0,0,input_7,input_11))"
        " == conv2d(2,2,0,0,input_7,concat(0,input_10,input_11))",
        "conditional",
    ),
    (
        "conv2d(1,1,0,0,input_7,input_10) == conv2d(1,1,0,0,input_7,enlarge(3,3,input_10))",
        "conditional",
    ),
    ("conv2d(1,1,0,0,input_7,Iconv(3,3)) == input_7", "proved"),
    ("conv2d(1,1,1,0,input_7,Iconv(3,3)) == input_7", "refused"),
    ("poolavg(2,2,2,2,1,input_7) == conv2d(2,2,1,0,input_7,Cpool(2,2))", "proved"),
    # Right up to images of 5 x 5.
    ("poolmax(9,9,1,1,0,poolmax(9,9,1,1,0,input_7)) == poolmax(9,9,1,1,0,input_7)", "refuted"),
    # Only an image of one number has one shape on both sides.
    ("conv2d(2,2,0,0,input_7,Iconv(1,1)) == input_7", "refused"),
    # The larger kernel leaves out windows, or starts them elsewhere.
    (
        "conv2d(2,2,1,0,input_7,input_10) == conv2d(2,2,1,0,input_7,enlarge(3,3,input_10))",
        "refused",
    ),
    ("enlarge(5,5,smul(input_10,input_20)) == smul(enlarge(5,5,input_10),input_20)", "proved"),
    # The sum on the left broadcasts where the right side can't be.
    (
        "ewadd(matmul(input_1,input_3),matmul(input_2,input_4))"
        " == matmul(concat(1,input_1,input_2),concat(0,input_3,input_4))",
        "conditional",
    ),
    ("conv2d(1,1,0,3,input_7,input_10) == tanh(conv2d(1,1,0,0,input_7,input_10))", "proved"),
)


def op(name: str, inputs: Sequence[Any], **parameters: int) -> dict[str, Any]:
    """A node of TASO's format; an input is a node's number, -k for input k, or [node, output]."""
    pairs = [[i, 0] if isinstance(i, int) else list(i) for i in inputs]
    return {"op": name, "params": {f"PM_{k}": v for k, v in parameters.items()}, "inputs": pairs}


def rule(number: int, src: list[Any], dst: list[Any], *outputs: Sequence[int]) -> str:
    """A line of TASO's format; the last nodes are the output where none is given."""
    pairs = [list(output) for output in outputs] or [[len(src) - 1, 0, len(dst) - 1, 0]]
    return json.dumps({"id": number, "src": src, "dst": dst, "outputs": pairs})


CONV = {"STRIDE_H": 1, "STRIDE_W": 1, "PAD": 0, "ACTI": 0}
RULES = (
    # A batched product, and its activation.
    (
        rule(
            1,
            [op("MATMUL", [-1, -2], ACTI=2), op("MATMUL", [0, -3], ACTI=0)],
            [op("MATMUL", [-1, -2], ACTI=0), op("RELU", [0]), op("MATMUL", [1, -3], ACTI=0)],
        ),
        "proved",
    ),
    (
        rule(
            2,
            [op("EW_ADD", [-1, -2]), op("EW_MUL", [0, -3])],
            [op("EW_MUL", [-1, -3]), op("EW_MUL", [-2, -3]), op("EW_ADD", [0, 1])],
        ),
        "proved",
    ),
    # Several groups deal the filters out anew.
    (
        rule(
            3,
            [op("CONV2D", [-7, -10], **CONV), op("CONV2D", [-7, -11], **CONV)],
            [
                op("CONCAT", [-10, -11], NUM_INPUTS=2, AXIS=0, NUMDIM=4),
                op("CONV2D", [-7, 0], **CONV),
                op("SPLIT", [1], NUM_OUTPUTS=2, AXIS=1),
            ],
            [0, 0, 2, 0],
            [1, 0, 2, 1],
        ),
        "conditional",
    ),
    # Any number of groups.
    (
        rule(
            4,
            [op("EW_ADD", [-10, -11]), op("CONV2D", [-7, 0], **CONV)],
            [
                op("CONV2D", [-7, -10], **CONV),
                op("CONV2D", [-7, -11], **CONV),
                op("EW_ADD", [0, 1]),
            ],
        ),
        "conditional",
    ),
    (
        rule(
            5,
            [op("TRANSPOSE", [-1], PERM=0 * 9 + 2 * 3 + 1, NUMDIM=3), op("RELU", [0])],
            [op("RELU", [-1]), op("TRANSPOSE", [0], PERM=0 * 9 + 2 * 3 + 1, NUMDIM=3)],
        ),
        "proved",
    ),
    (
        rule(
            6,
            [op("TRANSPOSE", [-1], PERM=1 * 9 + 2 * 3 + 0), op("TRANSPOSE", [0], PERM=15)],
            [op("RELU", [-1])],
        ),
        "refuted",
    ),
    # Three parts; the outputs are swapped.
    (
        rule(
            7,
            [op("RELU", [-1]), op("RELU", [-2])],
            [
                op("CONCAT", [-1, -2, -3], NUM_INPUTS=3, AXIS=1, NUMDIM=2),
                op("RELU", [0]),
                op("SPLIT", [1], NUM_OUTPUTS=3, AXIS=1),
            ],
            [0, 0, 2, 1],
            [1, 0, 2, 0],
        ),
        "refuted",
    ),
    # The sum broadcasts, the concatenation does not.
    (
        rule(
            9,
            [op("MATMUL", [-1, -3], ACTI=0), op("MATMUL", [-2, -4], ACTI=0), op("EW_ADD", [0, 1])],
            [
                op("CONCAT", [-1, -2], NUM_INPUTS=2, AXIS=1, NUMDIM=2),
                op("CONCAT", [-3, -4], NUM_INPUTS=2, AXIS=0, NUMDIM=2),
                op("MATMUL", [0, 1], ACTI=0),
            ],
        ),
        "conditional",
    ),
    (
        rule(8, [op("MUL", [-7, -20]), op("RELU", [0])], [op("RELU", [-7]), op("MUL", [0, -20])]),
        "refuted",
    ),
)

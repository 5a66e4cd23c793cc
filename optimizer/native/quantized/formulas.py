"""How ONNX Runtime adds and multiplies two 8-bit integers that stand for numbers: it is asked.

Its operators QLinearAdd and QLinearMul round once. In which order a sum is added up is the choice
of the compiler that it was built with, and another one where one operand stays along a row:

    round(b * (scale B / scale Y) + fixed + a * (scale A / scale Y)),   saturated

`fixed` has the zero points. Signed integers become unsigned ones there, on the processors that
have these kernels, so that all is said of uint8. So the runtime computes all 65,536 pairs of
integers, and a formula is one that gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from onnx import helper

from ..runtime_answers import answer


@dataclass(frozen=True)
class Formula:
    """How the runtime computes a sum or a product, as quantized_pairs.h has it.

    `is_swapped` says that the second operand is multiplied last.
    """

    first: float
    second: float
    fixed: float
    is_swapped: bool = False


Quantization = tuple[float, int]


@cache
def formula_of(
    operator: str, a: Quantization, b: Quantization, y: Quantization, pattern: str
) -> Formula | None:
    """Return how the runtime adds or multiplies (scale, zero point) each; None if that is unknown.

    `pattern` says which operand stays along a row.
    """
    numbers = np.arange(256).astype(np.uint8)
    across, down = np.meshgrid(numbers, numbers)
    operands = {"first": (down[:, :1], across), "second": (across, down[:, :1])}
    first, second = operands.get(pattern, (across, down))
    wanted = _asked(operator, (a, b, y), first, second)
    for formula in _formulas(operator, a, b, y):
        x, z = (second, first) if formula.is_swapped else (first, second)
        if np.array_equal(computed(operator, formula, x, z, y[1]), wanted):
            return formula
    return None


def computed(
    operator: str,
    formula: Formula,
    x: np.ndarray,
    z: np.ndarray,
    zero: int,
) -> np.ndarray:
    """Return a sum or a product of integers as quantized_pairs.h computes it."""
    single, double = np.float32, np.float64
    x, z = x.astype(single), z.astype(single)
    first, second, fixed = (
        single(number) for number in (formula.first, formula.second, formula.fixed)
    )
    if operator == "Add":
        inner = (z.astype(double) * double(second) + double(fixed)).astype(single)
        sums = (x.astype(double) * double(first) + inner.astype(double)).astype(single)
        return np.clip(np.rint(sums), 0, 255).astype(np.uint8)
    product = (x - first) * (z - second) * fixed + single(zero)
    return np.clip(np.rint(product), 0, 255).astype(np.uint8)


def _formulas(operator: str, a: Quantization, b: Quantization, y: Quantization) -> list[Formula]:
    single = np.float32
    scales = [single(scale) for scale, _ in (a, b, y)]
    if operator == "Mul":
        by = {float(scales[0] * scales[1] / scales[2]), float(scales[0] * (scales[1] / scales[2]))}
        return [Formula(a[1], b[1], offset) for offset in sorted(by)]
    formulas = []
    ratios = [scales[0] / scales[2], scales[1] / scales[2]]
    for is_swapped in (False, True):
        first_ratio, other = ratios[::-1] if is_swapped else ratios
        addends = [(first_ratio, (b if is_swapped else a)[1]), (other, (a if is_swapped else b)[1])]
        rounded_zeros = [single(ratio * single(zero)) for ratio, zero in addends]
        ways = [single(rounded_zeros[0] + rounded_zeros[1])]
        for (ratio, zero), rounded in zip(addends, rounded_zeros[::-1], strict=True):
            ways.append(single(float(ratio) * zero + float(rounded)))
        formulas += [
            Formula(float(first_ratio), float(other), float(single(y[1]) - way), is_swapped)
            for way in ways
        ]
    return formulas


def _asked(
    operator: str, quantizations: tuple[Quantization, ...], first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """Let the runtime add or multiply."""
    node = helper.make_node
    constants: dict[str, np.ndarray] = {}
    for name, (scale, zero) in zip("aby", quantizations, strict=True):
        constants[f"{name}.scale"] = np.asarray(scale, np.float32)
        constants[f"{name}.zero"] = np.asarray(zero, np.uint8)
    nodes = [
        node("DequantizeLinear", ["a", "a.scale", "a.zero"], ["A"]),
        node("DequantizeLinear", ["b", "b.scale", "b.zero"], ["B"]),
        node(operator, ["A", "B"], ["Y"]),
        node("QuantizeLinear", ["Y", "y.scale", "y.zero"], ["y"]),
    ]
    return answer(nodes, {"a": first, "b": second}, constants, ("y", "uint8"))

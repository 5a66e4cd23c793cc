"""Fit the polynomials of the elementary functions; print coefficients.h.

Run with the package mpmath installed:

    python -m tensolog.optimizer.codegen.fit > coefficients.h

Each polynomial is the best one in the weighted maximum norm (Remez's exchange), found with 60
digits; then its coefficients are rounded. What is multiplied by them is small, so that the rounding
costs little; the error printed is that of the rounded polynomial. Quotients of polynomials are
found alike: the exchange solves for both, the denominator beside the error being that of the step
before (Loeb 1957).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Imported within functions: mpmath, with which polynomials are fitted anew; the package has them.

Number = Any  # an mpmath.mpf


@dataclass(frozen=True)
class Fit:
    """A polynomial to be found: `target` on [low, high], the error times `weight` made small.

    `bits` is the width of a coefficient, 32 or 64; `under` the degree of a denominator, whose
    constant is 1.
    """

    name: str
    bits: int
    degree: int
    low: float
    high: float
    target: Callable[[Number], Number]
    weight: Callable[[Number], Number]
    why: str
    under: int = 0


def _series(term: Callable[[int], Number], x: Number) -> Number:
    """Sum a power series whose direct formula cancels near 0."""
    import mpmath as mp

    return mp.fsum(term(k) * x**k for k in range(60))


def fits() -> list[Fit]:
    """Return everything that is to be fitted."""
    import mpmath as mp

    half = float(mp.log(2) / 2) * 1.0001
    root = float(((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2) * 1.0001
    low, high = float(mp.sqrt(0.5)) - 1, float(mp.sqrt(2)) - 1

    def exp_tail(r: Number) -> Number:
        return _series(lambda k: 1 / mp.factorial(k + 2), r)

    def atanh_tail(z: Number) -> Number:
        return _series(lambda k: mp.mpf(2) / (2 * k + 3), z)

    def atanh_rest(z: Number) -> Number:
        return _series(lambda k: mp.mpf(1) / (2 * k + 5), z)

    def log_tail(f: Number) -> Number:
        if abs(f) < 0.01:
            return _series(lambda k: mp.mpf((-1) ** k) / (k + 3), f)
        return (mp.log1p(f) - f + f * f / 2) / f**3

    def erf_near(z: Number) -> Number:
        x = mp.sqrt(z)
        return 2 / mp.sqrt(mp.pi) - 1 if x == 0 else mp.erf(x) / x - 1

    def erf_far(t: Number) -> Number:
        x = 2 * (1 + t) / (1 - t)  # t = (x - 2) / (x + 2)
        return mp.exp(x * x) * mp.erfc(x)

    def erf_far_weight(t: Number) -> Number:
        x = 2 * (1 + t) / (1 - t)
        return mp.exp(-x * x)

    def tanh_part(z: Number) -> Number:
        x = mp.sqrt(z)
        return mp.tanh(x) / x if x else mp.mpf(1)

    def half_part(z: Number) -> Number:
        return tanh_part(z / 4) / 2

    def inverse(of: Callable[[Number], Number]) -> Callable[[Number], Number]:
        return lambda z: 1 / of(z)

    def rest(of: Callable[[Number], Number], at_zero: Number) -> Callable[[Number], Number]:
        """What is left of an odd function: of(x) = x + x z p(z), z = x^2."""
        return lambda z: (of(mp.sqrt(z)) / mp.sqrt(z) - 1) / z if z else at_zero

    def rest_weight(of: Callable[[Number], Number]) -> Callable[[Number], Number]:
        return lambda z: z * mp.sqrt(z) / of(mp.sqrt(z)) if z else z

    def unit_weight(_: Number) -> Number:
        return mp.mpf(1)

    fits_of_functions = []
    exp_why = "exp(r) = 1 + r + r^2 p(r)"
    near_why = "erf(x) = x + x p(x^2), |x| <= 1"
    far_why = "erfc(x) = exp(-x^2) p((x - 2) / (x + 2)), x >= 1"
    for bits, exp, near, far, last in ((64, 9, 11, 13, 6.0), (32, 4, 5, 6, 4.0)):
        end = (last - 2) / (last + 2)
        fits_of_functions += [
            Fit("EXP", bits, exp, -half, half, exp_tail, lambda r: r * r, exp_why),
            Fit("ERF_NEAR", bits, near, 0.0, 1.0, erf_near, unit_weight, near_why),
            Fit("ERF_FAR", bits, far, -1 / 3, end, erf_far, erf_far_weight, far_why),
        ]
    log_why = "2 atanh(s) = 2 s + s z p(z), z = s^2"
    rest_why = "atanh(s) = s + s z (1/3 + z p(z)), z = s^2"
    short_why = "log(1 + f) = f - f^2/2 + f^3 p(f)"
    fits_of_functions += [
        Fit("LOG", 64, 6, 0.0, root, atanh_tail, lambda z: z, log_why),
        Fit("LOG_REST", 64, 8, 0.0, root, atanh_rest, lambda z: z * z, rest_why),
        Fit("LOG", 32, 7, low, high, log_tail, lambda f: f * f, short_why),
    ]
    tanh_why = "tanh(x) = x p(x^2) / q(x^2), |x| <= 8.3"
    half_why = "tanh(x / 2) = x p(x^2) / q(x^2), |x| <= 16.6"
    for name, end, part, why in (
        ("TANH", 8.3, tanh_part, tanh_why),
        ("HALF", 16.6, half_part, half_why),
    ):
        fits_of_functions.append(
            Fit(name, 32, 4, 0.0, end * end, part, inverse(part), why, under=4)
        )
    # a little beyond pi / 4, where a rounded quotient may lead
    for name, of, at_zero, end, text, degrees in (
        ("SIN", mp.sin, -mp.mpf(1) / 6, 0.82, "sin(x) = x + x z p(z), z = x^2", (5, 2)),
        ("TAN", mp.tan, mp.mpf(1) / 3, 0.82, "tan(x) = x + x z p(z) / q(z), z = x^2", (2, 1)),
        ("ASIN", mp.asin, mp.mpf(1) / 6, 0.5, "asin(x) = x + x z p(z), z = x^2 <= 1/4", (11, 4)),
        ("ATAN", mp.atan, -mp.mpf(1) / 3, 1.0, "atan(x) = x + x z p(z), z = x^2 <= 1", (18, 7)),
    ):
        for bits, degree in zip((64, 32), degrees, strict=True):
            under = degree + 1 if name == "TAN" else 0
            shape = (rest(of, at_zero), rest_weight(of), text, under)
            fits_of_functions.append(Fit(name, bits, degree, 0.0, end * end, *shape))

    def cos_tail(z: Number) -> Number:
        return _series(lambda k: mp.mpf((-1) ** k) / mp.factorial(2 * k + 4), z)

    cos_why = "cos(x) = 1 - z / 2 + z^2 p(z), z = x^2"
    for bits, degree in ((64, 5), (32, 2)):
        fits_of_functions.append(
            Fit("COS", bits, degree, 0.0, 0.82**2, cos_tail, lambda z: z * z, cos_why)
        )
    return fits_of_functions


def rounded(value: Number, bits: int) -> float:
    """Round to float64, or to float32 with `bits` 32."""
    value_in_double = float(value)
    return (
        value_in_double if bits == 64 else struct.unpack("f", struct.pack("f", value_in_double))[0]
    )


def remez(fit: Fit, points: int = 800) -> tuple[list[Number], list[Number]]:
    """Return the coefficients of the best polynomial and denominator, from the lowest power on."""
    import mpmath as mp

    count = fit.degree + 1 + fit.under
    span, middle = mp.mpf(fit.high - fit.low) / 2, mp.mpf(fit.high + fit.low) / 2
    grid = [middle - span * mp.cos(mp.pi * k / points) for k in range(points + 1)]
    values = [fit.target(x) for x in grid]
    weights = [fit.weight(x) for x in grid]
    heaviest = max(weights)
    usable = [i for i in range(points + 1) if weights[i] > heaviest * mp.mpf("1e-9")]
    chosen = [usable[round(k * (len(usable) - 1) / count)] for k in range(count + 1)]
    over: list[Number] = []
    under = [mp.mpf(1)] + [mp.mpf(0)] * fit.under
    for _ in range(30):
        for _ in range(6 if fit.under else 1):
            matrix = mp.matrix(count + 1, count + 1)
            for row, i in enumerate(chosen):
                x = grid[i]
                for power in range(fit.degree + 1):
                    matrix[row, power] = x**power
                for power in range(1, fit.under + 1):
                    matrix[row, fit.degree + power] = -values[i] * x**power
                matrix[row, count] = (-1) ** row * _polynomial(under, x) / weights[i]
            solved = mp.lu_solve(matrix, mp.matrix([values[i] for i in chosen]))
            over = [solved[k] for k in range(fit.degree + 1)]
            under = [mp.mpf(1), *(solved[fit.degree + k] for k in range(1, fit.under + 1))]
        errors = [
            (values[i] - _polynomial(over, grid[i]) / _polynomial(under, grid[i])) * weights[i]
            for i in usable
        ]
        if max(map(abs, errors)) <= abs(solved[count]) * mp.mpf("1.001"):
            break
        chosen = _alternation(usable, errors, count + 1)
    return over, under


def _polynomial(coefficients: list[Number], x: Number) -> Number:
    """Evaluate a polynomial whose coefficients start with the lowest power's."""
    import mpmath as mp

    return mp.polyval(coefficients[::-1], x)


def _alternation(usable: list[int], errors: list[Number], wanted: int) -> list[int]:
    """Return the places of `wanted` extremes of alternating sign, the greatest that there are."""
    extremes: list[int] = []
    for i, error in enumerate(errors):
        if extremes and (errors[extremes[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[extremes[-1]]):
                extremes[-1] = i
        else:
            extremes.append(i)
    while len(extremes) > wanted:
        end = 0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1
        extremes.pop(end)
    if len(extremes) < wanted:  # already as good as the grid tells
        step = (len(usable) - 1) / (wanted - 1)
        return [usable[round(k * step)] for k in range(wanted)]
    return [usable[i] for i in extremes]


def solve(fit: Fit) -> tuple[list[float], list[float], Number]:
    """Return rounded coefficients as remez does, and the weighted error they leave."""
    import mpmath as mp

    over, under = (
        [rounded(coefficient, fit.bits) for coefficient in coefficients]
        for coefficients in remez(fit)
    )
    grid = [mp.mpf(fit.low) + (mp.mpf(fit.high) - mp.mpf(fit.low)) * k / 2000 for k in range(2001)]
    errors = [
        abs(fit.target(x) - _polynomial(over, x) / _polynomial(under, x)) * fit.weight(x)
        for x in grid
    ]
    return over, under, max(errors)


def header() -> str:
    """Return the text of coefficients.h."""
    import mpmath as mp

    mp.mp.dps = 60
    lines = ["/* Generated by: python -m tensolog.optimizer.codegen.fit > coefficients.h */"]
    for fit in fits():
        over, under, worst = solve(fit)
        lines.append(f"\n/* {fit.why}; weighted error 2^{float(mp.log(worst, 2)):.1f} */")
        if fit.under:
            lines += _function(f"{fit.name}_OVER", fit.bits, over)
            lines += _function(f"{fit.name}_UNDER", fit.bits, under)
        else:
            lines += _function(fit.name, fit.bits, over)
    return "\n".join(lines)


def _function(name: str, bits: int, coefficients: list[float]) -> list[str]:
    """Return the lines of a polynomial's function."""
    kind, suffix = ("float", "f") if bits == 32 else ("double", "")
    return [
        f"static inline {kind} {name}_{bits}({kind} x) {{",
        f"  {kind} p = {coefficients[-1].hex()}{suffix};",
        *(
            f"  p = FMA_{bits}(p, x, {coefficient.hex()}{suffix});"
            for coefficient in reversed(coefficients[:-1])
        ),
        *("  return p;", "}"),
    ]


if __name__ == "__main__":
    print(header())

"""Fit the polynomials of the elementary functions; print coefficients.h.

Run with the package mpmath installed: python -m tensolog.optimizer.codegen.fit > coefficients.h

Each polynomial is the best one in the weighted maximum norm (Remez's exchange), found with 60
digits; then its coefficients are rounded. What is multiplied by them is small, so that the rounding
costs little; the error printed is that of the rounded polynomial.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Number = Any  # an mpmath.mpf


@dataclass(frozen=True)
class Fit:
    """A polynomial to be found: `target` on [low, high], the error times `weight` made small.

    `bits` is the width of a coefficient, 32 or 64.
    """

    name: str
    bits: int
    degree: int
    low: float
    high: float
    target: Callable[[Number], Number]
    weight: Callable[[Number], Number]
    why: str


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

    def one(_: Number) -> Number:
        return mp.mpf(1)

    found = []
    exp_why = "exp(r) = 1 + r + r^2 p(r)"
    near_why = "erf(x) = x + x p(x^2), |x| <= 1"
    far_why = "erfc(x) = exp(-x^2) p((x - 2) / (x + 2)), x >= 1"
    for bits, exp, near, far, last in ((64, 9, 11, 13, 6.0), (32, 4, 5, 6, 4.0)):
        end = (last - 2) / (last + 2)
        found += [
            Fit("EXP", bits, exp, -half, half, exp_tail, lambda r: r * r, exp_why),
            Fit("ERF_NEAR", bits, near, 0.0, 1.0, erf_near, one, near_why),
            Fit("ERF_FAR", bits, far, -1 / 3, end, erf_far, erf_far_weight, far_why),
        ]
    log_why = "2 atanh(s) = 2 s + s z p(z), z = s^2"
    rest_why = "atanh(s) = s + s z (1/3 + z p(z)), z = s^2"
    short_why = "log(1 + f) = f - f^2/2 + f^3 p(f)"
    found += [
        Fit("LOG", 64, 6, 0.0, root, atanh_tail, lambda z: z, log_why),
        Fit("LOG_REST", 64, 8, 0.0, root, atanh_rest, lambda z: z * z, rest_why),
        Fit("LOG", 32, 7, low, high, log_tail, lambda f: f * f, short_why),
    ]
    return found


def rounded(value: Number, bits: int) -> float:
    """Round to float64, or to float32 with `bits` 32."""
    found = float(value)
    return found if bits == 64 else struct.unpack("f", struct.pack("f", found))[0]


def remez(fit: Fit, points: int = 800) -> list[Number]:
    """Return the coefficients of the best polynomial, from the lowest power on."""
    import mpmath as mp

    count = fit.degree + 1
    span, middle = mp.mpf(fit.high - fit.low) / 2, mp.mpf(fit.high + fit.low) / 2
    grid = [middle - span * mp.cos(mp.pi * k / points) for k in range(points + 1)]
    values = [fit.target(x) for x in grid]
    weights = [fit.weight(x) for x in grid]
    heaviest = max(weights)
    usable = [at for at in range(points + 1) if weights[at] > heaviest * mp.mpf("1e-9")]
    chosen = [usable[round(k * (len(usable) - 1) / count)] for k in range(count + 1)]
    solution: list[Number] = []
    for _ in range(30):
        matrix = mp.matrix(count + 1, count + 1)
        for row, at in enumerate(chosen):
            for power in range(count):
                matrix[row, power] = grid[at] ** power
            matrix[row, count] = (-1) ** row / weights[at]
        solved = mp.lu_solve(matrix, mp.matrix([values[at] for at in chosen]))
        solution = [solved[k] for k in range(count)]
        polynomial = list(reversed(solution))
        errors = [(values[at] - mp.polyval(polynomial, grid[at])) * weights[at] for at in usable]
        if max(map(abs, errors)) <= abs(solved[count]) * mp.mpf("1.001"):
            break
        chosen = _alternation(usable, errors, count + 1)
    return solution


def _alternation(usable: list[int], errors: list[Number], wanted: int) -> list[int]:
    """Return the places of `wanted` extremes of alternating sign, the greatest that there are."""
    extremes: list[int] = []
    for at, error in enumerate(errors):
        if extremes and (errors[extremes[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[extremes[-1]]):
                extremes[-1] = at
        else:
            extremes.append(at)
    while len(extremes) > wanted:
        end = 0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1
        extremes.pop(end)
    if len(extremes) < wanted:  # already as good as the grid tells
        step = (len(usable) - 1) / (wanted - 1)
        return [usable[round(k * step)] for k in range(wanted)]
    return [usable[at] for at in extremes]


def solve(fit: Fit) -> tuple[list[float], Number]:
    """Return rounded coefficients from the lowest power on, and the weighted error they leave."""
    import mpmath as mp

    known = [rounded(one, fit.bits) for one in remez(fit)]
    grid = [mp.mpf(fit.low) + (mp.mpf(fit.high) - mp.mpf(fit.low)) * k / 2000 for k in range(2001)]
    polynomial = list(reversed(known))
    return known, max(abs(fit.target(x) - mp.polyval(polynomial, x)) * fit.weight(x) for x in grid)


def header() -> str:
    """Return the text of coefficients.h."""
    import mpmath as mp

    mp.mp.dps = 60
    lines = ["/* Generated by: python -m tensolog.optimizer.codegen.fit > coefficients.h */"]
    for fit in fits():
        coefficients, worst = solve(fit)
        kind = "float" if fit.bits == 32 else "double"
        suffix = "f" if fit.bits == 32 else ""
        name = f"{fit.name}_{fit.bits}"
        lines.append(f"\n/* {fit.why}; weighted error 2^{float(mp.log(worst, 2)):.1f} */")
        lines.append(f"static inline {kind} {name}({kind} x) {{")
        lines.append(f"  {kind} p = {coefficients[-1].hex()}{suffix};")
        lines += [
            f"  p = FMA_{fit.bits}(p, x, {coefficient.hex()}{suffix});"
            for coefficient in reversed(coefficients[:-1])
        ]
        lines += ["  return p;", "}"]
    return "\n".join(lines)


if __name__ == "__main__":
    print(header())

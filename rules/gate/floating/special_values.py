"""What a rule does to NaN, infinities, zeros, subnormal numbers and overflow.

Only ONNX Runtime's word counts here: which kernels propagate a NaN or keep the sign of a zero is
no matter of arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...language.syntax import Rule
from ..onnx_models import NotRunError, SideModels, negated_zeros, other_scalars
from .input_families import KINDS, feeds, inject, special
from .witness import Witness

Array = NDArray[Any]

# Runs of an instance on each kind; more of those that have to meet a threshold.
FEEDS = 10
SEARCHED = {"subnormal": 40, "overflow": 80, "halfway": 40, "mixed": 40}
# Kinds that a rule's scalars are of, too; beside the others they are zeros and infinities.
SCALARS = ("subnormal", "overflow")
_NOT_FINITE = ("nan", "positive_infinity", "negative_infinity", "mixed")
# Far beyond rounding, relative to the largest output: another number, not the same one rounded.
# Among subnormal and huge numbers rounding itself reaches far, and no such bound holds.
OTHER_NUMBER, OTHER_ULPS = 1e-2, 256
BOUNDED = ("nan", "positive_infinity", "negative_infinity", "zero")


@dataclass(frozen=True)
class Special:
    """What becomes of one kind of special value in one element type.

    kept: the outputs are alike, but for rounding under `equal rounding`. differs: they are not, as
    the rule's class allows. broken: they are not, and its class promises that they are. `example`
    shows one element.
    """

    dtype: str
    kind: str
    samples: int
    verdict: Literal["kept", "differs", "broken"]
    example: str = ""
    witness: Witness | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Difference:
    """The first element at which outputs are unlike: how, and where."""

    how: Literal["finite", "infinite", "sign", "bits", "number", "other"]
    output: str
    text: str


def unlike(
    source: Array, target: Array, name: str, *, exact: bool, bounded: bool
) -> Difference | None:
    """Return how two outputs differ beyond rounding; None where they don't.

    "finite": one is finite and the other is not, or one NaN; "infinite": infinities of other signs;
    "sign": of a zero; with `exact` "bits": any other difference; else, with `bounded`, "number":
    more than rounding explains; "other": integers or truth values.
    """
    if source.shape != target.shape:
        return None  # seen by others
    if source.dtype.kind != "f":
        places = source != target
        return _difference("other", places, source, target, name) if places.any() else None
    with np.errstate(all="ignore"):
        kinds = (np.isnan(source) != np.isnan(target)) | (np.isinf(source) != np.isinf(target))
        both = np.isfinite(source) & np.isfinite(target)
        infinite = np.isinf(source) & np.isinf(target) & (source != target)
        zero = (source == 0) & (target == 0) & (np.signbit(source) != np.signbit(target))
        scale = float(np.abs(source[both]).max(initial=0.0))
        other = both & (source != target)
        least = max(OTHER_NUMBER, OTHER_ULPS * float(np.finfo(source.dtype).eps))
        far = other & (np.abs(source - target) > least * scale) & bounded
    for how, places in (
        ("finite", kinds),
        ("infinite", infinite),
        ("bits" if exact else "number", other if exact else far),
        ("sign", zero),
    ):
        if places.any():
            return _difference(how, places, source, target, name)
    return None


def _difference(how: Any, places: Array, source: Array, target: Array, name: str) -> Difference:
    index = tuple(map(int, np.argwhere(places)[0]))
    where = f"{name}[{', '.join(map(str, index))}]" if index else name
    before, after = _number(source[index]), _number(target[index])
    text = f"{where} is {before} in the source and {after} in the target"
    return Difference(how, name, text)


def _number(value: Any) -> str:
    return np.format_float_scientific(value, unique=True) if _long(value) else str(value)


def _long(value: Any) -> bool:
    return isinstance(value, np.floating) and bool(np.isfinite(value)) and abs(float(value)) > 1e6


def specials(rule: Rule, pairs: Sequence[SideModels], dtype: str, seed: int) -> list[Special]:
    """Compare both sides of a rule's instances on every kind of special value; nothing where none
    of them runs. Raises TargetError where ONNX Runtime runs a source and not its target.
    """
    counts = dict.fromkeys(KINDS, 0)
    worst: dict[str, _Outcome] = dict.fromkeys(KINDS, _Outcome())
    for number, pair in enumerate(pairs):
        try:
            for position, kind in enumerate(KINDS):
                rng = np.random.default_rng([seed, number, position])
                pairs_of_kind = [pair, *_others(pair, rng, kind)]
                for turn in range(SEARCHED.get(kind, FEEDS)):
                    counts[kind] += 1
                    chosen = pairs_of_kind[turn % len(pairs_of_kind)]
                    outcome = _compare(rule, chosen, rng, kind)
                    worst[kind] = min(worst[kind], outcome, key=_most_telling)
        except NotRunError:
            continue
    verdicts: tuple[Literal["kept", "differs", "broken"], ...] = ("kept", "differs", "broken")
    return [
        Special(
            dtype,
            kind,
            counts[kind],
            verdicts[worst[kind].rank],
            worst[kind].example,
            worst[kind].witness,
        )
        for kind in KINDS
        if counts[kind]
    ]


def _others(pair: SideModels, rng: np.random.Generator, kind: str) -> list[SideModels]:
    """The instance with special values among the numbers that a match fixes, too."""

    def draw(dtype: np.dtype[Any]) -> Array:
        if kind in SCALARS:
            return special(kind, rng, 1, dtype)
        return rng.choice(np.asarray([0.0, -0.0, np.inf, -np.inf], dtype), 1)

    other_pairs = [other_scalars(pair, draw) for _ in range(3)]
    if kind == "zero":
        other_pairs.append(negated_zeros(pair, rng))
    return [values for values in other_pairs if values is not None]


@dataclass(frozen=True)
class _Outcome:
    """What one run came to: 0, 1 or 2 for kept, differs, broken, and an example."""

    rank: int = 0
    example: str = ""
    witness: Witness | None = None


def _compare(rule: Rule, pair: SideModels, rng: np.random.Generator, kind: str) -> _Outcome:
    drawn = inject(pair.operands, feeds(pair.operands, rng, "normal"), rng, kind)
    sources, targets = pair.run(drawn, stepwise=True)
    exact = rule.equal == "exact"
    worst = _Outcome()
    for name, source, target in zip(pair.outputs, sources, targets, strict=True):
        difference = unlike(source, target, name, exact=exact, bounded=kind in BOUNDED)
        if difference is None:
            continue
        rank = 2 if breaks(rule, kind, difference) else 1
        example = f"{difference.text} for {_shown(drawn)}"
        outcome = _Outcome(rank, example, Witness(pair.source, pair.target, drawn))
        worst = min(worst, outcome, key=_most_telling)
    return worst


def _most_telling(outcome: _Outcome) -> tuple[int, int]:
    """Order what was found: the worst first, and the shortest example of it."""
    return -outcome.rank, len(outcome.example)


def breaks(rule: Rule, kind: str, difference: Difference) -> bool:
    """Tell whether a rule's class promises that this difference doesn't arise.

    `exact` and `rounding` speak of every input; `rounding` lets 0.0 stand for -0.0; `finite_math`
    takes infinities and NaNs among operands and intermediate results out.
    """
    if difference.how == "sign":
        return rule.equal == "exact"
    if difference.how in ("finite", "infinite"):
        return not rule.finite_math
    if difference.how == "other" and kind == "overflow":  # of a result that is not finite
        return not rule.finite_math
    return not (rule.finite_math and kind in _NOT_FINITE)


def _shown(drawn: Mapping[str, Array]) -> str:
    """Show the operands, those of a few elements whole, the others by what is special in them."""
    parts = []
    for name, array in drawn.items():
        if array.size <= 4:
            parts.append(f"{name} = {_listed(array.reshape(-1))}")
            continue
        flat = array.reshape(-1)
        special = [k for k in range(flat.size) if _special(flat[k])]
        if special:
            first = np.unravel_index(special[0], array.shape)
            where = ", ".join(str(int(i)) for i in first)
            more = f" and {len(special) - 1} more" if len(special) > 1 else ""
            parts.append(f"{name}[{where}] = {_number(flat[special[0]])}{more}")
    return "; ".join(parts) or "ordinary operands"


def _listed(flat: Array) -> str:
    texts = [_number(value) for value in flat]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _special(value: Any) -> bool:
    if not isinstance(value, np.floating):
        return False
    limits = np.finfo(value.dtype)
    small = float(limits.smallest_normal) * 2.0**4
    large: float = 2.0 ** (0.3 * float(np.log2(float(limits.max))))
    return not (small < abs(float(value)) < large)

"""The readings of a foreign rule, the widest first, and the conditions that set them apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .equations import equation_text
from .operators import ELEMENTWISE
from .shapes import DEPTHWISE, Reading, Shape, ShapeClashError, Shapes, shaped_like
from .sizes import Size
from .terms import Apply, ForeignRule, Term, Variable, parts
from .translate import Translation, translate


@dataclass(frozen=True)
class Condition:
    """A side condition, as an expression of the rule language and in words."""

    text: str
    words: str


@dataclass(frozen=True)
class Candidate:
    """A rule that would be the foreign one under some conditions; as it stands if there is none.

    `plain`: nothing is assumed but what the foreign system states. `broadcasts`: the rule has
    operators that may broadcast. `degenerate`: sizes are set to numbers only for both sides to have
    one shape, so that a proof would say little; it is tried for the numbers that may refute it.
    """

    translation: Translation
    conditions: tuple[Condition, ...]
    plain: bool
    broadcasts: bool
    degenerate: bool = False


def candidates(rule: ForeignRule) -> tuple[Candidate, ...]:
    """What to try to prove, in order; ShapeClashError where no reading fits any sizes."""
    distinct: list[Candidate] = []
    texts: set[str] = set()
    clash: ShapeClashError | None = None
    elementwise = _elementwise(rule)
    numbers: set[str] = set()
    for reading in _readings(rule):
        try:
            translation = translate(rule, reading)
            conditions = _conditions(rule, translation)
        except ShapeClashError as error:
            clash = clash or error
            continue
        if reading.broadcast and translation.conditions and elementwise:
            continue  # half broadcast, half not: the reading without says it better
        if translation.text in texts:
            continue
        texts.add(translation.text)
        extra = (reading.alike, reading.outputs, reading.depthwise, reading.pointwise)
        plain = not any(extra) and reading.groups == (rule.system == "taso")
        condition_texts = {condition.text for condition in conditions}
        fixed = {text for text in condition_texts if re.search(r" = \d+$|//.* = | = .*//", text)}
        if not reading.outputs:
            numbers |= fixed
        degenerate = reading.outputs and bool(fixed - numbers)
        distinct.append(Candidate(translation, conditions, plain, elementwise, degenerate))
    if not distinct:
        raise clash or ShapeClashError("the shapes fit at no sizes")
    return tuple(distinct)


def _elementwise(rule: ForeignRule) -> bool:
    terms = parts((*rule.sources, *rule.targets))
    return any(isinstance(t, Apply) and t.operator in ELEMENTWISE for t in terms)


def _readings(rule: ForeignRule) -> list[Reading]:
    """TASO derives the groups of a convolution from its shapes; TENSAT's convolutions have one."""
    grouped = [True, False] if rule.system == "taso" else [False]
    readings = [Reading(broadcast, groups) for broadcast in (True, False) for groups in grouped]
    readings += [Reading(False, groups, alike=True) for groups in grouped]
    if DEPTHWISE in parts((*rule.sources, *rule.targets)):
        readings += [Reading(broadcast, grouped[0], depthwise=True) for broadcast in (True, False)]
    readings += [Reading(False, grouped[-1], pointwise=True)]
    readings += [Reading(False, groups, outputs=True) for groups in grouped]
    return readings


# ------------------------------------------------------------------------------------ conditions


def _conditions(rule: ForeignRule, translation: Translation) -> tuple[Condition, ...]:
    """What a reading assumes of the left side, in terms of its inputs."""
    reading, names = translation.reading, dict(translation.names)
    conditions = [Condition(text, _in_words(text)) for text in translation.conditions]
    if not reading.broadcast:
        conditions += _of_one_shape(rule, names, ELEMENTWISE, "don't broadcast")
    if reading.alike:
        conditions += _of_one_shape(rule, names, ("concat",), "are concatenated")
    if rule.system == "taso" and not reading.groups:
        conditions += _of_one_group(rule, names)
    if reading.depthwise:
        name = names[DEPTHWISE.name]
        conditions.append(Condition(f"dim({name}, 1) = 1", "input_19 is a depthwise kernel"))
    if reading.pointwise:
        conditions += [
            Condition(f"dim({name}, {axis}) = 1", f"{operand} is a 1x1 kernel")
            for operand, name in names.items()
            if name.startswith("W")
            for axis in (2, 3)
        ]
    return tuple({condition.text: condition for condition in conditions}.values())


def _widest(rule: ForeignRule) -> Shapes:
    return Shapes(rule, Reading(True, True))


def _before(shapes: Shapes, term: Term) -> Shape | None:
    """A shape as the left side alone has it: what the right side needs may fail."""
    shape = shapes.shapes[term]
    if shape is None:
        return None
    return Shape(tuple(item.substitute(shapes.sizes) for item in shape.sizes), shape.rest)


def _of_one_shape(
    rule: ForeignRule, names: dict[str, str], operators: tuple[str, ...], why: str
) -> list[Condition]:
    """The operands of the left side's operators that have one shape only by assumption."""
    wide = _widest(rule)
    conditions = []
    of_one_shape: set[frozenset[Term]] = set()
    for term in parts(rule.sources):
        if not isinstance(term, Apply) or term.operator not in operators:
            continue
        first, *others = term.operands
        for other in others:
            a, b = _before(wide, first), _before(wide, other)
            pair = (shaped_like(first), shaped_like(other))
            alike = a == b if a is not None else pair[0] == pair[1]
            if alike or frozenset(pair) in of_one_shape:
                continue
            of_one_shape.add(frozenset(pair))
            left, right = (_name(term, names) for term in pair)
            words = f"{equation_text(pair[0])} and {equation_text(pair[1])} have one shape"
            conditions.append(Condition(f"shape({left}) = shape({right})", f"{words}: they {why}"))
    return conditions


def _of_one_group(rule: ForeignRule, names: dict[str, str]) -> list[Condition]:
    wide = _widest(rule)
    conditions = []
    for term in parts(rule.sources):
        if (
            isinstance(term, Apply)
            and term.operator == "conv2d"
            and _groups(wide, term).number != 1
        ):
            left, right = (_name(shaped_like(operand), names) for operand in term.operands)
            words = f"group = 1 in {equation_text(term)}"
            conditions.append(Condition(f"dim({left}, 1) = dim({right}, 1)", words))
    return conditions


def _groups(shapes: Shapes, term: Apply) -> Size:
    return shapes.groups[term].substitute(shapes.sizes)


def _name(term: Term, names: dict[str, str]) -> str:
    """What a term is called in a condition: an input by its name in the rule."""
    return names[term.name] if isinstance(term, Variable) else equation_text(term)


def _in_words(text: str) -> str:
    words = re.sub(r"dim\([A-Z](\d+), (\d+)\)", r"dimension \2 of input_\1", text)
    return words.replace(" <= ", " is at most ").replace(" = ", " equals ")

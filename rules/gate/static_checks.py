"""What can be seen of a rule without proving anything: that it is no substitution, or a bare one.

A problem of sense (`static_problem`) refuses a rule: it says nothing, or its right side is not of
the type and shape of the left. A problem of form (`form_problems`) is one that a reader would
raise: no source, no comment.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from ...catalog.operators.contributed import infer_shapes
from ...catalog.tensors import dtype_name
from ...catalog.terms.comparisons import COMPARISONS, MIRRORED, NEGATED
from ...catalog.terms.syntax_tree import Binary, Expression, Literal, Unary
from ..language.canonical_text import expression_text
from ..language.errors import RuleError
from ..language.syntax import Rule
from ..sampling.instances import Instance, instances
from .contradiction import conjuncts, contradictory
from .onnx_models import SideModels, sides_of
from .vacuity import same_program

VERBS = ("Fold", "Fuse", "Merge", "Join", "Split", "Push", "Eliminate", "Convert", "Reorder")
# Instances looked at for each element type.
_DRAWN = 3


def static_problem(rule: Rule) -> str:
    """Say why a rule can't be a substitution; empty where nothing is seen against it."""
    if same_program(rule):
        return "both sides are the same program: it changes nothing"
    return impossible(rule) or misshapen(rule)


def form_problems(rule: Rule) -> tuple[str, ...]:
    """Say what a reader would miss: a source, a comment that opens with the name, a known verb."""
    problems = []
    if not rule.sources:
        problems.append("it has no source: add `source [name]`, or derive it in the comment")
    if not rule.comment.startswith(f"# {rule.name} "):
        problems.append(f"its comment should open with `# {rule.name} `")
    if not rule.name.startswith(VERBS):
        problems.append(f"its name should start with a verb: {', '.join(VERBS)}")
    return tuple(problems)


# ------------------------------------------------------------------------------- conditions


def impossible(rule: Rule) -> str:
    """Say which conditions can't hold together, as far as that shows at a glance."""
    said = [part for condition in rule.given for part in conjuncts(condition)]
    for part in said:
        if _holds(part) is False:
            return f"its condition {expression_text(part)} never holds"
    texts = {expression_text(part): part for part in said}
    for part in said:
        if isinstance(part, Unary) and part.operator == "not":
            against = part.operand
        elif isinstance(part, Binary) and part.operator in NEGATED:
            against = Binary(NEGATED[part.operator], part.left, part.right)
        else:
            continue
        if expression_text(against) in texts:
            return _together(part, against)
    if problem := _empty_range(said):
        return problem
    contradiction = contradictory(rule)
    if len(contradiction) == 1:
        return f"its condition {contradiction[0]} never holds"
    return (
        f"{', '.join(contradiction[:-1])} and {contradiction[-1]} can't hold together"
        if contradiction
        else ""
    )


def _together(expression: Expression, other: Expression) -> str:
    return f"{expression_text(expression)} and {expression_text(other)} can't hold together"


def _holds(condition: Expression) -> bool | None:
    """Whether a comparison of two numbers holds; None for any other condition."""
    match condition:
        case Binary(operator, Literal(left), Literal(right)) if operator in COMPARISONS:
            pass
        case _:
            return None
    if isinstance(left, str) or isinstance(right, str):
        return {"=": left == right, "!=": left != right}.get(operator)
    return bool(COMPARISONS[operator](left, right))


def _empty_range(said: list[Expression]) -> str:
    """Find two bounds of one thing that leave no number between them."""
    lower: dict[str, tuple[float, bool, Expression]] = {}
    upper: dict[str, tuple[float, bool, Expression]] = {}
    for part in said:
        match part:
            case Binary(operator, of, Literal(value)):
                pass
            case Binary(operator, Literal(value), of):
                operator = MIRRORED.get(operator, operator)
            case _:
                continue
        if isinstance(value, str) or operator not in ("=", "<", "<=", ">", ">="):
            continue
        name = expression_text(of)
        if operator in ("=", ">", ">="):
            bound = (float(value), operator == ">", part)
            lower[name] = max(lower.get(name, bound), bound, key=lambda b: b[:2])
        if operator in ("=", "<", "<="):
            bound = (float(value), operator == "<", part)
            upper[name] = min(upper.get(name, bound), bound, key=lambda b: (b[0], not b[1]))
    for name in lower.keys() & upper.keys():
        (low, open_low, first), (high, open_high, other) = lower[name], upper[name]
        if low > high or (low == high and (open_low or open_high)):
            return _together(first, other)
    return ""


# ----------------------------------------------------------------------------- the right side


def misshapen(rule: Rule) -> str:
    """Say how the right side differs in type, rank or shape at sizes on which all conditions hold.

    Empty where it doesn't, and where no such sizes are drawn.
    """
    refusals, built = [], 0
    for instance in _drawn(rule):
        try:
            sides = sides_of(instance)
        except RuleError as error:
            refusals.append(error.reason)
            continue
        built += 1
        if reason := _types_differ(sides):
            return reason
    if refusals and not built:
        return f"the right side can't be made: {refusals[0]}"
    return ""


def _drawn(rule: Rule) -> Iterator[Instance]:
    for dtype in ("float32", "int64"):
        yield from instances(rule, _DRAWN, 11, dtype)


def _types_differ(sides: SideModels) -> str:
    before, after = _types(sides.source), _types(sides.target)
    for name in sides.outputs:
        left, right = before.get(name), after.get(name)
        if left is None or right is None:
            continue
        shapes = ", ".join(f"{o.name} {_shape(o.shape)}" for o in sides.operands)
        if left[0] != right[0]:
            return f"{name} is {left[0]} on the left, {right[0]} on the right"
        if left[1] is not None and right[1] is not None and left[1] != right[1]:
            return (
                f"{name} is {_shape(left[1])} on the left, {_shape(right[1])} on the right, "
                f"for {shapes}"
            )
    return ""


Type = tuple[str, tuple[int, ...] | None]


def _types(model: onnx.ModelProto) -> dict[str, Type]:
    """Give the inferred type of each output; nothing where inference fails."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for output in bare.graph.output:
        output.ClearField("type")
    try:
        inferred = infer_shapes(bare, strict=True)
    except Exception:  # whether the operator is defined there is for the fuzzer to see
        return {}
    types: dict[str, Type] = {}
    for info in inferred.graph.output:
        tensor = info.type.tensor_type
        if not tensor.elem_type:
            continue
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        is_sized = tensor.HasField("shape") and None not in sizes
        shape = tuple(size for size in sizes if size is not None)
        types[info.name] = (dtype_name(tensor.elem_type), shape if is_sized else None)
    return types


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"

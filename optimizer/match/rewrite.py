"""One match applied to a graph, and the rules of the tag `always` applied to a fixpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx
from onnx import AttributeProto, helper, numpy_helper, shape_inference

from ...rules import (
    ABSENT,
    Match,
    Replacement,
    RuleError,
    correction,
    instantiate,
    promise,
)
from ..deadline import checkpoint
from ..graph.branches import hoist_invariants, inline_branches, unroll_loops
from ..graph.default_inputs import drop_default_inputs
from ..graph.fold import fold_constants
from ..graph.graph import Graph, Node, TensorType
from ..graph.infer import infer_node, refine_types, same_type, sharpen
from ..graph.simplify import (
    remove_dead,
    remove_dead_constants,
    share_constants,
    share_subexpressions,
)
from .matcher import Matcher

# A rule base whose rules undo one another would run for ever; no real model needs as many rounds.
ROUNDS = 100
# How often types are inferred again as constants that sizes depend on become known.
REFINEMENTS = 50


@dataclass(frozen=True)
class Step:
    """One rewrite that was made or weighed: node names, counts, and costs in nanoseconds.

    `correction` says of a partial equivalence where it differs, what makes it whole, and at what
    cost where that is known.
    """

    rule: str
    nodes: tuple[str, ...]
    removed: int
    added: int
    accepted: bool
    reason: str
    equal: str = "exact"
    summary: str = ""
    cost_before_ns: float | None = None
    cost_after_ns: float | None = None
    correction: str = ""


class RewriteError(Exception):
    """A replacement that does not fit the graph: ill-typed, or of another type than before."""


def apply_match(graph: Graph, match: Match) -> tuple[list[int], dict[int, int]]:
    """Apply a match; return the new nodes and old value -> new value.

    The nodes of the match go when nothing reads them any more. Names that the outside sees (graph
    outputs, values that subgraphs read) move over to the new values.
    Raises RewriteError and leaves the graph as it was if the replacement is ill-typed.
    """
    try:
        replacement = instantiate(match, graph)
    except RuleError as error:
        raise RewriteError(str(error)) from error
    local: dict[str, int] = {}
    added: list[int] = []
    try:
        for name, array in replacement.constants.items():
            local[name] = graph.add_constant(array, f"{match.rule.name}/{name}")
        for new in replacement.nodes:
            outputs = tuple(graph.new_value(f"{match.rule.name}/{name}") for name in new.outputs)
            local.update(zip(new.outputs, outputs, strict=True))
            node = Node(
                op_type=new.op_type,
                domain=new.domain,
                inputs=tuple(_resolve(local, reference) for reference in new.inputs),
                outputs=outputs,
                attributes={
                    name: attribute_proto(graph, new.domain, new.op_type, name, value)
                    for name, value in new.attributes.items()
                },
                rule=match.rule.name,
            )
            number = graph.add_node(node)
            added.append(number)
            graph.types.update(infer_node(graph, number))
        moves = {old: _resolve(local, new) for old, new in replacement.outputs.items()}
        fresh = {value for number in added for value in graph.nodes[number].outputs}
        # The outside asks for these names, and the values that take over have names to keep:
        # their own, or the one that another output has just given them.
        bridges: list[int] = []
        claimed: set[int] = set()
        for old, heir in moves.items():
            if heir not in fresh and graph.is_pinned(old):
                if heir in claimed or not graph.may_be_renamed(heir):
                    bridges.append(old)
                claimed.add(heir)
        if bridges and len(added) + len(bridges) >= len(replacement.removed):
            names = ", ".join(graph.value_name(value) for value in bridges)
            raise RewriteError(
                f"{match.rule.name}: {names} is an output of its own, and needs a node to give it"
            )
        if len(moves) > 1 and _feeds_itself(graph, added, set(moves)):
            raise RewriteError(f"{match.rule.name}: one match output depends on another")
        for old, new_value in moves.items():
            if not same_type(graph.types.get(old), graph.types.get(new_value)):
                raise RewriteError(
                    f"{match.rule.name}: {graph.value_name(old)} would change its type from "
                    f"{graph.types.get(old)} to {graph.types.get(new_value)}"
                )
    except (RewriteError, shape_inference.InferenceError) as error:
        for number in reversed(added):
            graph.remove_node(number)
        for value in local.values():
            graph.constants.pop(value, None)
        raise RewriteError(str(error)) from error
    for old in bridges:
        bridge = graph.new_value(f"{match.rule.name}/out", graph.types.get(old))
        added.append(graph.add_node(Node("Identity", "", (moves[old],), (bridge,), {})))
        moves[old] = bridge
        fresh.add(bridge)
    _take_over(graph, replacement, moves, fresh)
    return added, moves


def _resolve(local: dict[str, int], reference: int | str) -> int:
    if isinstance(reference, int):
        return reference
    return local[reference] if reference else ABSENT


def _feeds_itself(graph: Graph, added: list[int], outputs: set[int]) -> bool:
    """Tell whether the new nodes read, at whatever distance, what they are to replace."""
    stack, seen = list(added), set(added)
    while stack:
        for value in graph.nodes[stack.pop()].reads:
            if value in outputs:
                return True
            source = graph.producer.get(value)
            if source is not None and source not in seen:
                seen.add(source)
                stack.append(source)
    return False


def _take_over(
    graph: Graph, replacement: Replacement, moves: dict[int, int], fresh: set[int]
) -> None:
    for old, new in moves.items():
        if new in fresh:
            sharper = sharpen(graph.types.get(old), graph.types.get(new))
            if sharper is not None:
                graph.types[new] = sharper
        graph.transfer(old, new, rename=new in fresh or graph.is_pinned(old))
    for number in replacement.removed:
        node = graph.nodes.get(number)
        if node is not None and not any(
            graph.users.get(v) or v in graph.graph_outputs for v in node.outputs if v != ABSENT
        ):
            graph.remove_node(number)


def attribute_proto(
    graph: Graph, domain: str, op_type: str, name: str, value: object
) -> onnx.AttributeProto:
    """Write an attribute with the type that the operator's schema gives it."""
    type_: int | None = None
    try:
        schema = onnx.defs.get_schema(op_type, graph.opset(domain), domain)
        if name in schema.attributes:
            type_ = schema.attributes[name].type.value  # type: ignore[attr-defined]
    except onnx.defs.SchemaError:
        pass
    if type_ == AttributeProto.FLOAT:
        value = float(value)  # type: ignore[arg-type]
    if hasattr(value, "dtype"):
        value = numpy_helper.from_array(value)  # type: ignore[arg-type]
    return helper.make_attribute(name, value, attr_type=type_)


_BY_CODE: tuple[tuple[str, Callable[[Graph], int], str], ...] = (
    (
        "drop default inputs",
        drop_default_inputs,
        "nodes with inputs that say what their absence says",
    ),
    ("inline branches", inline_branches, "branches whose condition is known"),
    ("unroll loops", unroll_loops, "loops and scans of few trips"),
    ("hoist invariants", hoist_invariants, "nodes that are the same in each trip of a loop"),
)


def simplify(
    graph: Graph,
    matcher: Matcher,
    *,
    fold_limit: int,
    on_round: Callable[[int, int], None] | None = None,
) -> list[Step]:
    """Fold, share, drop dead code and apply the matcher's rules, to a fixpoint, in place."""
    steps: list[Step] = []
    refused: set[tuple[str, tuple[int, ...]]] = set()
    for round_ in range(ROUNDS):
        checkpoint()
        steps += clean(graph, fold_limit)
        if on_round:
            on_round(round_, len(steps))
        applied = apply_all(graph, matcher.find(graph), refused)
        steps += applied
        if not any(step.accepted for step in applied):
            break
    return steps


def clean(graph: Graph, fold_limit: int) -> list[Step]:
    """Do what needs no rule: folding, known subgraphs, common subexpressions, dead code."""
    steps = []
    folded = last = fold_constants(graph, fold_limit)
    for _ in range(REFINEMENTS):  # one size may tell the next, layer by layer
        if not last or not _tells_shapes(graph) or not refine_types(graph):
            break
        last = fold_constants(graph, fold_limit)
        folded += last
    if folded:
        reason = f"{folded} nodes depend on constants alone"
        steps.append(Step("fold constants", (), folded, 0, True, reason))
    if steps_of_code := _by_code(graph):
        steps += [*steps_of_code, *clean(graph, fold_limit)]
    share_constants(graph)
    if shared := share_subexpressions(graph):
        names = tuple(graph.node_name(kept) for _, kept in shared)
        reason = f"{len(shared)} nodes compute what another one does"
        steps.append(Step("share subexpressions", names, len(shared), 0, True, reason))
    if dead := remove_dead(graph):
        reason = f"{dead} nodes feed no output"
        steps.append(Step("drop dead code", (), dead, 0, True, reason))
    remove_dead_constants(graph)
    return steps


def _by_code(graph: Graph) -> list[Step]:
    """Take subgraphs and inputs that needn't be out of their nodes; no proof speaks of that."""
    steps = []
    for name, change, description in _BY_CODE:
        before = len(graph.nodes)
        if count := change(graph):
            added = len(graph.nodes) - before
            reason = f"{description}: {count}; not proved, compared with ONNX Runtime"
            steps.append(Step(name, (), 0, added, True, reason))
    if steps:
        refine_types(graph)
    return steps


def _tells_shapes(graph: Graph) -> bool:
    """Tell whether a node reads known integers, and gives values of shapes that aren't known."""
    return any(
        any(_is_open(graph.types.get(value)) for value in node.outputs if value != ABSENT)
        and any("int" in graph.constants[v].type.dtype for v in node.inputs if v in graph.constants)
        for node in graph.nodes.values()
    )


def _is_open(type_: TensorType | None) -> bool:
    return type_ is None or type_.shape is None or any(isinstance(s, str) for s in type_.shape)


def apply_all(
    graph: Graph, matches: Sequence[Match], refused: set[tuple[str, tuple[int, ...]]]
) -> list[Step]:
    """Apply the matches that don't overlap; those that do come back in the next round."""
    steps: list[Step] = []
    touched_nodes: set[int] = set()
    touched_values: set[int] = set()
    for match in matches:
        key = (match.rule.name, tuple(sorted(match.nodes.values())))
        if key in refused or touched_nodes & set(match.nodes.values()):
            continue
        if touched_values & set(match.values.values()):
            continue
        names = tuple(graph.node_name(number) for number in match.nodes.values())
        before = set(match.nodes.values())
        try:
            added, moves = apply_match(graph, match)
        except RewriteError as error:
            refused.add(key)
            steps.append(_step(match, names, 0, 0, accepted=False, reason=str(error)))
            continue
        touched_nodes |= before
        touched_values |= set(moves)
        removed = sum(number not in graph.nodes for number in before)
        reason = "always an improvement" if match.rule.tag == "always" else "cheaper"
        steps.append(_step(match, names, removed, len(added), accepted=True, reason=reason))
    return steps


def _step(
    match: Match, names: tuple[str, ...], removed: int, added: int, *, accepted: bool, reason: str
) -> Step:
    return Step(
        rule=match.rule.name,
        nodes=names,
        removed=removed,
        added=added,
        accepted=accepted,
        reason=reason,
        equal=promise(match.rule),
        summary=match.rule.summary,
        correction=correction(match.rule),
    )

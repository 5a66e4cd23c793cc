"""The order of evaluation: components of relations that depend on each other, leaves first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...terms.syntax_tree import Place, walk
from ..language.syntax import (
    Aggregate,
    Atom,
    Clause,
    DatalogError,
    Errors,
    Expression,
    Literal,
    Negation,
    Subsumption,
)


@dataclass(frozen=True)
class Use:
    """A relation that a clause reads; `how` is empty, negation or aggregation."""

    relation: str
    how: str
    position: Place


@dataclass(frozen=True)
class Stratum:
    """Relations evaluated together; recursive ones depend on each other or on themselves."""

    relations: tuple[str, ...]
    recursive: bool


def uses(
    literals: Iterable[Literal], heads: Iterable[Expression] = (), how: str = ""
) -> Iterator[Use]:
    """Visit the relations that a body and a head's expressions read."""
    for literal in literals:
        if isinstance(literal, Atom):
            yield Use(literal.name, how, literal.position)
        elif isinstance(literal, Negation):
            yield Use(literal.atom.name, how or "negation", literal.atom.position)
        for expression in literal.parts:
            yield from _nested(expression, how)
    for expression in heads:
        yield from _nested(expression, how)


def _nested(expression: Expression, how: str) -> Iterator[Use]:
    for node in walk(expression):
        if isinstance(node, Aggregate):
            heads = () if node.target is None else (node.target,)
            yield from uses(node.body, heads, how or "aggregation")


def reachable(starts: Iterable[str], edges: Callable[[str], Iterable[str]]) -> set[str]:
    """Name all that `edges` lead to from the starts, these included."""
    reached: set[str] = set()
    queue = list(starts)
    while queue:
        name = queue.pop()
        if name not in reached:
            reached.add(name)
            queue.extend(edges(name))
    return reached


def stratify(
    relations: Sequence[str],
    clauses: Iterable[Clause],
    subsumptions: Iterable[Subsumption],
) -> tuple[Stratum, ...]:
    """Order the relations; raises DatalogError for negation or aggregation in a cycle."""
    graph: dict[str, dict[str, None]] = {name: {} for name in relations}
    strict: list[tuple[str, Use]] = []
    for clause in clauses:
        for use in uses(clause.body, clause.head.arguments):
            graph[clause.head.name][use.relation] = None
            if use.how:
                strict.append((clause.head.name, use))
    for subsumption in subsumptions:
        name = subsumption.dominated.name
        for use in uses(subsumption.body):
            if use.relation != name:
                graph[name][use.relation] = None
            if use.how:
                strict.append((name, use))
    strata = []
    component_of: dict[str, int] = {}
    for index, component in enumerate(_components(graph)):
        for name in component:
            component_of[name] = index
        recursive = len(component) > 1 or component[0] in graph[component[0]]
        strata.append(Stratum(tuple(component), recursive))
    errors = Errors()
    for head, use in strict:
        if component_of[head] == component_of[use.relation]:
            cycle = " <- ".join(_cycle(graph, head, use.relation))
            reason = f"can't be stratified: {use.how} of {use.relation} in the cycle {cycle}"
            errors.reported.append(DatalogError.at(use.position, reason))
    errors.check()
    return tuple(strata)


def _components(graph: Mapping[str, Mapping[str, None]]) -> Iterator[list[str]]:
    """Tarjan's algorithm without recursion; each component after those that it reads."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            advanced = False
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(graph[successor])))
                    advanced = True
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            if advanced:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member == node:
                        break
                yield component[::-1]


def _cycle(graph: Mapping[str, Mapping[str, None]], head: str, read: str) -> list[str]:
    """Find the relations from `head` by way of `read` back to `head`."""
    previous: dict[str, str] = {read: head}
    queue = [read]
    while queue and head not in previous:
        node = queue.pop(0)
        for successor in graph[node]:
            if successor not in previous:
                previous[successor] = node
                queue.append(successor)
    if head == read:
        return [head, head]
    path = [head]
    node = previous[head]
    while node != read:
        path.append(node)
        node = previous[node]
    return [*[head, read], *reversed(path[1:]), head] if len(path) > 1 else [head, read, head]

"""The best selection of a small problem by trying all: an oracle for extraction."""

from tensolog.optimizer.egraph.extraction.problem import (
    Choice,
    CycleError,
    Problem,
    Selection,
    cost_of,
    in_order,
)


def exhaustive(problem: Problem) -> tuple[float, dict[int, Choice]]:
    """Return the least cost, and a selection of that."""
    best: tuple[float, dict[int, Choice]] = (float("inf"), {})
    stack: list[dict[int, Choice]] = [{}]
    while stack:
        partial = stack.pop()
        open_ = next(iter(_open(problem, partial)), None)
        if open_ is None:
            try:
                cost = cost_of(partial, in_order(partial, problem.roots))
            except CycleError:
                continue
            if cost < best[0]:
                best = (cost, partial)
            continue
        stack += [{**partial, open_: choice} for choice in problem.choices.get(open_, ())]
    return best


def _open(problem: Problem, partial: Selection) -> list[int]:
    needed = {*problem.roots, *(need for choice in partial.values() for need in choice.needs)}
    return sorted(needed - set(partial))

"""The order of things that need one another: what is needed comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class CycleError(ValueError):
    """Something needs itself; `item` is one of those that do."""

    def __init__(self, item: int) -> None:
        super().__init__(f"{item} needs itself")
        self.item = item


def topological(starts: Iterable[int], needs: Callable[[int], Iterable[int]]) -> list[int]:
    """Sort `starts` and all that they need, directly or not; what comes first stays so if it can.

    Raises CycleError where there is no order, and what `needs` raises.
    """
    done: set[int] = set()
    entered: set[int] = set()
    order: list[int] = []
    for start in starts:
        stack = [start]
        while stack:
            item = stack[-1]
            if item in done:
                stack.pop()
                continue
            if item in entered:  # all that it needs is done
                stack.pop()
                done.add(item)
                order.append(item)
                continue
            entered.add(item)
            for needed in needs(item):
                if needed in done:
                    continue
                if needed in entered:
                    raise CycleError(needed)
                stack.append(needed)
    return order

"""The order of things that need one another: what is needed comes first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

Item = TypeVar("Item", bound=Hashable)


class CycleError(ValueError):
    """Something needs itself; `item` is one of those that do."""

    def __init__(self, item: Any) -> None:
        super().__init__(f"{item} needs itself")
        self.item = item


def topological(starts: Iterable[Item], needs: Callable[[Item], Iterable[Item]]) -> list[Item]:
    """Sort `starts` and all that they need, directly or not; what comes first stays so if it can.

    Of what an item needs, the last comes first where nothing else decides.

    Raises CycleError where there is no order, and what `needs` raises.
    """
    done: set[Item] = set()
    entered: set[Item] = set()
    order: list[Item] = []
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

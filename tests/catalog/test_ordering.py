"""Orders of random graphs; that a graph has a cycle is decided by elimination."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.catalog.ordering import CycleError, topological

edges = st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=4), max_size=8)


def reachable(starts, needs):
    reached, stack = set(), list(starts)
    while stack:
        item = stack.pop()
        if item not in reached:
            reached.add(item)
            stack += needs.get(item, ())
    return reached


def has_cycle(items, needs):
    """Take away what needs nothing that is left, until nothing changes."""
    left = set(items)
    while free := {item for item in left if not left & set(needs.get(item, ()))}:
        left -= free
    return bool(left)


@given(st.lists(st.integers(0, 7), max_size=4), edges)
def test_what_is_needed_comes_first_or_there_is_a_cycle(starts, needs):
    wanted = reachable(starts, needs)
    if has_cycle(wanted, needs):
        with pytest.raises(CycleError) as caught:
            topological(starts, lambda item: needs.get(item, ()))
        item = caught.value.item
        assert item in reachable(needs.get(item, ()), needs)
        return
    order = topological(starts, lambda item: needs.get(item, ()))
    assert len(order) == len(set(order)) and set(order) == wanted
    place = {item: number for number, item in enumerate(order)}
    assert all(place[need] < place[item] for item in order for need in needs.get(item, ()))


@given(st.permutations(range(6)), edges)
def test_what_is_in_order_stays_so(starts, needs):
    seen, kept = set(), {}
    for item in starts:  # only what came before may be needed
        kept[item] = [need for need in needs.get(item, ()) if need in seen]
        seen.add(item)
    assert topological(starts, kept.__getitem__) == list(starts)


def test_a_long_chain_is_no_recursion():
    order = topological([0], lambda item: [item + 1] if item < 50_000 else [])
    assert order == list(range(50_000, -1, -1))

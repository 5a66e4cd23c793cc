"""Plain values read as types: what is of another type is refused with its place."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.parallel.typed_values import ValueTypeError, read_as


@dataclass(frozen=True)
class Inner:
    count: int
    share: float = 0.5


@dataclass(frozen=True)
class Outer:
    name: str
    kind: Literal["a", "b"]
    parts: tuple[Inner, ...]
    sizes: tuple[int | str | None, ...] = ()
    notes: dict[str, str] | None = None


GOOD = {"name": "x", "kind": "a", "parts": [{"count": 1}, {"count": 2, "share": 1}]}


def test_objects_become_dataclasses():
    read = read_as(Outer, {**GOOD, "sizes": [1, "n", None]})
    assert read == Outer("x", "a", (Inner(1), Inner(2, 1.0)), (1, "n", None))
    assert type(read.parts[1].share) is float


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": 1}, r"name is 1, not text"),
        ({"kind": "c"}, r"kind is 'c', not a or b"),
        ({"kind": []}, r"kind is \[\], not a or b"),
        ({"parts": {}}, r"parts is no list"),
        ({"parts": [{"count": True}]}, r"parts\[0\]\.count is True, not a whole number"),
        ({"parts": [{"count": 1, "share": float("nan")}]}, r"parts\[0\]\.share is nan"),
        ({"parts": [{"count": 1, "share": 10**400}]}, r"parts\[0\]\.share is 1000"),
        ({"parts": [{}]}, r"parts\[0\]\.count is missing"),
        ({"parts": [{"count": 1, "more": 1}]}, r"parts\[0\]\.more is not known"),
        ({"sizes": [1.5]}, r"sizes\[0\] is 1\.5"),
        ({"notes": {"a": 1}}, r"notes\.a is 1, not text"),
    ],
)
def test_another_type_is_refused_with_its_place(change, place):
    with pytest.raises(ValueTypeError, match=place):
        read_as(Outer, {**GOOD, **change})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.sampled_from("abc"), some),
    max_leaves=5,
)


@given(JSON, st.sampled_from([int, float, str, bool, tuple[int, ...], dict[str, Any], Inner]))
def test_any_value_is_read_or_refused(value, kind):
    try:
        read_as(kind, value)
    except ValueTypeError as error:
        assert str(error)

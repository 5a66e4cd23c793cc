"""Functions of one place, by the form of a head: exp(X) is the head of the exponential of X."""

from __future__ import annotations

from .normal import Place


def function_of(place: Place) -> str | None:
    """Return the name of the function of one argument that a head applies to another."""
    name, bracket, rest = place.head.partition("(")
    if not bracket or not rest.endswith(")") or ";" in rest or rest.startswith("C:"):
        return None
    return name


def argument_of(place: Place) -> Place:
    """Return the place to which the function of a head is applied."""
    return Place(place.head.partition("(")[2][:-1], place.indices)

"""Enumerating with a memory finds the same cases as without, and builds none twice."""

import random

import pytest
from tensolog.rules.prover.enumeration import NoCaseError, cases
from tensolog.rules.prover.remembered import remembered

KINDS = ("index", "element", "form", "both")


def builder(seed: int, built: list):
    """Return a builder that asks at random, but always the same after the same answers."""

    def build(choices):
        said: list[tuple[str, int]] = []
        for _depth in range(5):
            rng = random.Random(f"{seed} {said}")
            if rng.random() < 0.2:
                built.append(("none", *said))
                raise NoCaseError(f"after {said}")
            if rng.random() < 0.15:
                break
            name = f"n{rng.randrange(4)}"
            kind = KINDS[int(name[1:])]
            taken = choices.pick(name, range(rng.randint(1, 3)), kind)
            said.append((name, taken))
        built.append(("case", *said))
        return tuple(said)

    return build


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("few", [0, 120])
def test_the_same_cases_are_found_each_built_once(seed, few):
    plain: list = []
    once: list = []
    expected = list(cases(builder(seed, plain), few=few))
    assert list(cases(remembered(builder(seed, once)), few=few)) == expected
    assert set(once) == set(plain)
    assert len(once) <= len(plain)


def test_a_case_is_built_once():
    built: list = []

    def build(choices):
        found = choices.pick("a", "xy"), choices.pick("b", "xy", "form")
        built.append(found)
        return found

    again = list(cases(remembered(build), few=0))
    assert len(built) == len(set(built)) and set(again) == set(built)

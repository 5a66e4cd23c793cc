"""What is kept on disk is read as data, and only where nobody else could have written it."""

import os
import pickle
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.catalog.datalog.language.syntax import String, Variable
from tensolog.catalog.disk_cache import cached_on_disk, load_data
from tensolog.catalog.terms.syntax_tree import Place

posix = pytest.mark.skipif(os.name == "nt", reason="modes say nothing there")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=9,
)


@given(values)
def test_data_comes_back(value):
    assert load_data(pickle.dumps(value)) == value


def test_dataclasses_of_the_project_come_back():
    position = Place("rules.dl", 3, 1)
    tree = {"clauses": (Variable("x", position), String("a", position))}
    assert repr(load_data(pickle.dumps(tree))) == repr(tree)  # nodes compare by identity


class _Runs:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize(
    "harmful",
    [
        _Runs(os.system, "true"),
        _Runs(eval, "1 + 1"),
        _Runs(Fraction, 1, 2),  # a class, of somebody else
        _Runs(cached_on_disk, Path("x"), print),  # ours, and a function
        os.path.join,
    ],
    ids=["a command", "an expression", "another class", "our function", "a name alone"],
)
def test_what_calls_anything_is_refused(harmful):
    with pytest.raises(pickle.UnpicklingError, match="is no data"):
        load_data(pickle.dumps(harmful))


def test_a_dotted_name_leads_nowhere_else():
    """Protocol 4 may ask for an attribute of what a module of ours has imported."""
    stolen = b"\x80\x04\x8c\x14tensolog.catalog.disk_cache\x8c\tio.open\x93."
    with pytest.raises(pickle.UnpicklingError):
        load_data(stolen)


def makes(value: str):
    calls = []

    def make():
        calls.append(value)
        return value

    return make, calls


def test_made_once(tmp_path):
    make, calls = makes("value")
    entry = tmp_path / "folder" / "entry.pickle"
    assert [cached_on_disk(entry, make), cached_on_disk(entry, make)] == ["value", "value"]
    assert len(calls) == 1
    assert list(entry.parent.iterdir()) == [entry]


@posix
def test_entries_are_the_users_alone_whatever_the_mask(tmp_path):
    entry = tmp_path / "folder" / "deeper" / "entry.pickle"
    mask = os.umask(0o002)
    try:
        cached_on_disk(entry, makes("value")[0])
    finally:
        os.umask(mask)
    modes = [path.stat().st_mode & 0o777 for path in (entry.parent.parent, entry.parent, entry)]
    assert modes == [0o700, 0o700, 0o600]


@posix
@pytest.mark.parametrize("shared", ["folder", "entry"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_is_made_anew(shared, mode, tmp_path):
    entry = tmp_path / "folder" / "entry.pickle"
    make, calls = makes("value")
    cached_on_disk(entry, make)
    path = {"folder": entry.parent, "entry": entry}[shared]
    path.chmod(path.stat().st_mode | mode)
    assert cached_on_disk(entry, make) == "value"
    assert len(calls) == 2


@posix
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root gives away")
@pytest.mark.parametrize("given_away", ["folder", "entry"])
def test_what_belongs_to_others_is_made_anew(given_away, tmp_path):
    entry = tmp_path / "folder" / "entry.pickle"
    make, calls = makes("value")
    cached_on_disk(entry, make)
    os.chown({"folder": entry.parent, "entry": entry}[given_away], 4321, -1)
    assert cached_on_disk(entry, make) == "value"
    assert len(calls) == 2

"""Parsed statements kept on disk: the same as parsed anew, and never those of another text."""

import pickle

import pytest
from tensolog.catalog.operators import SpecificationError, parsed
from tensolog.catalog.operators.parser import parse

TEXT = "def twice(x) = x + x\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(parsed, "cache_path", lambda: tmp_path)
    return tmp_path / "specifications"


def test_what_is_kept_is_what_was_parsed(folder, monkeypatch):
    (anew,) = parse(TEXT, "here.ops", 7)
    assert parsed.parsed(TEXT, "here.ops", 7) == anew
    monkeypatch.setattr(parsed, "parse", None)  # asked no more
    assert parsed.parsed(TEXT, "here.ops", 7) == anew


def test_another_text_place_or_parser_is_parsed(folder, monkeypatch):
    parsed.parsed(TEXT, "here.ops", 7)
    (other,) = parse(TEXT.replace("+", "*"), "here.ops", 7)
    assert parsed.parsed(TEXT.replace("+", "*"), "here.ops", 7) == other
    parsed.parsed(TEXT, "here.ops", 8)
    monkeypatch.setattr(parsed, "_version", lambda: "of another parser")
    parsed.parsed(TEXT, "here.ops", 7)
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda written: b"",
        lambda written: b"\x80",
        lambda written: written[:-1],
        lambda written: written.replace(b"twice", b"thric"),
        lambda written: pickle.dumps("something else"),
    ],
    ids=["empty", "a byte", "cut off", "other bytes", "another pickle"],
)
def test_a_damaged_file_is_made_anew(folder, damage, monkeypatch):
    anew = parsed.parsed(TEXT, "here.ops", 7)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    assert damage(whole) != whole
    file.write_bytes(damage(whole))
    assert parsed.parsed(TEXT, "here.ops", 7) == anew
    monkeypatch.setattr(parsed, "parse", None)  # asked no more
    assert parsed.parsed(TEXT, "here.ops", 7) == anew


def test_a_mistake_is_not_kept(folder):
    for _ in range(2):
        with pytest.raises(SpecificationError, match=r"here\.ops:8"):
            parsed.parsed("def twice(x) = x +\n", "here.ops", 7)
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(parsed, "cache_path", lambda: tmp_path / "file")
    assert parsed.parsed(TEXT, "here.ops", 7).name == "twice"

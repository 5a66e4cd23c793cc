"""The documentation says what works: its commands and examples are run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tensolog.commands import tensolog

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "benchmarks" / "README.md"])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def named(path):
    """Tell README.md from benchmarks/README.md."""
    return path.relative_to(ROOT).as_posix()


def blocks(path, language):
    text = path.read_text(encoding="utf-8")
    return [body for kind, body in BLOCK.findall(text) if kind == language]


def test_one_command_to_try_and_one_to_test():
    try_it, test_it, *_ = blocks(ROOT / "README.md", "sh")
    install, build, optimize = (part.split() for part in try_it.strip().split(" && "))
    assert install == ["pip", "install", "."]
    assert build[:2] == ["python", "examples/build_model.py"]
    assert (ROOT / build[1]).exists()
    assert optimize == ["tensolog", "optimize", build[3], "-o", "fast", "--budget", "20"]
    assert test_it in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert test_it == "pip install -e '.[test]' && pytest -n 2\n"


def test_the_tried_model_can_be_built(tmp_path):
    words = blocks(ROOT / "README.md", "sh")[0].split(" && ")[1].split()
    command = [sys.executable, str(ROOT / words[1]), words[2], "--tiny", str(tmp_path / words[3])]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert (tmp_path / words[3]).stat().st_size > 1000


def split_at(words, sign):
    """The commands of a line, which a shell would tell apart."""
    begin = 0
    for place, word in enumerate([*words, sign]):
        if word == sign:
            yield words[begin:place]
            begin = place + 1


def commands(page):
    """The commands of a page's blocks, of which quotes may hold the end of a line, as words."""
    for body in blocks(page, "sh"):
        line = ""
        for further in body.splitlines():
            line += further
            try:
                yield shlex.split(line, comments=True)
            except ValueError:  # a quote that is still open
                line += "\n"
            else:
                line = ""
        assert not line, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_exist(page):
    """Each shown `tensolog` command parses."""
    text = page.read_text(encoding="utf-8")
    lines = list(commands(page))
    lines += map(shlex.split, re.findall(r"`(tensolog [^`\n]+)`", text))
    for line in lines:
        for command in split_at(line, "&&"):
            if command[:1] != ["tensolog"] or command[1:2] == ["COMMAND"]:
                continue
            current = tensolog
            for word in next(split_at(command[1:], "|")):
                options = {name for option in current.params for name in option.opts}
                if word.startswith("-") and word != "-":
                    assert word in options, f"{page.name}: {line}"
                elif isinstance(current, click.Group):
                    subcommand = current.get_command(None, word)
                    # `tensolog catalog NAME` shows a table.
                    assert subcommand is not None or current.name == "catalog", (
                        f"{page.name}: {line}"
                    )
                    current = subcommand or current.get_command(None, "table")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_modules_to_run_exist(page):
    for name in re.findall(r"python -m ((?:benchmarks|tests)\.[\w.]*\w)", page.read_text("utf-8")):
        path = ROOT.joinpath(*name.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with the model that the examples read."""
    build = [sys.executable, str(ROOT / "examples" / "build_model.py")]
    for name in ("nasrnn.onnx", "model.onnx"):
        subprocess.run(
            [*build, "nasrnn", str(tmp_path / name), "--tiny"], check=True, capture_output=True
        )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_readme_examples(workplace, cli, capsys):
    scope = {}
    for code in blocks(ROOT / "README.md", "python"):
        exec(compile(code.replace("budget=10", "budget=1"), "README.md", "exec"), scope)
    assert scope["result"].verdict in capsys.readouterr().out
    assert (workplace / "fast" / "model.onnx").exists() and (workplace / "report.html").exists()
    queries = [line for line in commands(ROOT / "README.md") if line[:2] == ["tensolog", "sql"]]
    assert len(queries) >= 3
    for query in queries:
        outcome = cli(*query[1:])
        assert outcome.code == 0, outcome.err
    assert (workplace / "candidates.parquet").exists()


def test_readme_shows_what_explain_prints(tmp_path, cli):
    """The model of the README itself, in full size."""
    build = [sys.executable, str(ROOT / "examples" / "build_model.py"), "nasrnn"]
    subprocess.run([*build, str(tmp_path / "m.onnx")], check=True, capture_output=True)
    (shown,) = blocks(ROOT / "README.md", "text")
    assert cli("explain", tmp_path / "m.onnx").out.startswith(shown)


def test_guide_examples(workplace, capsys):
    for code in blocks(ROOT / "docs" / "guide.md", "python"):
        exec(compile(code.replace("budget=5", "budget=0.5"), "guide.md", "exec"), {})
    assert capsys.readouterr().out.strip()

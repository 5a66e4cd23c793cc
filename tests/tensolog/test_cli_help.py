"""Help teaches, and the reference can't drift from it."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from tensolog import __version__
from tensolog.commands import COMMANDS, tensolog

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from cli_reference import commands, page  # noqa: E402

FLOAT = (click.FloatRange, click.types.FloatParamType)
EVERY = {path: command for path, command, _ in commands(tensolog, "tensolog")}


@pytest.mark.parametrize("path", EVERY)
def test_each_command_explains_itself(path, cli):
    outcome = cli(*path.split()[1:], "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"Usage: {path} ")
    assert EVERY[path].get_short_help_str()
    for parameter in EVERY[path].params:
        assert isinstance(parameter, click.Argument) or parameter.help, parameter.name


@pytest.mark.parametrize("path", EVERY)
def test_each_command_shows_an_example(path):
    assert f"  {path}" in EVERY[path].help


def test_lists_of_commands_cut_no_sentence(cli):
    groups = [path for path in EVERY if isinstance(EVERY[path], click.Group)]
    for path in ["tensolog", *groups]:
        listed = cli(*path.split()[1:], "--help").out.partition("Commands:")[2]
        assert listed and "..." not in listed, path


def test_examples_use_options_that_exist():
    examples = [
        line.split(" | ")[0].strip()
        for command in EVERY.values()
        for line in command.help.splitlines()
        if line.strip().startswith("tensolog ")
    ]
    assert len(examples) > 15
    for example in examples:
        path = max((path for path in EVERY if f"{example} ".startswith(f"{path} ")), key=len)
        known = {name for parameter in EVERY[path].params for name in parameter.opts}
        used = {word for word in example.split() if word.startswith("-") and word != "-"}
        assert used <= known, example


OPTIONS = [
    pytest.param(option, id=f"{path} {option.opts[0]}")
    for path, command in EVERY.items()
    for option in command.params
    if isinstance(option, click.Option)
]


@pytest.mark.parametrize("option", [o for o in OPTIONS if isinstance(o.values[0].type, FLOAT)])
def test_no_number_of_an_option_may_be_nan(option):
    with pytest.raises(click.BadParameter, match="nan is no number"):
        option.type.convert("nan", option, None)


def test_options_of_one_letter_mean_the_same_in_each_command():
    meanings = {"-o": "--output", "-q": "--quiet"}
    for path, command in EVERY.items():
        for option in command.params:
            for letter in meanings.keys() & set(option.opts):
                assert meanings[letter] in option.opts, path


def test_root_help_lists_every_command(cli):
    out = cli("--help").out
    for name in COMMANDS:
        assert f"  {name} " in out


def test_no_arguments_shows_help_on_standard_error(cli):
    outcome = cli()
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("Usage: tensolog")


def test_version_is_printed(cli):
    assert cli("--version").out == f"tensolog {__version__}\n"


def test_reference_is_current():
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == page(), (
        "run python docs/cli_reference.py"
    )


def test_reference_names_every_command():
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for path in EVERY:
        assert f"# {path}\n" in text


@pytest.mark.parametrize("arguments", [["--help"], ["optimize", "--help"], ["--version"]])
def test_help_is_light(arguments):
    heavy = {"duckdb", "numpy", "onnx", "onnxruntime", "pyarrow", "rich", "lark"}
    code = (
        "import sys; from tensolog.cli import run\n"
        f"code = run({arguments!r}); print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not heavy & set(done.stderr.split())

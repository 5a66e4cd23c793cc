"""Shells complete commands, rules, tables, files and words, without anything heavy loaded."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from tensolog.catalog import Catalog
from tensolog.rules import load_rules
from tensolog.rules.load import load_rejected

from tensolog.commands import COMMANDS, tensolog
from tensolog.commands.completion import rule_names, table_names

HEAVY = {"duckdb", "numpy", "onnx", "onnxruntime", "pyarrow", "rich", "lark", "z3"}


def completed(*words):
    """What is offered for the last word, by kind."""
    shell = ShellComplete(tensolog, {}, "tensolog", "_TENSOLOG_COMPLETE")
    items = shell.get_completions(list(words[:-1]), words[-1])
    return {kind: [item.value for item in items if item.type == kind] for kind in ("plain", "file")}


def test_names_are_those_of_the_rules_and_of_the_catalog():
    assert set(rule_names(rejected=False)) == {rule.name for rule in load_rules()}
    refused = {rule.name for rule in load_rejected()}
    assert set(rule_names()) == {rule.name for rule in load_rules()} | refused
    with Catalog(":memory:") as catalog:
        rows = catalog.sql("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()
    assert {name for (name,) in rows} == set(table_names())


def test_commands_are_completed():
    assert set(completed("")["plain"]) == set(COMMANDS)
    assert completed("rules", "sh")["plain"] == ["show"]


@pytest.mark.parametrize(
    "words",
    [
        ("rules", "show"),
        ("rules", "prove"),
        ("rules", "impact"),
        ("rules", "derive", "--by"),
        ("explain", "m", "--rule"),
    ],
)
def test_rules_are_completed(words):
    known = [rule.name for rule in load_rules() if rule.name.startswith("EliminateI")]
    assert set(completed(*words, "EliminateI")["plain"]) >= set(known)
    assert completed(*words, "Nothing")["plain"] == []


def test_files_of_rules_are_left_to_the_shell():
    assert completed("rules", "show", "my")["file"] == ["my"]
    assert completed("rules", "format", "my")["file"] == ["my"]
    assert completed("optimize", "m.onnx", "--rules", "my")["file"] == ["my"]


def test_files_that_describe_a_machine_are_left_to_the_shell():
    assert completed("deploy", "m.onnx", "--devices", "he")["file"] == ["he"]


def test_tables_are_completed_beside_commands():
    assert completed("catalog", "me")["plain"] == ["measurement"]
    assert completed("catalog", "fo")["plain"] == ["forget"]
    assert completed("catalog", "table", "plan_st")["plain"] == ["plan_step"]


def test_words_of_options_are_completed():
    options = {
        name: option
        for option in tensolog.get_command(None, "optimize").params
        for name in option.opts
    }
    assert completed("optimize", "--target", "")["plain"] == list(options["--target"].type.choices)
    assert completed("explain", "--allow", "e")["plain"] == ["exact"]


def test_completing_is_light():
    code = (
        "import sys; from tensolog.cli import main\n"
        "try: main([])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    completion_variables = {"COMP_WORDS": "tensolog rules show EliminateIdent", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **completion_variables, "_TENSOLOG_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "plain,EliminateIdentity" in done.stdout.splitlines()
    assert not HEAVY & set(done.stderr.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_of_the_shell(shell):
    """The documented line prints what the shell can read."""
    done = subprocess.run(
        [sys.executable, "-m", "tensolog"],
        env={**os.environ, "_TENSOLOG_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_TENSOLOG_COMPLETE" in done.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.stdout, text=True, check=True)

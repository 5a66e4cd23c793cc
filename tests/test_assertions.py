"""Every test asserts something, itself or in a function that it calls."""

import ast
from pathlib import Path

FOLDER = Path(__file__).parent
CHECKS = {"raises", "warns", "fail"}  # of pytest


class Function:
    """Whether a function asserts, and what it calls, gives to what it calls, or has as fixtures."""

    def __init__(self, definition):
        self.name = definition.name
        self.uses = {argument.arg for argument in definition.args.args}
        self.asserts = False
        for node in ast.walk(definition):
            if isinstance(node, ast.Assert):
                self.asserts = True
            elif isinstance(node, ast.Attribute):
                self.asserts |= node.attr in CHECKS or node.attr.startswith("assert_")
            elif isinstance(node, ast.Call):
                called = node.func
                named = [called, *node.args]
                self.uses |= {name.id for name in named if isinstance(name, ast.Name)}
                if isinstance(called, ast.Attribute):
                    self.uses.add(called.attr)


class Module:
    """The functions of a file, and what its imported names are called where they are defined."""

    def __init__(self, path):
        self.path, self.functions, self.imported = path, {}, {}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                self.functions.setdefault(node.name, []).append(Function(node))
            elif isinstance(node, ast.ImportFrom):
                self.imported |= {name.asname or name.name: name.name for name in node.names}


def silent(modules):
    """The tests that reach no assertion."""
    everywhere, fixtures = {}, {}
    for module in modules:
        for name, functions in module.functions.items():
            known = [(module, function) for function in functions]
            everywhere.setdefault(name, []).extend(known)
            if module.path.name == "conftest.py":
                fixtures.setdefault(name, []).extend(known)

    def reaches(module, function, seen):
        if function.asserts:
            return True
        for name in function.uses - seen:
            seen.add(name)
            if name in module.functions:
                known = [(module, function) for function in module.functions[name]]
            elif name in module.imported:
                known = everywhere.get(module.imported[name], ())
            else:
                known = fixtures.get(name, ())
            if any(reaches(where, claim, seen) for where, claim in known):
                return True
        return False

    return [
        f"{module.path}::{name}"
        for module in modules
        for name, functions in module.functions.items()
        if name.startswith("test_")
        and not all(reaches(module, function, {function.name}) for function in functions)
    ]


def test_every_test_reaches_an_assertion():
    assert silent([Module(path) for path in sorted(FOLDER.rglob("*.py"))]) == []


def test_a_test_that_asserts_nothing_is_found(tmp_path):
    file = tmp_path / "test_nothing.py"
    for body, is_silent in (("return x", True), ("assert x", False)):
        file.write_text(f"def helper(x):\n    {body}\n\n\ndef test_it():\n    helper(1)\n")
        assert bool(silent([Module(file)])) is is_silent

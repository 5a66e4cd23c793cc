"""The folder layout is the architecture: a folder imports only from those above it."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parent.parent
ORDER = ["catalog", "profiles", "rules", "optimizer", "parallel", "tensolog"]
HEAVY = ["duckdb", "numpy", "onnx", "onnxruntime", "pyarrow", "torch", "lark", "rich"]


def sources():
    return [path for folder in ORDER for path in sorted((ROOT / folder).rglob("*.py"))]


def folder_imported(path: Path, node: ast.ImportFrom) -> list[str]:
    """Name the top folders that a relative import reaches from `path`."""
    package = list(path.relative_to(ROOT).parent.parts)
    if package[0] == "tensolog":
        package = package[1:]
    base = package[: len(package) - (node.level - 1)] if node.level > 1 else package
    module = base + (node.module or "").split(".") if node.module else base
    if module:
        return [module[0]]
    return [alias.name for alias in node.names]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path):
    own = ORDER.index(path.relative_to(ROOT).parts[0])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            for folder in folder_imported(path, node):
                if folder in ORDER:
                    assert ORDER.index(folder) <= own, f"{path}:{node.lineno} imports {folder}"
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert (node.module or "").split(".")[0] not in ORDER, f"{path}:{node.lineno}"
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name.split(".")[0] not in ORDER, f"{path}:{node.lineno}"


def modules_imported(path: Path, modules: set[str]) -> set[str]:
    """Name the modules that one imports, within functions too, but for those that it only names."""
    package = path.relative_to(ROOT).parent.parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and node not in named:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            target = ".".join(part for part in base if part)
            found |= {f"{target}.{alias.name}" for alias in node.names} & modules or {target}
    return found & modules


def test_rules_import_in_no_circle():
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in (ROOT / "rules").rglob("*.py")
        if path.name != "__init__.py"
    }
    graph = {name: modules_imported(path, set(paths)) for name, path in paths.items()}
    assert sum(map(len, graph.values())) > len(graph)
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("folder", [path for path in (ROOT / "rules").rglob("*/") if path.is_dir()])
def test_a_folder_of_rules_can_be_taken_in(folder):
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= 15
    if modules:
        docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
        assert docstring and "Begin " in docstring


def test_import_is_light():
    code = "import sys, tensolog; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not set(HEAVY) & set(loaded)


@pytest.mark.parametrize("folder", ORDER)
def test_no_query_is_left_unfinished(folder):
    """One row fetched of several leaves a result that blocks later calls on its connection."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        assert "fetchone" not in path.read_text(encoding="utf-8"), path


def test_every_folder_is_on_the_map():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {name.rstrip("/") for name in re.findall(r"`([a-z/]+/)`", page)}
    for path in sources():
        folder = path.relative_to(ROOT).parent
        ends = {folder.as_posix(), *("/".join(folder.parts[n:]) for n in range(1, 3))}
        assert ends & named, f"CONTRIBUTING.md's map has no {folder}"

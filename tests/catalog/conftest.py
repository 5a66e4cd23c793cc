"""Fixtures for the catalog's tests, and the lines that end up in pytest's summary."""

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from tensolog.catalog import Catalog


@pytest.fixture(scope="module")
def catalog() -> Iterator[Catalog]:
    with Catalog(":memory:") as opened:
        yield opened


@pytest.fixture
def relu() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> '
        "graph (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "slow" not in config.getoption("markexpr"):
        for item in items:
            if item.get_closest_marker("slow") and Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="takes long: ask for it with -m slow"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("passed", []):
        for name, text in getattr(report, "user_properties", []):
            if name == "summary":
                terminalreporter.write_line(str(text))

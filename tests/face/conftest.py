import onnx
import pytest
from commandline import Outcome, model_proto

from tensolog.cli import run


@pytest.fixture(autouse=True)
def own_catalog(tmp_path_factory, monkeypatch):
    """Keep every test away from the user's catalog."""
    path = tmp_path_factory.mktemp("catalog") / "catalog.duckdb"
    monkeypatch.setenv("TENSOLOG_CATALOG", str(path))
    monkeypatch.delenv("TENSOLOG_DEBUG", raising=False)
    return path


@pytest.fixture
def cli(capsys):
    """Run the command line in this process."""

    def call(*arguments):
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def small_model(tmp_path):
    path = tmp_path / "small.onnx"
    onnx.save(model_proto(), path)
    return path

import shutil
import signal

import onnx
import pytest
from tensolog.catalog import Catalog
from tensolog.profiles.machine import load_machine

from tensolog.cli import run

from .commandline import Outcome, model_proto


@pytest.fixture(scope="session")
def used_catalog(tmp_path_factory):
    """A catalog as any command leaves it: operators and this machine are known to it."""
    path = tmp_path_factory.mktemp("catalog") / "catalog.duckdb"
    with Catalog(path) as catalog:
        load_machine(catalog)
    return path


@pytest.fixture(autouse=True)
def own_catalog(used_catalog, tmp_path_factory, monkeypatch):
    """Keep every test away from the user's catalog."""
    path = tmp_path_factory.mktemp("catalog") / "catalog.duckdb"
    shutil.copyfile(used_catalog, path)
    monkeypatch.setenv("TENSOLOG_CATALOG", str(path))
    monkeypatch.delenv("TENSOLOG_DEBUG", raising=False)
    return path


@pytest.fixture(autouse=True, scope="session")
def interrupts_arrive():
    """A shell starts what it leaves in the background with SIGINT ignored, by its children too."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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

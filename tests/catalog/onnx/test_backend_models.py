"""Every model that ships with onnx comes back as it went in."""

import warnings
from pathlib import Path

import onnx
import onnx.backend.test
import pytest
from onnx.backend.test.loader import load_model_tests
from tensolog.catalog import Catalog, ModelError
from tensolog.catalog.onnx.reader import read_model, read_models
from tensolog.catalog.onnx.writer import build_models, write_model

DATA = Path(onnx.backend.test.__file__).parent / "data"
KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator", "light"]


def serialized(model: onnx.ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


def load(kind: str) -> dict[str, onnx.ModelProto | Path]:
    if kind == "node":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the cases overflow and divide by zero on purpose
            cases = load_model_tests(kind="node")
        return {case.name: case.model for case in cases}
    pattern = "*.onnx" if kind == "light" else "*/model.onnx"
    return {str(path.relative_to(DATA)): path for path in sorted((DATA / kind).glob(pattern))}


def expected(model: onnx.ModelProto | Path) -> bytes:
    return serialized(onnx.load(model) if isinstance(model, Path) else model)


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_onnx_come_back_equal(kind, catalog, record_property):
    models = load(kind)
    assert len(models) >= {"node": 1000, "light": 9}.get(kind, 20)
    results = dict(zip(models, read_models(catalog, models.values()), strict=True))
    refused = {name: item for name, item in results.items() if isinstance(item, ModelError)}
    stored = {name: item for name, item in results.items() if not isinstance(item, ModelError)}
    built = dict(zip(stored, build_models(catalog, list(stored.values())), strict=True))
    different = [
        name
        for name, model in built.items()
        if serialized(model)
        != serialized(onnx.load(m) if isinstance(m := models[name], Path) else m)
    ]
    record_property(
        "summary",
        f"onnx {onnx.__version__} {kind} models: {len(models)}, "
        f"equal {len(built) - len(different)}, different {len(different)}, refused {len(refused)}",
    )
    for name, error in refused.items():
        record_property("summary", f"  refused {name}: {error}")
    assert not different
    assert len(refused) <= len(models) // 100


def test_light_models_come_back_equal_from_files(tmp_path):
    with Catalog(":memory:") as catalog:
        for path in sorted((DATA / "light").glob("*.onnx")):
            write_model(catalog, read_model(catalog, path), tmp_path / path.name)
            assert onnx.load(tmp_path / path.name) == onnx.load(path)

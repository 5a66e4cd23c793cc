"""Candidates as files that a runtime can open: small models, their large constants side by side."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import onnx
from onnx import numpy_helper

from ..catalog import Catalog
from ..catalog.constants import add_constant, load_constant
from ..catalog.onnx_writer import reference_of
from ..catalog.side_file import ALIGNMENT, refer_to_side_file
from ..catalog.tensors import refer
from .convert import load_graph, to_model
from .graph import Graph
from .widen import widen

LARGE_BYTES = 64 * 1024
# Beyond this, a float64 copy of the constants on disk costs more time than the yardstick is worth.
WIDENED_BYTES = 600 << 20


class Workshop:
    """A temporary folder with the candidates of one optimization."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._folder = tempfile.TemporaryDirectory(prefix="tensolog-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def read(self, skeleton: onnx.ModelProto) -> Graph:
        """Build the graph of a model whose large constants are references into the catalog."""
        return load_graph(skeleton, self._load)

    def skeleton(self, graph: Graph) -> onnx.ModelProto:
        """Write a graph as a model; large new constants go to the catalog."""
        return to_model(graph, self._store)

    def place(self, name: str, skeleton: onnx.ModelProto) -> Path:
        """Write a model where a runtime can open it; all share one file of large constants."""
        model = onnx.ModelProto()
        model.CopyFrom(skeleton)
        folder = Path(self._folder.name)
        refer_to_side_file(self.catalog, model, folder / "constants.bin")
        path = folder / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    def place_widened(self, skeleton: onnx.ModelProto, size_bytes: int) -> Path | None:
        """Write the model in float64; None where it is too large or can't be widened."""
        if size_bytes > WIDENED_BYTES:
            return None
        folder = Path(self._folder.name)
        with (folder / "widened.bin").open("wb") as constants:

            def double(tensor: onnx.TensorProto) -> onnx.TensorProto:
                array = self._load(tensor).astype(np.float64)
                if array.nbytes <= LARGE_BYTES:
                    return numpy_helper.from_array(array, tensor.name)
                wide = onnx.TensorProto(name=tensor.name, dims=array.shape)
                wide.data_type = onnx.TensorProto.DOUBLE
                wide.data_location = onnx.TensorProto.EXTERNAL
                constants.write(bytes(-constants.tell() % ALIGNMENT))
                place = {
                    "location": "widened.bin",
                    "offset": constants.tell(),
                    "length": array.nbytes,
                }
                for key, value in place.items():
                    wide.external_data.add(key=key, value=str(value))
                constants.write(array.data)
                return wide

            wide = widen(skeleton, double)
        if wide is None:
            return None
        # References to what was not widened, large integers, are resolved like a candidate's.
        return self.place("widened", wide)

    def _load(self, tensor: onnx.TensorProto) -> np.ndarray:
        constant_hash = reference_of(tensor)
        if constant_hash is None:
            return numpy_helper.to_array(tensor)
        return load_constant(self.catalog, constant_hash)

    def _store(self, array: np.ndarray, name: str) -> onnx.TensorProto:
        if array.nbytes <= LARGE_BYTES:
            return numpy_helper.from_array(array, name)
        tensor = onnx.TensorProto(name=name, dims=array.shape)
        tensor.data_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        refer(tensor, add_constant(self.catalog, array), "raw")
        return tensor

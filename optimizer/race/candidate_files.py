"""Candidates as files that a runtime can open: small models, their large constants side by side."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Self

import numpy as np
import onnx
from onnx import numpy_helper

from ...catalog import Catalog
from ...catalog.onnx.side_file import ALIGNMENT, refer_to_side_file
from ...catalog.onnx.writer import reference_of
from ...catalog.store.constants import LARGE_BYTES, add_constant, load_constant
from ...catalog.tensors import entry, refer
from ..graph.axes import from_the_front
from ..graph.convert import load_graph, to_model
from ..graph.graph import Constant, Graph, constant_of
from ..graph.widen import narrow_sums, why_not_widened, widen
from .contest import Plan

SHELF, WIDENED = "shelf.bin", "widened.bin"
# Beyond this, running in float64 could take more than three times the model and 500 MB.
WIDENED_BYTES = 448 << 20


class CandidateFiles:
    """A temporary folder with the candidates of one optimization."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._folder = tempfile.TemporaryDirectory(prefix="tensolog-")
        self._widened: tuple[Path | None, str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def read(self, skeleton: onnx.ModelProto) -> Graph:
        """Build the graph of a model whose large constants are references into the catalog."""
        graph = load_graph(skeleton, self._load)
        graph.shelve = self.shelve
        return graph

    def shelve(self, array: np.ndarray) -> Constant:
        """Put a large new constant into a file of the folder: plans share no memory for them."""
        constant = constant_of(array)
        if array.nbytes <= LARGE_BYTES or array.dtype.hasobject:
            return constant
        tensor = onnx.TensorProto(dims=array.shape)
        tensor.data_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        self._append(SHELF, array, tensor)
        return Constant(constant.type, tensor, self._load)

    def skeleton(self, graph: Graph) -> onnx.ModelProto:
        """Write a graph as a model that the catalog can store: shelved constants move there."""
        model = to_model(from_the_front(graph))
        for tensor in model.graph.initializer:
            if reference_of(tensor) is None and entry(tensor, "location") == SHELF:
                reference = add_constant(self.catalog, self._load(tensor))
                del tensor.external_data[:]
                tensor.data_location = onnx.TensorProto.DEFAULT
                refer(tensor, reference, "raw")
        return model

    def placed(self, plan: Plan) -> Plan:
        """Write a plan where a runtime can open it, unless it is there already; gives the plan."""
        if not plan.source:
            plan.source = self.place_graph(plan.name, plan.graph)
        return plan

    def place_graph(self, name: str, graph: Graph) -> Path:
        """Write a graph where a runtime can open it."""
        return self.place(name, to_model(from_the_front(graph)))

    def place(self, name: str, skeleton: onnx.ModelProto) -> Path:
        """Write a model where a runtime can open it; all share one file of large constants."""
        model = onnx.ModelProto()
        model.CopyFrom(skeleton)
        folder = Path(self._folder.name)
        refer_to_side_file(self.catalog, model, folder / "constants.bin")
        path = folder / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    def place_file(self, source: Path, name: str) -> None:
        """Copy a file that models need beside them, a library of operators."""
        shutil.copyfile(source, Path(self._folder.name) / name)

    def file(self, name: str) -> bytes:
        """Read what `place_file` placed."""
        return (Path(self._folder.name) / name).read_bytes()

    def place_widened(self, skeleton: onnx.ModelProto, size_bytes: int) -> tuple[Path | None, str]:
        """Write the model in float64, once; see `verify.Wide`. None where it can't be."""
        if self._widened is None:
            self._widened = self._place_widened(skeleton, size_bytes)
        return self._widened

    def _place_widened(self, skeleton: onnx.ModelProto, size_bytes: int) -> tuple[Path | None, str]:
        if size_bytes > WIDENED_BYTES:
            return None, f"its {size_bytes >> 20} MiB are more than {WIDENED_BYTES >> 20}"
        if reason := why_not_widened(skeleton):
            return None, reason

        def double(tensor: onnx.TensorProto) -> onnx.TensorProto:
            array = self._load(tensor).astype(np.float64)
            if array.nbytes <= LARGE_BYTES:
                return numpy_helper.from_array(array, tensor.name)
            wide = onnx.TensorProto(name=tensor.name, dims=array.shape)
            wide.data_type = onnx.TensorProto.DOUBLE
            self._append(WIDENED, array, wide)
            return wide

        wide = widen(skeleton, double)
        if wide is None:
            return None, "its declared shapes contradict each other"
        sums = narrow_sums(wide)
        narrow = f"{', '.join(sums)} in float32" if sums else ""
        # References to what was not widened, large integers, are resolved like a plan's.
        return self.place("widened", wide), narrow

    def _append(self, name: str, array: np.ndarray, tensor: onnx.TensorProto) -> None:
        """Append an array to a file of the folder, and let a tensor refer to it there."""
        path = Path(self._folder.name) / name
        with path.open("ab") as file:
            file.write(bytes(-file.tell() % ALIGNMENT))
            place = {"location": name, "offset": file.tell(), "length": array.nbytes}
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))

    def _load(self, tensor: onnx.TensorProto) -> np.ndarray:
        constant_hash = reference_of(tensor)
        if constant_hash is not None:
            return load_constant(self.catalog, constant_hash)
        location = entry(tensor, "location")
        if location is None:
            return numpy_helper.to_array(tensor)
        return np.memmap(
            Path(self._folder.name) / location,
            onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type),
            mode="r",
            offset=int(entry(tensor, "offset") or 0),
            shape=tuple(tensor.dims),
        )

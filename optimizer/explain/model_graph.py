"""A model as a graph in memory: what each explanation of a model looks at, read in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...catalog import Catalog
from ...catalog.onnx.reader import read_model
from ...catalog.onnx.writer import skeleton_model
from ...catalog.store.staging import Scratch
from ..graph.free_sizes import sizes_from
from ..graph.graph import Graph
from ..graph.infer import infer_types
from ..race.candidate_files import CandidateFiles

if TYPE_CHECKING:
    from ..driver import Source


@dataclass(frozen=True)
class ModelGraph:
    """A graph of known types, the free sizes that were given, and how many nodes its file has."""

    graph: Graph
    sizes: Mapping[str, int]
    nodes_in_file: int


@contextmanager
def read_graph(
    model: Source, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> Iterator[ModelGraph]:
    """Read a model; its constants are there as long as the context, and nothing is stored.

    Raises ModelError for a model that can't be read, and for shapes that don't fit.
    """
    with (
        Scratch() as scratch,
        stored_graph(scratch, read_model(scratch, model), input_shapes) as read,
    ):
        yield read


@contextmanager
def stored_graph(
    catalog: Catalog, model_id: int, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> Iterator[ModelGraph]:
    """Return the same of a model that a catalog holds."""
    with CandidateFiles(catalog) as candidate_files:
        skeleton = skeleton_model(catalog, model_id)
        graph = candidate_files.read(skeleton)
        graph.types = infer_types(graph)
        sizes = sizes_from(graph, input_shapes or {})
        yield ModelGraph(graph, sizes, len(skeleton.graph.node))

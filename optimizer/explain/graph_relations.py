"""A model's relations as files of facts, with the programs that the optimizer asks about them.

Each program has a folder: its text, and NAME.facts for each relation that it reads, as Soufflé has
them. So whoever doubts an answer, or has another question, can run it: `tensolog datalog run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ...catalog.datalog.language.structures import spell_float
from ...catalog.files import replacing
from ...rules import Rule, compile_program
from ...rules.gate.ledger.admission import applicable
from .. import layouts
from ..egraph.egraph import EGraph
from ..graph.fold import FOLD_LIMIT
from ..graph.graph import Graph
from ..layouts.blocking import Blocking
from ..layouts.growing import operations_of
from ..layouts.layout_facts import layout_facts
from ..layouts.operators.normalizations import normalizations
from ..layouts.runtime import USUAL_BLOCK, block_size
from ..layouts.values import BlockedValues
from ..match.relations import graph_facts
from ..native import regions
from ..native.fuse_graph import prepare
from ..native.loops.kernel_region import Meanings
from ..native.regions.region_facts import region_facts
from .model_graph import read_graph

if TYPE_CHECKING:
    from ..driver import Source

Fact = tuple[object, ...]
_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class AskedProgram:
    """A program of Datalog, and the facts of a graph that it is asked about.

    `title` names both: the folder, and the file that ends in .dl. `included` are the files that the
    program names, by their names.
    """

    title: str
    program: str
    facts: Mapping[str, Sequence[Fact]]
    included: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many facts there are."""
        return sum(map(len, self.facts.values()))


def questions(
    model: Source,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> list[AskedProgram]:
    """Return what the optimizer asks about a model.

    Where rules match, which nodes one kernel may compute, and what may be computed in blocks.

    Raises ModelError for a model that can't be read.
    """
    with read_graph(model, input_shapes) as read:
        graph = read.graph
        return [matches_of(graph, applicable()), regions_of(graph), layouts_of(graph)]


def seen_by_kernels(graph: Graph) -> Graph:
    """Return a graph as kernels are looked for in it: with shapes known, and quantities apart."""
    graph = graph.copy()
    prepare(graph)
    return graph


def matches_of(graph: Graph, rules: Sequence[Rule]) -> AskedProgram:
    """Ask where rules match, but for the conditions on constants that code looks at."""
    return AskedProgram("matches", compile_program(rules), {**_names(graph), **graph_facts(graph)})


def regions_of(graph: Graph) -> AskedProgram:
    """Ask which nodes one kernel may compute, of a graph as kernels are looked for in it."""
    graph = seen_by_kernels(graph)
    facts: dict[str, Sequence[Fact]] = {**_names(graph), **region_facts(Meanings(graph))}
    facts["sink"] = facts["stem"] = [(number,) for number in graph.nodes]
    texts = _texts(regions)
    return AskedProgram("regions", texts.pop("regions.dl"), facts, texts)


def layouts_of(graph: Graph) -> AskedProgram:
    """Ask what may be computed in blocks of channels, of a graph's e-nodes and classes.

    Blocks are as wide as the runtime's here; where it has none, as wide as they often are.
    """
    egraph = EGraph(graph, {}, FOLD_LIMIT)
    blocking = Blocking(egraph, BlockedValues(egraph, block_size() or USUAL_BLOCK))
    operations = operations_of(blocking, ())
    facts: dict[str, Sequence[Fact]] = {
        **layout_facts(blocking, operations, normalizations(egraph, operations)),
        "node_name": [
            (node, graph.node_name(number)) for node, number in sorted(egraph.origin.items())
        ],
        "value_name": [(egraph.find(value), graph.value_name(value)) for value in graph.types],
    }
    texts = _texts(layouts)
    return AskedProgram("layouts", texts.pop("layouts.dl"), facts, texts)


def _texts(package: ModuleType) -> dict[str, str]:
    """Return the programs of a package, by the names of their files."""
    files = [file for file in resources.files(package).iterdir() if file.name.endswith(".dl")]
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def _names(graph: Graph) -> dict[str, list[Fact]]:
    """Return what nodes and values are called, which no program reads but who asks may want."""
    return {
        "node_name": [(number, graph.node_name(number)) for number in graph.nodes],
        "value_name": [(number, graph.value_name(number)) for number in graph.types],
    }


def write(asked: Iterable[AskedProgram], folder: Path) -> Iterator[tuple[AskedProgram, Path]]:
    """Write questions into folders of a folder, and yield where each program is.

    Raises OSError where that can't be done; files of before are replaced.
    """
    for question in asked:
        within = folder / question.title
        is_new = not within.exists()
        within.mkdir(parents=True, exist_ok=True)
        try:
            for name, rows in question.facts.items():
                with replacing(within / f"{name}.facts") as file:
                    file.writelines(_line(row) for row in rows)
            program = within / f"{question.title}.dl"
            for name, text in {**question.included, program.name: question.program}.items():
                with replacing(within / name) as file:
                    file.write(text.encode())
        except BaseException:
            if is_new:
                with suppress(OSError):
                    within.rmdir()
            raise
        yield question, program


def _line(row: Fact) -> bytes:
    fields = (spell_float(v) if isinstance(v, float) else str(v).translate(_ESCAPES) for v in row)
    return ("\t".join(fields) + "\n").encode("utf-8", "backslashreplace")

"""Why two nodes may be in one region of cells, or why they can't be: asked of regions.dl.

What keeps them apart stands in a clause of that program: the first literal that fails, of the row
that would bring them together. Products, attentions and integers have kernels of other sorts, of
which nothing is said here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING

from ...catalog.datalog.memory.why import Reasons, Why
from ...catalog.datalog.program import Program, parse
from ...catalog.interruption import interruptible
from ..graph.graph import Graph
from ..native import regions
from ..native.loops.kernel_region import Meanings
from ..native.regions.region_candidates import program
from ..native.regions.region_facts import region_facts
from ..setting import OptionError
from .graph_relations import read_graph, seen_by_kernels
from .node_story import number_of

if TYPE_CHECKING:
    from ..driver import Source

# What a fact means that is missing, or holds and should not, in regions.dl.
WORDS: Mapping[str, str] = {
    "expressible": "{0} is no elementwise operator, move or reduction that C text can be written "
    "of at its types and shapes",
    "folds": "{0} reduces no axes side by side that have several elements",
    "varies": "{0} depends on no input, so that the runtime computes it once",
    "rounds": "{0} rounds to integers, where another last bit makes another integer",
    "decides": "{0} is rounded to an integer later, where another last bit makes another integer",
    "apart": "between {0} and {1} something is computed that no region of cells has",
    "feeds": "{1} reads nothing of {0}",
    "refused": "{2} is read where this kernel would not have it, or what is computed of it outside "
    "comes back",
    "near": "{2} runs over another shape than the kernel that ends in {0}",
    "frame_of": "no kernel that ends in {0} runs over that shape",
    "begins": "{0} moves values only, which is not worth a kernel as its end",
}
# Columns that hold values of the graph, and those that hold numbers; others hold nodes.
_VALUES, _NUMBERS = frozenset("v"), frozenset({"k", "place", "axes", "behind"})


@dataclass(frozen=True)
class RegionReason:
    """Whether one kernel may compute two nodes, in words, and the clauses that say so."""

    nodes: tuple[str, str]
    is_possible: bool
    summary: str
    clauses: tuple[str, ...]

    def text(self) -> str:
        """Lay it out for a terminal."""
        can = "may be" if self.is_possible else "can't be"
        head = f"{self.nodes[0]} and {self.nodes[1]} {can} in one region of cells: {self.summary}"
        return "\n".join([head, *(f"  {line}" for line in self.clauses)])

    def to_json(self) -> dict[str, object]:
        """Give it as plain values."""
        return {
            "nodes": list(self.nodes),
            "is_possible": self.is_possible,
            "summary": self.summary,
            "clauses": list(self.clauses),
        }


@interruptible()
def explain_region(
    model: Source,
    first: str,
    second: str,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> RegionReason:
    """Say whether one region of cells may have two nodes of a model, and what keeps them apart.

    Nodes are named as in explain_node. Raises ModelError for a model that can't be read, and
    OptionError where there is no such node.
    """
    with read_graph(model, input_shapes) as read:
        numbers = [number_of(read, name) for name in (first, second)]
        graph = seen_by_kernels(read)
        for number in numbers:
            if number not in graph.nodes:
                name = read.node_name(number)
                raise OptionError(f"{name} is computed before kernels are looked for: it is known")
        if numbers[0] == numbers[1]:
            raise OptionError(f"{first} and {second} are one node: name another with --with")
        return region_reason(graph, *numbers)


def region_reason(graph: Graph, first: int, second: int) -> RegionReason:
    """Say whether one region of cells may have two nodes of a graph as `seen_by_kernels`.

    Whether it does is decided by cost, and by whether it compiles.
    """
    text = (resources.files(regions) / "regions.dl").read_text(encoding="utf-8")
    parsed = parse(text, "regions.dl")
    facts = region_facts(Meanings(graph))
    position = {number: at for at, number in enumerate(graph.order())}
    first, second = sorted((first, second), key=position.__getitem__)
    below = {second, *_reading(graph, second)} & {first, *_reading(graph, first)}
    facts["sink"] = [(number,) for number in below]
    rows = program()(facts)
    reasons = Reasons(parsed, rows)
    named = _Named(parsed, graph)
    nodes = (named.node(first), named.node(second))
    inside: dict[tuple[int, str], set[int]] = {}
    for sink, frame, number in rows["region"]:
        inside.setdefault((sink, frame), set()).add(number)
    both = [key for key, members in inside.items() if {first, second} <= members]
    if both:
        sink, frame = max(both, key=lambda key: len(inside[key]))
        summary = (
            f"the one that ends in {named.node(sink)} and runs over {frame}, of "
            f"{len(inside[sink, frame])} nodes; whether it becomes a kernel is for its time to say"
        )
        return RegionReason(nodes, True, summary, ())
    why = _apart(graph, reasons, rows, position, first, second)
    if why is None:
        return RegionReason(nodes, False, "nothing reads what both give", ())
    summary = named.sentence(why)
    return RegionReason(nodes, False, summary, tuple(map(named.line, _chain(why))))


def _apart(
    graph: Graph,
    reasons: Reasons,
    rows: Mapping[str, Collection[tuple[object, ...]]],
    position: Mapping[int, int],
    first: int,
    second: int,
) -> Why | None:
    """Return the row that would bring two nodes together, and why it does not hold."""
    for number in (second, first):
        if (number,) not in rows["fusible"]:
            return reasons.why("fusible", (number,))
    both = {second, *_reading(graph, second)} & {first, *_reading(graph, first)}
    if not both:
        return None
    sink = min(both, key=position.__getitem__)
    for member in (first, second):
        path = _path(graph, member, sink)
        for here, there in pairwise(path):
            if (here, there) not in rows["joins"]:
                return reasons.why("joins", (here, there))
    if (sink,) not in rows["begins"]:
        return reasons.why("begins", (sink,))
    frame = next(str(row[1]) for row in rows["frame_of"] if row[0] == sink)
    for member in (second, first):
        for number in reversed(_path(graph, member, sink)):
            if (sink, frame, number) not in rows["region"]:
                return reasons.why("region", (sink, frame, number))
    return None


def _reading(graph: Graph, start: int) -> set[int]:
    """Return the nodes that read what a node gives, at any remove."""
    reached: set[int] = set()
    queue = [start]
    while queue:
        for value in graph.nodes[queue.pop()].outputs:
            new = graph.users.get(value, set()) - reached
            reached |= new
            queue += new
    return reached


def _path(graph: Graph, first: int, last: int) -> list[int]:
    """Return the nodes of a shortest way from one node to another that reads it at some remove."""
    before: dict[int, int] = {first: first}
    queue = [first]
    for number in queue:
        for value in graph.nodes[number].outputs:
            for user in sorted(graph.users.get(value, ())):
                if user not in before:
                    before[user] = number
                    queue.append(user)
    path = [last]
    while path[-1] != first:
        path.append(before[path[-1]])
    return path[::-1]


def _chain(why: Why) -> list[Why]:
    """Return a row that does not hold, and what it fails by, one after the other."""
    return [why, *(() if why.holds else (r for part in why.because for r in _chain(part)))]


class _Named:
    """Rows in the words of a model."""

    def __init__(self, parsed: Program, graph: Graph) -> None:
        self._columns = {
            name: [attribute.name for attribute in declaration.attributes]
            for name, declaration in parsed.declarations.items()
        }
        self._graph = graph

    def node(self, number: int) -> str:
        return self._graph.node_name(number)

    def row(self, why: Why) -> list[str]:
        """Name the values of a row."""
        columns = self._columns[why.relation]
        return [self._named(v, c) for v, c in zip(why.row, columns, strict=True)]

    def _named(self, value: object, column: str) -> str:
        if value is None:
            return "_"
        if not isinstance(value, int) or column in _NUMBERS:
            return str(value)
        return self._graph.value_name(value) if column in _VALUES else self.node(value)

    def line(self, why: Why) -> str:
        """Spell a row, and the clause that decides it."""
        text = f"{why.relation}({', '.join(self.row(why))}) {'holds' if why.holds else 'fails'}"
        if why.literal:
            return f"{text} at {why.literal}  in  {why.clause}"
        return f"{text}: {why.clause}" if why.clause else text

    def sentence(self, why: Why) -> str:
        """Say the first thing in words for which there are any, from the last reason up."""
        for reason in reversed(_chain(why)):
            if reason.relation in WORDS and _is_decisive(reason):
                return WORDS[reason.relation].format(*self.row(reason))
        return f"{why.relation}({', '.join(self.row(why))}) does not hold"


def _is_decisive(reason: Why) -> bool:
    """Tell whether a row is what keeps two nodes apart: one that is missing, or should be."""
    return reason.holds == (reason.relation in ("apart", "refused", "rounds", "decides"))

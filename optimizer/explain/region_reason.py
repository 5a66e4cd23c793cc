"""Why two nodes may be computed by one kernel, or why they can't be: asked of regions.dl.

What keeps them apart stands in a clause of that program: the first literal that fails, of the row
that would bring them together. Which row that is depends on the sort of kernel that the two might
have in common. Of integers, and of loops, there is nothing there yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...catalog.datalog.memory.program_cache import shipped_program
from ...catalog.datalog.memory.why import Reasons, Why
from ...catalog.datalog.program import Program
from ...catalog.interruption import interruptible
from ..graph.graph import Graph
from ..layouts.runtime import NCHWC
from ..native import regions
from ..native.loops.kernel_region import Meanings
from ..native.regions.region_candidates import program
from ..native.regions.region_facts import region_facts
from ..setting import OptionError
from .graph_relations import seen_by_kernels
from .model_graph import read_graph
from .node_story import number_of
from .reasons import ATTENTION, CELLS, CONVOLUTION, ILLEGAL, LEGAL, PRODUCT, ROWS, Reason

if TYPE_CHECKING:
    from ..driver import Source

# What other nodes follow into a kernel.
FOUR_BITS = "com.microsoft:MatMulNBits"
STEMS = frozenset({"MatMul", "Gemm", FOUR_BITS, f"{NCHWC}:Conv"})
# What a row means that is missing, or holds and should not, in regions.dl.
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
    # where a result is made
    "full": "{0} reads or gives numbers of other types than float32",
    "several": "{0} gives several values",
    "finishing": "{0} doesn't act element by element, where a result is made",
    "in_block": "{0} reads tensors of another shape, or gives no float32, where a block is made",
    "of_others": "{0} reads a tensor of another shape or type than what it gives",
    "leads_beside": "between {0} and {1} something is computed elsewhere",
    "hindered": "{1} needs what is computed elsewhere of what {0} gives",
    "reached": "{1} is not reached from {0} element by element",
    "sole": "others read {0} as well, or it is an output",
    "convolution": "{0} is no convolution by known finite filters, of as many channels as these "
    "are for",
    "of_points": "{0} is no convolution of single points, all channels together",
    "of_channels": "{0} slides no filters of few taps over each channel by itself",
    "adds": "{0} adds up a tensor as well",
    # products
    "multiplies": "{0} is no product, or one that scales or turns its rows",
    "matrix": "{0} is no constant matrix of float32",
    "fills": "{0} is no constant matrix of float32, or has too few rows or columns to be laid out",
    "only_reader": "others read {1} as well, and it would be held twice",
    "transposes": "{1} is no constant, nor one transposed",
    "dequantizes": "{0} dequantizes no numbers of 4 bits in blocks along the depth, or others read "
    "these",
    "block_weights": "{0} doesn't multiply by weights of 4 bits in blocks, of which {1} says what "
    "they stand for",
    "is_changing": "the weights that {0} reads, their scales or zero points are no constants, or "
    "lie in another order",
    # attention, rows
    "softmax": "{0} is no softmax of the last axis of float32",
    "read_outside": "{1} is read by others than the softmax {0}",
    "ambiguous": "two products lead to {0}",
    "weighs": "{1} doesn't alone multiply what {0} gives",
    "scatters": "{0} scatters no rows",
    "placed_elsewhere": "{1} is read by others than the scatter {0}",
    "of_row": "{0} computes no element of a row from those in its place",
}
# Rows that keep nodes apart where they hold.
HINDRANCES = frozenset(
    {"apart", "refused", "rounds", "decides", "several", "of_others", "leads_beside", "hindered"}
    | {"read_outside", "ambiguous", "placed_elsewhere", "is_changing", "adds"}
)
# Columns that hold values of the graph, and those that hold numbers; others hold nodes.
_VALUES = frozenset({"v", "w"})
_NUMBERS = frozenset(
    {"k", "place", "axes", "behind", "turned", "rows", "columns", "axis", "rank", "version"}
    | {"channels", "makes", "high", "wide", "count"}
)


@interruptible()
def explain_region(
    model: Source,
    first: str,
    second: str,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> Reason:
    """Say whether one kernel may compute two nodes of a model, and what keeps them apart.

    Nodes are named as in explain_node. Raises ModelError for a model that can't be read, and
    OptionError where there is no such node.
    """
    with read_graph(model, input_shapes) as model_graph:
        read = model_graph.graph
        numbers = [number_of(read, name) for name in (first, second)]
        graph = seen_by_kernels(read)
        for number in numbers:
            if number not in graph.nodes:
                name = read.node_name(number)
                raise OptionError(f"{name} is computed before kernels are looked for: it is known")
        if numbers[0] == numbers[1]:
            raise OptionError(f"{first} and {second} are one node: name another with --with")
        return region_reason(graph, *numbers)


def region_reason(graph: Graph, first: int, second: int) -> Reason:
    """Say whether one kernel may compute two nodes of a graph as `seen_by_kernels`.

    Whether it does is decided by cost, and by whether it compiles.
    """
    position = {number: place for place, number in enumerate(graph.order())}
    first, second = sorted((first, second), key=position.__getitem__)
    below = {second, *_reading(graph, second)} & {first, *_reading(graph, first)}
    return RegionQuestions(graph, below).reason(first, second)


class RegionQuestions:
    """What regions.dl derives of a graph as `seen_by_kernels`, and why not more."""

    def __init__(self, graph: Graph, sinks: Collection[int]) -> None:
        """`sinks` are nodes in which regions of cells may end that are asked about."""
        parsed = shipped_program(resources.files(regions) / "regions.dl")
        facts = region_facts(Meanings(graph))
        facts["sink"] = [(number,) for number in sinks]
        stems = (n for n, node in graph.nodes.items() if node.operator in STEMS)
        facts["stem"] = [(number,) for number in stems]
        self.graph = graph
        self.rows = program()(facts)
        self._reasons = Reasons(parsed, self.rows)
        self._named = _Named(parsed, graph)
        self._position: dict[int, int] = dict(iter(self.rows["position"]))

    def reason(self, first: int, second: int) -> Reason:
        """Say whether one kernel may compute two nodes, the first of which comes first."""
        nodes = (self._named.node(first), self._named.node(second))
        both = [region for region in self._regions() if {first, second} <= region.nodes]
        if both:
            largest = max(both, key=lambda region: len(region.nodes))
            summary = (
                f"{largest.description.format(self._named.node(largest.of))}, of "
                f"{len(largest.nodes)} nodes; whether it becomes a kernel is for its time to say"
            )
            return Reason("", nodes, LEGAL, summary, kernel=largest.sort)
        sort, *asked = self._question(first, second)
        why = self._reasons.why(*asked) if asked else self._cells(first, second)
        if why is None:
            return Reason("", nodes, ILLEGAL, "nothing reads what both give", kernel=CELLS)
        clauses = tuple(map(self._named.line, _chain(why)))
        return Reason("", nodes, ILLEGAL, self.sentence(why), kernel=sort, clauses=clauses)

    def sentence(self, why: Why) -> str:
        """Say in words what keeps two nodes apart."""
        return self._named.sentence(why)

    def _regions(self) -> Iterator[_Region]:
        """Yield all regions that are derived, as large as they may be."""
        rows = self.rows
        inside: dict[tuple[str, int, str], set[int]] = defaultdict(set)
        for sink, frame, number in rows["region"]:
            inside[CELLS, sink, f"the one that ends in {{}} and runs over {frame}"].add(number)
        behind = defaultdict(set)
        for stem, number in rows["follows"]:
            behind[stem].add(number)
        for product, *_ in rows["product"]:
            inside[PRODUCT, product, "the one of {}"] |= {product, *behind[product]}
        for product, turning in rows["turns"]:
            inside[PRODUCT, product, "the one of {}"].add(turning)
        for product, source, _ in rows["block_product"]:
            inside[PRODUCT, product, "the one of {}"] |= {product, source, *behind[product]}
        for product, turning in rows["block_turns"]:
            inside[PRODUCT, product, "the one of {}"].add(turning)
        for (number,) in rows["convolution"]:
            inside[CONVOLUTION, number, "the one of {}"] |= {number, *behind[number]}
        for points, _, second in rows["pair"]:
            nodes = {points, *behind[points], second, *behind[second]}
            inside[CONVOLUTION, points, "the one of {} and what slides over its result"] |= nodes
        for softmax, number, _ in rows["attends"]:
            inside[ATTENTION, softmax, "the one around {}"].add(number)
        for scatter, number in rows["scattered"]:
            inside[ROWS, scatter, "the one that ends in {}"] |= {scatter, number}
        for (sort, of, description), nodes in inside.items():
            yield _Region(sort, of, description, nodes)

    def missing_row(self, first: int, second: int, sort: str) -> Why | None:
        """Return the row that would bring two nodes together in a region of a sort.

        The second reads the first. None where there is no such row.
        """
        if sort == CELLS:
            return self._cells(first, second)
        asked_sort, *row_asked = self._question(first, second)
        return self._reasons.why(*row_asked) if asked_sort == sort else None

    def decisive(self, why: Why) -> tuple[str, str]:
        """Return the literal that keeps two nodes apart in the end, and its clause."""
        last = [reason for reason in _chain(why) if reason.literal] or [why]
        return last[-1].literal, last[-1].clause

    def _question(self, first: int, second: int) -> tuple[Any, ...]:
        """Return a sort of kernel, and the row that would have two nodes in one of it."""
        graph = self.graph
        before, after = graph.nodes[first], graph.nodes[second]
        if after.operator == "Softmax" and before.operator == "MatMul":
            return ATTENTION, "scores", (second, first)
        if before.operator == "Softmax" and after.operator == "MatMul":
            return ATTENTION, "weighs", (first, second, after.inputs[1])
        if (second,) in self.rows["convolves"] and before.outputs[0] == after.inputs[0]:
            points = next((p for p, n in self.rows["follows"] if n == first), first)
            return CONVOLUTION, "pair", (points, first, second)
        if (first,) in self.rows["convolves"] and (first,) not in self.rows["convolution"]:
            return CONVOLUTION, "convolution", (first,)
        if (first,) in self.rows["convolves"]:
            return CONVOLUTION, "follows", (first, second)
        if before.operator == "DequantizeLinear" and after.operator == "MatMul":
            return PRODUCT, "block_product", (second, first, 0)
        if before.operator == FOUR_BITS and (first, first, 0) not in self.rows["block_product"]:
            return PRODUCT, "block_product", (first, first, 0)
        if first in {product for product, *_ in self.rows["block_product"]}:
            return PRODUCT, "follows", (first, second)
        if before.operator in STEMS:
            product = next((row for row in self.rows["product"] if row[0] == first), None)
            if product is None:
                return PRODUCT, "product", (first, before.inputs[1], 0)
            return PRODUCT, "follows", (first, second)
        if any(row[0] == second for row in self.rows["scatters"]):
            return ROWS, "scattered", (second, first)
        return (CELLS,)

    def _cells(self, first: int, second: int) -> Why | None:
        """Return why no region of cells has two nodes; None where it is for no clause to say."""
        graph, rows, why = self.graph, self.rows, self._reasons.why
        for number in (second, first):
            if (number,) not in rows["fusible"]:
                return why("fusible", (number,))
        both = {second, *_reading(graph, second)} & {first, *_reading(graph, first)}
        if not both:
            return None
        sink = min(both, key=self._position.__getitem__)
        for member in (first, second):
            path = _path(graph, member, sink)
            for here, there in pairwise(path):
                if (here, there) not in rows["joins"]:
                    return why("joins", (here, there))
        if (sink,) not in rows["begins"]:
            return why("begins", (sink,))
        frame = next((str(row[1]) for row in rows["frame_of"] if row[0] == sink), None)
        for member in (second, first) if frame is not None else ():
            for number in reversed(_path(graph, member, sink)):
                if (sink, frame, number) not in rows["region"]:
                    return why("region", (sink, frame, number))
        return None


@dataclass(frozen=True)
class _Region:
    """A region that is derived: its sort, the node that it goes by, and how it is called."""

    sort: str
    of: int
    description: str
    nodes: set[int]


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
    return reason.holds == (reason.relation in HINDRANCES)

"""What layouts.dl derives of an e-graph: which steps its nodes may take in blocks, and why not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import resources

from ...catalog.datalog.memory.execution import Evaluator
from ...catalog.datalog.memory.program_cache import shipped
from ..egraph.congruence import NONE
from .blocking import Blocking, Operation
from .layout_facts import layout_facts
from .operators.channels_last import enter_from_last, leave_to_last
from .operators.concatenations import join, split
from .operators.convolution_epilogues import Convolution, activation_of, plain_convolution
from .operators.convolutions import tile
from .operators.elementwise import map_blocks, scale_blocks
from .operators.normalizations import normalizations
from .operators.pools import pool

# Ways to compute one class by a convolution that are looked at.
MOST_FORMS = 4
# Does a step of an e-node, as far as that is new.
Step = Callable[[Blocking, Operation], None]
_Form = tuple[int, int, int, int]  # convolution, sum, the other summand, activation


class LegalSteps:
    """The steps that e-nodes may take, and why others take none."""

    def __init__(self, blocking: Blocking, operations: Sequence[Operation]) -> None:
        self._blocking = blocking
        self._operations = {operation.node: operation for operation in operations}
        self._normalizations = normalizations(blocking.egraph, operations)
        # the rows of all relations of layouts.dl
        self.rows = rows = program()(layout_facts(blocking, operations, self._normalizations))
        self.is_worth = bool(rows["gains"])
        self.splits = [self._operations[n] for n, _ in rows["splits"]]
        self.may_enter = {c for (c,) in rows["enters"]}
        self._steps: dict[int, list[Step]] = defaultdict(list)
        self._list_steps()
        convolved = {node for form in rows["convolves"] for node in form[1:3]}
        ends = {form[4] for form in rows["convolves"]}
        taking = {*self._steps, *convolved, *ends}
        self.nodes = [node for node in self._operations if node in taking]

    def of(self, node: int) -> Sequence[Step]:
        """The steps of an e-node, but for those of a convolution that ends in it."""
        return self._steps.get(node, ())

    @property
    def refusals(self) -> Iterable[tuple[int, str]]:
        """The e-nodes that take no step, or not each that they might, and why."""
        return self.rows["refused"]

    def _list_steps(self) -> None:
        rows, steps = self.rows, self._steps
        simple: Mapping[str, Step] = {
            "splits": split,
            "leaves_to_last": leave_to_last,
            "enters_from_last": enter_from_last,
            "tiles": tile,
            "joins": join,
        }
        for relation, step in simple.items():
            for node, *_ in rows[relation]:
                steps[node].append(step)
        for node, kernel, rule in rows["windows"]:
            steps[node].append(partial(pool, kernel=kernel, rule=rule))
        places: dict[int, list[int]] = defaultdict(list)
        for node, place, _ in sorted(rows["alike"]):
            places[node].append(place)
        gated: dict[int, int] = dict(sorted(rows["gates"], reverse=True))
        for node, rule in rows["maps"]:
            steps[node].append(
                partial(map_blocks, places=places[node], rule=rule, gated=gated.get(node))
            )
        for node, _, _, rule in rows["scales"]:
            steps[node].append(partial(scale_blocks, place=places[node][0], rule=rule))

    # ------------------------------------------------------------------------- convolutions

    def convolutions(self) -> dict[int, list[tuple[Convolution, frozenset[str]]]]:
        """The e-nodes that convolutions end in, with these, and how filters may be laid out.

        Of more than MOST_FORMS ways to compute one class the first are looked at: those that end in
        nothing, then in a sum, then in an activation.
        """
        ways: dict[tuple[int, _Form], set[str]] = defaultdict(set)
        for class_, conv, sum_, other, end, way, _ in self.rows["convolves"]:
            ways[class_, (conv, sum_, other, end)].add(way)
        legal: dict[int, list[tuple[Convolution, frozenset[str]]]] = defaultdict(list)
        for class_, forms in self._forms().items():
            for form in forms:
                if (class_, form) in ways:
                    convolution = self._convolution(form)
                    legal[convolution.nodes[-1]].append(
                        (convolution, frozenset(ways[class_, form]))
                    )
        return legal

    def _forms(self) -> dict[int, list[_Form]]:
        """The convolutions of each class, in the order of their last e-nodes."""
        order = {node: place for place, node in enumerate(self._operations)}
        normal = self._normalizations
        kept: dict[int, list[_Form]] = defaultdict(list)
        positions: dict[_Form, int] = {}
        stages: list[list[tuple[int, _Form]]] = [[], [], []]
        for class_, conv, sum_, other, end in self.rows["form"]:
            stage = 2 if end != NONE else 1 if sum_ != NONE else 0
            stages[stage].append((class_, (conv, sum_, other, end)))
        for forms in stages:
            placed = []
            for class_, form in forms:
                last, before = _last(form)
                if before is None or before in positions:
                    key = (last in normal, order[last], 0 if before is None else positions[before])
                    placed.append((key, class_, form))
            for _, class_, form in sorted(placed):
                if len(kept[class_]) < MOST_FORMS:
                    positions[form] = len(kept[class_])
                    kept[class_].append(form)
        return kept

    def _convolution(self, form: _Form) -> Convolution:
        conv, sum_, other, end = form
        convolution = self._normalizations.get(conv)
        if convolution is None:
            convolution = plain_convolution(self._operations[conv])
        if sum_ != NONE:
            convolution = replace(convolution, nodes=(*convolution.nodes, sum_), summand=other)
        activation = None
        if end != NONE:
            activation = activation_of(self._blocking.egraph, self._operations[end])
        if activation is not None:
            name, parameters = activation
            nodes = (*convolution.nodes, end)
            convolution = replace(convolution, nodes=nodes, activation=name, parameters=parameters)
        return convolution


def _last(form: _Form) -> tuple[int, _Form | None]:
    """The last e-node of a convolution, and what it is without that; None where it is all."""
    conv, sum_, other, end = form
    if end != NONE:
        return end, (conv, sum_, other, NONE)
    if sum_ != NONE:
        return sum_, (conv, NONE, NONE, NONE)
    return conv, None


@cache
def program() -> Evaluator:
    """Return what derives the relations of layouts.dl from facts."""
    return shipped(resources.files(__package__) / "layouts.dl")

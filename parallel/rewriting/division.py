"""The program of least cost together with its divisions, out of all programs of an e-graph.

Where `dynamic_programming.best_plan` has a variable for each operator, here is one for each class:
which operator gives it, and how that is divided, or that nothing needs it. What it costs to bring a
value from where it is computed to where it is read stands between two classes, by links, whichever
operators these choose: redistribution is an enforcer (Unity, OSDI 2022; Graefe's Volcano).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..search.bucket_elimination import Costs, Factor, eliminate
from ..search.dynamic_programming import AdditiveCosts
from ..simulation.placement import Config
from ..simulation.tasks import Plan
from .programs import Programs


@dataclass(frozen=True)
class DividedProgram:
    """A program, by class the operator that gives it, and a division of each operator.

    `plan` has those that the program lacks undivided on the first device. `cost` is the sum of its
    costs, and no program with its divisions has a sum below `bound`.
    """

    selected: dict[int, int]
    plan: Plan
    cost: float
    bound: float

    @property
    def gap(self) -> float:
        """How much less the best may cost, as a share."""
        return max(0.0, 1 - self.bound / self.cost) if self.cost > 0 else 0.0


def best_program(
    programs: Programs,
    configs: Sequence[Sequence[Config]],
    costs: AdditiveCosts,
) -> DividedProgram:
    """Return the program and divisions of the least sum of costs, or good ones and a bound.

    `configs` are the divisions to choose from, by operator, the first one undivided.
    """
    return _Extraction(programs, configs, costs).best()


class _Extraction:
    """Variables are classes, and by ~number the operators that give several."""

    def __init__(
        self,
        programs: Programs,
        configs: Sequence[Sequence[Config]],
        costs: AdditiveCosts,
    ) -> None:
        self.programs, self.configs, self.costs = programs, configs, costs
        self.unary = [costs.operators(number, config) for number, config in enumerate(configs)]
        gives: dict[int, int] = {}
        for givers in programs.givers.values():
            for number, _ in givers:
                gives[number] = gives.get(number, 0) + 1
        self.several = {number for number, count in gives.items() if count > 1}
        # The first value of a variable, of those of each operator that it chooses from.
        self.begins: dict[int, dict[int, int]] = {}
        self.sizes: dict[int, int] = {}
        for class_, givers in programs.givers.items():
            self._variable(class_, [n for n, _ in givers], optional=class_ not in programs.roots)
        for number in sorted(self.several):
            self._variable(~number, [number], optional=True)

    def _variable(self, variable: int, numbers: Sequence[int], *, optional: bool) -> None:
        """Number what a variable chooses from: where it may choose nothing, that comes first."""
        begin = int(optional)
        self.begins[variable] = {}
        for number in numbers:
            self.begins[variable][number] = begin
            begin += len(self.configs[number])
        self.sizes[variable] = begin

    def best(self) -> DividedProgram:
        assignment = eliminate(self._factors(), self.sizes)
        selected, places = self._read(assignment.values)
        plan = tuple(config[places.get(number, 0)] for number, config in enumerate(self.configs))
        cost = self._cost(selected, places)
        return DividedProgram(selected, plan, cost, min(assignment.bound, cost))

    # ---- costs
    def _factors(self) -> list[Factor]:
        factors: list[Factor] = []
        for variable, begins in self.begins.items():
            table = np.zeros(self.sizes[variable])
            for number, begin in begins.items():
                if variable < 0 or number not in self.several:
                    table[begin : begin + len(self.configs[number])] = self.unary[number]
            factors.append(((variable,), table))
            for number in begins.keys() & self.several if variable >= 0 else ():
                factors.append(((variable, ~number), self._same(variable, number)))
            factors += self._needed(variable)
        return factors

    def _same(self, class_: int, number: int) -> Costs:
        """Let a class have an operator's value in the division that the operator has."""
        count = len(self.configs[number])
        table = np.zeros((self.sizes[class_], self.sizes[~number]))
        begin = self.begins[class_][number]
        table[begin : begin + count] = math.inf
        table[np.arange(begin, begin + count), 1 + np.arange(count)] = 0.0
        return table

    def _needed(self, variable: int) -> list[Factor]:
        """Say what it costs that a value is where operators read it; infinite without it."""
        tables: dict[int, Costs] = {}
        for number, first in self.begins[variable].items():
            if variable >= 0 and number in self.several:
                continue
            rows = slice(first, first + len(self.configs[number]))
            for need in self.programs.needs(number):
                if need not in tables:
                    tables[need] = np.zeros((self.sizes[variable], self.sizes[need]))
                if need not in self.programs.roots:
                    tables[need][rows, 0] = math.inf
                for giver, output in self.programs.givers[need]:
                    begin = self.begins[need][giver]
                    columns = slice(begin, begin + len(self.configs[giver]))
                    sent = self._sent(need, (giver, output), number)
                    tables[need][rows, columns] = sent.T
        return [((variable, need), table) for need, table in tables.items()]

    def _sent(self, class_: int, source: tuple[int, int], number: int) -> Costs:
        reads = self.programs.workload.operators[number].reads
        giver_configs, others = self.configs[source[0]], self.configs[number]
        tables = [
            self.costs.edges(class_, source, giver_configs, (number, position), others)
            for position, value in reads
            if value == class_
        ]
        return functools.reduce(np.add, tables)

    # ---- what is chosen
    def _read(self, values: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
        """Return the operators of the classes that are computed, and the places of divisions.

        Where tables were too large a class may be missing that is needed: it is computed as the
        model has it, else by the operator that costs the least.
        """
        programs = self.programs
        selected: dict[int, int] = {}
        places: dict[int, int] = {}
        queue = list(programs.roots)
        while queue:
            class_ = queue.pop()
            if class_ in selected:
                continue
            value = values[class_]
            for number, begin in self.begins[class_].items():
                if begin <= value < begin + len(self.configs[number]):
                    break
            else:
                number, begin = self._otherwise(class_), 0
                value = int(self.unary[number].argmin())
            selected[class_] = number
            places.setdefault(number, value - begin)
            queue += programs.needs(number)
        return selected, places

    def _otherwise(self, class_: int) -> int:
        numbers = [number for number, _ in self.programs.givers[class_]]
        original = self.programs.original.get(class_)
        if original in numbers:
            return original
        return min(numbers, key=lambda number: (float(self.unary[number].min()), number))

    def _cost(self, selected: dict[int, int], places: dict[int, int]) -> float:
        total = sum(float(self.unary[number][place]) for number, place in places.items())
        outputs = {class_: dict(givers) for class_, givers in self.programs.givers.items()}
        for number, place in places.items():
            for need in self.programs.needs(number):
                giver = selected[need]
                table = self._sent(need, (giver, outputs[need][giver]), number)
                total += float(table[places[giver], place])
        return total

"""Programs to plan for: those that are cheap to divide, out of all that proved rules lead to.

For blocks of 1, 2, 4, … devices the program of the least sum of costs is taken out with its
divisions (division.py), the model as it is comes first. Which plan is the best one, the simulator
says (planning.py). Of small models every program is planned for, so that no choice is lost to sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...optimizer.egraph.saturation.saturate import Budget
from ...optimizer.match.rewrite import Step
from ...optimizer.setting import Setting
from ...rules import Rule
from ...rules.gate.ledger.admission import applicable
from ..cuts.operator_cuts import cuts_of
from ..search.config_space import Space, powers
from ..search.dynamic_programming import AdditiveCosts
from ..search.goals import Score
from ..search.plan_candidates import Candidate, fastest_first
from ..simulation.placement import Config, whole_on
from ..simulation.tasks import Problem
from ..workload import Workload
from .division import DividedProgram, best_program
from .programs import Programs, Selected, programs_of

# All programs of so few are planned for, of models of so few operators.
_FEW_PROGRAMS, _FEW_OPERATORS = 24, 12
# The e-graph of a large model is left as soon as it has so many e-nodes, or takes so long.
_BUDGET = Budget(rounds=6, nodes=1_500, factor=3, seconds=20.0)

AS_IT_IS, FOR_ONE = "as it is", "rewritten for one device"


@dataclass(frozen=True)
class Rewritten:
    """A program to plan for: a workload, plans to begin with, and the rewrites that led to it.

    `name` says what it is the best one for. `gap` is how much less than its sum of costs another
    program may have, as a share; none where that is not known. `selected` tells programs apart.
    """

    name: str
    workload: Workload
    starts: tuple[Candidate, ...]
    steps: tuple[Step, ...]
    gap: float | None
    selected: Selected


def rules_for(workload: Workload) -> list[Rule]:
    """Return the proved rules that may be applied to a model whose devices are of any kind."""
    setting = Setting(target="onnx")
    graph, rules = workload.graph, applicable()
    return [rule for tag in ("always", "explore") for rule in setting.select(rules, graph, tag)]


@dataclass(frozen=True)
class Rewriting:
    """How the program that is divided was chosen.

    `steps` lead to it from the model, `because_of_cut` are those that the best program for one
    device lacks; on one device this one takes `one_device_s`, and that one `best_one_device_s`.
    `compared` has what the goal is for each program, by what it is the best one for. `gap` is how
    much less than the sum of its costs another program may have, as a share; none where unknown.
    """

    steps: tuple[Step, ...]
    because_of_cut: tuple[Step, ...]
    compared: Mapping[str, float]
    one_device_s: float
    best_one_device_s: float
    gap: float | None

    def lines(self) -> list[str]:
        """Say which rules were applied, and which of them because of the cut."""
        cut = {(step.rule, step.nodes) for step in self.because_of_cut}
        lines = []
        for step in self.steps:
            line = f"{step.rule} rewrote {', '.join(step.nodes)}"
            if (step.rule, step.nodes) in cut:
                line += ", because of the cut"
            lines.append(line)
        if self.because_of_cut and self.best_one_device_s:
            share = self.one_device_s / self.best_one_device_s
            lines.append(
                f"on one device what is divided takes {share:.2f} of the time of the best program"
            )
        return lines


@dataclass(frozen=True)
class Family:
    """Programs to plan for, the first the model; `is_whole` if rules lead to no others."""

    model: Problem
    programs: Sequence[Rewritten]
    is_whole: bool

    def problems(self, like: Problem) -> list[Problem]:
        """Return what is planned for the programs behind the first."""
        return [
            Problem(program.workload, like.cluster, like.times, like.entry)
            for program in self.programs[1:]
        ]

    def rewriting(self, chosen: int, scores: Sequence[Score]) -> Rewriting:
        """Tell how one of the programs came to be chosen, and how good all of them are."""
        program, single = self.programs[chosen], self._best_for_one()
        anyway = {(step.rule, step.nodes) for step in single.steps}
        compared: dict[str, float] = {}
        for program_, score in zip(self.programs, scores, strict=True):
            if not score.excess_bytes:
                compared[program_.name] = min(score.goal, compared.get(program_.name, score.goal))
        return Rewriting(
            program.steps,
            tuple(step for step in program.steps if (step.rule, step.nodes) not in anyway),
            compared,
            self._one_device_s(program),
            self._one_device_s(single),
            program.gap,
        )

    def _best_for_one(self) -> Rewritten:
        """Return the program of the least time on one device."""
        alone = (p for p in self.programs if any(len(start.devices) == 1 for start in p.starts))
        return next(alone, self.programs[0])

    def _one_device_s(self, program: Rewritten) -> float:
        device = fastest_first(self.model)[0]
        times = self.model.times
        return sum(
            times.operator(operator.kernel, device) for operator in program.workload.operators
        )


def family(
    problem: Problem,
    rules: Sequence[Rule],
    space_of: Callable[[Problem], Space],
    progress: Callable[[str], None],
) -> Family:
    """Return the model as it is, and the programs that are cheap to divide, each once."""
    progress("applying rules")
    programs = programs_of(problem.workload, rules, _BUDGET)
    programs_found: dict[frozenset[tuple[int, int]], Rewritten] = {}
    original = programs.completed(programs.original)
    first = Rewritten(AS_IT_IS, problem.workload, (), (), None, original)
    if programs.are_own(original.values(), problem.workload):
        programs_found[_key(original)] = first
    for block, divided in _by_block(problem, programs, space_of, progress):
        key = _key(divided.selected)
        program = programs_found.get(key)
        if program is None:
            name = FOR_ONE if len(block) == 1 else f"rewritten for {len(block)} devices"
            gap = divided.gap if programs.has_all else None
            program = _rewritten(name, programs, divided.selected, gap)
        start = _candidate(programs, program, divided, block)
        programs_found[key] = replace(program, starts=(*program.starts, start))
    is_whole = programs.is_whole
    if len(original) <= _FEW_OPERATORS:
        every = list(itertools.islice(programs.every(), _FEW_PROGRAMS + 1))
        is_whole &= len(every) <= _FEW_PROGRAMS
        for selected in every if len(every) <= _FEW_PROGRAMS else ():
            if _key(selected) not in programs_found:
                programs_found[_key(selected)] = _rewritten("rewritten", programs, selected, None)
    else:
        is_whole &= len(programs.workload.operators) == len(set(original.values()))
    first = next(
        (rewritten for rewritten in programs_found.values() if rewritten.name == AS_IT_IS), first
    )
    others = [rewritten for rewritten in programs_found.values() if rewritten.name != AS_IT_IS]
    return Family(problem, (first, *others), is_whole)


def _by_block(
    problem: Problem,
    programs: Programs,
    space_of: Callable[[Problem], Space],
    progress: Callable[[str], None],
) -> Iterator[tuple[tuple[int, ...], DividedProgram]]:
    whole = Problem(programs.workload, problem.cluster, problem.times, problem.entry)
    space, costs = space_of(whole), AdditiveCosts(whole)
    order = fastest_first(problem)
    for width in powers(len(order)):
        block = order[:width]
        if not problem.all_linked(block):
            continue
        progress(f"rewriting for {width} devices" if width > 1 else "rewriting for one device")
        configs = (
            space.block_configs(block)
            if width > 1
            else [[whole_on(block[0])] for _ in programs.workload.operators]
        )
        yield block, best_program(programs, configs, costs)


def _rewritten(name: str, programs: Programs, selected: Selected, gap: float | None) -> Rewritten:
    steps = tuple(programs.steps(selected))
    return Rewritten(name, programs.built(selected), (), steps, gap, selected)


def _candidate(
    programs: Programs, program: Rewritten, divided: DividedProgram, block: tuple[int, ...]
) -> Candidate:
    """Return the divisions of a program as a plan of its workload.

    What has no division there, such as a second name of an output, is whole on the first device.
    """
    names = {programs.workload.operators[n].name: n for n in divided.selected.values()}
    plan: list[Config] = []
    for operator in program.workload.operators:
        number = names.get(operator.name)
        config = whole_on(block[0]) if number is None else divided.plan[number]
        if not {cut for cut, _ in config.cuts} <= {*cuts_of(operator.kernel)}:
            config = whole_on(block[0])
        plan.append(config)
    name = f"divided among {len(block)} as it was rewritten" if len(block) > 1 else "one device"
    return Candidate(name, tuple(plan), block)


def _key(selected: Selected) -> frozenset[tuple[int, int]]:
    return frozenset(selected.items())

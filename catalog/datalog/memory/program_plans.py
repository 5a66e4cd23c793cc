"""A program as a plan: its relations, and each stratum's clauses, semi-naive where recursive."""

from __future__ import annotations

from typing import Any

from ..analysis.type_inference import FLOAT
from ..language.structures import decode
from ..language.syntax import Atom
from ..program import Program
from ..steps import Relation, Rule
from .clause_plans import ClausePlanner, DatabaseOnlyError
from .plan import ClausePlan, Index, ProgramPlan, RelationPlan, StratumPlan


def plan_of(program: Program) -> ProgramPlan:
    """Plan a program; raises DatabaseOnlyError, naming what isn't evaluated in memory."""
    return _ProgramPlanner(program).plan()


def database_only(program: Program) -> str | None:
    """Say why a program can't be evaluated in memory; None where it can."""
    try:
        plan_of(program)
    except DatabaseOnlyError as reason:
        return str(reason)
    return None


class _ProgramPlanner:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.numbers = {name: number for number, name in enumerate(program.relations)}
        self.indexes: dict[Index, int] = {}

    def plan(self) -> ProgramPlan:
        self._check_structures()
        relations = tuple(self._relation(relation) for relation in self.program.relations.values())
        strata = tuple(self._stratum(stratum.relations) for stratum in self.program.strata)
        return ProgramPlan(relations, tuple(self.indexes), strata)

    def _check_structures(self) -> None:
        """Refuse structures with floats: a database has them as texts, which tell -0.0 from 0.0."""
        structures = self.program.structures
        kinds = {kind for relation in self.program.relations.values() for kind in relation.kinds}
        queue = list(kinds)
        while queue:
            structure = structures.get(queue.pop())
            parts = structure.branches.values() if structure else ()
            fields = {kind for branch in parts for kind in branch}
            if FLOAT in fields:
                raise DatabaseOnlyError("floats in records or algebraic data types")
            queue.extend(fields - kinds)
            kinds |= fields

    def _relation(self, relation: Relation) -> RelationPlan:
        if relation.dominances:
            raise DatabaseOnlyError("subsumption")
        if relation.keys and any(kind in self.program.structures for kind in relation.kinds):
            raise DatabaseOnlyError("a choice among records, which have no order")
        facts = tuple(
            tuple(self._constant(v, kind) for v, kind in zip(fact, relation.kinds, strict=True))
            for fact in dict.fromkeys(relation.facts)
        )
        return RelationPlan(
            relation.name,
            len(relation.kinds),
            relation.is_input,
            relation.is_equivalence,
            facts,
            relation.keys,
            relation.limit,
        )

    def _constant(self, value: Any, kind: str) -> Any:
        structures = self.program.structures
        return decode(value, kind, structures) if kind in structures else value

    def _stratum(self, names: tuple[str, ...]) -> StratumPlan:
        """Plan the rules of a stratum: in rounds once for each atom of a relation derived in it."""
        start: list[ClausePlan] = []
        rounds: list[ClausePlan] = []
        for name in names:
            for rule in self.program.relations[name].rules:
                atoms = [b for b in rule.clause.body if isinstance(b, Atom) and b.name in names]
                if not atoms:
                    start.append(self._clause(rule))
                rounds += [self._clause(rule, atom) for atom in atoms]
        return StratumPlan(tuple(self.numbers[n] for n in names), tuple(start), tuple(rounds))

    def _clause(self, rule: Rule, latest: Atom | None = None) -> ClausePlan:
        return ClausePlanner(rule.clause, rule.kinds, self.numbers, self.indexes).plan(latest)

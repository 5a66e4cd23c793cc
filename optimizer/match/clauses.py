"""The clauses of rules, to be joined in columns: only those in demand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources

import numpy as np

from ...catalog.datalog import language
from ...catalog.datalog.language.builders import Definition, Part
from ...catalog.datalog.language.parser import parse_block
from ...catalog.datalog.language.syntax import Clause, Comparison, Expression, String, Variable
from ...catalog.disk_cache import cache_path, cached_on_disk, text_hash
from ...rules import Rule, nearly
from ...rules.compiler.compile import clause_of, default_facts, graph_relations
from ...rules.language.conditions import UsedOnlyHere
from .arrays import Flags, Ints
from .joins import Conjunction, Goal, Table, Tables, conjunction_of, union

Row = tuple[int, ...]
NODES = ("call", "node")  # the relations whose atoms stand for nodes of a pattern
USES = "private"  # what graph.dl derives of use counts


@dataclass(frozen=True)
class RuleClauses:
    """A rule's clauses: those of the structure, none where it is short, and those of the match."""

    structure: tuple[Conjunction, ...]
    match: tuple[Conjunction, ...]

    def may_match(self, tables: Tables) -> bool:
        """Whether the structure occurs; of a short rule nothing is known before it is matched."""
        return not self.structure or any(len(tables.solve(c)[0]) for c in self.structure)

    def rows(self, tables: Tables, fresh: Flags | None, most: int | None = None) -> list[Row]:
        """The rows of the match relation, sorted; with `fresh`, those of a node that is fresh.

        `most` cuts joins (see `Tables.solve`).
        """
        if not self.structure:
            rows_of_clauses = [t for c in self.match for t in _solved(c, tables, fresh, most)]
        else:
            pattern = union([t for c in self.structure for t in _solved(c, tables, fresh, most)])
            # The structure is the first atom of each clause of the match.
            rows_of_clauses = [tables.solve(c, c.goals[0], pattern, most) for c in self.match]
        rows = union(rows_of_clauses)
        return list(zip(*(column.tolist() for column in rows), strict=True))


def _solved(
    clause: Conjunction, tables: Tables, fresh: Flags | None, most: int | None
) -> list[Sequence[Ints]]:
    """A clause solved; from one pattern node after the other where one must be fresh."""
    if fresh is None:
        return [tables.solve(clause, most=most)]
    starts: dict[str, Goal] = {}
    for goal in clause.goals:
        if goal.relation in NODES and goal.variables[0][0] == 0:
            starts.setdefault(goal.variables[0][1], goal)
    rows_of_clauses = []
    for goal in starts.values():
        rows = tables.chosen(goal)
        new = fresh[rows[0]]
        rows_of_clauses.append(tables.solve(clause, goal, [column[new] for column in rows], most))
    return rows_of_clauses


_CLAUSES: dict[tuple[Rule, bool, bool], RuleClauses] = {}


def rule_clauses(
    rules: Collection[Rule], *, uses: bool, distinct: bool = True
) -> dict[Rule, RuleClauses]:
    """The clauses of rules; with `uses`, interior values must have no other users.

    In an e-graph they may: a rewrite takes nothing away there, and whether it pays is for the costs
    to say. Unless `distinct`, two nodes of a pattern may be one, as its operands may be equal.
    """
    for rule in rules:
        if (rule, uses, distinct) not in _CLAUSES:
            clause = clause_of(rule)
            needed = [p for p in clause.parts if uses or not isinstance(p.condition, UsedOnlyHere)]
            if not distinct:
                needed = [replace(p, atoms=_for_any_nodes(p.atoms)) for p in needed]
            conjunctions = _conjunctions(replace(clause, parts=needed).definitions())
            structure = conjunctions.get(f"pattern_{rule.name}", ())
            match = conjunctions[f"match_{rule.name}"]
            _CLAUSES[rule, uses, distinct] = RuleClauses(structure, match)
    return {rule: _CLAUSES[rule, uses, distinct] for rule in rules}


def _for_any_nodes(atoms: Sequence[Part]) -> list[Part]:
    """Atoms of which none tells nodes apart; of mirror images still one comes out."""
    kept: list[Part] = []
    for atom in atoms:
        if isinstance(atom, Comparison) and _is_node(atom.left) and _is_node(atom.right):
            if atom.operator == "<":
                kept.append(replace(atom, operator="<="))
            continue
        kept.append(atom)
    return kept


def _is_node(expression: Expression) -> bool:
    return isinstance(expression, Variable) and expression.name.startswith("n_")


@cache
def near_clauses(rule: Rule) -> Mapping[str, tuple[Conjunction, ...]]:
    """The relations of a rule by name: structure, matches, and what nearly matches."""
    return _conjunctions([*clause_of(rule).definitions(), *nearly(rule)])


@cache
def graph_clauses() -> Mapping[str, tuple[Conjunction, ...]]:
    """What rules/graph.dl derives, but for use counts: those need an aggregate, and are given."""
    conjunctions = _read(graph_relations(), "rules/graph.dl")
    return {name: conjunctions for name, conjunctions in conjunctions.items() if name != USES}


def rule_facts(rules: Sequence[Rule], symbol: Callable[[str], int]) -> dict[str, Table]:
    """The facts that rules come with: defaults of attributes, choices of operators.

    `symbol` numbers the texts.
    """
    rows: dict[str, list[list[int]]] = {"default_attribute": [], "choice": []}
    for name, *texts in _texts(tuple(rules)):
        rows[name].append([symbol(text) for text in texts])
    return {
        "default_attribute": list(np.array(rows["default_attribute"], np.int64).reshape(-1, 3).T),
        "choice": list(np.array(rows["choice"], np.int64).reshape(-1, 2).T),
    }


@lru_cache(maxsize=64)
def _texts(rules: tuple[Rule, ...]) -> tuple[tuple[str, ...], ...]:
    """Relation and texts of each fact."""
    return tuple(
        (fact.name, *(a.value for a in fact.arguments if isinstance(a, String)))
        for fact in default_facts(rules)
    )


def _conjunctions(definitions: Sequence[Definition]) -> dict[str, tuple[Conjunction, ...]]:
    """The clauses of relations that rules define."""
    return {d.name: tuple(map(conjunction_of, d.clauses())) for d in definitions}


def _read(text: str, place: str) -> dict[str, tuple[Conjunction, ...]]:
    """The relations that a text of Datalog defines."""
    name = hashlib.sha256(f"{_version()}\n{place}\n{text}".encode()).hexdigest()
    entry = cache_path() / "clauses" / f"{name[:32]}.pickle"
    return cached_on_disk(entry, lambda: _by_relation(parse_block(text, place).clauses))


@cache
def _version() -> str:
    """What reading a text gives depends on: Datalog's parser, and the joins made of it."""
    joins_hash = text_hash(resources.files(str(__package__)), ("clauses.py", "joins.py"))
    return text_hash(resources.files(language), (".py", ".lark")) + joins_hash


def _by_relation(clauses: Sequence[Clause]) -> dict[str, tuple[Conjunction, ...]]:
    by_relation: dict[str, list[Conjunction]] = {}
    for clause in clauses:
        by_relation.setdefault(clause.head.name, []).append(conjunction_of(clause))
    return {name: tuple(conjunctions) for name, conjunctions in by_relation.items()}

"""A parsed and checked program, with its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..terms.syntax_tree import Place, walk
from .analysis.checks import (
    check_atom,
    check_counters,
    check_divisors,
    check_keys,
    check_qualifiers,
    check_subsumption,
    declared,
    directives_of,
    keys_of,
)
from .analysis.constants import fact_row
from .analysis.inline import inline
from .analysis.scope import check_grounded, resolve
from .analysis.stratify import Stratum, Use, reachable, stratify, uses
from .analysis.subtypes import Subtypes
from .analysis.type_inference import Kinds, Types, column_kinds, resolve_types
from .language.components import expand
from .language.parser import parse_block
from .language.structures import Structures
from .language.syntax import (
    GIVEN,
    Aggregate,
    Atom,
    Block,
    Clause,
    Comparison,
    DatalogError,
    Declaration,
    Directive,
    Errors,
    Functor,
    FunctorDeclaration,
    Literal,
    String,
    Subsumption,
    Variable,
    Wildcard,
    counters,
    walk_inside,
)
from .sql.compiler import Compiler
from .sql.expressions import (
    ORDINAL_FUNCTION,
    PATTERN_FUNCTION,
    RANGE_FUNCTION,
    SQL_TYPE,
)
from .sql.functions import FunctorType
from .sql.liveness import Column, Value, probes
from .steps import Dominance, Relation, Rule, Step


@dataclass(eq=False)
class Program:
    """A checked program.

    `declarations` and `kinds` are keyed by relation name; `kinds` gives each column's kind
    (number, unsigned, float, symbol, or the name of one of the `structures`, its records and
    algebraic types). `inputs`, `outputs` and `printsizes` are its directives, `strata` the order
    of evaluation, `steps` the SQL, `notes` what was accepted and ignored. `symbols` are those of
    the text, as they appear, where the program numbers them.
    """

    path: str
    declarations: dict[str, Declaration]
    kinds: dict[str, tuple[str, ...]]
    inputs: dict[str, list[Directive]]
    outputs: list[Directive]
    printsizes: list[Directive]
    relations: dict[str, Relation]
    strata: tuple[Stratum, ...]
    steps: tuple[Step, ...]
    probes: dict[Column, frozenset[Value]]
    notes: list[str]
    structures: Structures
    functors: Mapping[str, FunctorType]
    symbols: tuple[str, ...]


def parse(text: str, path: str = "<program>", define: Mapping[str, str] | None = None) -> Program:
    """Parse, check and compile a program; raises DatalogError(path, line, column, reason).

    The error's `errors` are all that were found, unless the syntax is wrong: then those of it.
    `path` names the file in errors and anchors #include; `define` gives macros, as -D does.
    """
    return build(parse_block(text, path, define), path)


def build(block: Block, path: str) -> Program:
    """Check and compile a syntax tree."""
    return _Builder(block).build(path)


class _Builder:
    """A program under construction: each phase takes up what is wrong and goes on with the rest."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.errors = errors = Errors()
        with errors.collected():
            expand(block)
        self.declarations = declared(block.declarations, errors)
        with errors.collected():
            types = resolve_types(block.types)
        errors.check()
        self.functors = _functors(block.functors, types, errors)
        calls = {name: (f.parameters, f.result) for name, f in self.functors.items()}
        self.types = Types(types.kinds, types.structures, calls)
        self.columns = column_kinds(self.declarations, self.types, errors)
        # What reads a relation of which nothing is known can't be checked.
        self.unknown = self.declarations.keys() - self.columns.keys()
        check_qualifiers(self.declarations, self.columns, errors)
        check_keys(self.declarations, block.subsumptions, errors)
        self.directives = directives_of(block.directives, self.declarations, errors)
        self.relations = {
            name: self._relation(index, name)
            for index, name in enumerate(self.declarations)
            if name not in self.unknown
        }

    def _relation(self, index: int, name: str) -> Relation:
        declaration, columns = self.declarations[name], self.columns[name]
        return Relation(
            name,
            # The kinds are part of the name: tables of one name have one shape.
            f"dl:{index}:{name}:{''.join(map(_letter, columns))}",
            columns,
            is_input=name in self.directives.inputs,
            is_equivalence="eqrel" in declaration.qualifiers,
            limit=self.directives.limits.get(name),
            keys=keys_of(declaration),
        )

    def build(self, path: str) -> Program:
        """Check and compile what the program says of its relations."""
        clauses, subsumptions = self._unfolded(self._without_facts())
        clauses.extend(_equivalences(clauses, self.relations))
        resolved = self._add_rules(clauses)
        dominances = self._add_dominances(subsumptions)
        strata = self._strata(resolved, dominances)
        steps = self._steps(strata)
        numbers_symbols = any(ORDINAL_FUNCTION in r.calls for r in self.relations.values())
        return Program(
            path,
            self.declarations,
            self.columns,
            self.directives.inputs,
            self.directives.outputs,
            self.directives.printsizes,
            self.relations,
            strata,
            steps,
            probes(part.needs for step in steps for part in step.parts),
            self.block.notes,
            self.types.structures,
            self.functors,
            _symbols(self.block.clauses) if numbers_symbols else (),
        )

    def _without_facts(self) -> list[Clause]:
        """Give facts to their relations; the other clauses have heads that are declared."""
        unfoldable = {n for n, d in self.declarations.items() if "inline" in d.qualifiers}
        clauses: list[Clause] = []
        for clause in self.block.clauses:
            if self.unknown & _mentioned(clause):
                continue
            fact = None
            if not clause.body and clause.head.name not in unfoldable:
                fact = fact_row(clause.head, self.columns, self.types.structures)
            if fact is not None:
                self.relations[clause.head.name].facts.append(fact)
                continue
            with self.errors.collected():
                check_atom(clause.head, self.columns)
                clauses.append(clause)
        return clauses

    def _unfolded(self, clauses: list[Clause]) -> tuple[list[Clause], list[Subsumption]]:
        """Unfold inline relations; nothing more is said of a program where that can't be done."""
        used = {directive.relation for directive in self.block.directives}
        try:
            return inline(clauses, self.block.subsumptions, self.declarations, used)
        except DatalogError as error:
            self.errors.reported.append(error)
            self.errors.check()
            raise

    def _add_rules(self, clauses: Iterable[Clause]) -> list[Clause]:
        """Give clauses to their relations as rules; returns them with their scopes resolved."""
        resolved = []
        subtypes = Subtypes(self.block.types)
        for clause in clauses:
            with self.errors.collected():
                scoped = resolve(clause)
                resolved.append(scoped)
                with self.errors.collected():
                    check_grounded(scoped)
                kinds = Kinds(self.columns, self.types).infer(scoped.literals)
                if "legacy" not in self.block.pragmas:
                    subtypes.check(scoped, self.declarations)
                check_divisors(scoped, kinds)
                check_counters(scoped)
                relation = self.relations[clause.head.name]
                relation.rules.append(Rule(scoped, kinds))
                relation.calls.update(_calls(scoped.literals, kinds))
        return resolved

    def _add_dominances(self, subsumptions: Iterable[Subsumption]) -> list[Subsumption]:
        """Give subsumptions to their relations; returns them with their scopes resolved."""
        resolved = []
        for subsumption in subsumptions:
            heads = (subsumption.dominated, subsumption.dominating)
            if self.unknown & {atom.name for atom in heads}:
                continue
            with self.errors.collected():
                check_subsumption(subsumption, self.columns)
                dominance = _dominance(subsumption, self.columns, self.types)
                relation = self.relations[subsumption.dominated.name]
                relation.dominances.append(dominance)
                relation.calls.update(_calls(dominance.subsumption.body, dominance.kinds))
                resolved.append(dominance.subsumption)
        return resolved

    def _strata(
        self, clauses: Iterable[Clause], subsumptions: Iterable[Subsumption]
    ) -> tuple[Stratum, ...]:
        """Order the relations, and check what depends on the order."""
        strata: tuple[Stratum, ...] = ()
        known = [c for c in clauses if {u.relation for u in _reads(c)} <= self.relations.keys()]
        with self.errors.collected():
            strata = stratify(list(self.relations), known, subsumptions)
        _check_recursive_counters(strata, self.relations, self.errors)
        self.errors.check()
        return strata

    def _steps(self, strata: Iterable[Stratum]) -> tuple[Step, ...]:
        compiler = Compiler(self.relations)
        steps = []
        for stratum in strata:
            with self.errors.collected():
                steps.append(compiler.step(stratum))
        self.errors.check()
        return tuple(step for step in steps if step is not None)


def _symbols(clauses: Iterable[Clause]) -> tuple[str, ...]:
    """List the symbols of clauses, as they appear in the text."""
    strings = [
        node
        for clause in clauses
        for literal in (clause.head, *clause.body)
        for expression in literal.parts
        for node in walk_inside(expression)
        if isinstance(node, String)
    ]
    files = {
        path: place for place, path in enumerate(dict.fromkeys(s.position.path for s in strings))
    }
    strings.sort(key=lambda s: (files[s.position.path], s.position.line, s.position.column))
    return tuple(dict.fromkeys(string.value for string in strings))


def _functors(
    declarations: Iterable[FunctorDeclaration], types: Types, errors: Errors
) -> dict[str, FunctorType]:
    """Give the functors that users give, their types as kinds."""
    functors: dict[str, FunctorType] = {}
    for functor in declarations:
        reason = ""
        for name in (*functor.parameters, functor.result):
            if name not in types.kinds:
                reason = f"type {name} is not defined"
            elif types.kinds[name] in types.structures:
                reason = f"the functor {functor.name} takes or gives {name}: records stay inside"
        if functor.name in functors:
            reason = f"the functor {functor.name} is declared twice"
        if reason:
            errors.reported.append(DatalogError.at(functor.position, reason))
            continue
        parameters = tuple(types.kinds[name] for name in functor.parameters)
        result = types.kinds[functor.result]
        functors[functor.name] = FunctorType(functor.name, parameters, result, functor.position)
    return functors


def _calls(literals: Iterable[Literal], kinds: Kinds) -> Iterator[tuple[str, Place]]:
    """Visit the functions of Python that literals call, with their places."""
    for literal in literals:
        matches = isinstance(literal, Comparison) and literal.operator.endswith("match")
        if matches and not isinstance(literal.parts[0], String):
            yield PATTERN_FUNCTION, literal.position
        for expression in literal.parts:
            for node in walk(expression):
                if isinstance(node, Functor) and node.name[0] == GIVEN:
                    yield node.name[1:], node.position
                elif isinstance(node, Functor) and node.name == "range":
                    if kinds.of(node) == "float":
                        yield RANGE_FUNCTION, node.position
                elif isinstance(node, Functor) and node.name == "ord":
                    if kinds.of(node.arguments[0]) == "symbol":
                        yield ORDINAL_FUNCTION, node.position
                elif isinstance(node, Aggregate):
                    yield from _calls(node.body, kinds)
                    if node.target is not None:
                        target = Comparison("=", node.target, node.target, node.position)
                        yield from _calls([target], kinds)


def _reads(clause: Clause) -> Iterator[Use]:
    return uses(clause.body, clause.head.arguments)


def _mentioned(clause: Clause) -> set[str]:
    return {clause.head.name, *(use.relation for use in _reads(clause))}


def _check_recursive_counters(
    strata: Iterable[Stratum], relations: Mapping[str, Relation], errors: Errors
) -> None:
    for stratum in strata:
        for rule in (r for name in stratum.relations for r in relations[name].rules):
            if stratum.recursive and any(
                use.relation in stratum.relations for use in uses(rule.clause.body)
            ):
                for node in counters(rule.clause):
                    reason = "autoinc() ($) in a recursive clause: number the finished relation"
                    errors.reported.append(DatalogError.at(node.position, reason))


def _letter(kind: str) -> str:
    return kind[0] if kind in SQL_TYPE else "j"


def _equivalences(clauses: list[Clause], relations: Mapping[str, Relation]) -> list[Clause]:
    """Write an eqrel's laws as rules where it takes part in a recursion of its own."""
    reads: dict[str, set[str]] = {name: set() for name in relations}
    for clause in clauses:
        reads[clause.head.name] |= {b.name for b in clause.body if isinstance(b, Atom)}
    laws = []
    for name, relation in relations.items():
        if not relation.is_equivalence:
            continue
        if name in reachable(reads[name], lambda other: reads.get(other, ())):
            relation.is_equivalence = False
            laws.extend(_laws(name))
    return laws


def _laws(name: str) -> list[Clause]:
    here = Place("<eqrel>", 0, 0)

    def atom(*names: str) -> Atom:
        return Atom(name, tuple(Variable(n, here) for n in names), here)

    return [
        Clause(atom("x", "x"), (atom("x", "y"),), here),
        Clause(atom("y", "x"), (atom("x", "y"),), here),
        Clause(atom("x", "z"), (atom("x", "y"), atom("y", "z")), here),
    ]


def _dominance(
    subsumption: Subsumption, columns: Mapping[str, tuple[str, ...]], types: Types
) -> Dominance:
    """Resolve a subsumption's scopes and infer its kinds."""
    place = subsumption.position
    dominated = Atom(
        subsumption.dominated.name,
        tuple(
            Variable(f"_{i}@0", a.position) if isinstance(a, Wildcard) else a
            for i, a in enumerate(subsumption.dominated.arguments)
        ),
        subsumption.dominated.position,
    )
    nothing = Atom("", (), place)
    clause = Clause(nothing, (dominated, subsumption.dominating, *subsumption.body), place)
    check_counters(clause)
    scoped = resolve(clause)
    kinds = Kinds(columns, types).infer(scoped.body)
    check_grounded(scoped)
    first, second, *body = scoped.body
    assert isinstance(first, Atom) and isinstance(second, Atom)
    return Dominance(Subsumption(first, second, tuple(body), place), kinds)

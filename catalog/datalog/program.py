"""A parsed and checked program, with its plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .analysis.inline import inline
from .analysis.scope import check_grounded, resolve
from .analysis.stratify import Stratum, Use, stratify, uses
from .analysis.subtypes import Subtypes
from .analysis.type_inference import Kinds, Types, column_kinds, resolve_types
from .language.components import expand
from .language.parser import parse_block
from .language.structures import BRANCH, NIL, Structures, builds, encode
from .language.syntax import (
    COUNTER,
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
    Expression,
    Functor,
    FunctorDeclaration,
    Literal,
    Number,
    Place,
    String,
    Subsumption,
    Variable,
    Wildcard,
    counters,
    walk,
    walk_inside,
)
from .sql.compiler import Compiler
from .sql.expressions import (
    ORDINAL_FUNCTION,
    PATTERN_FUNCTION,
    RANGE_FUNCTION,
    SQL_TYPE,
    literal_value,
)
from .sql.functions import FunctorType
from .sql.liveness import Column, Value, probes
from .steps import Dominance, Relation, Row, Rule, Step


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
    errors = Errors()
    with errors.collected():
        expand(block)
    declarations = _declared(block.declarations, errors)
    with errors.collected():
        types = resolve_types(block.types)
    errors.check()
    functors = _functors(block.functors, types, errors)
    types = Types(
        types.kinds,
        types.structures,
        {name: (functor.parameters, functor.result) for name, functor in functors.items()},
    )
    columns = column_kinds(declarations, types, errors)
    # What reads a relation of which nothing is known can't be checked.
    unknown = declarations.keys() - columns.keys()
    _check_qualifiers(declarations, columns, errors)
    _check_keys(declarations, block.subsumptions, errors)
    inputs, outputs, printsizes, limits = _directives(block.directives, declarations, errors)
    relations = {
        name: Relation(
            name,
            # The kinds are part of the name: tables of one name have one shape.
            f"dl:{index}:{name}:{''.join(map(_letter, columns[name]))}",
            columns[name],
            is_input=name in inputs,
            is_equivalence="eqrel" in declarations[name].qualifiers,
            limit=limits.get(name),
            keys=_keys(declarations[name]),
        )
        for index, name in enumerate(declarations)
        if name not in unknown
    }
    clauses: list[Clause] = []
    unfoldable = {n for n, d in declarations.items() if "inline" in d.qualifiers}
    for clause in block.clauses:
        if unknown & _mentioned(clause):
            continue
        fact = None
        if not clause.body and clause.head.name not in unfoldable:
            fact = _fact(clause.head, columns, types.structures)
        if fact is None:
            clauses.append(clause)
        else:
            relations[clause.head.name].facts.append(fact)
    headed = []
    for clause in clauses:
        with errors.collected():
            _check_atoms((clause.head,), columns)
            headed.append(clause)
    clauses = headed
    try:
        used = {d.relation for d in block.directives}
        clauses, unfolded = inline(clauses, block.subsumptions, declarations, used)
    except DatalogError as error:
        # Nothing below speaks of a program that can't be unfolded.
        errors.reported.append(error)
        errors.check()
    clauses.extend(_equivalences(clauses, relations))
    resolved = []
    subtypes = Subtypes(block.types)
    for clause in clauses:
        with errors.collected():
            scoped = resolve(clause)
            resolved.append(scoped)
            with errors.collected():
                check_grounded(scoped)
            kinds = Kinds(columns, types).infer((*scoped.body, scoped.head))
            if "legacy" not in block.pragmas:
                subtypes.check(scoped, declarations)
            _check_divisors(scoped, kinds)
            _check_counters(scoped)
            relations[clause.head.name].rules.append(Rule(scoped, kinds))
            calls = _calls((*scoped.body, scoped.head), kinds)
            relations[clause.head.name].calls.update(calls)
    subsumptions = []
    for subsumption in unfolded:
        heads = (subsumption.dominated, subsumption.dominating)
        if unknown & {atom.name for atom in heads}:
            continue
        with errors.collected():
            _check_subsumption(subsumption, columns)
            dominance = _dominance(subsumption, columns, types)
            relations[subsumption.dominated.name].dominances.append(dominance)
            calls = _calls(dominance.subsumption.body, dominance.kinds)
            relations[subsumption.dominated.name].calls.update(calls)
            subsumptions.append(dominance.subsumption)
    strata: tuple[Stratum, ...] = ()
    known = [c for c in resolved if {u.relation for u in _reads(c)} <= relations.keys()]
    with errors.collected():
        strata = stratify(list(relations), known, subsumptions)
    _check_recursive_counters(strata, relations, errors)
    errors.check()
    compiler = Compiler(relations)
    compiled = []
    for stratum in strata:
        with errors.collected():
            compiled.append(compiler.step(stratum))
    errors.check()
    steps = tuple(step for step in compiled if step is not None)
    return Program(
        path,
        declarations,
        columns,
        inputs,
        outputs,
        printsizes,
        relations,
        strata,
        steps,
        probes(part.needs for step in steps for part in step.parts),
        block.notes,
        types.structures,
        functors,
        _symbols(block.clauses)
        if any(ORDINAL_FUNCTION in r.calls for r in relations.values())
        else (),
    )


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
    out: dict[str, FunctorType] = {}
    for functor in declarations:
        reason = ""
        for name in (*functor.parameters, functor.result):
            if name not in types.kinds:
                reason = f"type {name} is not defined"
            elif types.kinds[name] in types.structures:
                reason = f"the functor {functor.name} takes or gives {name}: records stay inside"
        if functor.name in out:
            reason = f"the functor {functor.name} is declared twice"
        if reason:
            errors.reported.append(DatalogError.at(functor.position, reason))
            continue
        parameters = tuple(types.kinds[name] for name in functor.parameters)
        result = types.kinds[functor.result]
        out[functor.name] = FunctorType(functor.name, parameters, result, functor.position)
    return out


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


def _check_divisors(clause: Clause, kinds: Kinds) -> None:
    """Refuse a fact that divides by zero: no solution is needed to meet it."""
    for node in () if clause.body else (n for a in clause.head.arguments for n in walk(a)):
        if isinstance(node, Functor) and node.name in ("/", "%") and kinds.of(node) != "float":
            divisor = node.arguments[1]
            if isinstance(divisor, Number) and divisor.value == 0:
                raise DatalogError.at(node.position, "division by zero")


def _keys(declaration: Declaration) -> tuple[tuple[int, ...], ...]:
    """Give the columns of each key, each key once; of columns that there are."""
    places = {attribute.name: place for place, attribute in enumerate(declaration.attributes)}
    keys = (sorted({places[name] for name in key if name in places}) for key in declaration.keys)
    return tuple(dict.fromkeys(tuple(key) for key in keys if key))


def _check_keys(
    declarations: Mapping[str, Declaration], subsumptions: Iterable[Subsumption], errors: Errors
) -> None:
    """Refuse a choice-domain of columns that aren't there, or of rows that enter in other ways."""
    losing = {subsumption.dominated.name for subsumption in subsumptions}
    for name, declaration in declarations.items():
        known = {attribute.name for attribute in declaration.attributes}
        reasons = [
            f"the choice-domain of {name} names {column}, which is no column of it"
            for column in dict.fromkeys(itertools.chain.from_iterable(declaration.keys))
            if column not in known
        ]
        if declaration.keys and "eqrel" in declaration.qualifiers:
            reasons.append(
                f"choice-domain of the eqrel relation {name} is outside the dialect: choose in a "
                "relation that it reads"
            )
        if declaration.keys and name in losing:
            reasons.append(
                f"choice-domain and subsumption of {name} are outside the dialect together: "
                "choose in a relation that reads it"
            )
        for reason in reasons:
            errors.reported.append(DatalogError.at(declaration.position, reason))


def _check_counters(clause: Clause) -> None:
    """Refuse counters but in heads of rules: elsewhere there is no solution to number."""
    allowed = list(counters(clause)) if clause.body else []
    body = (e for b in clause.body for e in b.parts)
    for node in (n for e in (*clause.head.arguments, *body) for n in walk_inside(e)):
        if isinstance(node, Functor) and node.name == COUNTER and node not in allowed:
            where = "bodies and aggregates" if clause.body else "facts"
            raise DatalogError.at(
                node.position, f"autoinc() ($) can't stand in {where}, but in heads of rules"
            )


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


def _declared(declarations: Iterable[Declaration], errors: Errors) -> dict[str, Declaration]:
    out: dict[str, Declaration] = {}
    for declaration in declarations:
        first = out.setdefault(declaration.name, declaration)
        if first is not declaration:
            reason = f"relation {declaration.name} is declared twice"
            line = first.position.line
            errors.reported.append(
                DatalogError.at(declaration.position, f"{reason} (first in line {line})")
            )
    return out


def _check_qualifiers(
    declarations: Mapping[str, Declaration],
    columns: Mapping[str, tuple[str, ...]],
    errors: Errors,
) -> None:
    for name, kinds in columns.items():
        declaration = declarations[name]
        if "eqrel" in declaration.qualifiers and (len(kinds) != 2 or kinds[0] != kinds[1]):
            reason = f"eqrel relation {name} needs two columns of one type"
            errors.reported.append(DatalogError.at(declaration.position, reason))


def _check_subsumption(subsumption: Subsumption, columns: Mapping[str, tuple[str, ...]]) -> None:
    dominated, dominating = subsumption.dominated, subsumption.dominating
    _check_atoms((dominated, dominating), columns)
    if dominated.name != dominating.name:
        raise DatalogError.at(
            dominating.position,
            f"subsumption compares tuples of one relation, not of {dominated.name} "
            f"and {dominating.name}",
        )
    if not columns[dominated.name]:
        raise DatalogError.at(
            dominated.position, f"subsumption needs columns, {dominated.name} has none"
        )


def _check_atoms(atoms: Iterable[Atom], columns: Mapping[str, tuple[str, ...]]) -> None:
    for atom in atoms:
        if atom.name not in columns:
            raise DatalogError.at(atom.position, f"relation {atom.name} is not declared")
        have, want = len(atom.arguments), len(columns[atom.name])
        if have != want:
            raise DatalogError.at(
                atom.position,
                f"relation {atom.name} has {want} {'column' if want == 1 else 'columns'}, "
                f"not {have}",
            )


def _directives(
    directives: Iterable[Directive], declarations: Mapping[str, Declaration], errors: Errors
) -> tuple[dict[str, list[Directive]], list[Directive], list[Directive], dict[str, int]]:
    inputs: dict[str, list[Directive]] = {}
    outputs: list[Directive] = []
    printsizes: list[Directive] = []
    limits: dict[str, int] = {}
    for directive in directives:
        if directive.relation not in declarations:
            reason = f"relation {directive.relation} is not declared"
            errors.reported.append(DatalogError.at(directive.position, reason))
            continue
        if directive.action == "input":
            inputs.setdefault(directive.relation, []).append(directive)
        elif directive.action == "output":
            outputs.append(directive)
        elif directive.action == "limitsize":
            limits[directive.relation] = int(directive.parameters["n"])
        else:
            printsizes.append(directive)
    return inputs, outputs, printsizes, limits


def _fact(head: Atom, columns: Mapping[str, tuple[str, ...]], structures: Structures) -> Row | None:
    """Read a fact of constants; None where it has to be computed, or is wrong."""
    kinds = columns.get(head.name)
    if kinds is None or len(kinds) != len(head.arguments):
        return None
    row: list[int | float | str] = []
    for argument, kind in zip(head.arguments, kinds, strict=True):
        value = _constant(argument, kind, structures)
        if value is None:
            return None
        row.append(value)
    return tuple(row)


def _constant(node: Expression, kind: str, structures: Structures) -> int | float | str | None:
    """Read a constant of a kind, a structure as its JSON; None where it is none."""
    if isinstance(node, String) and kind == "symbol":
        return node.value
    if isinstance(node, Number) and _fits(node, kind):
        return literal_value(node, kind)
    if kind in structures and isinstance(node, Functor) and builds(node):
        try:
            return encode(_contents(node, kind, structures), kind, structures)
        except ValueError:
            return None
    return None


def _contents(node: Expression, kind: str, structures: Structures) -> object:
    """Give the value of a constant; raises ValueError where it is none of the kind."""
    structure = structures.get(kind)
    if structure is None or not isinstance(node, Functor) or not builds(node):
        value = _constant(node, kind, structures)
        if value is None:
            raise ValueError("no constant")
        return value
    if node.name == NIL:
        return None
    name = node.name[1:] if node.name[0] == BRANCH else ""
    kinds = structure.branches.get(name, ())
    if len(kinds) != len(node.arguments):
        raise ValueError("another number of fields")
    parts = zip(node.arguments, kinds, strict=True)
    values = tuple(_contents(argument, field, structures) for argument, field in parts)
    return (name, *values) if name else values


def _fits(node: Number, kind: str) -> bool:
    if node.kind is not None:
        return node.kind == kind
    if kind == "number":
        return -(1 << 63) <= node.value < 1 << 63
    if kind == "unsigned":
        return 0 <= node.value < 1 << 64
    return kind == "float"


def _equivalences(clauses: list[Clause], relations: Mapping[str, Relation]) -> list[Clause]:
    """Write an eqrel's laws as rules where it takes part in a recursion of its own."""
    reads: dict[str, set[str]] = {name: set() for name in relations}
    for clause in clauses:
        reads[clause.head.name] |= {b.name for b in clause.body if isinstance(b, Atom)}
    out = []
    for name, relation in relations.items():
        if not relation.is_equivalence:
            continue
        reached, queue = set(reads[name]), list(reads[name])
        while queue:
            for other in reads.get(queue.pop(), ()):
                if other not in reached:
                    reached.add(other)
                    queue.append(other)
        if name in reached:
            relation.is_equivalence = False
            out.extend(_laws(name))
    return out


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
    _check_counters(clause)
    scoped = resolve(clause)
    kinds = Kinds(columns, types).infer(scoped.body)
    check_grounded(scoped)
    first, second, *body = scoped.body
    assert isinstance(first, Atom) and isinstance(second, Atom)
    return Dominance(Subsumption(first, second, tuple(body), place), kinds)

"""A rule as the statements that are to be proved of it: one for each case of what is discrete.

Enumerated are the operator sets whose texts differ, ranks up to a few, axes, permutations, lengths
of lists, operators, element types up to their algebra, inputs that may be absent, words such as
auto_pad, in all combinations (enumeration.py). Sizes, strides, pads, groups and numbers stay
symbols. The conditions of the rule become assumptions, each exactly or, where it can't be said,
weaker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ....catalog.operators.expand import Definition
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Select,
    Symbol,
    Term,
    apply,
    is_integer,
    never_negative,
    reads,
    substitute,
    symbol_names,
    symbols,
)
from ...language.repetition import repeated_lists, repeats, unrolled
from ...language.schemas import EARLIEST_OPSET
from ...language.syntax import Rule
from ..assumptions import conjuncts
from ..ranks.data_movement import moves_alike
from ..statement import Equation, Extent, Obligation, Origin, Statement
from .axis_notation import NotationMattersError
from .composition import Composition, UndescribedError, algebra_of, described
from .element_types import opsets, signature, type_problem
from .enumeration import (
    MOST,
    Choice,
    Choices,
    ContradictionError,
    NoCaseError,
    TooManyError,
    cases,
    examples,
)
from .source_side import SourceSide
from .subsumption import is_instance
from .target_side import TargetSide

# Each attempt replaces symbols that the one before found to equal something; two are the rule.
_ATTEMPTS = 6
# By how much lists are longer at most where none that is tried first is a case; the ranks that
# gives, of an operand without a shape.
_LONGER = 6
_RANKS = 9
# By how much they are shorter at most where there are too many cases.
_SHORTER = 2
# How many nodes a repeated one is.
_REPEATED = (2, 1)


class IllTyped(Exception):  # noqa: N818 (it names what the rule is)
    """No case of the right side is defined and of the shape and type of the left side."""


@dataclass(frozen=True)
class _Case:
    statements: tuple[Statement, ...]
    choices: tuple[Choice, ...]


def statements(rule: Rule) -> list[Statement]:
    """Return what must be proved of a rule, one statement for each case.

    An empty list: the conditions exclude each other. Raises IllTyped where the right side is of
    another type, shape or rank, or undefined, in every case; UndescribedError where an operator has
    no described meaning or no case is among those that are looked at. Of repeated nodes there are
    as many as `_REPEATED` says: ranks/repeated_nodes.py is about any number of them.
    """
    if not repeats(rule):
        return _of_known_nodes(rule)
    length = f"len({repeated_lists(rule)[0]})"
    return [
        replace(
            statement,
            title=f"{statement.title}, {count} of each",
            free={**statement.free, length: Extent(count, max(_REPEATED))},
        )
        for count in _REPEATED
        for statement in _of_known_nodes(unrolled(rule, count))
    ]


def _of_known_nodes(rule: Rule) -> list[Statement]:
    """The statements of a rule without repeated nodes."""
    _check_types(rule)
    reasons: list[NoCaseError] = []
    for longer in range(_LONGER + 1):
        if case_statements := _statements(rule, longer, reasons):
            wrong = [_false_obligation(statement) for statement in case_statements]
            if all(wrong):
                raise IllTyped(next(reason for reason in wrong if reason))
            return case_statements
        if all(isinstance(reason, ContradictionError) for reason in reasons):
            return []
    most = Counter(map(str, reasons)).most_common(1)[0][0]
    raise UndescribedError(
        f"no case of the rule is among those looked at, ranks to {_RANKS}: {most}"
    )


def _statements(rule: Rule, longer: int, reasons: list[NoCaseError]) -> list[Statement]:
    """The statements of all cases; of those with shorter lists where there are too many.

    Where how axes are written makes a difference, it is a choice.
    """
    as_choices: frozenset[str] = frozenset()
    for shorter in range(_SHORTER + 1 if longer == 0 else 1):
        while True:
            try:
                return _combined(rule, longer - shorter, as_choices, reasons)
            except NotationMattersError as error:
                assert not error.names <= as_choices
                as_choices |= error.names
            except TooManyError:
                break
    raise UndescribedError(f"its choices combine in more than {MOST} ways, which are not looked at")


def _combined(
    rule: Rule, longer: int, as_choices: frozenset[str], reasons: list[NoCaseError]
) -> list[Statement]:
    """The statements of the cases with lists longer by so much than those that are tried first.

    How the axes in `as_choices` are written is a choice. What excludes the others is added to
    `reasons`.
    """
    case_statements: list[Statement] = []
    plain: set[tuple[tuple[str, int], ...]] = set()  # cases at the first of their element types
    seen: set[object] = set()
    earlier: dict[_Key, _Case] = {}

    def build(choices: Choices) -> _Case:
        try:
            return _case(rule, choices, longer, as_choices)
        except NoCaseError as error:
            reasons.append(error)
            raise

    for case in (examples if moves_alike(rule) else cases)(build):
        content = tuple(map(_content, case.statements))
        if content in seen:
            continue  # operator sets whose texts differ in what this case doesn't show
        seen.add(content)
        key = tuple((choice.name, choice.taken) for choice in case.choices if not _is_type(choice))
        if any(_is_type(choice) and choice.taken for choice in case.choices):
            if key in plain and all(map(_only_moves, case.statements)):
                continue  # what elements are doesn't matter
        else:
            plain.add(key)
        earlier[_key(case.choices)] = case
        if not any(
            _follows(case, earlier[simpler]) for simpler in _simpler(case.choices) & earlier.keys()
        ):
            case_statements += case.statements
    return case_statements


_Key = frozenset[tuple[str, int]]


def _key(choices: Iterable[Choice]) -> _Key:
    return frozenset((choice.name, choice.taken) for choice in choices if choice.taken)


def _simpler(choices: Sequence[Choice]) -> set[_Key]:
    """The cases that were looked at before, of which one choice of a form makes the difference."""
    key = _key(choices)
    return {key - {(c.name, c.taken)} for c in choices if c.kind == "form" and c.taken}


def _follows(special: _Case, general: _Case) -> bool:
    return all(
        is_instance(special_statement, general_statement)
        for special_statement, general_statement in zip(
            special.statements, general.statements, strict=True
        )
    )


def _content(statement: Statement) -> object:
    """All of a statement but its title."""
    return (
        statement.symbols,
        statement.assumptions,
        statement.operands,
        statement.definitions,
        statement.obligations,
        statement.equations,
        statement.region,
        tuple(sorted(statement.algebras.items())),
    )


def _is_type(choice: Choice) -> bool:
    return choice.name.startswith("type of ")


def _false_obligation(statement: Statement) -> str | None:
    return next(
        (obligation.text for obligation in statement.obligations if obligation.condition is False),
        None,
    )


# ---------------------------------------------------------------------------------- one case


def _check_types(rule: Rule) -> None:
    for operators in _operator_choices(rule):
        for opset in opsets(rule, EARLIEST_OPSET):
            if not _exists(rule, opset, operators):
                continue
            if problem := type_problem(rule, opset, operators):
                raise IllTyped(problem)


def _operator_choices(rule: Rule) -> Iterator[dict[str, str]]:
    """Each operator of each variable once, the others at their first."""
    first = {name: options[0] for name, options in rule.choices}
    yield first
    for name, options in rule.choices:
        for option in options[1:]:
            yield {**first, name: option}


def _exists(rule: Rule, opset: int, operators: Mapping[str, str]) -> bool:
    return all(
        signature(operators.get(node.op_type, node.operator), opset) is not None
        for node in rule.match
    )


@cache
def _opsets(rule: Rule, chosen: tuple[tuple[str, str], ...]) -> list[int]:
    """The operator sets of a rule, one for each change of the texts of its operators."""
    operators = dict(chosen)
    opset_of_texts: dict[tuple[str, ...], int] = {}
    for opset in opsets(rule, EARLIEST_OPSET):
        if not _exists(rule, opset, operators):
            continue
        texts = []
        for node in (*rule.match, *rule.rewrite, *rule.correct):
            meaning = described(operators.get(node.op_type, node.operator), opset)
            texts.append(meaning.hash)
        opset_of_texts[tuple(texts)] = opset
    if not opset_of_texts:
        raise IllTyped("the left side exists in no operator set that the rule is for")
    return list(opset_of_texts.values())[::-1]


def _case(rule: Rule, choices: Choices, longer: int, as_choices: Collection[str] = ()) -> _Case:
    operators = {
        name: choices.pick(f"operator {name}", options, "element") for name, options in rule.choices
    }
    opset = choices.pick("opset", _opsets(rule, tuple(sorted(operators.items()))), "both")
    values: dict[str, Term] = {}
    rounded = rule.equal == "rounding"
    for _ in range(_ATTEMPTS):
        composition = Composition(opset, rounded=rounded)
        left = SourceSide(rule, choices, operators, composition, values, longer, as_choices)
        left.build()
        solved = _solved([assumption.condition for assumption in left.assumptions])
        fixed = {name: value for name, value in left.bounds.fixed.items() if name not in values}
        solved = {name: substitute(term, fixed) for name, term in solved.items()} | fixed
        if not solved:
            break
        values = {**{name: substitute(term, solved) for name, term in values.items()}, **solved}
    for name, term in values.items():
        if left.kinds[name] == "dimension" and not never_negative(term):
            left.suppose(f"{name} = {term}", apply(">=", term, 0))
    source = frozenset(definition.name for definition in left.composition.definitions)
    right = TargetSide(left)
    right.build()
    case_statements = [statement_of(rule, choices, left, right, source)]
    if rule.region is not None:
        region, indices = right.region()
        case_statements[0] = replace(case_statements[0], region=region, region_indices=indices)
    if rule.correct:
        right.correct()
        whole = statement_of(rule, choices, left, right, source)
        case_statements.append(replace(whole, title=f"{whole.title}, corrected"))
    return _Case(tuple(case_statements), tuple(choices.by_name.values()))


def _solved(conditions: Iterable[Term]) -> dict[str, Term]:
    """What symbols equal by equations; those without a name in the rule are replaced first."""
    values: dict[str, Term] = {}
    for conjunct in conjuncts(conditions):
        match substitute(conjunct, values):
            case Apply("=", (left, right)):
                pairs = [(left, right), (right, left)]
                pairs.sort(key=lambda pair: isinstance(pair[0], Symbol) and "." not in pair[0].name)
                for symbol, term in pairs:
                    if isinstance(symbol, Symbol) and _may_replace(symbol, term):
                        step = {symbol.name: term}
                        values = {name: substitute(old, step) for name, old in values.items()}
                        values |= step
                        break
    return values


def _may_replace(symbol: Symbol, term: Term) -> bool:
    if symbol.name in symbol_names(term):
        return False
    return is_integer(term) or (symbol.kind == "real" and isinstance(term, Symbol | float | Apply))


def statement_of(
    rule: Rule, choices: Choices, left: SourceSide, right: TargetSide, source: frozenset[str]
) -> Statement:
    """The statement of a case whose two sides are built; `source` names the tensors of the left."""
    composition = left.composition
    obligations = list(right.obligations)
    equations: list[Equation] = []
    if not any(obligation.condition is False for obligation in obligations):
        for output in rule.outputs:
            for name in left.lists.get(output, [output]):
                result = right.results.get(name)
                if result is None:
                    obligations.append(Obligation(f"{name} is not made", False))
                    continue
                equations.append(Equation(name, name, result))
                obligations += _same_shape(composition, name, result)
    if any(obligation.condition is False for obligation in obligations):
        equations = []
    assumptions = tuple(dict.fromkeys(assumption.condition for assumption in left.assumptions))
    granted = {True, *conjuncts(assumptions)}
    obligations = [obligation for obligation in obligations if obligation.condition not in granted]
    tensors = composition.tensors
    return Statement(
        title=_title(rule, choices),
        symbols=_all_symbols(composition, assumptions, obligations),
        assumptions=assumptions,
        operands=tuple(composition.operands),
        definitions=tuple(composition.definitions),
        source=source,
        obligations=tuple(dict.fromkeys(obligations)),
        equations=tuple(equations),
        algebras={
            definition.name: algebra_of(tensors[definition.name].dtype)
            for definition in composition.definitions
        },
        free=dict(left.free),
        numbered=right.numbers is not None,
        origin=Origin(
            composition.opset,
            tuple(node for node in composition.nodes if set(node.outputs) <= source),
            {name: tensor.dtype for name, tensor in tensors.items()},
            {name: tuple(listed) for name, listed in left.lists.items()},
        ),
    )


def _same_shape(composition: Composition, name: str, result: str) -> list[Obligation]:
    tensor, result_tensor = composition.tensors[name], composition.tensors[result]
    if algebra_of(tensor.dtype) != algebra_of(result_tensor.dtype):
        return [Obligation(f"{name} is {tensor.dtype}, not {result_tensor.dtype}", False)]
    if len(tensor.shape) != len(result_tensor.shape):
        text = f"{name} has rank {len(tensor.shape)}, not {len(result_tensor.shape)}"
        return [Obligation(text, False)]
    obligations = []
    for axis, (a, b) in enumerate(zip(tensor.shape, result_tensor.shape, strict=True)):
        text = f"size {axis} of {name}: {a} = {b}"
        obligations.append(Obligation(text, apply("=", a, b)))
    return obligations


def _title(rule: Rule, choices: Choices) -> str:
    labels = [
        f"{choice.name} {choice.text}" for choice in choices.by_name.values() if choice.count > 1
    ]
    return f"{rule.name}: {', '.join(labels)}" if labels else rule.name


def _all_symbols(
    composition: Composition, assumptions: Sequence[Term], obligations: Sequence[Obligation]
) -> tuple[Symbol, ...]:
    terms: list[Term] = [*assumptions, *(obligation.condition for obligation in obligations)]
    for operand in composition.operands:
        terms += operand.shape
    for definition in composition.definitions:
        terms += [*definition.shape, definition.value]
    return tuple(dict.fromkeys(symbol for term in terms for symbol in symbols(term)))


def _only_moves(statement: Statement) -> bool:
    """Whether no definition computes with elements, so that it holds whatever they are."""
    return all(_moves(definition) for definition in statement.definitions)


def _moves(definition: Definition) -> bool:
    def moves(term: Term) -> bool:
        match term:
            case Read(_, indices):
                return not any(map(reads, indices))
            case Select(condition, then, otherwise):
                return not reads(condition) and moves(then) and moves(otherwise)
            case int() | float():
                return True
            case _:
                return False

    return moves(definition.value)


__all__ = ["IllTyped", "UndescribedError", "statement_of", "statements"]

"""The four kinds of values, the types declared over them, and inference over a clause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field

from ..language.structures import BRANCH, NIL, RECORD, Structures, builds
from ..language.structures import declared as structures_of
from ..language.syntax import (
    COUNTER,
    GIVEN,
    Aggregate,
    Atom,
    Cast,
    Comparison,
    DatalogError,
    Declaration,
    Errors,
    Expression,
    Functor,
    Literal,
    Negation,
    Number,
    String,
    TypeDeclaration,
    Variable,
    Wildcard,
)
from .scope import shown

NUMBER, UNSIGNED, FLOAT, SYMBOL = "number", "unsigned", "float", "symbol"
KINDS = (NUMBER, UNSIGNED, FLOAT, SYMBOL)
_ALL = frozenset(KINDS)
_NUMERIC = frozenset({NUMBER, UNSIGNED, FLOAT})
_INTEGRAL = frozenset({NUMBER, UNSIGNED})
_ARITHMETIC = frozenset({"+", "-", "*", "/", "^"})
_BITWISE = frozenset({"%", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor"})
_CONVERSIONS = {
    "to_float": FLOAT,
    "to_number": NUMBER,
    "to_string": SYMBOL,
    "to_unsigned": UNSIGNED,
    "ord": NUMBER,
    COUNTER: NUMBER,
}
_ARITY = {
    "strlen": (1, 1),
    "substr": (3, 3),
    "to_float": (1, 1),
    "to_number": (1, 1),
    "to_string": (1, 1),
    "to_unsigned": (1, 1),
    "ord": (1, 1),
    COUNTER: (0, 0),
    "range": (2, 3),
    "cat": (1, None),
    "min": (2, None),
    "max": (2, None),
}


@dataclass(frozen=True)
class Types:
    """What type names mean: their kinds, and the structures that are kinds of their own."""

    kinds: Mapping[str, str]
    structures: Structures
    functors: Mapping[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)


def resolve_types(types: Iterable[TypeDeclaration]) -> Types:
    """Map every type name to its kind; raises DatalogError for unknown, cyclic or mixed types."""
    declared: dict[str, TypeDeclaration] = {}
    for declaration in types:
        if declaration.name in KINDS:
            raise DatalogError.at(
                declaration.position, f"type {declaration.name} is predefined, name yours otherwise"
            )
        if declaration.name in declared:
            raise DatalogError.at(
                declaration.position, f"type {declaration.name} is declared twice"
            )
        declared[declaration.name] = declaration
    kinds = {kind: kind for kind in KINDS}
    kinds.update((d.name, d.name) for d in declared.values() if d.branches)
    for start in declared.values():
        _resolve_type(start, declared, kinds)
    return Types(kinds, structures_of(declared, kinds))


def _resolve_type(
    start: TypeDeclaration, declared: Mapping[str, TypeDeclaration], kinds: dict[str, str]
) -> None:
    stack = [start]
    while stack:
        current = stack[-1]
        if current.name in kinds:
            stack.pop()
            continue
        waiting = [part for part in current.parts if part not in kinds and part != current.name]
        for part in waiting:
            if part not in declared:
                raise DatalogError.at(
                    current.position, f"type {current.name} is built on {part}, which is undefined"
                )
        if waiting:
            if any(declared[part] in stack for part in waiting):
                raise DatalogError.at(
                    current.position, f"type {current.name} is defined by way of itself"
                )
            stack.append(declared[waiting[0]])
            continue
        # A union may name itself; Souffle refuses that, and so does an empty rest.
        types_of_parts = {kinds[part] for part in current.parts if part in kinds}
        if not types_of_parts or current.name in current.parts:
            raise DatalogError.at(
                current.position, f"type {current.name} is defined by way of itself"
            )
        if len(types_of_parts) > 1:
            raise DatalogError.at(
                current.position,
                f"union type {current.name} mixes {' and '.join(sorted(types_of_parts))}",
            )
        kinds[current.name] = types_of_parts.pop()
        stack.pop()


@dataclass(eq=False)
class Kinds:
    """The kind of every expression of one clause."""

    _columns: Mapping[str, tuple[str, ...]]
    types: InitVar[Types]
    _records: list[Functor] = field(default_factory=list)
    _parent: dict[object, object] = field(default_factory=dict)
    _options: dict[object, frozenset[str]] = field(default_factory=dict)
    _casts: list[Cast] = field(default_factory=list)

    def __post_init__(self, types: Types) -> None:
        self._types = types.kinds
        self._structures = types.structures
        self._functors = types.functors
        self._all = _ALL.union(types.structures)

    def of(self, expression: Expression) -> str:
        """Name the kind; a constant that could be of several is a number if it may be."""
        options = self._possible(expression)
        return next(kind for kind in (*KINDS, *self._structures) if kind in options)

    def _possible(self, expression: Expression) -> frozenset[str]:
        return self._options.get(self._find(self._key(expression)), self._all)

    def infer(self, literals: Iterable[Literal]) -> Kinds:
        """Infer over a clause's body and head; raises DatalogError where kinds clash."""
        for literal in literals:
            self._literal(literal)
        self._resolve_records()
        for cast in self._casts:
            have, want = self.of(cast.value), self.of(cast)
            if have != want and {have, want} != _INTEGRAL:
                raise DatalogError.at(
                    cast.position,
                    f"as() from {have} to {want} is outside the dialect: "
                    "it would expose how values are stored",
                )
        return self

    def _resolve_records(self) -> None:
        """Give records' fields their kinds, once what stands around a record says its type."""
        pending = self._records
        while pending:
            known = [node for node in pending if len(self._possible(node)) == 1]
            for node in known:
                (name,) = self._possible(node)
                self._fields(node, self._structures[name].branches[""])
            pending = [node for node in pending if node not in known]
            if pending and not known:
                node = pending[0]
                names = " or ".join(n for n in self._structures if n in self._possible(node))
                raise DatalogError.at(
                    node.position,
                    f"this record may be of type {names}: say which by as([...], TYPE)",
                )

    def _fields(self, node: Functor, kinds: tuple[str, ...]) -> None:
        for argument, kind in zip(node.arguments, kinds, strict=True):
            if not isinstance(argument, Wildcard):
                self._restrict(argument, frozenset({kind}))

    def _structure(self, node: Functor) -> None:
        """Restrict a record, nil or branch to the types that it can be of."""
        count = len(node.arguments)
        for argument in node.arguments:
            if not isinstance(argument, Wildcard):
                self._expression(argument)
        if node.name[0] == BRANCH:
            for structure in self._structures.values():
                kinds = structure.branches.get(node.name[1:])
                if kinds is not None:
                    if len(kinds) != count:
                        reason = f"branch {node.name[1:]} has {_count(len(kinds), 'field')}"
                        raise DatalogError.at(node.position, f"{reason}, not {count}")
                    self._restrict(node, frozenset({structure.name}))
                    self._fields(node, kinds)
                    return
            raise DatalogError.at(node.position, f"branch {node.name[1:]} is not declared")
        options = frozenset(
            s.name
            for s in self._structures.values()
            if s.is_record and (node.name == NIL or len(s.branches[""]) == count)
        )
        if not options:
            missing = (
                "record type" if node.name == NIL else f"record type of {_count(count, 'field')}"
            )
            raise DatalogError.at(node.position, f"no {missing} is declared")
        self._restrict(node, options)
        if node.name == RECORD:
            self._records.append(node)

    @staticmethod
    def _key(expression: Expression) -> object:
        return expression.name if isinstance(expression, Variable) else expression

    def _find(self, key: object) -> object:
        path = []
        while (parent := self._parent.get(key, key)) is not key:
            path.append(key)
            key = parent
        for node in path:
            self._parent[node] = key
        return key

    def _restrict(self, expression: Expression, options: frozenset[str]) -> None:
        key = self._find(self._key(expression))
        before = self._options.get(key, self._all)
        after = before & options
        if not after:
            self._clash(expression, before, options)
        self._options[key] = after

    def _unify(self, left: Expression, right: Expression) -> None:
        a, b = self._find(self._key(left)), self._find(self._key(right))
        if a is b:
            return
        before, other = self._options.get(a, self._all), self._options.get(b, self._all)
        if not before & other:
            self._clash(right, other, before)
        self._parent[a] = b
        self._options[b] = before & other

    def _clash(self, expression: Expression, have: frozenset[str], want: frozenset[str]) -> None:
        def spell(options: frozenset[str]) -> str:
            return " or ".join(k for k in (*KINDS, *self._structures) if k in options)

        if isinstance(expression, Variable):
            subject = f"variable {shown(expression.name)}"
        elif isinstance(expression, String):
            subject = "this string"
        elif isinstance(expression, Number):
            subject = f"the constant {expression.value}"
        elif isinstance(expression, Functor) and builds(expression):
            words = {RECORD: "this record", NIL: "nil"}
            subject = words.get(expression.name, f"branch {expression.name[1:]}")
        elif isinstance(expression, Functor):
            subject = f"the result of {'-' if expression.name == 'neg' else expression.name}"
        else:
            subject = "this value"
        raise DatalogError.at(
            expression.position,
            f"type clash: {subject} is {spell(have)}, but {spell(want)} is needed",
        )

    def _literal(self, literal: Literal) -> None:
        if isinstance(literal, Atom | Negation):
            atom = literal.atom if isinstance(literal, Negation) else literal
            self._atom(atom)
        elif isinstance(literal, Comparison):
            self._expression(literal.left)
            self._expression(literal.right)
            if literal.operator.lstrip("!") in ("match", "contains"):
                self._restrict(literal.left, frozenset({SYMBOL}))
                self._restrict(literal.right, frozenset({SYMBOL}))
            else:
                if literal.operator not in ("=", "!="):
                    self._restrict(literal.left, _ALL)
                    self._restrict(literal.right, _ALL)
                self._unify(literal.left, literal.right)

    def _atom(self, atom: Atom) -> None:
        if atom.name not in self._columns:
            raise DatalogError.at(atom.position, f"relation {atom.name} is not declared")
        columns = self._columns[atom.name]
        if len(columns) != len(atom.arguments):
            raise DatalogError.at(
                atom.position,
                f"relation {atom.name} has {len(columns)} "
                f"{'column' if len(columns) == 1 else 'columns'}, not {len(atom.arguments)}",
            )
        for argument, kind in zip(atom.arguments, columns, strict=True):
            self._expression(argument)
            self._restrict(argument, frozenset({kind}))

    def _expression(self, expression: Expression) -> None:
        if isinstance(expression, String):
            self._restrict(expression, frozenset({SYMBOL}))
        elif isinstance(expression, Number):
            self._restrict(expression, _constant_kinds(expression))
        elif isinstance(expression, Cast):
            self._cast(expression)
        elif isinstance(expression, Functor) and builds(expression):
            self._structure(expression)
        elif isinstance(expression, Functor):
            for argument in expression.arguments:
                self._expression(argument)
            self._functor(expression)
        elif isinstance(expression, Aggregate):
            self._aggregate(expression)

    def _cast(self, cast: Cast) -> None:
        kind = self._types.get(cast.type_name)
        if kind is None:
            raise DatalogError.at(cast.position, f"type {cast.type_name} is not defined")
        self._expression(cast.value)
        if isinstance(cast.value, Number | String) or builds(cast.value):
            self._restrict(cast.value, frozenset({kind}))
        self._restrict(cast, frozenset({kind}))
        self._casts.append(cast)

    def _functor(self, node: Functor) -> None:
        name, arguments = node.name, node.arguments
        if name[0] == GIVEN:
            self._user_functor(node)
            return
        fewest, most = _ARITY.get(name, (len(arguments), len(arguments)))
        if len(arguments) < fewest or (most is not None and len(arguments) > most):
            raise DatalogError.at(
                node.position, f"{name} does not take {_count(len(arguments), 'argument')}"
            )
        if name in _CONVERSIONS:
            self._restrict(node, frozenset({_CONVERSIONS[name]}))
        elif name == "cat":
            for part in (*arguments, node):
                self._restrict(part, frozenset({SYMBOL}))
        elif name == "strlen":
            self._restrict(arguments[0], frozenset({SYMBOL}))
            self._restrict(node, frozenset({NUMBER}))
        elif name == "substr":
            self._restrict(arguments[0], frozenset({SYMBOL}))
            self._restrict(arguments[1], frozenset({NUMBER}))
            self._restrict(arguments[2], frozenset({NUMBER}))
            self._restrict(node, frozenset({SYMBOL}))
        else:
            options = _ALL
            if name == "+":
                options = _ALL  # of symbols: their concatenation
            elif name in _ARITHMETIC or name == "range":
                options = _NUMERIC
            elif name in _BITWISE or name in ("bnot", "lnot"):
                options = _INTEGRAL
            elif name == "neg":
                options = frozenset({NUMBER, FLOAT})
            self._restrict(node, options)
            for argument in arguments:
                self._restrict(argument, options)
                self._unify(node, argument)

    def _user_functor(self, node: Functor) -> None:
        """Restrict the arguments and the result of a functor that users give."""
        kinds = self._functors.get(node.name[1:])
        if kinds is None:
            raise DatalogError.at(node.position, f"the functor {node.name[1:]} is not declared")
        parameters, result = kinds
        if len(parameters) != len(node.arguments):
            raise DatalogError.at(
                node.position,
                f"{node.name[1:]} takes {_count(len(parameters), 'argument')}, "
                f"not {len(node.arguments)}",
            )
        for argument, kind in zip(node.arguments, parameters, strict=True):
            self._restrict(argument, frozenset({kind}))
        self._restrict(node, frozenset({result}))

    def _aggregate(self, node: Aggregate) -> None:
        for literal in node.body:
            self._literal(literal)
        if node.target is not None:
            self._expression(node.target)
            self._restrict(node.target, _NUMERIC)
        if node.name == "count":
            self._restrict(node, frozenset({NUMBER}))
        elif node.name == "mean":
            self._restrict(node, frozenset({FLOAT}))
        else:
            assert node.target is not None
            self._restrict(node, _NUMERIC)
            self._unify(node, node.target)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _constant_kinds(node: Number) -> frozenset[str]:
    if node.kind is not None:
        if node.kind == UNSIGNED and not 0 <= node.value < 1 << 64:
            raise DatalogError.at(node.position, f"{node.value} does not fit in 64 bits")
        return frozenset({node.kind})
    options = {FLOAT}
    if -(1 << 63) <= node.value < 1 << 63:
        options.add(NUMBER)
    if 0 <= node.value < 1 << 64:
        options.add(UNSIGNED)
    if options == {FLOAT}:
        raise DatalogError.at(node.position, f"{node.value} does not fit in 64 bits")
    return frozenset(options)


def column_kinds(
    declarations: Mapping[str, Declaration], types: Types, errors: Errors
) -> dict[str, tuple[str, ...]]:
    """Map each relation to its columns' kinds, but for those of a type that is not defined."""
    columns: dict[str, tuple[str, ...]] = {}
    for declaration in declarations.values():
        seen: set[str] = set()
        unknown = False
        for attribute in declaration.attributes:
            if attribute.type_name not in types.kinds:
                unknown = True
                reason = f"type {attribute.type_name} is not defined"
                errors.reported.append(DatalogError.at(attribute.position, reason))
            if attribute.name in seen:
                reason = f"relation {declaration.name} has two columns named {attribute.name}"
                errors.reported.append(DatalogError.at(attribute.position, reason))
            seen.add(attribute.name)
        if unknown:
            continue
        columns[declaration.name] = tuple(types.kinds[a.type_name] for a in declaration.attributes)
    return columns

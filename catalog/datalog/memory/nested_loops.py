"""A clause as nested loops of Python over hash indexes: for few rows, quicker than planning SQL.

Literals are taken in the order in which they are bound: tests as soon as they can be made, then
atoms that are known in some column, then others as they stand; aggregates last.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..analysis.scope import WHOLE, counts_rows, literal_required, required
from ..analysis.type_inference import FLOAT, NUMBER, SYMBOL, UNSIGNED, Kinds
from ..language.structures import BRANCH, NIL, builds, fields, is_pattern
from ..language.syntax import (
    COUNTER,
    GIVEN,
    Aggregate,
    Atom,
    Cast,
    Clause,
    Comparison,
    Expression,
    Functor,
    Literal,
    Negation,
    Number,
    String,
    Truth,
    Variable,
    Wildcard,
    aggregates,
    literal_expressions,
    literal_variables,
)
from ..sql.expressions import literal_value

# CPython nests at most 20 loops, and 100 levels of indentation.
_LOOPS = 18
_LEVELS = 80


class BeyondLoopsError(Exception):
    """What generated loops don't do: DuckDB does."""


@dataclass(frozen=True)
class Index:
    """Distinct values of some columns by those of others; by none, the values alone."""

    relation: str
    keys: tuple[int, ...]
    values: tuple[int, ...]

    def name(self, rows: str) -> str:
        """Name its variable; `rows` is that of the relation's rows."""
        keys, values = ("_".join(map(str, columns)) for columns in (self.keys, self.values))
        return f"by{keys and '_' + keys}{rows.removeprefix('rows')}_{values}"


@dataclass
class Names:
    """The variables of rows, and what was asked for beside them: indexes, and functions to call."""

    rows: Mapping[str, str]
    indexes: dict[Index, None] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)

    def index(self, relation: str, keys: Sequence[int], values: Sequence[int]) -> str:
        """Ask for an index, and name it."""
        found = Index(relation, tuple(keys), tuple(values))
        self.indexes[found] = None
        return found.name(self.rows[relation])

    def call(self, function: str, *arguments: str) -> str:
        """Spell a call of a function of runtime.py."""
        self.functions[function] = None
        return f"{function}({', '.join(arguments)})"


def spelled(values: Sequence[str]) -> str:
    """Spell a key: the value itself, or a tuple of several or of none."""
    return values[0] if len(values) == 1 else f"({', '.join(values)})"


def row(values: Sequence[str]) -> str:
    """Spell a row: always a tuple."""
    return f"({', '.join(values)}{',' if len(values) == 1 else ''})"


def kept_apart(names: Iterable[str], prefix: str) -> dict[str, str]:
    """Give names of Datalog names of Python, each its own."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = prefix + re.sub(r"[^0-9A-Za-z_]", "_", name)
        fresh = plain
        for number in itertools.count(2):
            if fresh not in taken:
                break
            fresh = f"{plain}_{number}"
        taken.add(fresh)
        found[name] = fresh
    return found


class Loops:
    """One clause under translation; `lines` is its text, each with its level of indentation."""

    def __init__(self, clause: Clause, kinds: Kinds, names: Names) -> None:
        self.clause = clause
        self.kinds = kinds
        self.names = names
        self.lines: list[tuple[int, str]] = []
        self.level = 0
        self.loops = 0
        self.bound: dict[str, str] = {}
        self.numbers = itertools.count(1)
        literals: tuple[Literal, ...] = (*clause.body, Negation(clause.head, clause.position))
        every = [v.name for b in literals for v in literal_variables(b)]
        outside = {v.name for b in literals for v in literal_variables(b, inside=False)}
        self.spellings = kept_apart(dict.fromkeys(every), "v_")
        # What is mentioned once only has to be there; aggregates tell its values apart.
        self.once = {name for name in outside if every.count(name) == 1}

    def translate(self, derived: Callable[[str], str], delta: Atom | None, rows: str) -> None:
        """Write loops that do for each solution what `derived` spells for a row of the head.

        With `delta`, an atom of the body, it ranges over the variable `rows` alone.
        """
        body = [literal for literal in self.clause.body if literal is not delta]
        if delta is not None:
            self._scan(delta, rows, body)
        self._conjunction(body, every=False)
        self._line(derived(row([self._value(a) for a in self.clause.head.arguments])))

    # -- text

    def _line(self, text: str) -> None:
        self.lines.append((self.level, text))

    def _open(self, text: str) -> None:
        self._line(text)
        self.level += 1
        if self.level > _LEVELS:
            raise BeyondLoopsError("a clause nests too deeply")

    def _loop(self, targets: Sequence[str], source: str, *, rows: bool = False) -> None:
        self._open(f"for {row(targets) if rows else spelled(targets)} in {source}:")
        self.loops += 1
        if self.loops > _LOOPS:
            raise BeyondLoopsError("a clause has too many atoms")

    def _fresh(self) -> str:
        return f"_{next(self.numbers)}"

    # -- literals

    def _conjunction(self, literals: Sequence[Literal], *, every: bool) -> None:
        """Write a conjunction; `every` says that each row of an atom counts."""
        pending = list(literals)
        while pending:
            literal = self._next(pending)
            pending.remove(literal)
            if isinstance(literal, Atom):
                self._atom(literal, pending, every)
            elif isinstance(literal, Negation):
                self._absent(literal.atom)
            elif isinstance(literal, Truth):
                self._open(f"if {literal.value}:")
            else:
                self._compare(literal)

    def _next(self, pending: Sequence[Literal]) -> Literal:
        heavy: list[Literal] = []
        atoms: list[Atom] = []
        for literal in pending:
            if isinstance(literal, Atom):
                atoms.append(literal)
            elif self._ready(literal):
                if not any(True for e in literal_expressions(literal) for _ in aggregates(e)):
                    return literal
                heavy.append(literal)
        if atoms:
            return min(atoms, key=self._rank)
        if heavy:
            return heavy[0]
        raise BeyondLoopsError("a constraint has a variable that nothing binds")

    def _ready(self, literal: Literal) -> bool:
        if literal_required(literal) <= self.bound.keys():
            return True
        if not isinstance(literal, Comparison) or literal.operator != "=":
            return False
        pairs = ((literal.left, literal.right), (literal.right, literal.left))
        return any(self._binds(side) and self._known(other) for side, other in pairs)

    def _binds(self, side: Expression) -> bool:
        """Say whether an equality may bind a side: a variable, or the fields of a structure."""
        if isinstance(side, Variable | Wildcard):
            return True
        if not isinstance(side, Functor) or not builds(side):
            return False
        return all(self._binds(a) or self._known(a) for a in side.arguments)

    def _rank(self, atom: Atom) -> int:
        known = [self._known(a) for a in atom.arguments if not self._dropped(a)]
        return 0 if all(known) else 1 if any(known) else 2

    def _known(self, expression: Expression) -> bool:
        return not is_pattern(expression) and required(expression) <= self.bound.keys()

    def _dropped(self, expression: Expression) -> bool:
        if isinstance(expression, Variable):
            return expression.name in self.once
        return isinstance(expression, Wildcard)

    # -- atoms

    def _atom(self, atom: Atom, pending: list[Literal], every: bool) -> None:
        rows = self.names.rows[atom.name]
        known = [c for c, a in enumerate(atom.arguments) if self._known(a)]
        others = [c for c in range(len(atom.arguments)) if c not in known]
        needed = [c for c in others if every or not self._dropped(atom.arguments[c])]
        keys = [self._value(atom.arguments[c]) for c in known]
        if not others:
            self._open(f"if {row(keys)} in {rows}:")
        elif not needed:
            self._open(f"if {self._present(atom, known, keys)}:")
        elif not self.loops and known:
            self._scan(atom, rows, pending)
        elif not known and len(needed) == len(atom.arguments):
            self._bind(atom, needed, rows, pending, whole=True)
        elif not known:
            self._bind(atom, needed, self.names.index(atom.name, (), needed), pending)
        else:
            index = self.names.index(atom.name, known, needed)
            self._bind(atom, needed, f"{index}.get({spelled(keys)}, ())", pending)

    def _present(self, atom: Atom, known: Sequence[int], keys: Sequence[str]) -> str:
        """Spell the test whether a relation has a row with these values."""
        rows = self.names.rows[atom.name]
        if len(known) == len(atom.arguments):
            return f"{row(keys)} in {rows}"
        return f"{spelled(keys)} in {self.names.index(atom.name, (), known)}" if known else rows

    def _absent(self, atom: Atom) -> None:
        known = [c for c, a in enumerate(atom.arguments) if not isinstance(a, Wildcard)]
        if any(is_pattern(atom.arguments[c]) for c in known):
            raise BeyondLoopsError("a negated record with an underscore")
        keys = [self._value(atom.arguments[c]) for c in known]
        self._open(f"if not ({self._present(atom, known, keys)}):")

    def _scan(self, atom: Atom, rows: str, pending: list[Literal]) -> None:
        """Go through all rows, and test what is known of them."""
        self._bind(atom, range(len(atom.arguments)), rows, pending, whole=True)

    def _bind(
        self,
        atom: Atom,
        columns: Sequence[int],
        source: str,
        pending: list[Literal],
        *,
        whole: bool = False,
    ) -> None:
        """Loop over values of columns, and bind the variables that stand there."""
        targets: list[str] = []
        tests: list[str] = []
        computed: list[tuple[str, Expression]] = []
        for column in columns:
            argument = atom.arguments[column]
            if self._dropped(argument):
                targets.append("_")
            elif isinstance(argument, Variable) and argument.name not in self.bound:
                targets.append(self.spellings[argument.name])
                self.bound[argument.name] = targets[-1]
            else:
                targets.append(self._fresh())
                computed.append((targets[-1], argument))
        self._loop(targets, source, rows=whole)
        for name, argument in computed:
            if self._known(argument) and not any(True for _ in aggregates(argument)):
                tests.append(f"{name} == {self._value(argument)}")
            else:
                here = Variable(f"={name}", argument.position)
                self.bound[here.name] = name
                pending.append(Comparison("=", here, argument, argument.position))
        if tests:
            self._open(f"if {' and '.join(tests)}:")

    # -- constraints

    def _compare(self, literal: Comparison) -> None:
        left, right, operator = literal.left, literal.right, literal.operator
        if isinstance(right, Functor) and right.name == "range":
            self._range(left, right)
            return
        if operator == "=":
            for side, other in ((left, right), (right, left)):
                if isinstance(side, Variable) and side.name not in self.bound:
                    self._name(side, self._value(other))
                    return
                if isinstance(side, Functor) and builds(side) and not self._known(side):
                    whole = self._fresh()
                    self._line(f"{whole} = {self._value(other)}")
                    self._take_apart(side, whole)
                    return
        one, other_one = self._value(left), self._value(right)
        if operator.endswith("match"):
            raise BeyondLoopsError("patterns")
        if operator.endswith("contains"):
            negated = "not " if operator.startswith("!") else ""
            self._open(f"if {one} {negated}in {other_one}:")
        else:
            self._open(f"if {one} {'==' if operator == '=' else operator} {other_one}:")

    def _name(self, variable: Variable, value: str) -> None:
        self.bound[variable.name] = self.spellings[variable.name]
        self._line(f"{self.bound[variable.name]} = {value}")

    def _take_apart(self, node: Functor, whole: str) -> None:
        """Test what a value is built of, and bind the variables among its fields."""
        if node.name == NIL:
            self._open(f"if {whole} is None:")
            return
        is_branch = node.name[0] == BRANCH
        self._open(
            f"if {whole}[0] == {node.name[1:]!r}:" if is_branch else f"if {whole} is not None:"
        )
        for place, argument in fields(node):
            value = f"{whole}[{place}]"
            if isinstance(argument, Wildcard):
                continue
            if isinstance(argument, Variable) and argument.name not in self.bound:
                self._name(argument, value)
            elif isinstance(argument, Functor) and builds(argument) and not self._known(argument):
                inner = self._fresh()
                self._line(f"{inner} = {value}")
                self._take_apart(argument, inner)
            else:
                self._open(f"if {value} == {self._value(argument)}:")

    def _range(self, left: Expression, node: Functor) -> None:
        assert isinstance(left, Variable)
        if self.kinds.of(node) != NUMBER:
            raise BeyondLoopsError("range over what is no number")
        first, last, *steps = (self._value(a) for a in node.arguments)
        step = steps[0] if steps else f"1 if {first} <= {last} else -1"
        source = self.names.call("counted", first, last, step)
        if left.name in self.bound:
            self._open(f"if {self.bound[left.name]} in {source}:")
            return
        self.bound[left.name] = self.spellings[left.name]
        self._loop([self.spellings[left.name]], source)

    # -- expressions

    def _value(self, node: Expression) -> str:
        """Spell an expression whose variables are bound; aggregates are computed before it."""
        if isinstance(node, Variable):
            return self.bound[node.name]
        if isinstance(node, Number | String):
            constant = literal_value(node, self.kinds.of(node))
            if isinstance(constant, float) and not math.isfinite(constant):
                raise BeyondLoopsError("a float that is infinite")
            return repr(constant)
        if isinstance(node, Cast):
            return self._converted(node, node.value)
        if isinstance(node, Aggregate):
            return self._aggregate(node)
        assert isinstance(node, Functor)
        if node.name in ("to_number", "to_unsigned", "to_float", "to_string", "ord"):
            return self._converted(node, node.arguments[0])
        return self._functor(node, [self._value(a) for a in node.arguments])

    def _cut(self, text: str, kind: str) -> str:
        return self.names.call("signed" if kind == NUMBER else "unsigned", text)

    def _converted(self, node: Expression, value: Expression) -> str:
        source, kind = self.kinds.of(value), self.kinds.of(node)
        text = self._value(value)
        if source == kind:
            return text
        if FLOAT in (source, kind) or source == SYMBOL:
            raise BeyondLoopsError(f"a {source} converted to a {kind}")
        return f"str({text})" if kind == SYMBOL else self._cut(text, kind)

    def _functor(self, node: Functor, values: Sequence[str]) -> str:
        name, kind = node.name, self.kinds.of(node)
        if name[0] == GIVEN:
            raise BeyondLoopsError("functors of users")
        if builds(node):
            if FLOAT in map(self.kinds.of, node.arguments):
                raise BeyondLoopsError("floats in records or algebraic data types")
            if name == NIL:
                return "None"
            return row([repr(name[1:]), *values] if name[0] == BRANCH else values)
        if name == COUNTER:
            raise BeyondLoopsError("autoinc()")
        if name in ("min", "max"):
            return f"{name}({', '.join(values)})"
        if name == "cat" or (name == "+" and kind == SYMBOL):
            return f"({' + '.join(values)})"
        if name == "strlen":
            return f"len({values[0]}.encode())"
        if name == "substr":
            return self.names.call("substring", *values)
        if kind not in (NUMBER, UNSIGNED):
            raise BeyondLoopsError("arithmetic of floats")
        match name:
            case "neg":
                return self._cut(f"-{values[0]}", kind)
            case "bnot":
                return self._cut(f"~{values[0]}", kind)
            case "lnot":
                return f"int(not {values[0]})"
        left, right = values
        match name:
            case "+" | "-" | "*":
                return self._cut(f"{left} {name} {right}", kind)
            case "/" | "%":
                divisor = node.arguments[1]
                if not isinstance(divisor, Number) or not divisor.value:
                    raise BeyondLoopsError("a divisor that may be zero")
                function = "quotient" if name == "/" else "remainder"
                return self._cut(self.names.call(function, left, right), kind)
            case "^":
                return self.names.call("power", left, right, str(kind == NUMBER))
            case "band" | "bor" | "bxor":
                sign = {"band": "&", "bor": "|", "bxor": "^"}[name]
                return f"({left} {sign} {right})"
            case "bshl":
                return self._cut(f"{left} << ({right} & 63)", kind)
            case "bshr":
                return f"({left} >> ({right} & 63))"
            case "bshru":
                return self._cut(f"({left} & {(1 << 64) - 1:#X}) >> ({right} & 63)", kind)
            case "land":
                return f"int(bool({left}) and bool({right}))"
            case "lor":
                return f"int(bool({left}) or bool({right}))"
            case "lxor":
                return f"int(bool({left}) != bool({right}))"
        raise BeyondLoopsError(f"the functor {name}")

    # -- aggregates

    def _aggregate(self, node: Aggregate) -> str:
        """Write loops that compute an aggregate, and name its value."""
        kind = self.kinds.of(node)
        if node.name == "mean" or (node.name == "sum" and kind == FLOAT):
            raise BeyondLoopsError(f"a {node.name} of floats")
        every = counts_rows(node)
        literals: Sequence[Literal] = node.body
        if node.name == "count" and not every:
            literals = [self._counted(literal) for literal in literals]
        extreme = node.name in ("min", "max")
        value, seen = self._fresh(), self._fresh()
        self._line(f"{value} = {'None' if extreme else '0'}")
        outer, level, loops = dict(self.bound), self.level, self.loops
        distinct = not every and not extreme
        if distinct:
            self._line(f"{seen} = set()")
        # A loop at least, so that what is below counts as being inside of one.
        self.loops += 1
        self._conjunction(literals, every=every)
        if distinct:
            names = {v.name for b in literals for v in literal_variables(b, inside=False)}
            # Souffle knows no name for the whole of a record; of a count its fields tell it.
            told = (
                n for n in names - outer.keys() if node.name == "count" or not n.startswith(WHOLE)
            )
            key = row([self.bound[name] for name in sorted(told)])
            self._open(f"if {key} not in {seen}:")
            self._line(f"{seen}.add({key})")
        target = "1" if node.target is None or node.name == "count" else self._value(node.target)
        if extreme:
            one = self._fresh()
            self._line(f"{one} = {target}")
            better = "<" if node.name == "min" else ">"
            self._open(f"if {value} is None or {one} {better} {value}:")
            self._line(f"{value} = {one}")
        else:
            self._line(f"{value} += {target}")
        self.bound, self.level, self.loops = outer, level, loops
        if extreme:
            self._open(f"if {value} is not None:")
        elif node.name == "sum":
            self._line(f"{value} = {self._cut(value, kind)}")
        return value

    def _counted(self, literal: Literal) -> Literal:
        """Give the wildcards of a positive atom names, so that they count."""
        if not isinstance(literal, Atom):
            return literal
        arguments: list[Expression] = []
        for argument in literal.arguments:
            if isinstance(argument, Wildcard):
                name = f"{self._fresh()}@"
                self.spellings[name] = f"v{name[:-1]}"
                argument = Variable(name, argument.position)
            arguments.append(argument)
        return Atom(literal.name, tuple(arguments), literal.position)

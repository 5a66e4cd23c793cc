"""A naive evaluator: sets of tuples, bottom-up, straight from the syntax tree.

It shares the parser with the engine and nothing else: kinds are carried by the values, scopes are
those of the environment at hand, strata are numbers raised until they fit.
"""

import itertools
import math
import re

from tensolog.catalog.datalog.language.parser import parse_block
from tensolog.catalog.datalog.language.syntax import (
    Aggregate,
    Atom,
    Cast,
    Comparison,
    Functor,
    Negation,
    Number,
    String,
    Truth,
    Variable,
    Wildcard,
)


def builds(node):
    return isinstance(node, Functor) and (node.name in ("[]", "nil") or node.name[0] == "$")


KINDS = {"number", "unsigned", "float", "symbol"}


class Unsigned(int):
    """A value of kind unsigned."""


class Open(int):
    """A constant whose kind its context decides."""


class UnboundError(Exception):
    """An expression has a variable without value yet."""


class Known:
    """The value of an aggregate, in its place."""

    def __init__(self, value):
        self.value = value


class FaultError(Exception):
    """What stops Souffle."""


def wrap(value, kind):
    if kind is Unsigned:
        return Unsigned(value & (1 << 64) - 1)
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def kind_of(*values):
    for value in values:
        if isinstance(value, float):
            return float
        if isinstance(value, Unsigned):
            return Unsigned
    return int


def truncated(value, kind):
    """Convert a double as x86-64 does."""
    inside = -(2.0**63) <= value < 2.0**63
    if kind is int:
        return int(value) if inside else -(1 << 63)
    if inside:
        return wrap(int(value), Unsigned)
    return Unsigned(int(value)) if 2.0**63 <= value < 2.0**64 else Unsigned(0)


def cdiv(a, b):
    if b == 0:
        raise FaultError("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def power(a, b):
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.inf if a == 0 else math.nan


def arithmetic(name, a, b):
    kind = kind_of(a, b)
    if kind is float:
        a, b = float(a), float(b)
        if name == "/":
            if b == 0:
                return math.nan if a == 0 else math.copysign(math.inf, a)
            return a / b
        return {"+": a + b, "-": a - b, "*": a * b}[name] if name != "^" else power(a, b)
    a, b = int(a), int(b)
    if name == "^":
        return truncated(power(float(a), float(b)), kind)
    if name in ("/", "%"):
        quotient = cdiv(a, b)
        return wrap(quotient if name == "/" else a - quotient * b, kind)
    if name in ("bshl", "bshr", "bshru"):
        count = b & 63
        if name == "bshl":
            return wrap(a << count, kind)
        if name == "bshru":
            a &= (1 << 64) - 1
        return wrap(a >> count, kind)
    table = {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "band": lambda: a & b,
        "bor": lambda: a | b,
        "bxor": lambda: a ^ b,
        "land": lambda: int(bool(a) and bool(b)),
        "lor": lambda: int(bool(a) or bool(b)),
        "lxor": lambda: int(bool(a) != bool(b)),
    }
    return wrap(table[name](), kind)


def leading(pattern, text):
    match = re.match(pattern, text)
    if not match:
        raise FaultError("no number")
    return match.group(1)


def convert(name, value):
    if name == "ord":
        return wrap(int(value), int)
    if name == "to_string":
        if isinstance(value, str):
            return value
        return f"{value:.6f}" if isinstance(value, float) else str(int(value))
    if name == "to_float":
        if isinstance(value, str):
            return float(leading(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", value))
        return float(value)
    kind = int if name == "to_number" else Unsigned
    if isinstance(value, str):
        value = int(leading(r"\s*([+-]?\d+)", value))
        if kind is int and not -(1 << 63) <= value < 1 << 63:
            raise FaultError("too large")
        return wrap(value, kind)
    if isinstance(value, float):
        return truncated(value, kind)
    return wrap(int(value), kind)


def substring(text, start, length):
    data = text.encode()
    if start < 0 or start > len(data):
        return ""
    return (data[start:] if length < 0 else data[start : start + length]).decode()


def ordered(values):
    return min(values), max(values)


class Evaluator:
    def __init__(self, text, inputs=None):
        block = parse_block(text, "<reference>")
        types = {k: k for k in KINDS}
        for _ in block.types:
            for declared in block.types:
                part_types = [types[p] for p in declared.parts if p in types]
                if part_types:
                    types[declared.name] = part_types[0]
        self.structures = {
            d.name: {b.name: [a.type_name for a in b.attributes] for b in d.branches}
            for d in block.types
            if d.branches
        }
        types.update((name, name) for name in self.structures)
        self.types = types
        self.kinds = {
            d.name: [types[a.type_name] for a in d.attributes] for d in block.declarations
        }
        self.equivalences = {d.name for d in block.declarations if "eqrel" in d.qualifiers}
        self.clauses = block.clauses
        self.subsumptions = block.subsumptions
        self.scoping = {}  # of each clause: those of several heads share a body
        for clause in self.clauses:
            self.witnesses, self.injected = self.scoping[clause] = {}, {}
            self.scopes(clause.body, clause.head.arguments, set())
        for subsumption in self.subsumptions:
            self.witnesses, self.injected = self.scoping[subsumption] = {}, {}
            heads = (subsumption.dominated, subsumption.dominating)
            self.scopes((*heads, *subsumption.body), (), set())
        self.relations = {name: set() for name in self.kinds}
        for name, rows in (inputs or {}).items():
            self.relations[name] = {
                tuple(self.typed(v, k) for v, k in zip(row, self.kinds[name], strict=True))
                for row in rows
            }

    def typed(self, value, kind):
        """Give a value its kind; structures are tuples that begin with how they are built."""
        if kind in self.structures:
            name, *parts = value
            fields = self.structures[kind].get(name.removeprefix("$").removeprefix("[]"), [])
            kinds = [self.types[f] for f in fields]
            return (name, *(self.typed(v, k) for v, k in zip(parts, kinds, strict=True)))
        return {"number": int, "unsigned": Unsigned, "float": float, "symbol": str}[kind](value)

    # -- strata

    def reads(self, node, strict=False):
        if isinstance(node, Atom):
            yield node.name, strict
            for argument in node.arguments:
                yield from self.reads(argument, strict)
        elif isinstance(node, Negation):
            for name, _ in self.reads(node.atom):
                yield name, True
        elif isinstance(node, Comparison):
            yield from self.reads(node.left, strict)
            yield from self.reads(node.right, strict)
        elif isinstance(node, Functor):
            for argument in node.arguments:
                yield from self.reads(argument, strict)
        elif isinstance(node, Aggregate):
            for literal in node.body:
                for name, _ in self.reads(literal):
                    yield name, True
            if node.target is not None:
                yield from self.reads(node.target, True)

    def levels(self):
        uses = {name: {} for name in self.relations}
        for clause in self.clauses:
            for part in (*clause.body, *clause.head.arguments):
                for name, strict in self.reads(part):
                    uses[clause.head.name][name] = uses[clause.head.name].get(name) or strict
        for subsumption in self.subsumptions:
            for part in subsumption.body:
                for name, strict in self.reads(part):
                    head = subsumption.dominated.name
                    uses[head][name] = uses[head].get(name) or strict
        reached = {name: set(names) for name, names in uses.items()}
        for _ in reached:
            for names in reached.values():
                names |= set().union(*(reached[n] for n in names))
        # Who reads a relation that loses tuples waits until it has lost them.
        for head, names in uses.items():
            for name in names:
                loses = any(s.dominated.name == name for s in self.subsumptions)
                names[name] = names[name] or (loses and head not in reached[name])
        level = dict.fromkeys(self.relations, 0)
        for _ in range(len(level) + 1):
            changed = False
            for head, names in uses.items():
                for name, strict in names.items():
                    least = level[name] + bool(strict)
                    if level[head] < least:
                        level[head] = least
                        changed = True
            if not changed:
                return level
        raise ValueError("not stratifiable")

    # -- evaluation

    def run(self):
        level = self.levels()
        for number in range(max(level.values(), default=0) + 1):
            clauses = [c for c in self.clauses if level[c.head.name] == number]
            names = {n for n in level if level[n] == number}
            while True:
                before = {n: set(self.relations[n]) for n in names}
                for clause in clauses:
                    self.witnesses, self.injected = self.scoping[clause]
                    for env in list(self.solve(clause.body, {})):
                        for arguments, extended in self.expanded(clause.head.arguments, env):
                            self.derive(clause.head.name, arguments, extended)
                for name in names & self.equivalences:
                    self.close(name)
                for name in names:
                    self.subsume(name)
                if before == {n: self.relations[n] for n in names}:
                    break
        return self.relations

    def derive(self, name, arguments, env):
        pairs = zip(arguments, self.kinds[name], strict=True)
        self.relations[name].add(tuple(self.typed(self.value(a, env), k) for a, k in pairs))

    def close(self, name):
        rows = self.relations[name]
        while True:
            new = {(b, a) for a, b in rows} | {(a, a) for a, _ in rows}
            new |= {(a, d) for a, b in rows for c, d in rows if b == c}
            if new <= rows:
                return
            rows |= new

    def subsume(self, name):
        beaten = set()
        for s in self.subsumptions:
            if s.dominated.name != name:
                continue
            self.witnesses, self.injected = self.scoping[s]
            for low, high in itertools.permutations(self.relations[name], 2):
                env = self.match(s.dominated, low, {})
                env = None if env is None else self.match(s.dominating, high, env)
                if env is not None and any(True for _ in self.solve(s.body, env)):
                    beaten.add(low)
        self.relations[name] -= beaten

    def match(self, atom, row, env):
        env = dict(env)
        later = []
        for argument, value in zip(atom.arguments, row, strict=True):
            if not self.unify(argument, value, env, later):
                return None
        for argument, value in later:
            try:
                if self.value(argument, env) != value:
                    return None
            except UnboundError:
                env.setdefault("later", [])
                env["later"] = [*env["later"], (argument, value)]
        return env

    def unify(self, argument, value, env, later):
        """Bind the variables of an argument; False where a structure has another form."""
        if isinstance(argument, Variable) and argument.name not in env:
            env[argument.name] = value
        elif builds(argument):
            if not isinstance(value, tuple) or value[0] != argument.name:
                return False
            parts = zip(argument.arguments, value[1:], strict=True)
            return all(self.unify(a, v, env, later) for a, v in parts)
        elif not isinstance(argument, Wildcard):
            later.append((argument, value))
        return True

    def solve(self, literals, env):
        """Yield the environments that satisfy a conjunction."""
        pending = [b for b in literals if not isinstance(b, Atom)]
        atoms = [b for b in literals if isinstance(b, Atom)]
        yield from self._atoms(atoms, pending, env)

    def _atoms(self, atoms, pending, env):
        if atoms:
            for row in self.relations[atoms[0].name]:
                extended = self.match(atoms[0], row, env)
                if extended is not None:
                    yield from self._atoms(atoms[1:], pending, extended)
            return
        yield from self._pending(pending, env)

    def _pending(self, pending, env):
        if not pending:
            for argument, value in env.get("later", []):
                if self.value(argument, env) != value:
                    return
            yield env
            return
        heavy = [p for p in pending if self._has_aggregate(p)]
        light = [p for p in pending if p not in heavy and not isinstance(p, Negation)]
        negations = [p for p in pending if isinstance(p, Negation)]
        for literal in (*light, *heavy, *negations):
            try:
                results = list(self._test(literal, env))
            except UnboundError:
                continue
            rest = [p for p in pending if p is not literal]
            for extended in results:
                yield from self._pending(rest, extended)
            return
        raise UnboundError(pending)

    def _has_aggregate(self, node):
        if isinstance(node, Aggregate):
            return True
        if isinstance(node, Comparison):
            return self._has_aggregate(node.left) or self._has_aggregate(node.right)
        if isinstance(node, Functor):
            return any(self._has_aggregate(a) for a in node.arguments)
        if isinstance(node, Cast):
            return self._has_aggregate(node.value)
        return False

    def _test(self, literal, env):
        if isinstance(literal, Truth):
            if literal.value:
                yield env
        elif isinstance(literal, Negation):
            for argument in literal.atom.arguments:
                for name in self._names(argument):
                    self.value(Variable(name, argument.position), env)
            rows = self.relations[literal.atom.name]
            if not any(self.match(literal.atom, row, env) is not None for row in rows):
                yield env
        else:
            for (left, right), extended in self.expanded((literal.left, literal.right), env):
                here = Comparison(literal.operator, left, right, literal.position)
                yield from self._compare(here, extended)

    def expanded(self, expressions, env):
        """Yield the expressions with values for aggregates, and what these hand out beside."""
        for place, expression in enumerate(expressions):
            if isinstance(expression, Functor | Cast):
                inner = (
                    expression.arguments if isinstance(expression, Functor) else [expression.value]
                )
                if not any(self._has_aggregate(e) for e in inner):
                    continue
                for values, extended in self.expanded(inner, env):
                    if isinstance(expression, Functor):
                        whole = Functor(expression.name, tuple(values), expression.position)
                    else:
                        whole = Cast(values[0], expression.type_name, expression.position)
                    rest = (*expressions[:place], whole, *expressions[place + 1 :])
                    yield from self.expanded(rest, extended)
                return
            if isinstance(expression, Aggregate):
                for value, extended in self.aggregate(expression, env):
                    rest = (*expressions[:place], Known(value), *expressions[place + 1 :])
                    yield from self.expanded(rest, extended)
                return
        yield expressions, env

    def _compare(self, literal, env):
        left, right = literal.left, literal.right
        if isinstance(right, Functor) and right.name == "range":
            values = self._range(right, env)
            if isinstance(left, Variable) and left.name not in env:
                for value in values:
                    yield {**env, left.name: value}
            elif self.value(left, env) in values:
                yield env
            return
        if literal.operator == "=":
            for side, other in ((left, right), (right, left)):
                if isinstance(side, Variable) and side.name not in env:
                    yield {**env, side.name: self.value(other, env)}
                    return
                if builds(side):
                    try:
                        value = self.value(other, env)
                    except UnboundError:
                        continue
                    extended, later = dict(env), []
                    if self.unify(side, value, extended, later) and all(
                        self.value(a, extended) == v for a, v in later
                    ):
                        yield extended
                    return
        a, b = self.value(left, env), self.value(right, env)
        if isinstance(a, str):
            a, b = a.encode(), b.encode()
        holds = {
            "=": lambda: a == b,
            "!=": lambda: a != b,
            "<": lambda: a < b,
            "<=": lambda: a <= b,
            ">": lambda: a > b,
            ">=": lambda: a >= b,
            "match": lambda: re.fullmatch(a, b) is not None,
            "!match": lambda: re.fullmatch(a, b) is None,
            "contains": lambda: a in b,
            "!contains": lambda: a not in b,
        }[literal.operator]()
        if holds:
            yield env

    def _range(self, node, env):
        bounds = [self.value(a, env) for a in node.arguments]
        kind = kind_of(*bounds)
        start, end = int(bounds[0]), int(bounds[1])
        step = int(bounds[2]) if len(bounds) == 3 else (1 if start <= end else -1)
        if step == 0:
            return [wrap(start, kind)] if start != end else []
        return [wrap(v, kind) for v in range(start, end, step)]

    def value(self, node, env):
        if isinstance(node, Variable):
            if node.name not in env:
                raise UnboundError(node.name)
            return env[node.name]
        if isinstance(node, String):
            return node.value
        if isinstance(node, Number):
            if node.kind == "unsigned":
                return Unsigned(node.value)
            return float(node.value) if node.kind == "float" else Open(node.value)
        if isinstance(node, Cast):
            value = self.value(node.value, env)
            kinds = {"number": int, "unsigned": Unsigned}
            return wrap(int(value), kinds[node.type_name]) if node.type_name in kinds else value
        if isinstance(node, Known):
            return node.value
        if isinstance(node, Wildcard):
            raise UnboundError("_")
        return self.functor(node, [self.value(a, env) for a in node.arguments])

    @staticmethod
    def functor(node, values):
        name = node.name
        if builds(node):
            return (name, *values)
        if name in ("to_number", "to_float", "to_string", "to_unsigned", "ord"):
            return convert(name, values[0])
        if name == "cat":
            return "".join(values)
        if name == "strlen":
            return len(values[0].encode())
        if name == "substr":
            return substring(*values)
        if name in ("min", "max"):
            return (min if name == "min" else max)(values)
        if name == "neg":
            value = values[0]
            return -value if isinstance(value, float) else wrap(-int(value), kind_of(value))
        if name == "bnot":
            return wrap(~int(values[0]), kind_of(values[0]))
        if name == "lnot":
            return wrap(int(not values[0]), kind_of(values[0]))
        return arithmetic(name, *values)

    def aggregate(self, node, env):
        """Yield the value, and the environment with each row's witnesses for min and max."""
        witnesses = self.witnesses[node]
        if not self.injected[node] <= env.keys():
            raise UnboundError(node)
        body_names = {v for b in node.body if isinstance(b, Atom) for v in self._names(b)}
        for b in node.body:
            if isinstance(b, Comparison) and b.operator == "=":
                body_names |= {s.name for s in (b.left, b.right) if isinstance(s, Variable)}
        targets = set() if node.target is None else set(self._names(node.target))
        hidden = targets & body_names | {"later"} | witnesses
        inner = {k: v for k, v in env.items() if k not in hidden}
        atoms = [b for b in node.body if isinstance(b, Atom)]
        names = [v for a in atoms for v in self._names(a)]
        by_rows = (
            len(atoms) == 1
            and len(names) == len(set(names))
            and not any(self._has_aggregate(b) for b in node.body)
            and not any(self._ranges(b) for b in node.body)
        )
        body = node.body
        if node.name == "count" and not by_rows:
            body = tuple(self._named(b, i) for i, b in enumerate(body))
        solutions = []
        seen = set()
        for solution in self.solve(body, inner):
            for (target,), extended in self.expanded((node.target,), solution):
                key = frozenset((k, v) for k, v in extended.items() if k != "later")
                if not by_rows and key in seen:
                    continue
                seen.add(key)
                solutions.append((1 if target is None else self.value(target, extended), extended))
        values = [value for value, _ in solutions]
        if node.name == "count":
            yield len(values), env
        elif node.name == "sum":
            kind = kind_of(*values)
            yield math.fsum(values) if kind is float else wrap(sum(map(int, values)), kind), env
        elif not values:
            return
        elif node.name == "mean":
            yield math.fsum(values) / len(values), env
        else:
            extreme = min(values) if node.name == "min" else max(values)
            handed = {
                tuple(solution[name] for name in sorted(witnesses))
                for value, solution in solutions
                if value == extreme
            }
            for row in handed:
                bindings = dict(zip(sorted(witnesses), row, strict=True))
                if all(env.get(name, value) == value for name, value in bindings.items()):
                    yield extreme, {**env, **bindings}

    # -- witnesses: variables that only an aggregate binds, and that are read outside of it

    def scopes(self, literals, expressions, bound):
        """Note the witnesses of a conjunction's aggregates, outermost first."""
        tops = [e for b in literals for e in self._tops(b)] + list(expressions)
        outside = {name for e in tops for name in self._names(e, inside=False)}
        known = self.grounds(literals, bound)
        here = [a for e in tops for a in self._aggregates(e)]
        for node in here:
            self.witnesses[node] = (set(self._names(node)) & outside) - known & self.hands(node)
        known = known.union(*(self.witnesses[node] for node in here))
        known = self.grounds(literals, known)
        for node in here:
            targets = [] if node.target is None else [node.target]
            hidden = {n for t in targets for n in self._names(t)} & self.grounds(node.body, set())
            hidden |= self.witnesses[node]
            self.injected[node] = (known & set(self._names(node))) - hidden
            # A witness that stands in a nested aggregate is for that one to hand out first.
            for name in self.witnesses[node]:
                targets = [*targets, Variable(name, node.position)]
            self.scopes(node.body, targets, self.injected[node])

    def hands(self, node):
        names = self.grounds(node.body, set())
        for literal in node.body:
            for expression in self._tops(literal):
                for inner in self._aggregates(expression):
                    if inner.name in ("min", "max"):
                        names |= self.hands(inner)
        return names

    def grounds(self, literals, bound):
        names = set(bound)
        while True:
            before = len(names)
            for b in literals:
                if isinstance(b, Atom):
                    names = names.union(*(self.inside(a) for a in b.arguments))
                elif isinstance(b, Comparison) and b.operator == "=":
                    for side, other in ((b.left, b.right), (b.right, b.left)):
                        needed = set(self._names(other, inside=False))
                        if needed <= names:
                            names |= self.inside(side)
            if len(names) == before:
                return names

    def inside(self, node):
        if builds(node):
            return set().union(*(self.inside(a) for a in node.arguments))
        return {node.name} if isinstance(node, Variable) else set()

    @staticmethod
    def _tops(literal):
        if isinstance(literal, Atom):
            return list(literal.arguments)
        if isinstance(literal, Negation):
            return list(literal.atom.arguments)
        return [literal.left, literal.right] if isinstance(literal, Comparison) else []

    def _aggregates(self, node):
        if isinstance(node, Aggregate):
            yield node
        elif isinstance(node, Functor):
            for argument in node.arguments:
                yield from self._aggregates(argument)
        elif isinstance(node, Cast):
            yield from self._aggregates(node.value)

    def _ranges(self, node):
        if isinstance(node, Comparison):
            return self._ranges(node.left) or self._ranges(node.right)
        return isinstance(node, Functor) and (
            node.name == "range" or any(self._ranges(a) for a in node.arguments)
        )

    def _named(self, literal, number):
        if not isinstance(literal, Atom | Functor):
            return literal
        if isinstance(literal, Functor) and not builds(literal):
            return literal
        arguments = tuple(
            Variable(f"_{number}_{i}", a.position)
            if isinstance(a, Wildcard)
            else self._named(a, f"{number}_{i}")
            for i, a in enumerate(literal.arguments)
        )
        return type(literal)(literal.name, arguments, literal.position)

    def _names(self, node, inside=True):
        if isinstance(node, Variable):
            yield node.name
        elif isinstance(node, Functor | Atom):
            for argument in node.arguments:
                yield from self._names(argument, inside)
        elif isinstance(node, Cast):
            yield from self._names(node.value, inside)
        elif isinstance(node, Negation):
            yield from self._names(node.atom, inside)
        elif isinstance(node, Comparison):
            yield from self._names(node.left, inside)
            yield from self._names(node.right, inside)
        elif isinstance(node, Aggregate) and inside:
            for literal in node.body:
                yield from self._names(literal)
            if node.target is not None:
                yield from self._names(node.target)


def plain(value):
    """Spell a value as `derive` does."""
    if isinstance(value, tuple):
        name, *parts = value
        if name == "nil":
            return None
        return tuple(map(plain, parts if name == "[]" else [name[1:], *parts]))
    return int(value) if isinstance(value, int) else value


def run(text, inputs=None):
    """Evaluate a program; gives each relation as a set of tuples."""
    return {
        name: {tuple(map(plain, row)) for row in rows}
        for name, rows in Evaluator(text, inputs).run().items()
    }

"""Text to syntax tree: the grammar's rules turned into nodes while the parser runs."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import lark
from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken, VisitError
from lark.visitors import Transformer_NonRecursive

from ...disk_cache import cache_path, cached_on_disk, load_data
from ...terms.syntax_tree import Place
from .fact_runs import take_facts
from .formulas import conjunctions
from .preprocess import Source, preprocess
from .structures import BRANCH, NIL, RECORD
from .syntax import (
    COUNTER,
    GIVEN,
    Aggregate,
    Atom,
    Attribute,
    Block,
    Branch,
    Cast,
    Clause,
    Comparison,
    Component,
    ComponentType,
    DatalogError,
    Declaration,
    Directive,
    Errors,
    Expression,
    Formula,
    Functor,
    FunctorDeclaration,
    Instance,
    Literal,
    Number,
    Override,
    Pragma,
    String,
    Subsumption,
    Truth,
    TypeDeclaration,
    Variable,
    Wildcard,
    literal_variables,
)

MAX_DEPTH = 100
MAX_SYNTAX_ERRORS = 20
_ESCAPES = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_LEGACY = {
    "itof": "to_float",
    "utof": "to_float",
    "ftoi": "to_number",
    "utoi": "to_number",
    "itou": "to_unsigned",
    "ftou": "to_unsigned",
}


def parse_block(text: str, path: str, define: Mapping[str, str] | None = None) -> Block:
    """Parse a whole program into its declarations and clauses; raises DatalogError."""
    source = preprocess(text, path, define)
    facts, text = take_facts(source)
    errors = Errors()
    builder = _Builder(source, errors)
    block: Block = builder.transform(_tree(text, source, errors))
    errors.check()
    block.clauses.extend(facts)
    block.notes.extend(source.notes)
    return block


def _tree(text: str, source: Source, errors: Errors) -> Tree[Token]:
    """Parse a program; after an error once more without the statement it is in, for the next."""
    while True:
        try:
            return _parser().parse(text)
        except UnexpectedInput as error:
            position = error.pos_in_stream
            # What closes a component is left over where its beginning was the error.
            if not errors.reported or text[position or 0 : (position or 0) + 1] != "}":
                errors.reported.append(_syntax_error(error, source))
            shorter = None if position is None else _without_statement(text, position)
            if shorter is None or len(errors.reported) >= MAX_SYNTAX_ERRORS:
                return Tree("program", [])
            text = shorter


def _without_statement(text: str, position: int) -> str | None:
    """Blank the statement around a place, lines kept; None where nothing is left to blank."""
    begin = max((match.end() for match in _BETWEEN.finditer(text, 0, position)), default=0)
    after = _BETWEEN.search(text, position)
    end = after.end() if after else len(text)
    statement = text[begin:end]
    if not statement.strip():
        return None
    return text[:begin] + re.sub(r"[^\n]", " ", statement) + text[end:]


_BETWEEN = re.compile(r"\.(?=\s)|\n(?=[ \t]*\.[a-z])")


@functools.cache
def _parser() -> Lark:
    """Return the parser, its tables kept on disk: making them takes a quarter of a second."""
    grammar = importlib.resources.files(__package__).joinpath("grammar.lark")
    text = grammar.read_text(encoding="utf-8")
    made_of = "\n".join([text, lark.__version__, sys.version])
    name = hashlib.sha256(made_of.encode()).hexdigest()[:32]
    tables = cached_on_disk(cache_path() / f"datalog-tables-{name}.pickle", lambda: _tables(text))
    return Lark.load(tables)


def _tables(grammar: str) -> Any:
    """Return what Lark.load takes; it takes a file as well, but would read that as a program."""
    file = io.BytesIO()
    Lark(grammar, parser="lalr", start="program", maybe_placeholders=True).save(file)
    return load_data(file.getvalue())


def _syntax_error(error: UnexpectedInput, source: Source) -> DatalogError:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        last = max((i for i, line in enumerate(source.lines) if line.strip()), default=0)
        position = source.position(last + 1, len(source.lines[last].rstrip()) + 1)
        return DatalogError.at(position, "the program ends in the middle of a clause")
    position = source.position(error.line, error.column)
    line = source.lines[error.line - 1] if error.line <= len(source.lines) else ""
    rest = line[error.column - 1 :]
    word = re.match(r"\.[A-Za-z_]+", rest)
    if word and word.group() not in _DIRECTIVES:
        return DatalogError.at(position, f"unknown directive {word.group()}")
    if not isinstance(error, UnexpectedToken):
        return DatalogError.at(position, f"unexpected character {rest[:1]!r}")
    text = str(error.token)
    reason = f"syntax error at {text if len(text) <= 30 else text[:27] + '...'!r}"
    if error.token.type == "QUALIFIER":
        reason += " (a reserved word)"
    spelled = {_SPELLING.get(name, "") for name in error.accepts or error.expected} - {""}
    if 0 < len(spelled) <= 6:
        reason += f"; expected {' or '.join(sorted(spelled))}"
    return DatalogError.at(position, reason)


_DIRECTIVES = frozenset(
    [
        ".decl",
        ".type",
        ".symbol_type",
        ".number_type",
        ".input",
        ".output",
        ".printsize",
        ".limitsize",
        ".pragma",
        ".comp",
        ".init",
        ".override",
        ".functor",
        ".lattice",
        ".plan",
    ]
)
_SPELLING = {
    "IDENT": "a name",
    "DOT": "'.'",
    "COMMA": "','",
    "LPAR": "'('",
    "RPAR": "')'",
    "RBRACE": "'}'",
    "RSQB": "']'",
    "COLON": "':'",
    "SEMICOLON": "';'",
    "STRING": "a string",
    "EQUAL": "'='",
    "LE": "'<='",
    "COMPARE": "a comparison",
    "__ANON_0": "'<:'",
}


def _refuse(position: Place, construct: str, why: str = "") -> DatalogError:
    reason = f"{construct} is outside the dialect"
    return DatalogError.at(position, f"{reason}: {why}" if why else reason)


def unescape(token: str) -> str | None:
    """Read a quoted string; None where an escape is unknown."""
    if "\\" not in token:
        return token[1:-1]
    out: list[str] = []
    index = 1
    while index < len(token) - 1:
        if token[index] == "\\":
            escaped = _ESCAPES.get(token[index + 1])
            if escaped is None:
                return None
            out.append(escaped)
            index += 2
        else:
            out.append(token[index])
            index += 1
    return "".join(out)


def _integer(text: str) -> int:
    return int(text, 0) if text[:2] in ("0x", "0b") else int(text)


Children = list[Any]
_BROKEN = object()


class _Builder(Transformer_NonRecursive[Token, Block]):
    """One method a grammar rule, of the same name."""

    def __init__(self, source: Source, errors: Errors) -> None:
        super().__init__()
        self.source = source
        self.errors = errors

    def _call_userfunc(self, tree: Tree[Token], new_children: Children | None = None) -> Any:
        """Build a node; what holds an error is built no further, up to its statement."""
        children: Children = tree.children if new_children is None else new_children
        broken = any(child is _BROKEN for child in children)
        if broken and tree.data not in ("program", "component"):
            return _BROKEN
        try:
            whole = [child for child in children if child is not _BROKEN]
            return super()._call_userfunc(tree, whole)  # type: ignore[no-untyped-call]
        except VisitError as error:
            if not isinstance(error.orig_exc, DatalogError):
                raise
            self.errors.reported.extend(error.orig_exc.errors)
            return _BROKEN

    def _place(self, token: Token) -> Place:
        return self.source.position(token.line or 1, token.column or 1)

    # -- the program and its items

    def program(self, items: Children) -> Block:
        return _block(items)

    def qualified(self, tokens: Children) -> tuple[str, Place]:
        return "".join(tokens), self._place(tokens[0])

    def names(self, tokens: Children) -> Children:
        return tokens

    def attributes(self, items: Children) -> tuple[Attribute, ...]:
        return tuple(items)

    def attribute(self, items: Children) -> Attribute:
        name, (type_name, position), mark = items
        if mark is not None:
            raise _refuse(position, "a lattice attribute", _LATTICES)
        return Attribute(str(name), type_name, position)

    def qualifiers(self, tokens: Children) -> Children:
        return tokens

    def key(self, tokens: Children) -> tuple[str, ...]:
        return tuple(str(token) for token in tokens)

    def choice(self, items: Children) -> tuple[tuple[str, ...], ...]:
        return tuple(items[1:])

    def declaration(self, items: Children) -> list[Declaration | Directive]:
        _, names, attributes, qualifiers, choice = items
        for token in qualifiers:
            if token in ("btree_min", "btree_max", "btree_sum", "data", "hash", "override"):
                raise _refuse(self._place(token), f"the qualifier {token}", _LATTICES)
        words = frozenset(str(token) for token in qualifiers)
        out: list[Declaration | Directive] = []
        for name in names:
            position = self._place(name)
            kept = words - _ACTIONS
            out.append(Declaration(str(name), attributes or (), kept, position, choice or ()))
            out.extend(
                Directive(str(token), str(name), {}, position)
                for token in qualifiers
                if token in _ACTIONS
            )
        return out

    def type_subset(self, items: Children) -> TypeDeclaration:
        _, name, (base, _) = items
        return TypeDeclaration(str(name), "subset", (base,), self._place(name))

    def type_union(self, items: Children) -> TypeDeclaration:
        _, name, *parts = items
        form = "alias" if len(parts) == 1 else "union"
        return TypeDeclaration(str(name), form, tuple(p for p, _ in parts), self._place(name))

    def type_symbol(self, items: Children) -> TypeDeclaration:
        return TypeDeclaration(str(items[1]), "subset", ("symbol",), self._place(items[1]))

    def type_number(self, items: Children) -> TypeDeclaration:
        return TypeDeclaration(str(items[1]), "subset", ("number",), self._place(items[1]))

    def branch(self, items: Children) -> Branch:
        return Branch(str(items[0]), items[1] or (), self._place(items[0]))

    def type_record(self, items: Children) -> TypeDeclaration:
        position = self._place(items[1])
        fields = next((i for i in items[2:] if isinstance(i, tuple)), ())
        record = Branch("", fields, position)
        return TypeDeclaration(str(items[1]), "record", (), position, (record,))

    def type_sum(self, items: Children) -> TypeDeclaration:
        _, name, *branches = items
        return TypeDeclaration(str(name), "sum", (), self._place(name), tuple(branches))

    def directive(self, items: Children) -> list[Directive]:
        word, targets, parameters = items
        if word == ".limitsize":
            limit = dict(parameters or ()).get("n", "")
            if not limit.isdecimal():
                raise DatalogError.at(self._place(word), ".limitsize needs a number: (n=1000)")
        return [
            Directive(str(word)[1:], name, dict(parameters or ()), position)
            for name, position in targets
        ]

    def targets(self, items: Children) -> Children:
        return items

    def parameters(self, items: Children) -> Children:
        return [item for item in items if item is not None]

    def parameter(self, items: Children) -> tuple[str, str]:
        key, value = items
        if value.type == "STRING":
            return str(key), self._text(value)
        return str(key), str(value)

    def pragma(self, items: Children) -> str | Pragma:
        words = " ".join(str(item) for item in items if item is not None)
        position = self._place(items[0])
        if items[1] == '"legacy"':
            return Pragma("legacy")
        return f"{position.path}:{position.line}: {words} ignored"

    def component_type(self, items: Children) -> ComponentType:
        name, *arguments = items
        return ComponentType(
            str(name), tuple(str(a) for a in arguments if a is not None), self._place(name)
        )

    def component(self, items: Children) -> Component:
        types = [item for item in items if isinstance(item, ComponentType)]
        rest = [i for i in items if not isinstance(i, ComponentType | Token) and i is not None]
        return Component(types[0], tuple(types[1:]), _block(rest), types[0].position)

    def instance(self, items: Children) -> Instance:
        return Instance(str(items[1]), items[2], self._place(items[1]))

    def override(self, items: Children) -> Override:
        return Override(str(items[1]))

    def functor_types(self, items: Children) -> Children:
        return items

    def functor_type(self, items: Children) -> str:
        type_name: str = items[-1][0]
        return type_name

    def functor_declaration(self, items: Children) -> FunctorDeclaration:
        _, name, parameters, (result, _), _ = items
        return FunctorDeclaration(str(name), tuple(parameters or ()), result, self._place(name))

    def lattice(self, items: Children) -> None:
        raise _refuse(self._place(items[0]), f"the lattice {items[1]}", _LATTICES)

    # -- clauses

    def plan(self, items: Children) -> None:
        return None

    def heads(self, items: Children) -> Children:
        return items

    def fact(self, items: Children) -> Clause:
        head = items[0]
        return Clause(head, (), head.position)

    def clause(self, items: Children) -> list[Clause | str]:
        heads, body = items[0], items[1]
        bodies = conjunctions(body)
        clauses = [Clause(head, b, head.position) for head in heads for b in bodies]
        return [*clauses, *_lonely(heads, body)]

    def subsumption(self, items: Children) -> list[Subsumption | str]:
        dominated, _, dominating, body = items[:4]
        position = dominated.position
        bodies = conjunctions(body)
        subsumptions = [Subsumption(dominated, dominating, b, position) for b in bodies]
        return [*subsumptions, *_lonely((dominated, dominating), body)]

    def body(self, items: Children) -> Formula | Literal:
        if len(items) == 1:
            formula: Formula | Literal = items[0]
            return formula
        return Formula("or", tuple(items), items[0].position)

    def conjunction(self, items: Children) -> Formula | Literal:
        if len(items) == 1:
            formula: Formula | Literal = items[0]
            return formula
        return Formula("and", tuple(items), items[0].position)

    def negation(self, items: Children) -> Formula:
        return Formula("not", (items[1],), self._place(items[0]))

    def atom(self, items: Children) -> Atom:
        (name, position), arguments = items
        return Atom(name, arguments or (), position)

    def arguments(self, items: Children) -> tuple[Expression, ...]:
        return tuple(items)

    def comparison(self, items: Children) -> Comparison:
        left, operator, right = items
        return Comparison(str(operator), left, right, left.position)

    def predicate(self, items: Children) -> Comparison:
        return Comparison(str(items[0]), items[1], items[2], self._place(items[0]))

    def truth(self, items: Children) -> Truth:
        return Truth(items[0] == "true", self._place(items[0]))

    # -- expressions

    def _functor(self, name: str, arguments: tuple[Expression, ...], position: Place) -> Functor:
        depth = 1 + max((getattr(a, "depth", 1) for a in arguments), default=0)
        if depth > MAX_DEPTH:
            raise DatalogError.at(position, f"this expression nests more than {MAX_DEPTH} deep")
        return Functor(name, arguments, position, depth)

    def infix(self, items: Children) -> Functor:
        left, operator, right = items
        return self._functor(str(operator), (left, right), left.position)

    def prefix(self, items: Children) -> Expression:
        operator, operand = items
        position = self._place(operator)
        if operator == "-":
            if isinstance(operand, Number) and operand.value >= 0:
                return Number(-operand.value, operand.kind, position)
            return self._functor("neg", (operand,), position)
        return self._functor(str(operator), (operand,), position)

    def variable(self, items: Children) -> Variable:
        return Variable(str(items[0]), self._place(items[0]))

    def wildcard(self, items: Children) -> Wildcard:
        return Wildcard(self._place(items[0]))

    def _text(self, token: Token) -> str:
        value = unescape(str(token))
        if value is None:
            raise DatalogError.at(self._place(token), f"unknown escape in {token}")
        return value

    def string(self, items: Children) -> String:
        return String(self._text(items[0]), self._place(items[0]))

    def number(self, items: Children) -> Number:
        return Number(_integer(str(items[0])), None, self._place(items[0]))

    def unsigned(self, items: Children) -> Number:
        return Number(_integer(str(items[0])[:-1]), "unsigned", self._place(items[0]))

    def float(self, items: Children) -> Number:
        return Number(float(items[0]), "float", self._place(items[0]))

    def address(self, items: Children) -> Number:
        parts = [int(part) for part in items[0].split(".")]
        if max(parts) > 255:
            raise DatalogError.at(self._place(items[0]), "an IP address has parts of 0 to 255")
        value = (parts[0] << 24) + (parts[1] << 16) + (parts[2] << 8) + parts[3]
        # The address is assembled in 32 bits, so that 128.0.0.0 and above come out negative.
        return Number(value - (1 << 32) if value >> 31 else value, None, self._place(items[0]))

    def functor(self, items: Children) -> Functor:
        name = str(items[0])
        if name == "fold":
            raise _refuse(self._place(items[0]), "fold", "aggregate over a relation instead")
        return self._functor(_LEGACY.get(name, name), items[1] or (), self._place(items[0]))

    def extremum(self, items: Children) -> Functor:
        return self._functor(str(items[0]), (items[1], *items[2]), self._place(items[0]))

    def cast(self, items: Children) -> Cast:
        return Cast(items[1], items[2][0], self._place(items[0]))

    def aggregate_body(self, items: Children) -> Formula | Literal:
        formula: Formula | Literal = items[0]
        return formula

    def aggregate(self, items: Children) -> Aggregate:
        name, target, body = items
        position = self._place(name)
        bodies = conjunctions(body)
        if len(bodies) != 1:
            raise _refuse(position, f"disjunction inside {name}", "give it a relation of its own")
        if (target is None) != (name == "count"):
            complaint = "takes no expression" if target is not None else "needs an expression"
            raise DatalogError.at(position, f"{name} {complaint}")
        return Aggregate(str(name), target, bodies[0], position)

    def counter(self, items: Children) -> Functor:
        if items[0].type == "ITERATION":
            why = "rounds differ between engines; count them in a column of the relation"
            raise _refuse(self._place(items[0]), "__ITERATION__", why)
        return Functor(COUNTER, (), self._place(items[0]))

    def nil(self, items: Children) -> Functor:
        return Functor(NIL, (), self._place(items[0]))

    def record(self, items: Children) -> Functor:
        return self._functor(RECORD, items[1] or (), self._place(items[0]))

    def branch_value(self, items: Children) -> Functor:
        dollar, (name, _), arguments = items
        return self._functor(BRANCH + name, arguments or (), self._place(dollar))

    def user_functor(self, items: Children) -> Functor:
        if items[1] == "@":
            why = "use count, sum, min, max or mean, or a functor over what they give"
            raise _refuse(self._place(items[0]), "a user-defined aggregate", why)
        return self._functor(GIVEN + items[1], items[2] or (), self._place(items[0]))


_ACTIONS = frozenset({"input", "output", "printsize"})
_LATTICES = "a subsumption (a(x, c) <= a(x, d) :- ...) keeps the best of several values"


def _lonely(heads: Sequence[Atom], body: Formula | Literal) -> Iterator[str]:
    """Warn of variables that stand once, and of those marked by an underscore that don't."""
    literals: list[Literal] = [*heads]
    parts: list[Formula | Literal] = [body]
    while parts:
        part = parts.pop()
        if isinstance(part, Formula):
            parts.extend(part.parts)
        else:
            literals.append(part)
    places: dict[str, list[Place]] = {}
    for literal in literals:
        for variable in literal_variables(literal):
            places.setdefault(variable.name, []).append(variable.position)
    for name, occurrences in sorted(places.items(), key=lambda item: min(item[1])):
        path, line, column = min(occurrences)
        if len(occurrences) == 1 and not name.startswith("_"):
            yield f"{path}:{line}:{column}: variable {name} stands only once: _ or _{name} says so"
        elif len(occurrences) > 1 and name.startswith("_"):
            yield f"{path}:{line}:{column}: variable {name} is marked as single, and is not"


def _block(items: Children) -> Block:
    block = Block()
    for item in items:
        if isinstance(item, str):
            block.notes.append(item)
            continue
        for part in item if isinstance(item, list) else [item]:
            if isinstance(part, str):
                block.notes.append(part)
            elif isinstance(part, Declaration):
                block.declarations.append(part)
            elif isinstance(part, Directive):
                block.directives.append(part)
            elif isinstance(part, TypeDeclaration):
                block.types.append(part)
            elif isinstance(part, Clause):
                block.clauses.append(part)
            elif isinstance(part, Subsumption):
                block.subsumptions.append(part)
            elif isinstance(part, Component):
                block.components.append(part)
            elif isinstance(part, Instance):
                block.instances.append(part)
            elif isinstance(part, Override):
                block.overrides.append(part.relation)
            elif isinstance(part, FunctorDeclaration):
                block.functors.append(part)
            elif isinstance(part, Pragma):
                block.pragmas.add(part.name)
    return block

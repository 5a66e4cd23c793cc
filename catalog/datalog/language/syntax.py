"""The abstract syntax of a Datalog program, as the parser leaves it and the compiler reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...errors import TensologError
from ...terms.syntax_tree import Expression as Node
from ...terms.syntax_tree import Place, walk


class DatalogError(TensologError):
    """A program that is wrong, or outside the dialect; says where and why.

    `errors` are all that were found in the program, in order; the first is this one.
    """

    def __init__(
        self, path: str, line: int, column: int, reason: str, others: Sequence[DatalogError] = ()
    ) -> None:
        super().__init__("\n".join([f"{path}:{line}:{column}: {reason}", *map(str, others)]))
        self.errors: tuple[DatalogError, ...] = (self, *others)
        self.path = path
        self.line = line
        self.column = column
        self.reason = reason

    @classmethod
    def at(cls, position: Place, reason: str) -> DatalogError:
        """Build the error for a position."""
        return cls(position.path, position.line, position.column, reason)


class Errors:
    """The errors found so far, so that a program's are told all at once."""

    def __init__(self) -> None:
        self.reported: list[DatalogError] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep an error of what is done inside, and go on after it."""
        try:
            yield
        except DatalogError as error:
            self.reported.extend(error.errors)

    def check(self) -> None:
        """Raise what was found, in the order of places; nothing where nothing was."""
        places = {(e.path, e.line, e.column): e for e in reversed(self.reported)}
        if places:
            first, *others = (places[place] for place in sorted(places))
            raise DatalogError(first.path, first.line, first.column, first.reason, others)


GIVEN = "@"  # the names of functors that users give begin so
COUNTER = "autoinc"  # the functor that gives a number of its own to each solution


# Nodes compare by identity: one text may hold many equal expressions of different kinds.


@dataclass(eq=False, slots=True)
class Variable(Node):
    """A named variable."""

    name: str
    position: Place


@dataclass(eq=False, slots=True)
class Wildcard(Node):
    """The unnamed variable `_`."""

    position: Place


@dataclass(eq=False, slots=True)
class Number(Node):
    """A numeric constant; `kind` is None where the context decides (5 may be a float)."""

    value: int | float
    kind: str | None
    position: Place


@dataclass(eq=False, slots=True)
class String(Node):
    """A symbol constant."""

    value: str
    position: Place


@dataclass(eq=False, slots=True)
class Functor(Node):
    """An operator or a built-in function applied to its arguments."""

    name: str
    arguments: tuple[Expression, ...]
    position: Place
    depth: int = 1

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments

    def with_parts(self, change: Change) -> Functor:
        """The functor applied to other arguments."""
        arguments = tuple(map(change, self.arguments))
        return Functor(self.name, arguments, self.position, self.depth)


@dataclass(eq=False, slots=True)
class Cast(Node):
    """`as(expression, type)`."""

    value: Expression
    type_name: str
    position: Place

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The value."""
        return (self.value,)

    def with_parts(self, change: Change) -> Cast:
        """Another value as one of the type."""
        return Cast(change(self.value), self.type_name, self.position)


@dataclass(eq=False, slots=True)
class Aggregate(Node):
    """`count`, `sum`, `min`, `max` or `mean` over a body, which has parts of its own."""

    name: str
    target: Expression | None
    body: tuple[Literal, ...]
    position: Place
    local: frozenset[str] = frozenset()  # its own variables, once scopes are resolved


Expression = Variable | Wildcard | Number | String | Functor | Cast | Aggregate
Change = Callable[[Any], Any]  # of an expression another one


@dataclass(eq=False, slots=True)
class Atom:
    """A relation applied to arguments."""

    name: str
    arguments: tuple[Expression, ...]
    position: Place

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments

    def with_parts(self, change: Change) -> Atom:
        """The relation applied to other arguments."""
        return Atom(self.name, tuple(map(change, self.arguments)), self.position)


@dataclass(eq=False, slots=True)
class Negation:
    """A negated atom."""

    atom: Atom
    position: Place

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The atom's arguments."""
        return self.atom.arguments

    def with_parts(self, change: Change) -> Negation:
        """The negated relation applied to other arguments."""
        return Negation(self.atom.with_parts(change), self.position)


@dataclass(eq=False, slots=True)
class Comparison:
    """A constraint: = != < <= > >= match contains !match !contains."""

    operator: str
    left: Expression
    right: Expression
    position: Place

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Both sides."""
        return (self.left, self.right)

    def with_parts(self, change: Change) -> Comparison:
        """Two other sides compared."""
        return Comparison(self.operator, change(self.left), change(self.right), self.position)


@dataclass(eq=False, slots=True)
class Truth:
    """The constraint `true` or `false`."""

    value: bool
    position: Place

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Nothing."""
        return ()

    def with_parts(self, change: Change) -> Truth:
        """The same constraint."""
        return self


Literal = Atom | Negation | Comparison | Truth


@dataclass(eq=False, slots=True)
class Formula:
    """A body before normalization: `and`, `or` or `not` over formulas and literals."""

    connective: str
    parts: tuple[Formula | Literal, ...]
    position: Place


@dataclass(eq=False, slots=True)
class Clause:
    """One head and a conjunction; a fact has an empty body."""

    head: Atom
    body: tuple[Literal, ...]
    position: Place

    @property
    def literals(self) -> tuple[Literal, ...]:
        """The body and the head, for whoever asks what is mentioned in either."""
        return (*self.body, self.head)


@dataclass(eq=False, slots=True)
class Subsumption:
    """`dominated <= dominating :- body`: the first tuple goes where the second one exists."""

    dominated: Atom
    dominating: Atom
    body: tuple[Literal, ...]
    position: Place


@dataclass(eq=False, slots=True)
class Attribute:
    """A column of a relation: its name and the name of its type."""

    name: str
    type_name: str
    position: Place


@dataclass(eq=False, slots=True)
class Declaration:
    """A declared relation; each key in `keys` names columns by which its rows are chosen."""

    name: str
    attributes: tuple[Attribute, ...]
    qualifiers: frozenset[str]
    position: Place
    keys: tuple[tuple[str, ...], ...] = ()


@dataclass(eq=False, slots=True)
class Branch:
    """A branch of an algebraic data type with its fields; that of a record has no name."""

    name: str
    attributes: tuple[Attribute, ...]
    position: Place


@dataclass(eq=False, slots=True)
class TypeDeclaration:
    """A declared type: alias, subset or union over `parts`, or record or sum of branches."""

    name: str
    form: str
    parts: tuple[str, ...]
    position: Place
    branches: tuple[Branch, ...] = ()


@dataclass(eq=False, slots=True)
class Directive:
    """`.input`, `.output` or `.printsize` of one relation, with its parameters."""

    action: str
    relation: str
    parameters: dict[str, str]
    position: Place


@dataclass(eq=False, slots=True)
class ComponentType:
    """A component's name with its parameters or arguments."""

    name: str
    arguments: tuple[str, ...]
    position: Place


@dataclass(eq=False, slots=True)
class Instance:
    """`.init name = component`."""

    name: str
    component: ComponentType
    position: Place


@dataclass(eq=False, slots=True)
class Override:
    """`.override relation`: the clauses that a base component gives it are dropped."""

    relation: str


@dataclass(eq=False, slots=True)
class FunctorDeclaration:
    """`.functor name(types): type`, its types by name."""

    name: str
    parameters: tuple[str, ...]
    result: str
    position: Place


@dataclass(eq=False, slots=True)
class Pragma:
    """`.pragma "name"`, one that changes what is checked."""

    name: str


@dataclass(eq=False, slots=True)
class Block:
    """What stands in a program or in a component's braces."""

    declarations: list[Declaration] = field(default_factory=list)
    types: list[TypeDeclaration] = field(default_factory=list)
    directives: list[Directive] = field(default_factory=list)
    clauses: list[Clause] = field(default_factory=list)
    subsumptions: list[Subsumption] = field(default_factory=list)
    components: list[Component] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    functors: list[FunctorDeclaration] = field(default_factory=list)
    pragmas: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Component:
    """`.comp name<parameters> : bases { block }`."""

    type: ComponentType
    bases: tuple[ComponentType, ...]
    block: Block
    position: Place


def walk_inside(expression: Expression) -> Iterator[Expression]:
    """Visit an expression and all below it, the bodies of aggregates too."""
    for node in walk(expression):
        yield node
        if isinstance(node, Aggregate):
            inner = [part for literal in node.body for part in literal.parts]
            inner += () if node.target is None else (node.target,)
            for part in inner:
                yield from walk_inside(part)


def variables(expression: Expression, *, inside: bool = True) -> Iterator[Variable]:
    """Visit every variable; `inside` says whether aggregates are entered."""
    for node in walk(expression):
        if isinstance(node, Variable):
            yield node
        elif isinstance(node, Aggregate) and inside:
            if node.target is not None:
                yield from variables(node.target)
            for literal in node.body:
                yield from literal_variables(literal)


def literal_variables(literal: Literal, *, inside: bool = True) -> Iterator[Variable]:
    """Visit every variable of a literal; `inside` says whether aggregates are entered."""
    for expression in literal.parts:
        yield from variables(expression, inside=inside)


def counters(clause: Clause) -> Iterator[Functor]:
    """Visit the counters of a clause's head, but those inside of aggregates."""
    for argument in clause.head.arguments:
        for node in walk(argument):
            if isinstance(node, Functor) and node.name == COUNTER:
                yield node


def aggregates(expression: Expression) -> Iterator[Aggregate]:
    """Visit the aggregates of an expression, not those nested in them."""
    for node in walk(expression):
        if isinstance(node, Aggregate):
            yield node

"""One parsed rule to a `Rule`: the shape of the text, not yet its sense."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import cast

from lark import Token, Tree

from ...catalog.terms.syntax_tree import (
    Binary,
    Call,
    Expression,
    Index,
    ListOf,
    Literal,
    Name,
    Unary,
)
from .canonical_text import rule_text
from .errors import RuleError
from .syntax import Alias, Input, Operand, Output, PatternNode, Rule, Star

Node = Tree[Token]
# How the operators are spelled that the grammar gives names of their own.
OPERATORS = {
    "equals": "=",
    "less": "<",
    "greater": ">",
    "at_least": ">=",
    "in_": "in",
    "times": "*",
    "and_": "and",
    "or_": "or",
}


def expression(tree: Node) -> Expression:
    """A parse tree of the expression grammar as an expression."""
    kids = [kid for kid in tree.children if kid is not None]
    match tree.data:
        case "integer":
            return Literal(int(str(kids[0])))
        case "real":
            return Literal(float(str(kids[0])))
        case "string":
            return Literal(str(kids[0])[1:-1])
        case "name":
            return Name(str(kids[0]))
        case "star":
            return Star(str(kids[0]))
        case "list":
            return ListOf(_all(kids))
        case "call":
            return Call(str(kids[0]), _all(kids[1:]))
        case "index":
            return Index(expression(cast(Node, kids[0])), _all(kids[1:]))
        case "negative":
            operand = expression(cast(Node, kids[-1]))
            if isinstance(operand, Literal) and not isinstance(operand.value, str):
                return Literal(-operand.value)
            return Unary("-", operand)
        case "not_":
            return Unary("not", expression(cast(Node, kids[0])))
        case "binary":
            left, operator, right = kids
            sides = expression(cast(Node, left)), expression(cast(Node, right))
            return Binary(str(operator), *sides)
    first, second = _all(kids)
    return Binary(OPERATORS[tree.data], first, second)


def _all(kids: list[Node | Token]) -> tuple[Expression, ...]:
    return tuple(expression(cast(Node, kid)) for kid in kids)


@dataclass
class RuleReader:
    """Reads one rule; nested operations become nodes with names of their own."""

    path: str
    family: str
    comment: str
    seen: set[str] = field(default_factory=set)
    operands: dict[str, Operand] = field(default_factory=dict)
    given: list[Expression] = field(default_factory=list)
    match: list[PatternNode] = field(default_factory=list)
    rewrite: list[PatternNode] = field(default_factory=list)
    correct: list[PatternNode] = field(default_factory=list)
    aliases: list[Alias] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    opsets: tuple[int | None, int | None] = (None, None)
    region: Expression | None = None
    taken: set[str] = field(default_factory=set)
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    places: list[tuple[str | int, int, int]] = field(default_factory=list)
    conditions: dict[int, tuple[int, int]] = field(default_factory=dict)

    def read(self, tree: Node) -> Rule:
        """Read the tree of one rule; RuleError where clauses are missing or repeated."""
        name, *clauses = tree.children
        self.taken = {str(t) for t in tree.scan_values(lambda t: isinstance(t, Token))}
        for clause in clauses:
            self._clause(cast(Node, clause))
        self._choose()
        line = tree.meta.line
        for word in ("tags", "match", "rewrite", "equal"):
            if word not in self.seen:
                reason = f"{name} has no `{word}`"
                raise RuleError(self.path, line, 1, reason, f"add a line `{word} ...`")
        rule = Rule(
            name=str(name),
            family=self.family,
            summary=self._summary(str(name), line),
            comment=self.comment,
            tag=self.words["tags"],
            equal=self.words["equal"],
            region=self.region,
            finite_math="finite_math" in self.seen,
            target=self.words.get("target"),
            opset_from=self.opsets[0],
            opset_to=self.opsets[1],
            sources=tuple(self.sources),
            operands=tuple(self.operands.values()),
            given=tuple(self.given),
            choices=tuple(self.choices.items()),
            match=tuple(self.match),
            rewrite=tuple(self.rewrite),
            aliases=tuple(self.aliases),
            correct=tuple(self.correct),
            places=(
                *self.places,
                *((i, *self.conditions[id(condition)]) for i, condition in enumerate(self.given)),
            ),
            text="",
            hash="",
            path=self.path,
            line=line,
        )
        text = rule_text(rule)
        digest = hashlib.sha256(text.encode()).hexdigest()
        return replace(rule, text=self.comment + text, hash=digest)

    def _choose(self) -> None:
        """Turn `Op in [Relu, Tanh]` into the choices of the nodes whose operator is `Op`."""
        used = {node.op_type for node in self.match}
        choices: dict[str, tuple[str, ...]] = {}
        for condition in list(self.given):
            match condition:
                case Binary("in", Name(text), ListOf(items)) if text in used:
                    choices[text] = tuple(i.text for i in items if isinstance(i, Name))
        for nodes in (self.match, self.rewrite):
            nodes[:] = [replace(n, choices=choices.get(n.op_type, ())) for n in nodes]
        self.choices = choices
        self.given = [
            condition
            for condition in self.given
            if not (isinstance(condition, Binary) and condition.left in [Name(c) for c in choices])
        ]

    def _summary(self, name: str, line: int) -> str:
        """The first sentence of the comment, without the rule's name it opens with."""
        words = " ".join(part.lstrip("# ") for part in self.comment.splitlines()).split()
        if not words:
            return ""
        if words[0].rstrip(":") != name:
            reason = f"the comment above {name} opens with '{words[0]}'"
            raise RuleError(self.path, line, 1, reason, "open it with the rule's name")
        return " ".join(words[1:]).split(". ")[0].rstrip(".")

    def _clause(self, tree: Node) -> None:
        kids = [kid for kid in tree.children if kid is not None]
        kind = str(tree.data).removesuffix("_from").removesuffix("_range")
        if kind in self.seen and kind not in ("given", "fold", "rewrite"):
            raise self._error(tree, f"`{kind}` stands twice", "keep one of them")
        self.seen.add(kind)
        self.places.append((kind, tree.meta.line, tree.meta.column))
        match tree.data:
            case "tags" | "target":
                self.words[kind] = str(kids[0])
            case "sources":
                self.sources += [str(cast(Node, k).children[0]).strip('"') for k in kids]
            case "opset_from":
                self.opsets = (int(str(kids[0])), None)
            case "opset_range":
                self.opsets = (int(str(kids[0])), int(str(kids[1])))
            case "given":
                for item in kids:
                    self._item(cast(Node, item))
            case "equal":
                self.words["equal"] = str(kids[0])
                self.region = expression(cast(Node, kids[1])) if len(kids) > 1 else None
            case "match":
                for statement in kids:
                    self._statement(cast(Node, statement), self.match, fold=False, matching=True)
            case "correct":
                for statement in kids:
                    self._correction(cast(Node, statement))
            case "fold" | "rewrite":
                for statement in kids:
                    self._statement(
                        cast(Node, statement), self.rewrite, fold=kind == "fold", matching=False
                    )

    def _item(self, tree: Node) -> None:
        declaration, *flags = tree.children
        item = expression(cast(Node, declaration))
        operand: Operand | None = None
        line, column = tree.meta.line, tree.meta.column
        if isinstance(item, Name):
            operand = Operand(item.text, line=line, column=column)
        elif isinstance(item, Index) and isinstance(item.of, Name):
            operand = Operand(item.of.text, item.items, line=line, column=column)
        if operand is None:
            if flags:
                raise self._error(tree, "a condition can't have flags", "separate them by a comma")
            self.given.append(item)
            self.conditions[id(item)] = (line, column)
            return
        if operand.name in self.operands:
            raise self._error(tree, f"{operand.name} is declared twice", "say it in one place")
        for flag in flags:
            operand = self._flag(operand, cast(Node, flag))
        self.operands[operand.name] = operand

    def _flag(self, operand: Operand, flag: Node) -> Operand:
        match flag.data:
            case "const":
                return replace(operand, const=True)
            case "scalar":
                return replace(operand, scalar=True, const=True)
            case "shared":
                return replace(operand, shared=True)
            case "default":
                return replace(operand, default=expression(cast(Node, flag.children[0])))
        return replace(operand, dtypes=tuple(str(kid) for kid in flag.children))

    # -------------------------------------------------------------------------- statements

    def _statement(
        self, tree: Node, nodes: list[PatternNode], *, fold: bool, matching: bool
    ) -> None:
        left, right = (cast(Node, kid) for kid in tree.children)
        outputs = tuple(
            Output(str(kid.children[-1]), star=kid.data == "star_output")
            for kid in cast(list[Node], left.children)
        )
        numbered: list[Node | Token] = []
        if each := right.data == "each":
            _, *numbered, operation = (kid for kid in right.children if kid is not None)
            right = cast(Node, operation)
        if right.data == "operation":
            before = len(nodes)
            self._operation(right, outputs, nodes, fold=fold, matching=matching, each=each)
            if numbered:
                index, count = str(numbered[0]), expression(cast(Node, numbered[1]))
                nodes[before:] = [replace(n, index=index, count=count) for n in nodes[before:]]
            return
        if matching or fold:
            where = "match" if matching else "fold"
            raise self._error(right, f"`{where}` needs an operator here", "write `Y = Op(X)`")
        lists = right.data == "alias_list"
        if len(outputs) != 1 or outputs[0].star != lists:
            hint = "write `Y = X` or `*B = *A`, one line each"
            raise self._error(tree, "one name stands for one value", hint)
        if right.data in ("alias_value", "alias_list"):
            source = Input(str(right.children[-1]), star=right.data == "alias_list")
        else:
            source = Input(literal=expression(cast(Node, right.children[0])))
        self.aliases.append(Alias(outputs[0].value, source, tree.meta.line, tree.meta.column))

    def _correction(self, tree: Node) -> None:
        """Read a statement that makes the output of a partial equivalence whole."""
        if cast(Node, tree.children[1]).data != "operation":
            raise self._error(tree, "`correct` needs an operator here", "write `Y = Op(X)`")
        self._statement(tree, self.correct, fold=False, matching=False)

    def _operation(
        self,
        tree: Node,
        outputs: tuple[Output, ...],
        nodes: list[PatternNode],
        *,
        fold: bool,
        matching: bool,
        each: bool = False,
    ) -> None:
        operator, *kids = (kid for kid in tree.children if kid is not None)
        domain, _, op_type = str(operator).rpartition(".")
        attributes: list[tuple[str, Expression]] = []
        rest: str | None = None
        inputs: list[Input] = []
        name = outputs[0].value
        for kid in cast(list[Node], kids):
            if kid.data == "set_attribute":
                attribute, value = kid.children
                if str(attribute) in dict(attributes):
                    raise self._error(kid, f"{attribute} is given twice", "keep one of them")
                attributes.append((str(attribute), expression(cast(Node, value))))
            elif kid.data == "rest_attributes":
                rest = str(kid.children[-1])
            else:
                inputs.append(
                    self._argument(kid, name, nodes, fold=fold, matching=matching, each=each)
                )
        nodes.append(
            PatternNode(
                name,
                op_type,
                domain,
                tuple(inputs),
                outputs,
                tuple(attributes),
                rest,
                fold,
                each=each,
                line=tree.meta.line,
                column=tree.meta.column,
            )
        )

    def _argument(
        self,
        tree: Node,
        parent: str,
        nodes: list[PatternNode],
        *,
        fold: bool,
        matching: bool,
        each: bool = False,
    ) -> Input:
        if tree.data == "operation":
            inner = self._fresh(parent)
            outputs = (Output(inner, star=each),)
            self._operation(tree, outputs, nodes, fold=fold, matching=matching, each=each)
            return Input(inner, star=each)
        if tree.data == "star_value":
            return Input(str(tree.children[-1]), star=True)
        if tree.data == "optional_value":
            return Input(str(tree.children[0]), optional=True)
        argument = expression(cast(Node, tree.children[0]))
        if isinstance(argument, Name) and (
            matching or argument.text[0].isupper() or self._is_value(argument)
        ):
            return Input(argument.text)
        # In a pattern a literal is itself a matched value, a constant; it needs a name.
        return Input(self._fresh(parent) if matching else None, literal=argument)

    def _is_value(self, name: Name) -> bool:
        values = {i.value for n in self.match for i in n.inputs}
        values |= {o.value for n in (*self.match, *self.rewrite, *self.correct) for o in n.outputs}
        return name.text in values

    def _fresh(self, parent: str) -> str:
        number = 1
        while f"{parent}_{number}" in self.taken:
            number += 1
        self.taken.add(f"{parent}_{number}")
        return f"{parent}_{number}"

    def _error(self, tree: Node, reason: str, hint: str) -> RuleError:
        return RuleError(self.path, tree.meta.line, tree.meta.column, reason, hint)

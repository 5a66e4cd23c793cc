"""What a proof rests on besides the rule: the prover's text, and what its operators meant."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from ...language.syntax import PatternNode, Rule

# What statements are made of, besides everything in rules/prover: editing any of it may change what
# is proved. tests/gate checks that nothing which the prover imports is missing.
OPERATORS = (
    "classes.py",
    "contributed.py",
    "definition.py",
    "derive.py",
    "expand.py",
    "functions.py",
    "grammar.lark",
    "instantiate.py",
    "parsed.py",
    "parser.py",
    "syntax.py",
)
TERMS = (
    "comparisons.py",
    "index_notation.py",
    "polynomials.py",
    "syntax_tree.py",
    "term_evaluator.py",
)
LANGUAGE = (
    "conditions.py",
    "described_uses.py",
    "expressions.py",
    "functions.py",
    "rank_bounds.py",
    "repetition.py",
    "schemas.py",
    "syntax.py",
)
# Imported on the way, without a say in what a statement is.
INDIFFERENT = (
    "canonical_text.py",
    "check.py",
    "evaluate.py",
    "numpy_evaluator.py",
    "schemas.py",
)
# Digits of a hash that are kept: nobody forges them, they only tell texts apart.
_DIGITS = 16
_ROOT = __package__.removesuffix(".rules.gate.ledger")
UNSPECIFIED = "none"


@cache
def normaliser() -> str:
    """Return a hash of the text of the prover and of what its statements are made of."""
    digest = hashlib.sha256()
    for package, names in (
        ("rules.prover", None),
        ("rules.language", LANGUAGE),
        ("catalog.terms", TERMS),
        ("catalog.operators", OPERATORS),
    ):
        folder = resources.files(f"{_ROOT}.{package}")
        for name in names or sorted(_modules(folder)):
            text = folder.joinpath(*name.split("/")).read_text(encoding="utf-8")
            digest.update(f"{package}/{name}\n{len(text)}\n{text}".encode())
    return digest.hexdigest()[:_DIGITS]


def _modules(folder: Traversable, prefix: str = "") -> Iterator[str]:
    """Yield the modules of a folder and of those inside of it, by their paths."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield prefix + entry.name


@cache
def library() -> str:
    """Return a hash of the text of all specifications: while it stands, each of them does."""
    digest = hashlib.sha256()
    folder = resources.files(f"{_ROOT}.catalog.operators")
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".ops"):
            text = file.read_text(encoding="utf-8")
            digest.update(f"{file.name}\n{len(text)}\n{text}".encode())
    return digest.hexdigest()[:_DIGITS]


def operators(rule: Rule) -> tuple[str, ...]:
    """Return the operators of both sides, as `domain:name` outside of ai.onnx, sorted."""
    nodes: Iterable[PatternNode] = (*rule.match, *rule.rewrite, *rule.correct)
    return tuple(sorted({operator for node in nodes for operator in node.operators}))


@cache
def specification_hash(operator: str, opset_from: int | None, opset_to: int | None) -> str:
    """Return a hash of what an operator means in a range of operator sets, both ends included."""
    # Their parser takes its time to load, and where no specification changed nobody asks.
    from ....catalog.operators.definition import Specification, texts
    from ....catalog.operators.syntax import Opaque, Operator

    domain, _, name = operator.rpartition(":")
    stated = texts(name, domain)
    if not stated:
        return UNSPECIFIED
    opaque = next((block.reason for block in stated if isinstance(block, Opaque)), None)
    blocks = tuple(
        block
        for block in stated
        if isinstance(block, Operator)
        and (opset_to is None or block.opset_from <= opset_to)
        and (opset_from is None or block.opset_to is None or opset_from <= block.opset_to)
    )
    return Specification(domain, name, opset_from or 1, blocks, opaque).hash[:_DIGITS]


def specifications(rule: Rule) -> dict[str, str]:
    """Return the hashes of the specifications of both sides' operators, in the rule's opsets."""
    return {
        operator: specification_hash(operator, rule.opset_from, rule.opset_to)
        for operator in operators(rule)
    }

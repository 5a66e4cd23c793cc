"""Equalities that the optimizer uses and no rule states: a row each, with why, and what checks it.

A rule is proved for all sizes (docs/ledger.md). What stands here is written in code: it is compared
with ONNX Runtime on random instances by the test that its row names, every plan that uses it is
compared with the original's outputs, and `explain`, the summary and the verdict say "not proved".
Code names such a rewrite by a row of this table; tests/optimizer/rewrites/test_unproved.py
finds any that does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

NOT_PROVED = "not proved"


@dataclass(frozen=True)
class Unproved:
    """An equality: what it states, why no rule does, and the test that compares both sides."""

    name: str
    states: str
    reason: str
    test: str


_ORDER = "as rules, order and brackets would fill the e-graph"
_SPELLINGS = (
    "factors stand anywhere among the products, and masks are expanded to sizes that values beside "
    "them have: rules that bring all that to one form would be tried at each product of a model"
)
_SUBGRAPHS = "a rule has no subgraphs"

UNPROVED = (
    # optimizer/egraph: stated once growth has ended.
    Unproved(
        "FuseMultiHeadAttention",
        "softmax(c Q Kt + M) V over heads is MultiHeadAttention",
        _SPELLINGS,
        "tests/optimizer/egraph/test_derived_attention.py::test_attention_is_the_kernel",
    ),
    Unproved(
        "reorder sum",
        "operands added, subtracted or negated may be added in any order",
        _ORDER,
        "tests/optimizer/egraph/test_chains.py::test_sums_are_one_where_their_signed_operands_are",
    ),
    Unproved(
        "reorder product",
        "factors and divisors may be multiplied in any order, unless a quotient divides",
        _ORDER,
        "tests/optimizer/egraph/test_chains.py::"
        "test_products_that_are_one_have_the_same_value_and_lack_it_together",
    ),
    Unproved(
        "reorder maximum",
        "the largest of operands is the same in any order, each counted once",
        _ORDER,
        "tests/optimizer/egraph/test_chains.py::"
        "test_extremes_that_are_one_agree_on_special_values_in_the_runtime",
    ),
    Unproved(
        "reorder minimum",
        "the smallest of operands is the same in any order, each counted once",
        _ORDER,
        "tests/optimizer/egraph/test_chains.py::"
        "test_extremes_that_are_one_agree_on_special_values_in_the_runtime",
    ),
    # Plans of their own.
    Unproved(
        "ComputeInFloat32",
        "a model in float16 is what it is in float32, its inputs widened and its outputs rounded",
        "it changes the types of a whole graph, and numbers are rounded at its outputs alone",
        "tests/optimizer/rewrites/test_compute_in_float32.py::test_it_computes_what_the_runtime_does",
    ),
    Unproved(
        "SplitMaskedAttention",
        "attention under a constant mask is that of blocks of rows to the columns they see",
        "in floating point alone exp(x - 9000) is 0, which no proof about real numbers says; "
        "and of the elements of a mask, [rows, columns], a rule can ask nothing",
        "tests/optimizer/rewrites/test_split_masked_attention.py::test_blocks_compute_the_same",
    ),
    # Moves of rows, where kernels look for regions.
    Unproved(
        "GatherMovedRows",
        "moves that leave rows whole are one Gather of these rows",
        "where each row goes is found by moving their numbers as the whole chain does; rules that "
        "take a move through a Gather are proved for too few ranks: Transpose up to 3 axes of "
        "indices, Slice up to 2, where windows of images have 5 and 3, and that a tensor is a "
        "Gather of its rows isn't proved at all",
        "tests/optimizer/native/test_moved_rows.py::test_rows_are_moved_as_the_chain_does",
    ),
    # Inputs that say nothing and subgraphs, taken out before anything else.
    Unproved(
        "drop default inputs",
        "states of zeros, sequences of full length, masks that hide nothing are as if absent",
        "recurrences of more than one step, and masks by their type, have no specification",
        "tests/optimizer/graph/test_default_inputs.py::"
        "test_inputs_that_say_what_their_absence_says_are_taken_out",
    ),
    Unproved(
        "inline branches",
        "an If of a known condition is the branch that is taken",
        _SUBGRAPHS,
        "tests/optimizer/graph/test_branches.py::test_the_branch_of_a_known_condition_is_inlined",
    ),
    Unproved(
        "unroll loops",
        "a Loop or Scan of few known trips is its body as many times",
        _SUBGRAPHS,
        "tests/optimizer/graph/test_branches.py::test_a_short_loop_is_written_out",
    ),
    Unproved(
        "hoist invariants",
        "what a Loop or Scan computes alike in each trip is computed before it",
        _SUBGRAPHS,
        "tests/optimizer/graph/test_branches.py::test_what_is_the_same_in_each_trip_is_computed_before",
    ),
    # Generated kernels: each step names the region that its kernel stands for.
    Unproved(
        "FuseKernel",
        "a generated kernel computes the nodes of the region that its step names",
        "it is C, which is compared with ONNX Runtime before any race, and no term of an operator",
        "tests/optimizer/native/test_regions.py::test_any_region_computes_what_its_operators_do",
    ),
    Unproved(
        "ConvertConvToKernel",
        "a generated convolution computes the nodes of the region that its step names",
        "it is C, which is compared with ONNX Runtime before any race, and no term of an operator",
        "tests/optimizer/native/test_convolution.py::test_sizes_of_all_kinds",
    ),
    Unproved(
        "propagate shapes",
        "a shape that follows from others is the number or the list of sizes it comes to",
        "it follows sizes through any number of operators",
        "tests/optimizer/native/test_zoo_regions.py::test_every_region_of_a_model_with_free_sizes",
    ),
)

# What holds in any graph, whatever its operators mean.
BY_DEFINITION = {
    "join constants": "a constant is what it is cut from, or joined of, of the same elements",
    "compute filters": "filters are laid out as tensolog.layouts says, when a plan is written",
    "fold constants": "nodes of constants alone are computed, by the runtime",
    "share subexpressions": "equal operators of equal operands are computed once",
    "drop dead code": "what no output needs is not computed",
    "drop copies": "a copy is what is copied",
}

_NAMES = frozenset(row.name for row in UNPROVED)


def is_unproved(name: str) -> bool:
    """Whether a rewrite of this name states an equality without a proof."""
    return name in _NAMES


def marked(name: str) -> str:
    """A rewrite's name, and that no proof speaks of it where none does."""
    return f"{name} ({NOT_PROVED})" if is_unproved(name) else name


def table(rows: Iterable[Unproved] = UNPROVED) -> str:
    """Lay the table out in Markdown."""
    lines = ["| name | states | no rule, since | compared by |", "|---|---|---|---|"]
    lines += [
        f"| {row.name} | {row.states} | {row.reason} | `{row.test.replace('tests/', '', 1)}` |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"

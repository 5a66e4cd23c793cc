"""From the ranks at which a rule was proved to all ranks.

A rule whose operands may have any rank is proved for lists of dimensions of lengths up to R. That
it holds for longer lists follows by one of the arguments below, whose premises are checked on the
statements of length R. All rest on texts that treat the entries of a list alike, so that what is
seen of every case of length R is so for every longer one: those of the operators are (no
specification names an entry by its number), that of the rule is looked through (cutoffs.py).

Slicing (slicing.py). Along an axis on which both sides act point by point, every element of every
tensor depends on elements of the same index only (or of index 0, where a dimension of 1
broadcasts). Fix that index: what is left is the statement without that axis, about slices of the
operands, and it was proved for all operands. If each case of length R has such an axis, and taking
it away leaves a case of length R - 1 that was proved, then length R + 1 follows from R, and so on.

Joining (joining.py). Let two axes, of sizes m and n, go together: every tensor has both or neither,
wherever one is read at an index the other is read at one that runs together with it, over the
elements of a result or within one reduction, and sizes are told as the product m * n only. Then
each pair of indices (i, j) can be taken for one index of an axis of m * n elements, and what
differs at some m and n differs where the two axes are one. If each case of length R has an axis
that can be sliced away or two that can be joined, so that a case of length R - 1 is left, then
R + 1 follows from R: of R + 1 axes, too, two are of one kind, since R axes are of fewer kinds.

Permutations. Where a rule permutes axes as it likes, R must leave three axes at least that no
number in its text speaks of: of two, each permutation undoes itself, so that they don't show what
others do. What six or more of them do one after another may be nothing on three axes, and something
on more: then R must leave an axis more than there are steps, so many as two ways of steps that end
at different places pass by.

Separation (separation.py). Let no constraint or index expression connect variables of two
axes of the list. Then in each class of products that have the same factors the two sides differ by

    D = sum over t of c_t * g_t0 * product over axes a of g_ta,

T terms whose guards g_ta are 0 or 1 and speak of one axis each. Where D is not 0, the terms that
are alive are those whose guards all hold. Each axis kills some terms; keep, one after another, an
axis that kills a term which no axis kept before kills. Since one term at least stays alive, at most
T - 1 axes are kept, and they leave the same terms alive as all axes do. Without the other axes D is
what it was: a counterexample needs no more than T - 1 axes of the list, and R >= T - 1 shows that
there is none. The same holds of the largest of several elements, where a difference is an element
of one side that no element of the other side equals. R must also be 2 or more, or the absence of
connections was not seen; and the axes must stand in one order in all tensors, since a permutation
of more axes is not made of permutations of fewer. Where they stand in other orders, each axis by
itself must be one that can be left out, so that a case of length R - 1 is left: then of R + 1 axes
one that isn't kept can be left out, and R + 1 follows from R.

Where elements are only moved, and one number is filled in wherever there is none, the sides are
equal if they hold the same elements of operands at the same places: the number may count as 0. A
number of elements that others are divided by is no term but a factor of each, and of each axis.

Lists of operands and of numbers have arguments of their own: joining neighbours (operand_lists.py),
that what acts point by point along an axis may act on any number of operands joined along it
(repeated_nodes.py), and that an operator which only moves elements may be any such operator
(data_movement.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....catalog.terms.syntax_tree import Binary, Call, Name, walk
from ...language.rank_bounds import Row, Within, measure_of, separate
from ...language.repetition import repeated_lists, repeats
from ...language.syntax import PatternNode, Rule, Star
from ..cases.axis_notation import notation_use
from ..statement import Outcome, Statement
from .cutoffs import Fixed, cutoffs, permutation_steps
from .data_movement import moves_alike
from .joining import joined
from .operand_lists import any_number_follows, expressions_of
from .repeated_nodes import any_number_of_nodes
from .separation import leaves_out, separates
from .slicing import Program, canonical, slices

# Up to this rank all permutations are tried, and of what has an axis more.
_PERMUTED = 3
# Of so many axes that no number speaks of, permutations show what they may do: two of them know no
# permutation but those that undo themselves.
_TURNED = 3
# What so many permutations say together of three axes, they say of more: no shorter product than
# one of six is the identity whatever permutations of three axes are put for its factors.
_TURNS = 5


@dataclass(frozen=True)
class Lifted:
    """Which ranks and lengths a proof speaks of: `ranks` says it, "all" where `within` is empty."""

    ranks: str = "all"
    within: tuple[Within, ...] = ()


def lift(rule: Rule, statements: Sequence[Statement], outcomes: Sequence[Outcome]) -> Lifted:
    """Return the ranks and lengths for which a rule whose cases are all proved holds.

    `outcomes` are those of the statements, in order; those of cases that can't arise count too.
    """
    lengths = _Lengths(rule, statements, outcomes)
    if not lengths.names or moves_alike(rule):
        return Lifted()
    beyond = frozenset(filter(lengths.lifts, lengths.names))
    beyond |= {name for name in lengths.names if lengths.tied_to(name) & beyond}
    if len(beyond) == len(lengths.names):
        return Lifted()
    within = separate(lengths.names, lengths.rows, beyond)
    return Lifted("; ".join(axis_rule.words for axis_rule in within), within)


class _Lengths:
    """The ranks and lengths that were tried, and what follows from them."""

    def __init__(
        self, rule: Rule, statements: Sequence[Statement], outcomes: Sequence[Outcome]
    ) -> None:
        self.rule, self.statements, self.outcomes = rule, statements, outcomes
        self.names = sorted({name for statement in statements for name in statement.free})
        self.rows: set[Row] = {
            tuple(
                statement.free[name].length if name in statement.free else None
                for name in self.names
            )
            for statement in statements
        }
        self.reach = cutoffs(rule, _fixed(rule, statements)).whole
        self.turns = permutation_steps(rule)
        # how many of each repeated node there are; "" where none is repeated
        self.of_nodes = f"len({repeated_lists(rule)[0]})" if repeats(rule) else ""

    def lifts(self, name: str) -> bool:
        """Whether all larger numbers follow from those tried of one rank or length."""
        if name == self.of_nodes:
            return any_number_of_nodes(self.rule, self.statements)
        extents = [statement.free[name] for statement in self.statements if name in statement.free]
        longest, most = max(e.length for e in extents), min(e.most for e in extents)
        reached = max(longest, most) + _declared_beside(self.rule, name)
        if self.reach >= reached and not _is_number(self.rule, name):
            return False
        if longest < most:
            return self._ends(name, most)
        if self.reach + _TURNED > reached and any(map(self._permutes, self.rule.match)):
            return False
        if self.turns > _TURNS and self.reach + self.turns >= reached:
            return False
        if not any(extent.places for extent in extents):
            return any_number_follows(self.rule, name, longest)
        # of lists that have one length at all ranks, what is left without an axis may be no case
        alike = max(notation_use(self.rule).lengths.values(), default=0) + self.reach < reached
        smaller = {
            canonical(Program.of(statement))
            for statement in self.statements
            if name in statement.free and statement.free[name].length == longest - 1
        }
        return all(
            slices(statement, name, smaller)
            or (alike and separates(statement, name, outcome))
            or joined(statement, name, smaller)
            or leaves_out(statement, name, outcome, smaller)
            for statement, outcome in zip(self.statements, self.outcomes, strict=True)
            if name in statement.free and statement.free[name].length == longest
        )

    def _ends(self, name: str, most: int) -> bool:
        """Whether the conditions of the rule exclude what is longer: the longest tried was no case.

        Not so where something else that may be long was not tried at that length, or where
        permutations were, of which there may be too many to try.
        """
        if most > _PERMUTED and any(map(self._permutes, self.rule.match)):
            return False
        others = {
            (other, extent.most)
            for statement in self.statements
            for other, extent in statement.free.items()
            if other not in (name, self.of_nodes)
        }
        return all(tried + _declared_beside(self.rule, other) >= most for other, tried in others)

    def _permutes(self, node: PatternNode) -> bool:
        """Whether a node permutes the axes of a tensor of any rank, each way as it likes."""
        said = {
            side.text
            for condition in self.rule.given
            if isinstance(condition, Binary) and condition.operator == "="
            for side, other in (
                (condition.left, condition.right),
                (condition.right, condition.left),
            )
            if isinstance(side, Name) and not isinstance(other, Name)
        }
        free = {
            name
            for name, value in node.attributes
            if isinstance(value, Name) and value.text not in said
        }
        if node.rest is not None and "Transpose" in node.operators:
            free |= {"perm"} - dict(node.attributes).keys()
        shape = self.rule.operand(node.inputs[0].value or "").shape if node.inputs else None
        has_rank = shape is not None and not any(isinstance(size, Star) for size in shape)
        return "perm" in free and not has_rank

    def tied_to(self, name: str) -> set[str]:
        """The names whose numbers tell that of a name: always larger by the same, or smaller.

        The operators' texts tie them, as that of Conv does the ranks of image and filters, since
        other combinations were tried and are no cases.
        """
        position = self.names.index(name)
        names = set()
        for other in range(len(self.names)):
            pairs = {
                (number, other_number)
                for row in self.rows
                if (number := row[position]) is not None
                and (other_number := row[other]) is not None
            }
            if (
                other != position
                and len(pairs) > 1
                and len({number - other_number for number, other_number in pairs}) == 1
            ):
                names.add(self.names[other])
        return names


def _fixed(rule: Rule, statements: Sequence[Statement]) -> Fixed:
    """The ranks of tensors and the lengths of lists that are the same in all cases, by name.

    That of an attribute is twice the rank of what its node reads, at most: pads have so many.
    """
    seen: dict[str, set[int]] = {}
    for statement in statements:
        shapes = [(operand.name, operand.shape) for operand in statement.operands]
        shapes += [(definition.name, definition.shape) for definition in statement.definitions]
        for name, shape in shapes:
            length = shape[0] if len(shape) == 1 else None
            seen.setdefault(name, set()).add(length if isinstance(length, int) else len(shape))
    numbers_by_name = {name: max(numbers) for name, numbers in seen.items() if len(numbers) == 1}
    for node in rule.match:
        read = node.inputs[0].value if node.inputs else None
        for _, value in node.attributes:
            if isinstance(value, Name) and read in numbers_by_name:
                numbers_by_name[value.text] = 2 * numbers_by_name[read]
    return tuple(sorted(numbers_by_name.items()))


def _is_number(rule: Rule, name: str) -> bool:
    """Whether it is the rank of a constant of one element of whose shape the rule says nothing."""
    quantity, of = measure_of(name)
    asked = {
        argument.text
        for expression in expressions_of(rule)
        for part in walk(expression)
        if isinstance(part, Call) and part.function in ("rank", "shape", "dim", "size")
        for argument in part.arguments
        if isinstance(argument, Name)
    }
    return quantity == "rank" and rule.operand(of).scalar and of not in asked


def _declared_beside(rule: Rule, name: str) -> int:
    """How many dimensions stand beside a list in every shape that holds it."""
    _, of = measure_of(name)
    shapes = [o.shape for o in rule.operands if o.shape is not None and Star(of) in o.shape]
    return min((len(shape) - 1 for shape in shapes), default=0)


__all__ = ["Lifted", "lift"]

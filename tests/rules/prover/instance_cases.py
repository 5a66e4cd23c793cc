"""The case of a rule that an instance belongs to, with all its symbols known."""

from __future__ import annotations

import numpy as np
from tensolog.rules.compiler.bindings import Bindings
from tensolog.rules.compiler.view import ABSENT
from tensolog.rules.language import schemas
from tensolog.rules.language.conditions import bindings
from tensolog.rules.language.repetition import repeated_lists, repeats, unrolled
from tensolog.rules.prover.cases.case_split import statement_of
from tensolog.rules.prover.cases.composition import Composition, algebra_of, described
from tensolog.rules.prover.cases.enumeration import Choices, NoCaseError
from tensolog.rules.prover.cases.rule_analysis import progressions
from tensolog.rules.prover.cases.source_side import SourceSide
from tensolog.rules.prover.cases.target_side import TargetSide


class NotCoveredError(Exception):
    """What the instance has is among no options."""


class InstanceChoices(Choices):
    """Answers every choice with what the instance has."""

    def __init__(self, facts):
        super().__init__({})
        self.facts = facts

    def pick(self, name, options, kind="index"):
        wanted = self.facts.choice(name, list(options))
        for i, option in enumerate(options):
            if option == wanted and type(option) is type(wanted):
                self.fixed = {**self.fixed, name: i}
                return super().pick(name, options, kind)
        problem = f"{name}: {wanted} is not among {list(options)}"
        if isinstance(wanted, tuple) and all(len(wanted) > len(option) for option in options):
            problem = f"length of {problem}"
        raise NotCoveredError(problem)


class Everything:
    """All names: how each is written is asked for."""

    def __contains__(self, name):
        return True


class Numbers(dict):
    """The numbers that symbols have in an instance."""

    def __init__(self, facts):
        super().__init__()
        self.facts = facts

    def __contains__(self, name):
        return True

    def __getitem__(self, name):
        return self.facts.number(name)


class Facts:
    def __init__(self, instance):
        self.instance = instance
        self.rule, self.view, self.match = instance.rule, instance.view, instance.match
        self.bound = Bindings(self.match, self.view)
        self.opset = instance.model.opset_import[0].version
        self.operators = {
            node.op_type: self.bound.operator(node.name) for node in self.rule.match if node.choices
        }

    # ---- tensors by the names that a statement gives them
    def value(self, name):
        base, _, place = name.rpartition(".")
        if base in self.bound.lists:
            return self.bound.lists[base][int(place)]
        if name in self.bound.lists:
            return self.bound.lists[name][0]
        return self.match.values[name]

    def contents(self, name):
        array = self.view.constant(self.value(name))
        return None if array is None else np.asarray(array).reshape(-1).tolist()

    def setting(self, label):
        """The value of an attribute by the label of its choice: a name, or `rest.attribute`."""
        if label in self.bound.names:
            return self.bound.names[label]
        base, _, attribute = label.rpartition(".")
        node = bindings(self.rule).rests.get(base, base)
        value = self.bound.rests.get(base, {}).get(attribute)
        if value is None:
            value = self.bound.attribute(node, attribute)
        if value is None:
            operator = self.bound.operator(node)
            for block in described(operator, self.opset).blocks:
                for attribute_ in block.attributes:
                    if attribute_.name == attribute:
                        value = getattr(attribute_.default, "value", None)
        return value

    def choice(self, name, options):
        if name == "opset":
            names = {
                self.operators.get(n.op_type, n.operator)
                for n in (*self.rule.match, *self.rule.rewrite)
            }
            return next(
                (
                    option
                    for option in options
                    if all(
                        described(o, option).hash == described(o, self.opset).hash for o in names
                    )
                ),
                self.opset,
            )
        head, _, tail = name.partition(" of ")
        if name.startswith("operator "):
            return self.operators[name.removeprefix("operator ")]
        if name.endswith(" is absent"):
            return self.match.values[name.removesuffix(" is absent")] == ABSENT
        if name.endswith(" is left out"):
            rest, _, attribute = name.removesuffix(" is left out").rpartition(".")
            return attribute not in self.bound.rests[rest]
        if name.startswith("sizes of 1 that "):
            node = name.removeprefix("sizes of 1 that ").removesuffix(" drops")
            read = self.view.inputs(self.match.nodes[node])[0]
            return tuple(size == 1 for size in self.view.shape(read))
        if name.endswith(" is given"):
            return self.setting(name.removesuffix(" is given")) is not None
        if head == "type":
            if self.bound.lists.get(tail) == () or self.value(tail) == ABSENT:
                return options[0]
            dtype = self.view.dtype(self.value(tail))
            same = [o for o in options if algebra_of(o) == algebra_of(dtype)]
            return dtype if dtype in same or not same else same[0]
        if head == "rank":
            contents = self.contents(tail)
            shape = self.view.shape(self.value(tail))
            listed = contents is not None and len(shape) == 1 and self._is_list(tail)
            return len(contents) if listed else len(shape)
        if head == "length":
            return len(self.bound.names[tail])
        if head == "number":
            unnamed = "unused outputs of "
            if tail.startswith(unnamed):
                return self.unused(tail.removeprefix(unnamed))
            if tail.startswith("axes of "):
                return self._cut(tail.removeprefix("axes of "))
            return len(self.bound.lists[tail])
        if head == "size":
            return self.bound.names[tail]
        if head == "form":
            return tuple(v if v in (0, -1) else None for v in self.contents(tail))
        if head == "direction" and tail:
            steps = tuple(1 if step > 0 else -1 for step in self.contents(tail))
            return steps if steps in options else steps[:1]
        if head == "order":
            return self._order(self._listed(tail), options)
        signed = head == "sign"
        wanted = self._listed(tail) if signed else self._listed(name)
        if wanted in options:
            return wanted
        flatten = any(node.op_type == "Flatten" for node in self.rule.match)
        return self._from_the_front(wanted, options, more=0 if flatten else 1)

    def unused(self, label):
        """How many outputs a node of the match has besides those that the rule names."""
        named = next(node.outputs for node in self.rule.match if node.name == label)
        return len(self.view.outputs(self.match.nodes[label])) - len(named)

    def _is_list(self, name):
        """Whether an operand is one whose elements the operator must know."""
        for node in self.rule.match:
            for position, item in enumerate(node.inputs):
                if item.value == name:
                    known_positions = described(
                        self.operators.get(node.op_type, node.operator), self.opset
                    ).known_inputs
                    return position in known_positions
        return False

    def _listed(self, label):
        if label in self.match.values and label not in self.bound.names:
            contents = self.contents(label)
            shape = self.view.shape(self.value(label))
            return tuple(contents) if shape or len(contents) != 1 else contents[0]
        return schemas.plain(self.setting(label))

    def _cut(self, label):
        """How many axes a Slice that names none cuts."""
        starts = self.view.inputs(self.match.nodes[label])[1]
        return self.view.shape(starts)[0]

    def _order(self, wanted, options):
        """The option that is the same axes in the same order; another order means the same."""
        for rank in range(1, 9):  # the options are the same places at every rank that has them
            order = tuple(axis % rank for axis in wanted if -rank <= axis < rank)
            if order in options:
                return order
        return options[0]

    def _from_the_front(self, wanted, options, more):
        """The option that is the same axis or axes, counted from the front."""
        # the options of axes are complete for the rank: they tell it
        if isinstance(wanted, int) and all(isinstance(o, int) for o in options):
            rank = max(options) + more
            return wanted % rank if -rank <= wanted < rank else wanted
        if isinstance(wanted, tuple) and options and isinstance(options[0], tuple):
            rank = max(max(o, default=0) for o in options) + 1
            return tuple(sorted(a % rank for a in wanted))
        return wanted

    def number(self, name):
        if name in self.bound.names and not isinstance(self.bound.names[name], tuple):
            content = self.bound.names[name]
            if content is not None:
                return content
        base, _, place = name.rpartition(".")
        if place.isdigit():
            index = int(place)
            if isinstance(self.bound.names.get(base), tuple):
                return self.bound.names[base][index]
            if base in self.match.values or base.rpartition(".")[0] in self.bound.lists:
                value = self.value(base)
                if self._is_list(base) or base in progressions(self.rule):
                    return self.contents(base)[index]
                return self.view.shape(value)[index]
            content = self.setting(base)
            if content is None:
                label = base.rpartition(".")[2]
                return {"pads": 0, "output_padding": 0}.get(label, 1)
            return content[index]
        content = self.setting(name)
        if content is None:
            raise NotCoveredError(f"{name} has no number")
        return content


def concrete(instance):
    """The statement of an instance, all of whose sizes are numbers; NotCoveredError without one."""
    facts = Facts(instance)
    rule = instance.rule
    if repeats(rule):  # as the prover does: what is repeated is written out
        (many,) = {
            len(facts.bound.lists[name])
            for name in repeated_lists(rule)
            if name in facts.bound.lists
        }
        rule = unrolled(rule, many)
    choices = InstanceChoices(facts)
    operators = {
        name: choices.pick(f"operator {name}", options, "element") for name, options in rule.choices
    }
    composition = Composition(facts.opset)
    left = SourceSide(
        rule, choices, operators, composition, Numbers(facts), as_choices=Everything()
    )
    try:
        left.build()
    except NoCaseError as error:
        raise AssertionError(f"an instance is no case: {error}") from error
    source = frozenset(definition.name for definition in left.composition.definitions)
    right = TargetSide(left)
    right.build()
    if rule.correct:  # what holds beside a region alone is made whole
        right.correct()
    return statement_of(rule, choices, left, right, source)

"""How far rules that were found lead: which rules of others they derive, by saturation alone.

    python -m benchmarks.generation SAMPLES.rules --found FOUND.rules [--shipped] [--write TABLE.md]

First each rule found is run by ONNX Runtime, which knows nothing of the specifications, on random
instances and numbers: both sides must agree. Then each rule of SAMPLES (as `tensolog rules import
FILE --out SAMPLES.rules` writes those of TASO and TENSAT that are true) is drawn at some sizes;
both sides go into one e-graph with the rules found and nothing else, or with the shipped ones too.
What is not derived is tried again in a larger saturation; what isn't then either is told by class.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from tensolog.optimizer.egraph.equalities import BUDGET
from tensolog.optimizer.egraph.redundancy import redundancy
from tensolog.rules import Rule, load_rules
from tensolog.rules.gate.floating.input_families import feeds
from tensolog.rules.gate.onnx_models import NotRunError, TargetError, draw_sides

from .environment import describe, markdown

# Instances of each rule found, each on numbers of two kinds.
_INSTANCES = 8
# The operator set from which on all of the operators mean what rules are generated for.
_OPSET = 18
# What tells a saturation that is too short from rules that are missing.
_LARGER = replace(BUDGET, rounds=8, nodes=12_000, matches=2_000)
# Operators that make the constants of TASO and TENSAT: identities, ones, pooling kernels.
_CONSTANTS = frozenset(("ConstantOfShape", "EyeLike", "Expand", "Tile"))


def named_apart(rules: Sequence[Rule]) -> list[Rule]:
    """Rules of several runs, each once, those that share a name with a number behind it."""
    seen: dict[str, Rule] = {}
    for rule in {rule.hash: rule for rule in rules}.values():
        name, number = rule.name, 1
        while name in seen:
            number += 1
            name = f"{rule.name}{number}"
        seen[name] = replace(rule, name=name)
    return list(seen.values())


def disagreement(rule: Rule, instances: int, seed: int) -> str | None:
    """Where ONNX Runtime computes something else on the right side; "" where it ran nothing."""
    rng = np.random.default_rng(seed)
    ran = False
    drawn = draw_sides(rule, instances, seed, "float32")
    for sides in drawn:
        for whole in (False, True):
            numbers = feeds(sides.operands, rng, "normal")
            if whole:
                # Of small whole numbers sums and products are exact: nothing passes for rounding.
                numbers = {
                    name: np.rint(4 * array) if array.dtype.kind == "f" else array
                    for name, array in numbers.items()
                }
            try:
                before, after = sides.run(numbers)
            except NotRunError:
                continue
            except TargetError as error:
                return str(error)
            ran = True
            for first, other in zip(before, after, strict=True):
                scale = max(1.0, float(np.abs(first[np.isfinite(first)]).max(initial=0.0)))
                if first.shape != other.shape or first.dtype != other.dtype:
                    return f"{first.dtype}{first.shape} and {other.dtype}{other.shape}"
                if first.dtype.kind != "f":
                    agree = np.array_equal(first, other)
                else:
                    agree = np.allclose(first, other, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)
                if not agree:
                    return f"other numbers for {sorted(numbers)} of {first.shape}"
    return None if ran else ""


def outcome_of(rule: Rule, known: Sequence[Rule], nodes: int, operators: set[str]) -> str:
    """Whether rules derive another one, and if not, the class of it."""
    rule = replace(rule, opset_from=max(rule.opset_from, _OPSET))
    first = redundancy(rule, known, draws=1).status
    if first != "new":
        return first
    if redundancy(rule, known, draws=1, budget=_LARGER).status == "derived":
        return "derived in a larger saturation only"
    return why_not(rule, nodes, operators)


def why_not(rule: Rule, nodes: int, operators: set[str]) -> str:
    """The class of a rule that is not derived."""
    used = {name for node in (*rule.match, *rule.rewrite) for name in node.operators}
    sides = max(len(rule.match), len(rule.rewrite))
    if used & _CONSTANTS:
        return "needs constants that are made (identities, ones, pooling kernels)"
    if "Split" in used or len(rule.outputs) > 1:
        return "several outputs (Split)"
    if missing := used - operators:
        return f"operators that the run had not: {', '.join(sorted(missing))}"
    if sides > nodes:
        return f"more than {nodes} operators on a side"
    return "not derived"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print, or write, the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", nargs="*", type=Path)
    parser.add_argument("--found", nargs="+", type=Path, required=True)
    parser.add_argument("--shipped", action="store_true")
    parser.add_argument("--nodes", type=int, default=3, help="what the runs were asked for")
    parser.add_argument("--seed", type=int, default=0, help="draws instances and numbers")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    generated = named_apart([rule for path in options.found for rule in load_rules([path])])
    known = [*generated, *(load_rules() if options.shipped else ())]
    verdicts = {rule.name: disagreement(rule, _INSTANCES, options.seed) for rule in generated}
    false = {name: reason for name, reason in verdicts.items() if reason}
    silent = [name for name, reason in verdicts.items() if reason == ""]
    operators = {
        op for rule in generated for n in (*rule.match, *rule.rewrite) for op in n.operators
    }
    counts: Counter[str] = Counter()
    missed: dict[str, list[str]] = {}
    for path in options.samples:
        for rule in load_rules([path]):
            outcome = outcome_of(rule, known, options.nodes, operators)
            counts[outcome] += 1
            print(f"{rule.name}: {outcome}", flush=True)
            if outcome != "derived":
                missed.setdefault(outcome, []).append(rule.name)
    lines = [
        f"{len(generated)} rules found, each run on {_INSTANCES} instances by ONNX Runtime: "
        f"{len(false)} false, {len(silent)} not run.",
        *(f"- {name}: {reason}" for name, reason in false.items()),
        *([f"- not run: {', '.join(silent)}"] if silent else ()),
        "",
        f"{sum(counts.values())} true rules of others:",
        "",
    ]
    lines += ["| outcome | rules |", "|---|---|"]
    lines += [f"| {outcome} | {count} |" for outcome, count in counts.most_common()]
    lines += ["", *(f"{outcome}: {', '.join(names)}" for outcome, names in missed.items())]
    text = "\n".join(lines) + "\n"
    if options.write is not None:
        options.write.write_text(f"{markdown(describe())}\n\n{text}", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

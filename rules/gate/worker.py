"""A process that puts rules through the gate, one after the other, for as long as it is asked.

Run as `python -m tensolog.rules.gate.worker`: it reads pickled triples from its input, a rule,
options, and whether to measure what the rule does in floating point. It writes pickled answers to
its output: "ready", then each verdict, and after the verdict, if asked, what was measured.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..syntax import Rule
    from .floating import FloatingRecord
    from .verdict import Verdict


def main() -> None:
    """Answer until the input ends."""
    # What solvers print must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from .prove import prove_rule

    def answer(what: object) -> None:
        pickle.dump(what, answers)
        answers.flush()

    answer("ready")
    while True:
        try:
            rule, options, measured = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        verdict = prove_rule(rule, **options)
        answer(verdict)
        if measured:
            answer(_floating(rule, verdict))


def _floating(rule: Rule, verdict: Verdict) -> FloatingRecord | None:
    """Measure a rule that was proved; None for others, and where it can't be run."""
    from .floating import floating_record

    if verdict.status not in ("proved", "bounded"):
        return None
    try:
        return floating_record(rule, proved=True)
    except Exception as error:  # a measurement that fails takes no proof away
        print(f"{rule.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


if __name__ == "__main__":
    main()

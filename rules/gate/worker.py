"""A process that puts rules through the gate, one after the other, for as long as it is asked.

Run as `python -m tensolog.rules.gate.worker`: it reads pickled triples from its input, a rule,
options, and whether to measure what the rule does in floating point. It writes pickled answers to
its output: "ready", then each verdict, and if asked the verdict again, with what was measured; each
with the processor time, in seconds, that it has taken by then.
"""

from __future__ import annotations

import os
import pickle
import sys
import time

# Imported within functions: the prover, once its output can't come between answers.


def main() -> None:
    """Answer until the input ends."""
    # What solvers print must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from .gate import prove_rule

    def answer(message: object) -> None:
        pickle.dump((message, time.process_time()), answers)
        answers.flush()

    answer("ready")
    while True:
        try:
            rule, options, floating = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        verdict = prove_rule(rule, **options)
        answer(verdict)
        if floating:
            from .floating.numeric_class import measured

            answer(measured(rule, verdict, options["timeout"]))


if __name__ == "__main__":
    main()

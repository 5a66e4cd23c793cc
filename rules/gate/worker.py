"""A process that puts rules through the gate, one after the other, for as long as it is asked.

Run as `python -m tensolog.rules.gate.worker`: it reads pickled pairs of a rule and options from its
input and writes pickled verdicts to its output, the word "ready" first.
"""

from __future__ import annotations

import os
import pickle
import sys


def main() -> None:
    """Answer until the input ends."""
    # What solvers print must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from .prove import prove_rule

    pickle.dump("ready", answers)
    answers.flush()
    while True:
        try:
            rule, options = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(prove_rule(rule, **options), answers)
        answers.flush()


if __name__ == "__main__":
    main()

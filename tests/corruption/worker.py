"""A process that runs commands of tensolog one after the other, so that each needs no new Python.

Reads a JSON list of arguments a line; answers with the exit code and what was printed, as JSON on a
line. What libraries of C write to the process's streams counts as printed.
"""

import gc
import json
import os
import sys
import tempfile
from typing import TextIO


def answer(arguments: list[str], stream: TextIO) -> None:
    """Run one command with standard output and error going to files."""
    from tensolog.cli import run

    with tempfile.TemporaryFile("w+b") as out, tempfile.TemporaryFile("w+b") as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            code = run(arguments)
            gc.collect()  # what the end of a process would remove: temporary folders
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        out.seek(0)
        err.seek(0)
        texts = [file.read().decode(errors="replace") for file in (out, err)]
    stream.write(json.dumps({"code": code, "out": texts[0], "err": texts[1]}) + "\n")
    stream.flush()


def main() -> None:
    """Answer until the input ends."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stream:
        for line in sys.stdin:
            answer(json.loads(line), stream)


if __name__ == "__main__":
    main()

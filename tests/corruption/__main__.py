"""`python -m tests.corruption`: many damaged models through the command line."""

import argparse
import sys
import tempfile
from pathlib import Path

from .campaign import campaign


def main() -> int:
    """Run the campaign; exit with 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.corruption", description=__doc__)
    parser.add_argument("--count", type=int, default=2_000, help="how many mutations [2000]")
    parser.add_argument("--seed", type=int, default=0, help="other mutations [0]")
    parser.add_argument("--first", type=int, default=0, help="number of the first one [0]")
    parser.add_argument(
        "--keep", type=Path, help="an empty folder, where the models stay that fail"
    )
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="corruption-") as name:
        folder = options.keep or Path(name)
        folder.mkdir(exist_ok=True)
        for case, problems in campaign(folder, options.count, options.seed, options.first):
            if problems:
                failed += 1
                (folder / "case").rename(folder / f"case-{case.number}")
                print(f"{case.number} {case.model}: {case.damage} ({case.command})")
                for problem in problems:
                    print(f"    {problem[:600]}")
            if sys.stderr.isatty() or case.number % 100 == 99:
                print(f"{case.number + 1 - options.first} of {options.count}", file=sys.stderr)
    print(f"{options.count} mutations, seed {options.seed}: {failed} with something wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Build a model with random weights, no download: python examples/build_model.py NAME OUT."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import onnx

# The zoo lies beside this folder and is no part of the installed package.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks.zoo import ARCHITECTURES, build


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", metavar="NAME", help="one of those --list prints")
    parser.add_argument("out", nargs="?", metavar="OUT", type=Path, help="the .onnx file to write")
    parser.add_argument("--list", action="store_true", help="list the architectures and stop")
    parser.add_argument("--tiny", action="store_true", help="a small version, built at once")
    parser.add_argument("--dynamic", action="store_true", help="leave batch and length open")
    arguments = parser.parse_intermixed_args()  # options may stand between NAME and OUT
    if arguments.list:
        for name, architecture in ARCHITECTURES.items():
            print(f"{name:12} {(architecture.builder.__doc__ or '').splitlines()[0]}")
        return
    if arguments.name is None or arguments.out is None:
        parser.error("give NAME and OUT, or --list")
    if arguments.name not in ARCHITECTURES:
        parser.error(f"unknown NAME {arguments.name!r}; --list prints the names")
    if not arguments.out.resolve().parent.is_dir():
        parser.error(f"the folder of {arguments.out} does not exist; create it first")
    model = build(arguments.name, tiny=arguments.tiny, dynamic=arguments.dynamic)
    onnx.save(model, arguments.out)
    print(f"{arguments.out}: {len(model.graph.node)} nodes, {model.ByteSize() / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

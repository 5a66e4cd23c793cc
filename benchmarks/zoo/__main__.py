"""Command line of the zoo: python -m benchmarks.zoo NAME -o FILE."""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx

from . import ARCHITECTURES, SECOND, build


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description=__doc__)
    parser.add_argument("name", choices=[*ARCHITECTURES, *SECOND])
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--opset", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    extra = {"opset": arguments.opset} if arguments.opset else {}
    model = build(
        arguments.name,
        tiny=arguments.tiny,
        dynamic=arguments.dynamic,
        seed=arguments.seed,
        **extra,
    )
    onnx.save(model, arguments.out or Path(f"{arguments.name}.onnx"))


if __name__ == "__main__":
    main()

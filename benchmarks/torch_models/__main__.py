"""Command line: python -m benchmarks.torch_models NAME -o FILE."""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx

from . import EXPORTERS, MODULES, export


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_models", description=__doc__)
    parser.add_argument("name", choices=MODULES)
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--exporter", choices=EXPORTERS, default="dynamo")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--opset", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = vars(parser.parse_args())
    out = arguments.pop("out") or Path(f"{arguments['name']}.onnx")
    onnx.save(export(arguments.pop("name"), **arguments), out)


if __name__ == "__main__":
    main()

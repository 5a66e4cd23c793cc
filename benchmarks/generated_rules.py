"""The rules of benchmarks/data/generated, from nothing: a run for each family of operators.

    python -m benchmarks.generated_rules FOLDER [--only NAME …] [--write TABLE.md]

Each run knows what those before it found, and writes what is new into a file of its own. Budgets
are processor time, so that they mean the same on a machine that others use. A run whose file is
there is not repeated: an interrupted command goes on, and a file that is removed is made anew. What
the rules derive, and whether ONNX Runtime agrees with them, says `python -m benchmarks.generation`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .environment import describe, markdown
from .rows import table_row

_RECORDS = "runs.json"


@dataclass(frozen=True)
class Family:
    """Operators that occur together, and how far a run over them goes.

    `nodes` are operators on a side, `inputs` variables of the main shape; `budget_s` is processor
    time in seconds. Laws of few operators come first: what they derive is no candidate later.
    """

    name: str
    operators: str
    nodes: int = 3
    inputs: int = 3
    constants: bool = False
    budget_s: float = 60.0

    @property
    def options(self) -> list[str]:
        """What `tensolog rules generate` is asked."""
        words = ["--operators", self.operators, "--nodes", str(self.nodes)]
        words += ["--inputs", str(self.inputs), "--budget", f"{self.budget_s:g}"]
        words += ["--processor", "--jobs", "1", "--from-nothing", "--unmeasured"]
        return [*words, *(["--constants"] if self.constants else [])]


FAMILIES = (
    Family("sums-of-products", "Add,Mul"),
    Family("parts", "Split,Concat,Relu,Sigmoid,Tanh", nodes=2, inputs=2),
    Family("concatenated-sums", "Concat,Add"),
    Family("concatenated-products", "Concat,Mul"),
    Family("products-of-matrices", "MatMul,Add"),
    Family("concatenated-matrices", "MatMul,Concat"),
    Family("transposes", "Transpose,Add,Mul", inputs=2),
    Family("transposed-matrices", "MatMul,Transpose,Mul", inputs=2),
    Family("transposed-parts", "Concat,Transpose,Relu", inputs=2),
    Family("constants", "MatMul,Mul,Add", nodes=1, inputs=2, constants=True),
    Family("averages-as-convolutions", "Conv,AveragePool", nodes=1, inputs=2, constants=True),
    Family("sums-of-convolutions", "Conv,Add"),
    Family("scaled-convolutions", "Conv,Mul", nodes=2, inputs=2),
    Family("concatenated-convolutions", "Conv,Concat", budget_s=120.0),
    Family("sums-of-concatenated-convolutions", "Conv,Concat,Add", budget_s=90.0),
    Family("averages-of-sums", "AveragePool,Add,Mul", inputs=2, budget_s=120.0),
    Family("concatenated-averages", "AveragePool,Concat", inputs=2, budget_s=90.0),
    Family("maxima", "MaxPool,Concat,Relu", inputs=2, budget_s=90.0),
    Family("padded-convolutions", "Conv,Pad", nodes=2, inputs=2, budget_s=180.0),
)


def file_of(folder: Path, number: int) -> Path:
    """The file of the rules that one of FAMILIES adds."""
    return folder / f"{number + 1:02}-{FAMILIES[number].name}.rules"


def run(folder: Path, number: int) -> dict[str, Any]:
    """Generate one family's rules beside those of the earlier ones; what came of it, in numbers."""
    earlier = [path.name for before in range(number) if (path := file_of(folder, before)).exists()]
    command = [sys.executable, "-m", "tensolog", "rules", "generate", *FAMILIES[number].options]
    command += [word for name in earlier for word in ("--known", name)]
    command += ["-o", file_of(folder, number).name, "--json"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    record = json.loads(done.stdout)
    rules = sum(len(candidate["rules"]) for candidate in record["candidates"])
    return {"totals": record["totals"], "rules": rules, "processor_s": record["processor_s"]}


def row(family: Family, record: Mapping[str, Any]) -> str:
    """A line of the table."""
    totals: Mapping[str, int] = record["totals"]
    said = ", ".join(f"{count} {status}" for status, count in sorted(totals.items()))
    words = " ".join(family.options[:6]) + " --constants" * family.constants
    cells = (family.name, f"`{words}`", said, str(record["rules"]), f"{record['processor_s']:.0f}")
    return table_row(cells)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the files that are missing, one run after the other, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", help="names of families; all that are missing")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    kept = options.folder / _RECORDS
    records: dict[str, Any] = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    for number, family in enumerate(FAMILIES):
        if file_of(options.folder, number).exists() or (
            options.only and family.name not in options.only
        ):
            continue
        record = run(options.folder, number)
        records[family.name] = record
        kept.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        print(row(family, record), flush=True)
    head = "| family | `tensolog rules generate` | candidates | rules | processor seconds |"
    lines = [head, "|---|---|---|---|---|"]
    lines += [row(family, records[family.name]) for family in FAMILIES if family.name in records]
    if options.write is not None:
        options.write.write_text(f"{markdown(describe())}\n\n" + "\n".join(lines) + "\n", "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

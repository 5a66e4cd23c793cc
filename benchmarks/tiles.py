"""What configurations of products are worth, beside today's constants, on shapes not seen before.

    python -m benchmarks.tiles collect --seed 1 -o trained.json
    python -m benchmarks.tiles collect --seed 2 -o unseen.json
    python -m benchmarks.tiles score trained.json unseen.json --out tiles.json
    python -m benchmarks.tiles ship trained.json                # what `optimize` predicts from
    python -m benchmarks.tiles rank [unseen.json]    # beside boosted trees, shapes left out

`collect` draws shapes of products and a pool of their legal configurations, and races of each shape
all that are legal and in the pool, interleaved, beside the default, in sessions of ONNX Runtime
with one thread; shapes that the file has already are left out. With `--passes 2` it does so twice,
in sessions of their own: what one says of the other is the ceiling of any ranking. `--compile`
compiles what it will race, and ends. `score` ranks the configurations of unseen shapes by what
others took, as `optimize` does, takes the best of five trials, and races that against the default
twice more.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper, numpy_helper
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.native.configurations import ranking
from tensolog.optimizer.native.configurations.chosen import Chosen
from tensolog.optimizer.native.configurations.legal import legal
from tensolog.optimizer.native.configurations.processor import Processor, processor
from tensolog.optimizer.native.configurations.product_configuration import (
    DEFAULTS,
    ProductConfiguration,
    ProductSizes,
)
from tensolog.optimizer.native.configurations.product_features import features
from tensolog.optimizer.native.configurations.ranking import (
    Sample,
    predicted_ratios,
    shipped_samples,
)
from tensolog.optimizer.native.configurations.timed import among
from tensolog.optimizer.native.kernel import RegionKernel
from tensolog.optimizer.native.library import Library, build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.product.matrix_products import configured, products
from tensolog.profiles.learning.scores.metrics import (
    kendall_tau,
    noise_ceiling,
    ordered_pair_accuracy,
    top_k_error,
)
from tensolog.profiles.machine import identity
from tensolog.profiles.races.race import Lap

from .configuration_races import KEPT, beside_default, gained, interval, races
from .rows import rows_file, table, write_rows, write_whole

# Rows as models have them: tokens, places of an image, a batch.
ROWS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 25, 30, 32, 49, 50, 64, 77, 100, 128, 196, 197)
ROWS += (256, 300, 384, 512)
SIZES = (32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1000, 1024, 1280, 1536)
SIZES += (2048, 3072)
# Products and numbers of a matrix, at most.
MOST_PRODUCTS, MOST_NUMBERS = 150 << 20, 1 << 21
# Shapes whose kernels are compiled together.
BATCH = 8
# Trials of a shape, and parts that shapes are left out in.
TRIALS, PARTS = 5, 5
# Times that differ by such a share are apart whatever the noise.
APART = 0.02
# What is said of how pairs are ordered, and the keys of rows that it stands in.
ACCURACIES = {
    "OPA": "opa",
    f"OPA of pairs {APART:.0%} apart": "opa apart",
    "OPA between two passes": "opa ceiling",
    f"OPA between two passes of pairs {APART:.0%} apart": "opa apart ceiling",
}


def shapes(count: int, seed: int) -> list[ProductSizes]:
    """Draw different shapes."""
    random = np.random.default_rng(seed)
    drawn: dict[ProductSizes, None] = {}
    while len(drawn) < count:
        rows, depth, columns = (int(random.choice(choices)) for choices in (ROWS, SIZES, SIZES))
        if rows * depth * columns <= MOST_PRODUCTS and depth * columns <= MOST_NUMBERS:
            drawn[ProductSizes(rows, depth, columns)] = None
    return list(drawn)


def pool(here: Processor, count: int, seed: int) -> set[ProductConfiguration]:
    """Draw configurations that are legal for some of 200 shapes, and the default."""
    random = np.random.default_rng(seed)
    drawn = shapes(200, seed)
    configurations = {DEFAULTS[here.level]}
    while len(configurations) < count:
        every = legal(drawn[random.integers(len(drawn))], here)
        configurations.add(every[random.integers(len(every))])
    return configurations


# ------------------------------------------------------------------------------------ measuring


def product(sizes: ProductSizes) -> tuple[Meanings, RegionKernel]:
    """Return a product with a constant matrix, a bias and an activation, as it is found."""
    random = np.random.default_rng(0)
    arrays = {"w": (sizes.depth, sizes.columns), "b": (sizes.columns,)}
    initializers = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in arrays.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("Relu", ["q"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, 1, [sizes.rows, size])
        for name, size in (("x", sizes.depth), ("y", sizes.columns))
    ]
    proto = helper.make_graph(nodes, "product", ends[:1], ends[1:], initializers)
    imports = [helper.make_opsetid("", 20)]
    graph = load_graph(helper.make_model(proto, opset_imports=imports, ir_version=8))
    graph.types = infer_types(graph)
    meanings = Meanings(graph)
    (region_kernel,) = products(meanings, graph.nodes)
    return meanings, region_kernel


@dataclass(frozen=True)
class Candidates:
    """The kernels of one shape and their configurations, the default first."""

    sizes: ProductSizes
    meanings: Meanings
    kernels: list[RegionKernel]
    configurations: list[ProductConfiguration]


def candidates(
    sizes: ProductSizes, others: Sequence[ProductConfiguration], here: Processor
) -> Candidates:
    """Return the kernels of a shape in the default configuration and in some others."""
    meanings, default = product(sizes)
    chosen = [Chosen(configuration, sizes, here.level) for configuration in others]
    kernels = [default, *(configured(meanings, default, choice) for choice in chosen)]
    return Candidates(sizes, meanings, kernels, [DEFAULTS[here.level], *others])


def compiled(batch: Sequence[Candidates], here: Processor) -> Library:
    """Compile all kernels of some shapes together, or find them in the cache of kernels."""
    start = time.monotonic()
    kernels = [
        region_kernel.kernel for configuration in batch for region_kernel in configuration.kernels
    ]
    library = build(kernels, levels=[here.level])
    print(f"compiled in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return library


def collect(
    drawn: Sequence[ProductSizes],
    tried: set[ProductConfiguration],
    here: Processor,
    budget_s: float,
    passes: int = 1,
    measured: Collection[ProductSizes] = (),
) -> Iterator[list[dict[str, Any]]]:
    """Race the configurations of shapes, each shape for about `budget_s` seconds in all passes.

    The rows of a shape come as soon as it was raced, but for those `measured` before. Without a
    budget, kernels are compiled and nothing is raced.
    """
    for start in range(0, len(drawn), BATCH):
        if all(sizes in measured for sizes in drawn[start : start + BATCH]):
            continue
        batch = [
            candidates(
                sizes,
                [
                    configuration
                    for configuration in legal(sizes, here)[1:]
                    if configuration in tried
                ],
                here,
            )
            for sizes in drawn[start : start + BATCH]
        ]
        library = compiled(batch, here)
        for configuration in batch:
            if budget_s and configuration.sizes not in measured:
                raced = races(
                    configuration.meanings,
                    configuration.kernels,
                    library,
                    budget_s=budget_s,
                    count=passes,
                )
                yield rows_of(configuration, raced)


def rows_of(of: Candidates, raced: Sequence[Sequence[Lap]]) -> list[dict[str, Any]]:
    """Return what the configurations of a shape took, and the ratio in a second pass `again`."""
    first = raced[0]
    print(
        f"{of.sizes}, {len(first)} configurations, {first[0].median_ns / 1000:.0f} us, "
        f"{first[0].samples} rounds",
        file=sys.stderr,
        flush=True,
    )
    columns = zip(of.configurations, first, *map(beside_default, raced), strict=True)
    return [
        {
            "sizes": numbers(of.sizes),
            "configuration": list(astuple(configuration)),
            "median_ns": round(lap.median_ns),
            "operators_ns": round(lap.median_ns / lap.ratio),
            **{name: round(value, 4) for name, value in vars(timed).items()},
            **({"again": round(again[0].ratio, 5)} if again else {}),
        }
        for configuration, lap, timed, *again in columns
    ]


def confirm(
    trained: Sequence[Landscape], unseen: Sequence[Landscape], here: Processor, budget_s: float
) -> list[dict[str, Any]]:
    """Race what is chosen of five trials of each unseen shape against the default once more.

    The five are those predicted to gain most. Being the best of several flatters a time, so the
    gain is what this race says; where the best trial was not faster beyond noise, the default
    stays, and the gain is 1.
    """
    samples = samples_of(trained)
    chosen: list[tuple[Landscape, ProductConfiguration | None]] = []
    for landscape in unseen:
        predicted = predicted_ratios(landscape.sizes, landscape.configurations, samples, here)
        tried = np.argsort(predicted, kind="stable")[:TRIALS]
        best = tried[landscape.ratios[tried].argmin()]
        gains = best > 0 and landscape.highs[best] < 1.0
        chosen.append((landscape, landscape.configurations[best] if gains else None))
    again = {
        landscape.sizes: candidates(landscape.sizes, [configuration], here)
        for landscape, configuration in chosen
        if configuration is not None
    }
    library = compiled(list(again.values()), here) if again else None
    rows = []
    for landscape, configuration in chosen:
        row: dict[str, Any] = {"sizes": numbers(landscape.sizes), **KEPT}
        if configuration is not None and library is not None:
            kernels = again[landscape.sizes]
            raced = races(kernels.meanings, kernels.kernels, library, budget_s=budget_s)
            timed = among([beside_default(laps)[1] for laps in raced])
            row |= {"configuration": configuration.description, **gained(timed)}
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    return rows


def numbers(sizes: ProductSizes) -> list[int]:
    """Return rows, depth and columns."""
    return [sizes.rows, sizes.depth, sizes.columns]


# -------------------------------------------------------------------------------------- scoring


@dataclass(frozen=True)
class Landscape:
    """The configurations of one shape, the default first, and their times over its time.

    `highs` are the upper ends of their intervals, `passes` the ratios of each pass where there were
    two: `ratios` are their means then.
    """

    sizes: ProductSizes
    configurations: list[ProductConfiguration]
    ratios: np.ndarray
    highs: np.ndarray
    passes: tuple[np.ndarray, np.ndarray] | None = None


def landscapes(rows: Sequence[Mapping[str, Any]]) -> list[Landscape]:
    """Sort rows by shape."""
    landscape_of: dict[ProductSizes, Landscape] = {}
    for row in rows:
        sizes = ProductSizes(*row["sizes"])
        landscape = landscape_of.setdefault(sizes, Landscape(sizes, [], np.empty(0), np.empty(0)))
        landscape.configurations.append(ProductConfiguration(*row["configuration"]))
    for sizes, landscape in landscape_of.items():
        rows_of_shape = [row for row in rows if row["sizes"] == numbers(sizes)]
        first, highs = (
            np.array([row[name] for row in rows_of_shape]) for name in ("ratio", "ratio_high")
        )
        landscape_of[sizes] = replace(landscape, ratios=first, highs=highs)
        if all("again" in row for row in rows_of_shape):
            second = np.array([row["again"] for row in rows_of_shape])
            both = np.sqrt(first * second)
            landscape_of[sizes] = replace(
                landscape, ratios=both, highs=highs, passes=(first, second)
            )
    return list(landscape_of.values())


def samples_of(trained: Sequence[Landscape]) -> list[Sample]:
    """Return what predictions are made of."""
    return [
        Sample(landscape.sizes, configuration, float(ratio))
        for landscape in trained
        for configuration, ratio in zip(landscape.configurations, landscape.ratios, strict=True)
    ]


def score(
    trained: Sequence[Landscape], unseen: Sequence[Landscape], here: Processor
) -> list[dict[str, Any]]:
    """Rank the configurations of unseen shapes by what those of the others took."""
    samples, rows = samples_of(trained), []
    for landscape in unseen:
        predicted = predicted_ratios(landscape.sizes, landscape.configurations, samples, here)
        best = float(landscape.ratios.min())
        row: dict[str, Any] = {
            "sizes": [landscape.sizes.rows, landscape.sizes.depth, landscape.sizes.columns],
            "configurations": len(landscape.ratios),
            "best": best,
            "opa": ordered_pair_accuracy(landscape.ratios, predicted),
            "opa apart": apart_accuracy(landscape.ratios, predicted),
        }
        if landscape.passes is not None:
            row["opa ceiling"] = ordered_pair_accuracy(*landscape.passes)
            row["opa apart ceiling"] = apart_accuracy(*landscape.passes)
        for count in (1, 5, 10):
            row[f"top {count}"] = top_k_error(landscape.ratios, predicted, count)
        chosen = np.argsort(predicted, kind="stable")[:5]
        row["gain"] = 1.0 / min(1.0, float(landscape.ratios[chosen].min()))
        rows.append(row)
    return rows


def rank(collected: Sequence[Landscape], here: Processor) -> list[dict[str, Any]]:
    """Rank configurations by what ships and by boosted trees, both without the shapes ranked.

    Of what was collected, else of the samples that ship, a part of the shapes is left out at a
    time; the samples that ship teach in either case. Trees see the features that the Gaussian
    process does. The ceiling is what a second race would give, by the intervals.
    """
    from sklearn.ensemble import GradientBoostingRegressor

    shipped = shipped_samples(here)
    measured_here = {landscape.sizes for landscape in collected}
    samples = [
        *(sample for sample in shipped if sample.sizes not in measured_here),
        *samples_of(collected),
    ]
    of: dict[ProductSizes, list[Sample]] = {}
    for sample in samples_of(collected) if collected else shipped:
        of.setdefault(sample.sizes, []).append(sample)
    highs = {landscape.sizes: landscape.highs for landscape in collected}
    passes = {landscape.sizes: landscape.passes for landscape in collected}
    shapes_left_out = sorted(of)
    rows: list[dict[str, Any]] = []
    for part in range(PARTS):
        unseen = shapes_left_out[part::PARTS]
        known = [sample for sample in samples if sample.sizes not in unseen]
        table = np.array([_features(sample, here) for sample in known])
        targets = np.clip(np.log([sample.ratio for sample in known]), -math.log(2), math.log(2))
        trees = GradientBoostingRegressor(
            n_estimators=300,
            learning_rate=0.05,
            max_depth=None,
            max_leaf_nodes=16,
            min_samples_leaf=3,
            subsample=0.6,
            max_features=0.4,
            random_state=0,
        ).fit(table, targets)
        for sizes in unseen:
            ratios = np.array([sample.ratio for sample in of[sizes]])
            configurations = [sample.configuration for sample in of[sizes]]
            predictions = {
                "Gaussian process": predicted_ratios(sizes, configurations, known, here),
                "boosted trees": trees.predict(
                    np.array([_features(sample, here) for sample in of[sizes]])
                ),
            }
            row: dict[str, Any] = {"sizes": numbers(sizes), "configurations": len(ratios)}
            for name, predicted in predictions.items():
                row[name] = {
                    "OPA": ordered_pair_accuracy(ratios, predicted),
                    "tau": kendall_tau(ratios, predicted),
                    **{f"top {k}": top_k_error(ratios, predicted, k) for k in (1, 5, 10)},
                    "OPA, apart": apart_accuracy(ratios, np.asarray(predicted)),
                }
            measured = passes.get(sizes)
            if measured is not None:
                first, second = measured
                row["the other pass"] = {
                    "OPA": ordered_pair_accuracy(first, second),
                    "tau": kendall_tau(first, second),
                    **{f"top {k}": top_k_error(first, second, k) for k in (1, 5, 10)},
                    "OPA, apart": apart_accuracy(first, second),
                }
            elif sizes in highs:
                deviations = (highs[sizes] - ratios) / 1.96
                row["measured again"] = {
                    "OPA": noise_ceiling(ordered_pair_accuracy, ratios, deviations),
                    "tau": noise_ceiling(kendall_tau, ratios, deviations),
                }
            rows.append(row)
    return rows


def apart_accuracy(times: np.ndarray, predicted: np.ndarray) -> float:
    """Return the ordered pair accuracy of those pairs whose times differ by APART; NaN of none."""
    ratio = np.log(times[:, None] / times)
    far = ratio >= math.log1p(APART)
    right = (predicted[:, None] > predicted) & far
    return float(right.sum() / far.sum()) if far.any() else math.nan


def _features(sample: Sample, here: Processor) -> list[float]:
    """Return what trees see of a configuration of a product."""
    return list(features(sample.sizes, sample.configuration, here).values())


def rank_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay the means over all shapes out in Markdown."""
    names = ("Gaussian process", "boosted trees", "measured again", "the other pass")
    scores = ("OPA", "OPA, apart", "tau", "top 1", "top 5", "top 10")
    lines = [f"| | {' | '.join(scores)} |", "|---" * (1 + len(scores)) + "|"]
    for name in names:
        present = [row[name] for row in rows if name in row]
        if present:
            cells = [
                f"{np.nanmean([scores_of[score] for scores_of in present]):.4f}"
                if score in present[0]
                else ""
                for score in scores
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    counts = [row["configurations"] for row in rows]
    explanation = (
        f"{len(rows)} shapes, {min(counts)} to {max(counts)} configurations each; apart are pairs "
        f"whose times differ by {APART:.0%} or more"
    )
    return "\n".join([explanation, "", *lines])


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return what scores come to over all shapes."""
    gains = np.array([row["gain"] for row in rows])
    best = np.array([row["best"] for row in rows])
    slower = sum(bool(row.get("slower")) for row in rows)
    return {
        "shapes": len(rows),
        "gain, geometric mean": float(np.exp(np.log(gains).mean())),
        "gain of the best of all in its own race, geometric mean": float(
            np.exp(-np.log(best).mean())
        ),
        "smallest gain": float(gains.min()),
        "shapes slower beyond noise": slower,
        "largest gain": float(gains.max()),
        **{
            f"{label}, mean": float(np.nanmean([row[name] for row in rows]))
            for label, name in ACCURACIES.items()
            if all(name in row for row in rows)
        },
        **{
            f"top {count}, {name}": float(function([row[f"top {count}"] for row in rows]))
            for count in (1, 5, 10)
            for name, function in (("mean", np.mean), ("90 %", lambda v: np.quantile(v, 0.9)))
        },
    }


def score_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay scores out in Markdown."""
    head = ["rows x depth x columns", "configurations", "gain", "interval", "best of all"]
    head += ["top 1", "top 5", "top 10", "OPA"]
    cells = (
        [
            *("x".join(map(str, row["sizes"])), row["configurations"], f"{row['gain']:.3f}"),
            *(interval(row), f"{1 / row['best']:.3f}"),
            *(f"{row[f'top {count}']:.1%}" for count in (1, 5, 10)),
            f"{row['opa']:.2f}",
        ]
        for row in rows
    )
    return table(head, cells)


# -------------------------------------------------------------------------------------- command


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tiles", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("collect", help="race configurations of drawn shapes")
    making.add_argument("--shapes", type=int, default=100)
    making.add_argument("--seed", type=int, default=1, help="of the shapes")
    making.add_argument("--pool", type=int, default=48, help="configurations")
    making.add_argument("--level", choices=list(DEFAULTS), default=native_level())
    making.add_argument("--budget", type=float, default=2.5, help="seconds for a shape")
    making.add_argument("--passes", type=int, choices=(1, 2), default=1, help="measurements")
    making.add_argument("--compile", action="store_true", help="compile, and measure nothing")
    making.add_argument("-o", "--out", type=Path, required=True)
    scoring = commands.add_parser("score", help="rank, and race what is chosen once more")
    scoring.add_argument("trained", type=Path)
    scoring.add_argument("unseen", type=Path)
    scoring.add_argument("--budget", type=float, default=1.0, help="seconds for a shape; 0: none")
    scoring.add_argument("--out", type=rows_file, default=None)
    shipping = commands.add_parser("ship", help="write samples.json.xz of what was collected")
    shipping.add_argument("files", type=Path, nargs="+")
    ranking_ = commands.add_parser("rank", help="compare what ranks, shapes left out")
    ranking_.add_argument("collected", type=Path, nargs="?")
    ranking_.add_argument("--out", type=rows_file)
    arguments = parser.parse_args()
    match arguments.command:
        case "collect":
            collected(arguments)
        case "score":
            scored(arguments.trained, arguments.unseen, arguments.budget, arguments.out)
        case "ship":
            ship(arguments.files)
        case "rank":
            ranked(arguments.collected, arguments.out)


def collected(arguments: argparse.Namespace) -> None:
    """Measure the shapes that a file lacks, and write it after each of them."""
    here, file = processor(arguments.level), arguments.out
    header = {"processor": identity().name, **vars(here), "seed": arguments.seed}
    rows: list[dict[str, Any]] = []
    if file.exists():
        stored = json.loads(file.read_text(encoding="utf-8"))
        rows = stored.pop("rows")
        if stored != header:
            raise SystemExit(f"{file} was measured otherwise ({stored}): choose another file")
    drawn = shapes(arguments.shapes, arguments.seed)
    measured = {ProductSizes(*row["sizes"]) for row in rows}
    tried, budget_s = pool(here, arguments.pool, seed=0), arguments.budget
    if arguments.compile:
        budget_s = 0.0
    for more in collect(drawn, tried, here, budget_s, arguments.passes, measured):
        rows += more
        write_whole(file, json.dumps({**header, "rows": rows}) + "\n")


def scored(trained_file: Path, unseen_file: Path, budget_s: float, out: Path | None) -> None:
    """Score what was collected, print what it comes to, and write it where `out` is given."""
    files = [json.loads(file.read_text(encoding="utf-8")) for file in (trained_file, unseen_file)]
    trained, unseen = (landscapes(file["rows"]) for file in files)
    seen = {landscape.sizes for landscape in trained}
    unseen = [landscape for landscape in unseen if landscape.sizes not in seen]
    here = Processor(*(files[1][field.name] for field in fields(Processor)))
    rows = score(trained, unseen, here)
    if budget_s:
        for row, columns in zip(rows, confirm(trained, unseen, here, budget_s), strict=True):
            row |= columns
    summed_up = summary(rows)
    lines = [f"- {name}: {value:.4g}" for name, value in summed_up.items()]
    print("\n".join(lines))
    if out is not None:
        head = (
            f"# Configurations of products, {here.level}\n\n"
            f"`python -m benchmarks.tiles score {trained_file.name} {unseen_file.name}`, "
            f"{len(trained)} shapes measured and {len(rows)} that are not among them, one thread"
        )
        write_rows(out, rows, head, "\n".join([*lines, "", score_table(rows)]))


def ranked(collected: Path | None, out: Path | None) -> None:
    """Compare what ranks, print what it comes to, and write it where `out` is given."""
    document = None if collected is None else json.loads(collected.read_text(encoding="utf-8"))
    rows = rank([] if document is None else landscapes(document["rows"]), processor())
    print(rank_table(rows))
    if out is not None:
        command = f"python -m benchmarks.tiles rank {collected.name if collected else ''}".strip()
        write_rows(out, rows, f"# Products, ranked\n\n`{command}`", rank_table(rows))


def ratio_of(row: Mapping[str, Any]) -> float:
    """Return the ratio of a row, the mean of both where it was measured twice."""
    return float(round(math.sqrt(row["ratio"] * row.get("again", row["ratio"])), 4))


def ship(files: Sequence[Path]) -> None:
    """Write what `optimize` predicts from where nothing was measured yet.

    Samples of other classes of processors than those of the files stay.
    """
    shipped: dict[str, list[Any]] = {}
    for file in files:
        document = json.loads(file.read_text(encoding="utf-8"))
        key = ranking.processor_class(document["level"], document["first_cache_bytes"])
        shipped.setdefault(key, []).extend(
            [row["sizes"], row["configuration"], ratio_of(row)] for row in document["rows"]
        )
    target = Path(ranking.__file__).with_name("samples.json.xz")
    if target.exists():
        shipped = json.loads(lzma.decompress(target.read_bytes())) | shipped
    target.write_bytes(lzma.compress(json.dumps(shipped).encode(), preset=9))


if __name__ == "__main__":
    main()

"""`tensolog rules generate`: rules found by enumeration over the specifications, and proved."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...printing import echo
from .. import options as shared
from .arguments import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...optimizer.explain.rule_value import ModelValue
    from ...rules import Rule
    from ...rules.generation import Generation

# The share of a model's budget for finding rules: what is left is for optimizing it with them.
_FINDING = 0.6


@click.command(no_args_is_help=True, short_help="Find rules over operators, and prove each.")
@click.option(
    "--operators",
    metavar="NAME,…",
    multiple=True,
    help="Operators, or families of them: taso, sums, slices, …, and those of docs/operators.md. "
    "May be repeated.",
)
@click.option(
    "--model",
    "model_path",
    metavar="MODEL.onnx",
    type=click.Path(path_type=Path),
    help="In their place: the operators of this model, those that have the most to do first. It is "
    "optimized with what is found.",
)
@click.option(
    "--optimized",
    metavar="FAST.onnx",
    type=click.Path(path_type=Path),
    help="With --model: write the model there as it was optimized.",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    metavar="N",
    default=2,
    show_default=True,
    help="Operators that a side may have.",
)
@click.option(
    "--inputs",
    type=click.IntRange(min=1, max=6),
    metavar="K",
    default=3,
    show_default=True,
    help="Variables of the main shape; there are fewer of those beside it.",
)
@click.option(
    "--budget",
    type=shared.SECONDS_ABOVE_0,
    metavar="SECONDS",
    default=300.0,
    show_default=True,
    help="Time for all of it.",
)
@click.option(
    "--processor",
    is_flag=True,
    help="Count the budget in processor time, of this command and its provers, rather than by the "
    "clock: on a machine that others use a run sees as much as on an idle one.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**63 - 1),
    metavar="N",
    default=0,
    show_default=True,
    help="Draws the numbers that programs are compared on.",
)
@click.option(
    "--from-nothing",
    is_flag=True,
    help="Leave the shipped rules out of account.",
)
@click.option(
    "--known",
    "known_files",
    metavar="FILE.rules",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Rules that were found before: what they derive is left out, and --output gets the new "
    "ones only. May be repeated.",
)
@click.option(
    "--constants",
    is_flag=True,
    help="Zeros, ones and identities may stand in the place of a variable.",
)
@click.option(
    "--unmeasured",
    is_flag=True,
    help="Write rules when they are proved, and spend the budget on proofs: floating point is left "
    "to `tensolog rules prove`, which has to look at them before a search may use them. With "
    "--model they are measured as far as the budget goes.",
)
@shared.jobs_option
@click.option(
    "-o",
    "--output",
    "--out",
    "output",
    metavar="FOUND.rules",
    type=click.Path(path_type=Path),
    help="Write the rules there.",
)
@shared.catalog_option
@shared.json_option
def generate(
    operators: tuple[str, ...],
    model_path: Path | None,
    optimized: Path | None,
    nodes: int,
    inputs: int,
    budget: float,
    processor: bool,
    seed: int,
    from_nothing: bool,
    known_files: tuple[Path, ...],
    constants: bool,
    unmeasured: bool,
    jobs: int | None,
    output: Path | None,
    catalog_path: str | None,
    as_json: bool,
) -> None:
    """Find rules over operators: programs that are equal, proved for all sizes, none derivable.

    All programs of up to N operators are built from those that were not seen to equal a smaller
    one, and compared on numbers. What agrees is a candidate; what the shipped rules and those found
    before derive is left out; the rest is proved, as generally as it holds, or dropped with the
    reason (docs/generating-rules.md). With --model only what matches in the model is proved, and
    the model is optimized with it within the same budget.

    \b
    Examples:
      tensolog rules generate --operators MatMul,Concat -o found.rules
      tensolog rules generate --operators reduction --operators Add,Mul --budget 600
      tensolog rules generate --operators Conv,Concat --known found.rules -o more.rules
      tensolog rules generate --model model.onnx --budget 60 -o found.rules --optimized fast.onnx
      tensolog optimize model.onnx -o fast.onnx --rules found.rules
    """
    if bool(operators) == (model_path is not None):
        raise click.UsageError("name either --operators or a --model whose operators to take")
    if processor and model_path is not None:
        raise click.UsageError("--processor is for --operators: a --model is raced by the clock")
    if optimized is not None:
        if model_path is None:
            raise click.UsageError("--optimized names where to write a --model: name that, too")
        optimized = shared.output_file(optimized, content="the model", may_be_folder=True)
        if optimized.resolve() in [path.resolve() for path in (model_path, output) if path]:
            raise click.UsageError("--optimized names the same file as --model or --output")
    names = [name.strip() for some in operators for name in some.split(",") if name.strip()]
    if model_path is None and not names:
        raise click.UsageError("--operators names none: MatMul,Concat are two")
    if output is not None:
        output = shared.output_file(output, content="the rules")
        if output.exists():
            raise click.ClickException(f"{output} exists: name another file with --output")
    from ...catalog.files import replacing
    from ...catalog.store.staging import stage
    from ...interrupts import on_interrupt
    from ...optimizer.egraph import equalities
    from ...optimizer.explain.rule_value import value_of
    from ...profiles.machine import cores
    from ...progress import Progress
    from ...rules import load_rules
    from ...rules.gate.ledger.admission import applicable
    from ...rules.generation import generate as run
    from ...rules.generation.rows import Journal, Judgements, judgements
    from ...rules.generation.run import Saturation

    began, value = time.monotonic(), None
    shipped = () if from_nothing else load_rules()
    found_before = _rules_of_files(known_files, shipped)

    def recall(run_hash: str) -> Judgements:
        with shared.open_to_read(catalog_path) as known:
            return judgements(known, run_hash)

    with (
        Progress(quiet=as_json, budget_s=None if processor else budget) as progress,
        on_interrupt(
            "what was seen by then is in the catalog: the same command goes on from there"
        ),
        stage(catalog_path) as catalog,
    ):
        saturation: Saturation = equalities
        settings: dict[str, Any] = {
            "saturation": saturation,
            "nodes": nodes,
            "inputs": inputs,
            "budget": budget,
            "seed": seed,
            "known": shipped,
            "found_before": found_before,
            "constants": constants,
            "is_measured": not unmeasured or model_path is not None,
            "workers": jobs or cores(),
            "processor": processor,
            "journal": Journal(catalog),
            "recall": recall,
            "progress": progress,
        }
        if model_path is None:
            results: tuple[Generation, ...] = (run(names, **settings),)
        else:
            settings["budget"] = _FINDING * budget
            results = _runs_for(model_path, **settings)
        rules = [rule for result in results for rule in result.rules]
        written = [
            (generation_run, generation_run.proved if unmeasured else generation_run.rules)
            for generation_run in results
        ]
        if output is not None:
            texts = [generation_run.text_of(some) for generation_run, some in written if some]
            with replacing(output) as file:
                file.write("\n".join(texts).encode())
        if model_path is not None and (rules or optimized is not None):
            value = value_of(
                rules,
                () if from_nothing else applicable(),
                model_path,
                name=str(model_path),
                catalog=catalog,
                save=optimized,
                budget=max(0.0, began + budget - time.monotonic()),
                progress=progress,
            )
    if as_json:
        records = [result.record() for result in results]
        about = {"runs": records, "model": value} if model_path is not None else records[0]
        shared.print_json(about)
        return
    for result in results:
        _print(
            result,
            goes_on="the same command goes on from there, with another --output"
            if output is not None
            else "the same command goes on from there",
        )
    if not results:
        echo("the budget is too short to look at any of the model's operators")
    if value is not None:
        _print_value(value, optimized)
    elif model_path is not None:
        echo("nothing was found that the shipped rules don't derive and that matches in the model")
    if output is not None:
        echo(f"{output}: {counted(sum(len(some) for _, some in written), 'rule')}")
    elif rules:
        echo("\n" + "\n".join(result.text for result in results if result.rules))


def _rules_of_files(
    files: Sequence[Path], shipped: Sequence[Rule]
) -> Mapping[str, tuple[Rule, ...]]:
    """The rules of each file, none of the name of another one, which derivations go by."""
    from ...rules import load_rules

    known = {rule.name for rule in shipped}
    rules = load_rules(files)
    for rule in rules:
        if rule.name in known:
            raise click.ClickException(
                f"{rule.path}:{rule.line}: {rule.name} is the name of a shipped rule as well: "
                "rename it, or leave the shipped rules out with --from-nothing"
            )
    return {str(file): tuple(rule for rule in rules if rule.path == str(file)) for file in files}


def _runs_for(model_path: Path, **settings: Any) -> tuple[Generation, ...]:
    """Runs over the operators of a model, which prove what matches there."""
    from functools import partial

    from ...catalog import Catalog
    from ...catalog.onnx import read_model, skeleton_model
    from ...optimizer.graph.convert import load_graph
    from ...optimizer.graph.infer import refine_types
    from ...optimizer.match.matcher import count_matches
    from ...rules.generation import generate_for_model
    from ...rules.generation.for_model import operator_sets

    with Catalog(":memory:") as scratch:
        skeleton = skeleton_model(scratch, read_model(scratch, model_path))
    if not operator_sets(skeleton):
        raise click.ClickException(
            f"{model_path} has no operators beside each other that programs can be built of: name "
            "others with --operators"
        )
    graph = load_graph(skeleton)
    refine_types(graph)
    return generate_for_model(skeleton, places=partial(count_matches, graph=graph), **settings)


def _print_value(value: ModelValue, optimized: Path | None) -> None:
    from .value import value_lines

    echo("\n" + "\n".join(value_lines(value)))
    if optimized is not None:
        echo(f"wrote {optimized}")


def _print(result: Generation, *, goes_on: str) -> None:
    from ...summary import columns

    echo(f"{', '.join(result.operators)}:")
    rows = [
        (str(level.nodes), str(level.terms), str(level.classes), str(len(level.equalities)))
        for level in result.levels
    ]
    echo(columns([("nodes", "terms", "classes", "equal"), *rows], right=(0, 1, 2, 3), indent=""))
    for finding in result.findings:
        if finding.status == "kept":
            for rule in finding.rules:
                echo(f"{rule.name}: {finding.candidate.text}")
    totals = ", ".join(f"{count} {status}" for status, count in result.totals.items())
    echo(f"{counted(len(result.findings), 'candidate')}: {totals or 'nothing to prove'}")
    echo(f"{result.seconds:.0f} s, {result.processor_s:.0f} s of processor time")
    if not result.complete:
        echo(f"the budget ended before all was seen: {goes_on}")

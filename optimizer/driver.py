"""`optimize`: a model in; plans derived, verified and raced; the best one out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from ..catalog import Catalog
from ..catalog.interruption import interrupted, interruptible
from ..catalog.store.staging import Stage
from ..profiles.machine import cores
from ..rules import Rule
from ..rules.gate.ledger.admission import applicable
from .graph.fold import FOLD_LIMIT
from .graph.torch_modules import export_module, is_module
from .native.library import require_compiler
from .passes import run_passes
from .phases import Phases, Progress
from .race.candidate_files import CandidateFiles
from .result.conclude import conclude
from .result.optimization import Optimization
from .setting import BUDGET_S, CLASSES, COSTS, SEARCHES, OptionError, Setting, allowed
from .state import read
from .target import AUTO, TargetChoice, choose_target

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module

# What an interrupt does: it raises KeyboardInterrupt, or gives the best verified plan so far.
ON_INTERRUPT = ("raise", "keep")
Source = str | Path | bytes | onnx.ModelProto
# How models of other frameworks become ONNX, by the package that defines their class.
ADVICE = {
    "keras": "model.export('model.onnx', format='onnx') writes it, once it was called",
    "sklearn": "skl2onnx.to_onnx(model, X[:1].astype('float32')) gives it",
}


@interruptible()
def optimize(
    model: Source | Module | ExportedProgram,
    example_inputs: Any = None,
    *,
    target: str = AUTO,
    portable: bool = False,
    threads: int | None = None,
    budget: float | None = None,
    allow: str | Collection[str] = CLASSES,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    catalog: Catalog | str | Path | None = None,
    progress: Progress | None = None,
    rules: Sequence[Rule] | None = None,
    fold_limit: int = FOLD_LIMIT,
    seed: int = 0,
    search: str = SEARCHES[0],
    costs: str = COSTS[0],
    keep: str | Path | None = None,
    on_interrupt: str = ON_INTERRUPT[0],
) -> Optimization:
    """Find a model that computes the same and runs faster on this machine, or keep the original.

    The model and where it is to run:

    - `model` is a path, serialized bytes, a ModelProto, or a PyTorch module, which is exported in
      evaluation mode for `example_inputs`: a tensor, a tuple of inputs (the last one may be a dict
      of keyword inputs), or a dict.
    - `target` is "onnxruntime-cpu+kernels" (with native code in `libraries`, which `save` writes
      beside the model), "onnxruntime-cpu", "onnx" (standard operators only), or "auto": the first
      where there is a C compiler that works, else the second. `target` of the result says what was
      chosen and why. `portable` leaves native code out, so that `save` writes one plain file.
    - `threads` defaults to the machine's cores.
    - `input_shapes` binds free dimensions for measuring, by input name: the model stays dynamic.

    What may be done to it:

    - `allow` names the classes of substitution that may be applied, as a list or as
      "exact,rounding"; with "finite_math" beside them, NaN and infinities may come out otherwise
      than the original gives them.
    - `rules` replaces the shipped rules that are proved, and is taken as it is.
    - `fold_limit`, in bytes, bounds a folded constant that is larger than its operands.
    - `search` is "egraph" for the best plans of an e-graph beside those of single rewrites that
      lower the cost, or "gains" for the latter alone.
    - `costs` says what predictions are for, where a model of costs ships for this class of
      processor: "foretold" to report a first plan with a gain early; "predicted" to let them stand
      for kernels whose measuring could not change the choice, as well; "measured" for nothing. The
      race decides in any case.

    How long, and what is kept:

    - `budget` is in seconds; reading and verifying may take 10 more. By default 30 for measuring
      and races, up to 100 where the final of a large model needs it, and 120 for everything.
    - `seed` draws the inputs, and the order in which plans are timed.
    - `catalog` is an open Catalog, a path, or None for the user's own.
    - `keep` is a DuckDB file that the plans are written to, and the e-graph if there is one.
    - `progress` is called with (phase, done, total, detail). The phase "best so far" has the best
      plan yet as its detail, "predicted" one that promises a gain and was not raced yet.
    - `on_interrupt` is "raise", or "keep" for the best plan that was verified and raced by then, in
      a result that says `interrupted`.

    Raises ModelError for a model that can't be read or that ONNX Runtime can't run here, so that
    nothing could be verified; CatalogError for a catalog that can't be used; OptionError for an
    option with an impossible value.
    """
    phases = Phases(progress)
    choice = choose_target(target, portable=portable, allow=allowed(allow))
    setting = Setting(
        target=choice.target,
        threads=cores() if threads is None else threads,
        budget=BUDGET_S if budget is None else budget,
        stretches=budget is None,
        allow=allowed(allow),
        input_shapes={name: tuple(shape) for name, shape in (input_shapes or {}).items()},
        fold_limit=fold_limit,
        seed=seed,
        search=search,
        costs=costs,
    )
    if setting.fuses:
        require_compiler()
    if on_interrupt not in ON_INTERRUPT:
        raise OptionError(
            f"unknown on_interrupt {on_interrupt!r}; known: {', '.join(ON_INTERRUPT)}"
        )
    search_file, keeps = None if keep is None else Path(keep), on_interrupt == "keep"
    base = applicable() if rules is None else tuple(rules)
    source = _source(model, example_inputs, phases)
    if isinstance(catalog, Catalog):
        return _run(catalog, setting, choice, phases, base, source, search_file, keeps=keeps)
    if str(catalog) == ":memory:":
        memory = Catalog(":memory:")
        return _run(memory, setting, choice, phases, base, source, search_file, keeps=keeps)
    staged = Stage(catalog)
    try:
        result = _run(staged, setting, choice, phases, base, source, search_file, keeps=keeps)
    except BaseException as error:
        staged.__exit__(type(error), error, error.__traceback__)
        raise
    result.hand_over()
    return result


def _source(model: Any, example_inputs: Any, phases: Phases) -> Source:
    """Return what is read as an ONNX model, of a PyTorch module its export."""
    if is_module(model):
        with phases("exporting", type(model).__name__):
            return export_module(model, example_inputs)
    if example_inputs is not None:
        raise OptionError(
            "example inputs are for PyTorch modules: give sizes of an ONNX model by input_shapes"
        )
    for kind in type(model).__mro__:
        if advice := ADVICE.get(kind.__module__.partition(".")[0]):
            raise OptionError(f"{type(model).__name__} is no ONNX model yet: {advice}")
    source: Source = model
    return source


def _run(
    catalog: Catalog,
    setting: Setting,
    choice: TargetChoice,
    phases: Phases,
    rules: Sequence[Rule],
    source: Source,
    search_file: Path | None,
    *,
    keeps: bool,
) -> Optimization:
    with CandidateFiles(catalog) as candidate_files:
        state = read(
            source,
            catalog=catalog,
            setting=setting,
            phases=phases,
            rules=rules,
            candidate_files=candidate_files,
            search_file=search_file,
        )
        try:
            try:
                run_passes(state)
                return conclude(state, choice)
            except BaseException as error:
                watch = interrupted()
                if not keeps or not (watch or isinstance(error, KeyboardInterrupt)):
                    raise
                if watch is not None:
                    watch.answer()
            state.end_early()
            return conclude(state, choice)
        finally:
            state.close()

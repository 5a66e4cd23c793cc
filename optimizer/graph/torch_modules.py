"""PyTorch modules as ONNX models, by PyTorch's own exporters; without a module torch stays away."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import logging
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx

from ...catalog.errors import ModelError
from ..setting import OptionError

# Imported within functions: torch, an extra.

EXTRA = "pip install 'tensolog[torch]'"
BY_HAND = "torch.onnx.export(module, inputs, 'model.onnx'), then tensolog.optimize('model.onnx')"


def is_module(model: object) -> bool:
    """Tell whether a model is a PyTorch module or an exported program; torch is not imported."""
    kinds = (("torch.nn", "Module"), ("torch.export", "ExportedProgram"))
    return any(
        kind is not None and isinstance(model, kind)
        for kind in (getattr(sys.modules.get(home), name, None) for home, name in kinds)
    )


def export_module(module: Any, example_inputs: Any) -> onnx.ModelProto:
    """Export a module in evaluation mode, for the shapes and types of its example inputs.

    `example_inputs` is a tensor; a tuple or list of positional inputs, whose last element may be a
    dict of keyword inputs; or a dict of keyword inputs. What is no tensor becomes part of the
    model. The module is left in the modes that it was found in. The exporter is the one over
    torch.export, and where that fails the older one, which traces, unless the trace warns that it
    depends on values: then its model would be right for these inputs alone.

    Raises OptionError for inputs that the module can't be called with or a package that is missing,
    ModelError for a module that can't be exported.
    """
    import torch

    if importlib.util.find_spec("onnxscript") is None:
        raise OptionError(f"PyTorch exports by onnxscript, which is not installed: {EXTRA}")
    positional, named = _arguments(example_inputs)
    with _evaluating(module), torch.no_grad():
        try:
            with quiet():
                program = torch.onnx.export(
                    module, positional, kwargs=named, dynamo=True, verbose=False
                )
                assert program is not None
                model: onnx.ModelProto = program.model_proto
                return model
        except Exception as error:
            newer = error
        if isinstance(module, torch.nn.Module):
            _call(module, positional, named)
            try:
                return _traced(module, positional, named)
            except Exception as error:
                values = isinstance(_cause(error), _tracer_warning())
                traced = "traced, it would hold for these inputs alone" if values else "traced"
                reasons = f"{_line(newer)}; {traced}: {_line(error)}"
        else:
            reasons = _line(newer)
    raise ModelError(
        f"PyTorch can't export {_name(module)}: {reasons}. Change the module, or export it with "
        f"options of your own: {BY_HAND}"
    ) from newer


def _arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Tell positional inputs from keyword inputs."""
    if example_inputs is None:
        raise OptionError(
            "a PyTorch module is exported by inputs that it can be called with: "
            "tensolog.optimize(module, example_inputs)"
        )
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if not isinstance(example_inputs, (tuple, list)):
        return (example_inputs,), {}
    *first, last = example_inputs or (None,)
    if isinstance(last, Mapping):
        return tuple(first), dict(last)
    return tuple(example_inputs), {}


def _traced(module: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> onnx.ModelProto:
    """Export by the older exporter; raises what it raises, and its warnings of values."""
    import torch

    names = None
    if not isinstance(module, torch.jit.ScriptModule):
        module, positional, names = _of_tensors(module, positional, named)
        named = {}
    with tempfile.TemporaryDirectory(prefix="tensolog-export-") as folder, quiet():
        path = Path(folder) / "model.onnx"
        warnings.simplefilter("error", _tracer_warning())
        options: dict[str, Any] = {"kwargs": named, "input_names": names, "dynamo": False}
        torch.onnx.export(module, positional, str(path), **options)
        return onnx.load(path)


def _of_tensors(
    module: Any, positional: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], list[str]]:
    """Give a module of tensors alone, these, and their names.

    The older exporter takes nothing else for inputs, and keywords by their places only.
    """
    import torch
    from torch.utils import _pytree as pytree

    call = inspect.signature(module.forward).bind(*positional, **named)
    leaves, form = pytree.tree_flatten_with_path(dict(call.arguments))
    values = [value for _, value in leaves]
    places = [place for place, value in enumerate(values) if isinstance(value, torch.Tensor)]

    class OfTensors(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *tensors: torch.Tensor) -> Any:
            tensors_by_place = dict(zip(places, tensors, strict=True))
            filled = [tensors_by_place.get(place, value) for place, value in enumerate(values)]
            arguments = pytree.tree_unflatten(filled, form)
            again = inspect.BoundArguments(call.signature, arguments)
            return self.module(*again.args, **again.kwargs)

    keys = [[getattr(key, "key", getattr(key, "idx", "")) for key in path] for path, _ in leaves]
    names = ["_".join(map(str, keys[place])) for place in places]
    return OfTensors(), tuple(values[place] for place in places), names


def _tracer_warning() -> type[Warning]:
    """Give the class of the warnings that a trace holds for the values that it saw."""
    import torch

    category: type[Warning] = vars(torch.jit)["TracerWarning"]
    return category


def _call(module: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Call the module: where that fails too, the inputs are wrong and not the exporters."""
    try:
        module(*positional, **named)
    except Exception as error:
        raise OptionError(
            f"{_name(module)} can't be called with these example inputs: {_line(error)}"
        ) from error


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Put a module into evaluation mode, and each part of it back into its own mode."""
    parts = list(module.modules()) if hasattr(module, "modules") else []
    modes = [part.training for part in parts]
    try:
        if parts:
            module.eval()
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what the exporters print, log and warn of off the terminal: errors say it again."""
    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    nowhere = io.StringIO()
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)


def _name(module: Any) -> str:
    return type(module).__name__


def _line(error: Exception) -> str:
    """Give the sentence of an exporter's error that says why."""
    error = _cause(error)
    text = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _cause(error: Exception) -> Exception:
    """Give the first cause of an error, which exporters report about."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error

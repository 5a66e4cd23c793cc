"""Run generated kernels over random regions and plans under AddressSanitizer and UBSan.

    python -m tests.optimizer.fuse.codegen.sanitize 200

The interpreter has to start with the sanitizer's library loaded, so that this starts another one.
Ends with 0 if nothing was found, 77 where the compiler has no such library.
"""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.codegen.compiler import FLAGS
from tensolog.optimizer.fuse.codegen import compiled
from tensolog.optimizer.fuse.planning import fusion_planner
from tensolog.optimizer.fuse.tracing import prepare

from tests.optimizer.fuse.fuzz import failure
from tests.optimizer.fuse.random_programs import random_case

from .build import check
from .regions import regions, tolerance

MISSING = 77
# Accesses are checked by calls, which compile in two thirds of the time; reports name functions,
# and lines with -g1.
SANITIZED = (
    *(*FLAGS, "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    *("--param", "asan-instrumentation-with-call-threshold=0"),
)


def runtime():
    """Where the compiler's AddressSanitizer is, or None."""
    compiler = find_compiler()
    if compiler is None or compiler.is_clang:
        return None
    return _library(compiler, "libasan.so")


def _library(compiler, name):
    asked = [*compiler.command, f"-print-file-name={name}"]
    said = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    return said if Path(said).is_absolute() and Path(said).exists() else None


def main(examples, module=__spec__.name, options=""):
    """Start the interpreter under the sanitizer, to run a module; return how it ended."""
    library = runtime()
    if library is None:
        print("the compiler has no AddressSanitizer to load: nothing was run")
        return MISSING
    # The sanitizer has to find what throws C++'s exceptions when it is loaded: planning meets some,
    # and ONNX Runtime uses them.
    both = [library, _library(find_compiler(), "libstdc++.so.6")]
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(filter(None, both)),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": f"detect_leaks=0:halt_on_error=1{options}",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    command = [sys.executable, "-m", module, "--inside", str(examples)]
    return subprocess.run(command, env=environment).returncode


def campaign(examples):
    """So many examples, the same in each run where they are few; none is made smaller."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=examples < 50,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )


def inside(examples):
    """Under the sanitizer: dense and sparse regions, and whole plans, compared with NumPy too."""
    repeated = campaign(examples)
    for sparse in (False, True):

        @repeated
        @given(regions(sparse))
        def clean(case):
            builder, outputs, driver = case
            options = {"template": "Row", "driver": driver, "flags": SANITIZED}
            case_run = builder.compiled(outputs, **options)
            if not case_run.fallbacks:
                check(builder, outputs, tolerance=tolerance(builder), **options)

        clean()
    print(f"{examples} dense and {examples} sparse regions: clean")

    @repeated
    @given(st.integers(0, 2**31), st.sampled_from(["cost", "all"]))
    def planned(seed, heuristic):
        wrong, _ = failure(random_case(seed), heuristic)
        assert wrong is None, (seed, wrong)

    sanitized = partial(compiled.compile_plan, flags=SANITIZED)
    with (
        mock.patch.object(compiled, "compile_plan", sanitized),
        mock.patch.object(prepare, "TRACING_S", 0.0),
        mock.patch.object(fusion_planner, "_FEW", 0),
    ):
        planned()
    print(f"plans of {examples} functions, with all their templates: clean")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(int(sys.argv[2]))
    else:
        sys.exit(main(int((sys.argv[1:] or ["100"])[0])))

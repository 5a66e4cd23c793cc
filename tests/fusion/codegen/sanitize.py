"""Run generated kernels over random regions under AddressSanitizer and UBSan.

    python -m tests.fusion.codegen.sanitize 200

The interpreter has to start with the sanitizer's library loaded, so that this starts another one.
Ends with 0 if nothing was found, 77 where the compiler has no such library.
"""

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.codegen.compiler import FLAGS

from .build import check
from .regions import regions, tolerance

MISSING = 77
_SANITIZED = (*FLAGS, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def runtime():
    """Where the compiler's AddressSanitizer is, or None."""
    compiler = find_compiler()
    if compiler is None or compiler.is_clang:
        return None
    asked = [*compiler.command, "-print-file-name=libasan.so"]
    said = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    return said if Path(said).is_absolute() and Path(said).exists() else None


def main(examples):
    """Start the interpreter under the sanitizer; return how it ended."""
    library = runtime()
    if library is None:
        print("the compiler has no AddressSanitizer to load: nothing was run")
        return MISSING
    environment = {
        **os.environ,
        "LD_PRELOAD": library,
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    command = [sys.executable, "-m", __spec__.name, "--inside", str(examples)]
    return subprocess.run(command, env=environment).returncode


def inside(examples):
    """Under the sanitizer: dense and sparse regions, compared with NumPy as well."""
    for sparse in (False, True):

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=examples < 50,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(regions(sparse))
        def clean(case):
            builder, outputs, driver = case
            options = {"template": "Row", "driver": driver, "flags": _SANITIZED}
            compiled = builder.compiled(outputs, **options)
            if not compiled.fallbacks:
                check(builder, outputs, tolerance=tolerance(builder), **options)

        clean()
    print(f"{examples} dense and {examples} sparse regions: clean")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(int(sys.argv[2]))
    else:
        sys.exit(main(int((sys.argv[1:] or ["100"])[0])))

"""Run libraries of random regions, attentions, products, convolutions under ASan and UBSan.

    python -m tests.kernels.sanitize 200

The interpreter has to start with the sanitizer's library loaded, so that this starts another one.
Ends with 0 if nothing was found, 77 where the compiler has no such library.
"""

import os
import subprocess
import sys

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.codegen.compiler import FLAGS

from tests.fusion.codegen.sanitize import MISSING, runtime

from .build import check, model
from .test_attention import any_attention
from .test_attention_mask import any_masked
from .test_columns import programs as column_programs
from .test_convolution import RUNNABLE, cases, check_any
from .test_convolution_apart import cases as groups
from .test_convolution_apart import check_any as check_apart
from .test_convolution_pair import cases as pairs
from .test_convolution_pair import check_any as check_pair
from .test_product import any_product
from .test_regions import programs
from .test_seven import any_large_product

_SANITIZED = (*FLAGS, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def main(examples):
    """Start the interpreter under the sanitizer; return how it ended."""
    preloaded = runtime()
    if preloaded is None:
        print("the compiler has no AddressSanitizer to load: nothing was run")
        return MISSING
    environment = {
        **os.environ,
        # the sanitizer wants to know of C++'s exceptions, which ONNX Runtime uses, from the start
        "LD_PRELOAD": f"{preloaded}:{_standard_library()}",
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:alloc_dealloc_mismatch=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    command = [sys.executable, "-m", __spec__.name, "--inside", str(examples)]
    return subprocess.run(command, env=environment).returncode


def _standard_library():
    asked = [*find_compiler().command, "-print-file-name=libstdc++.so.6"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def inside(examples):
    """Under the sanitizer: all sorts of kernels, compared with ONNX Runtime as well."""
    repeated = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=examples < 50,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )

    @repeated
    @given(programs())
    def regions(case):
        nodes, inputs, outputs, constants, feeds = case
        check(model(nodes, inputs, outputs, constants), feeds, threads=2, flags=_SANITIZED)

    @repeated
    @given(column_programs())
    def columns(case):
        nodes, inputs, outputs, constants, feeds = case
        if nodes:
            proto = model(nodes, inputs, outputs, constants)
            check(proto, feeds, threads=2, flags=_SANITIZED)

    @repeated
    @given(any_attention())
    def attentions(case):
        proto, feeds = case
        check(proto, feeds, threads=2, flags=_SANITIZED)

    @repeated
    @given(any_masked())
    def masked(case):
        proto, feeds, _ = case
        check(proto, feeds, threads=2, flags=_SANITIZED)

    @repeated
    @given(any_product())
    def multiplied(case):
        proto, feeds = case
        check(proto, feeds, threads=2, flags=_SANITIZED)

    @repeated
    @given(any_large_product())
    def multiplied_by_seven(case):
        proto, feeds = case
        check(proto, feeds, threads=2, flags=_SANITIZED, seven=True)

    @repeated
    @given(cases(), st.sampled_from(RUNNABLE), st.booleans())
    def convolved(case, level, in_pieces):
        check_any(case, level, in_pieces, _SANITIZED)

    @repeated
    @given(pairs(), st.sampled_from(RUNNABLE), st.sampled_from([0, 1 << 17]))
    def paired(case, level, held_bytes):
        check_pair(case, level, held_bytes, _SANITIZED)

    @repeated
    @given(groups(), st.sampled_from(RUNNABLE))
    def apart(case, level):
        check_apart(case, level, _SANITIZED)

    regions()
    columns()
    attentions()
    masked()
    multiplied()
    multiplied_by_seven()
    convolved()
    paired()
    apart()
    kinds = "regions, columns, attentions, masked ones, products, convolutions"
    print(f"{examples} each of {kinds}, pairs of them, in groups: clean")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(int(sys.argv[2]))
    else:
        sys.exit(main(int((sys.argv[1:] or ["100"])[0])))

"""Run libraries of random regions, attentions, products, convolutions under ASan and UBSan.

    python -m tests.optimizer.native.sanitize 200

The interpreter has to start with the sanitizer's library loaded, so that this starts another one.
Ends with 0 if nothing was found, 77 where the compiler has no such library.
"""

import sys

from hypothesis import given
from hypothesis import strategies as st
from tensolog.optimizer.native.product.matrix_products import RANKS

from tests.optimizer.fuse.codegen.sanitize import SANITIZED, campaign, main

from .build import check, model
from .test_attention import any_attention
from .test_attention_mask import any_masked
from .test_columns import programs as column_programs
from .test_convolution import RUNNABLE, cases, check_any
from .test_convolution_grouped import cases as groups
from .test_convolution_grouped import check_any as check_apart
from .test_convolution_pair import cases as pairs
from .test_convolution_pair import check_any as check_pair
from .test_product import any_product
from .test_product_seven_for_eight import any_large_product
from .test_regions import programs


def inside(examples):
    """Under the sanitizer: all sorts of kernels, compared with ONNX Runtime as well."""
    repeated = campaign(examples)

    @repeated
    @given(programs())
    def regions(case):
        nodes, inputs, outputs, constants, feeds = case
        check(model(nodes, inputs, outputs, constants), feeds, threads=2, flags=SANITIZED)

    @repeated
    @given(column_programs())
    def columns(case):
        nodes, inputs, outputs, constants, feeds = case
        if nodes:
            proto = model(nodes, inputs, outputs, constants)
            check(proto, feeds, threads=2, flags=SANITIZED)

    @repeated
    @given(any_attention())
    def attentions(case):
        proto, feeds = case
        check(proto, feeds, threads=2, flags=SANITIZED)

    @repeated
    @given(any_masked())
    def masked(case):
        proto, feeds, _ = case
        check(proto, feeds, threads=2, flags=SANITIZED)

    @repeated
    @given(any_product())
    def multiplied(case):
        proto, feeds = case
        check(proto, feeds, threads=2, flags=SANITIZED)

    @repeated
    @given(any_large_product(), st.sampled_from(list(RANKS)))
    def multiplied_otherwise(case, form):
        proto, feeds = case
        check(proto, feeds, threads=2, flags=SANITIZED, form=form)

    @repeated
    @given(cases(), st.sampled_from(RUNNABLE), st.booleans())
    def convolved(case, level, in_pieces):
        check_any(case, level, in_pieces, SANITIZED)

    @repeated
    @given(pairs(), st.sampled_from(RUNNABLE), st.sampled_from([0, 1 << 15]))
    def paired(case, level, block):
        check_pair(case, level, block, SANITIZED)

    @repeated
    @given(groups(), st.sampled_from(RUNNABLE))
    def grouped(case, level):
        check_apart(case, level, SANITIZED)

    regions()
    columns()
    attentions()
    masked()
    multiplied()
    multiplied_otherwise()
    convolved()
    paired()
    grouped()
    kinds = "regions, columns, attentions, masked ones, products, convolutions"
    print(f"{examples} each of {kinds}, pairs of them, in groups: clean")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(int(sys.argv[2]))
    else:
        # ONNX Runtime's own allocations are not what is tested.
        options = ":alloc_dealloc_mismatch=0"
        sys.exit(main(int((sys.argv[1:] or ["100"])[0]), __spec__.name, options))

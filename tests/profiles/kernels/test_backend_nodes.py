"""Every operator of ONNX's backend node tests, as a kernel: it runs, or says why it can't."""

import warnings
from collections import Counter

import numpy as np
import pytest
from onnx.backend.test.case.node import collect_testcases
from tensolog.profiles.kernel import KernelError
from tensolog.profiles.kernels.graph_kernels import kernels_of
from tensolog.profiles.kernels.roofline import work
from tensolog.profiles.kernels.timing import SessionRunner

from tests.campaigns import ALL
from tests.profiles.small_models import tensor_type


def node_kernels():
    """Yield the distinct kernels of all node tests, shapes and values from their test data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    seen = set()
    for case in cases:
        graph = case.model.graph
        infos = [*graph.input, *graph.value_info, *graph.output]
        shapes = {
            info.name: tensor_type(info) for info in infos if info.type.HasField("tensor_type")
        }
        arrays = {}
        for info, array in zip(graph.input, case.data_sets[0][0], strict=False):
            if isinstance(array, np.ndarray) and info.name in shapes:
                shapes[info.name] = (shapes[info.name][0], array.shape)
                arrays[info.name] = array
        opsets = {entry.domain: entry.version for entry in case.model.opset_import}
        for _, kernel in kernels_of(graph, shapes, arrays.get, opsets):
            if kernel.hash not in seen and not kernel.is_constant:
                seen.add(kernel.hash)
                yield kernel


@pytest.mark.filterwarnings("ignore")
def test_every_operator_runs_or_says_why_not(capsys):
    # A model of few constants, so that caches are not swept: no time is of interest here.
    runner = SessionRunner(threads=1, configuration="all", constant_bytes=1)
    ran, refused = set(), Counter()
    for kernel in node_kernels():
        assert work(kernel).bytes >= 0 and kernel.label()
        if kernel.op_type in ran and not ALL:
            continue  # of each operator the first that runs, and all that don't before it
        try:
            assert runner.prepare(kernel)() > 0
            ran.add(kernel.op_type)
        except KernelError as error:
            assert str(error) and "\n" not in str(error)
            refused[kernel.op_type] += 1
    with capsys.disabled():
        never = sorted(set(refused) - ran)
        print(f"\n{len(ran)} operators timed; never: {', '.join(never)}")
    # What is left needs a newer ONNX Runtime, holds subgraphs or strings, or has no CPU kernel.
    assert len(ran) >= 150
    assert {"Conv", "MatMul", "Gemm", "Attention", "LSTM", "Resize", "CumSum", "TopK"} <= ran

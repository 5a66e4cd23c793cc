"""Load one library of kernels under several releases of ONNX Runtime, and compare what it gives.

    python -m tests.optimizer.native.releases /venvs/1.20/bin/python /venvs/1.23/bin/python

Each argument is a Python that has onnxruntime and numpy; nothing else is needed there. A release
that is too old must refuse the library with a status. Ends with 0 if all did as they should.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from .build import fused, model, opened
from .test_attention import LOWEST, causal, feeds, heads_apart
from .test_product import BEHIND, dense
from .test_regions import normal, rotary

_RUN = """
import sys
import numpy as np
import onnxruntime
folder, library = sys.argv[1:]
print("onnxruntime", onnxruntime.__version__, end=": ")
for name in ("rows", "rotary", "attention", "product"):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    try:
        options.register_custom_ops_library(f"{folder}/{name}.{library}")
    except Exception as error:
        print("refused:", " ".join(str(error).split()))
        old = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 17)
        sys.exit(0 if old and "need ONNX Runtime 1.17 or newer" in str(error) else 1)
    session = onnxruntime.InferenceSession(f"{folder}/{name}.onnx", options)
    with np.load(f"{folder}/{name}.npz") as given:
        feeds = {entry.name: given[entry.name] for entry in session.get_inputs()}
        outputs = session.run(None, feeds)
        for at, output in enumerate(outputs):
            np.testing.assert_allclose(output, given[f"output {at}"], rtol=1e-4, atol=1e-5)
print("as it should")
"""


def cases():
    """Yield models of each sort of kernel, and what they are given."""
    node = helper.make_node
    nodes = [
        node("Add", ["x", "r"], ["sum"]),
        node("LayerNormalization", ["sum", "scale"], ["y"], axis=-1),
    ]
    shape = ["b", "s", 64]
    outputs = {"sum": shape, "y": shape}
    rows = model(nodes, {"x": shape, "r": shape}, outputs, {"scale": normal(64)}, opset=17)
    yield "rows", rows, {"x": normal(2, 300, 64), "r": normal(2, 300, 64)}
    tables = {"cos": normal(6, 16), "sin": normal(6, 16)}
    yield "rotary", rotary(3, 16), {"x": normal(2, 6, 48), **tables}
    attention = heads_apart("b", 2, "s", "t", 16, 16, mask=[1, 1, "s", "t"])
    yield "attention", attention, {**feeds(2, 2, 70, 70, 16, 16), "mask": causal(70, 70, LOWEST)}
    gated = dense(300, 200, BEHIND["residual"], inputs=("r",), constants={"b": normal(200)})
    yield "product", gated, {"x": normal(2, 70, 300), "r": normal(2, 70, 200)}


def main(pythons):
    """Write the models and run each Python; return how many of them didn't do as they should."""
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case, proto, feeds_of_case in cases():
            changed, library = fused(proto, levels=None)
            onnx.save(changed, folder / f"{case}.onnx")
            (folder / f"{case}.library").write_bytes(library.path.read_bytes())
            wanted = opened(proto).run(None, feeds_of_case)
            outputs = {f"output {i}": array for i, array in enumerate(wanted)}
            np.savez(folder / f"{case}.npz", **feeds_of_case, **outputs)
        for python in [sys.executable, *pythons]:
            done = subprocess.run([python, "-c", _RUN, name, "library"])
            failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

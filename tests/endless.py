"""Work that never ends by itself, and who strikes meanwhile."""

import faulthandler
import os
import signal
import sys
import threading
from contextlib import contextmanager

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HANG_S = 120
QUERY = (
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) AS n FROM t"
)
PROGRAM = ".decl a(x: number)\n.output a\na(0).\na(x + 1) :- a(x).\n"
# The same in rounds that Python drives, since tuples are taken away again.
ROUNDS = (
    ".decl a(x: number, y: number)\n.output a\na(0, 0).\na(x + 1, y) :- a(x, y).\n"
    "a(x, y1) <= a(x, y2) :- y1 <= y2.\n"
)
# Records that nest deeper and deeper, by way of two relations.
RECORDS = (
    ".type L = [h: number, t: L]\n.decl a(x: L)\n.decl b(x: L)\n.output a\n"
    "a(nil).\nb([1, x]) :- a(x).\na(x) :- b(x).\n"
)


def endless_model(kind="Loop"):
    """A model whose Loop has no end that anybody will see: by its count, or by its condition."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["still"]),
            helper.make_node("Add", ["value", "one"], ["next"]),
        ],
        "body",
        [
            info("turn", TensorProto.INT64, []),
            info("go_on", TensorProto.BOOL, []),
            info("value", TensorProto.FLOAT, [4]),
        ],
        [info("still", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, [4])],
    )
    constants = {"true": np.array(True), "one": np.ones(4, np.float32)}
    if kind == "Loop":
        constants["count"] = np.array(2**62)
    count = "count" if kind == "Loop" else ""
    graph = helper.make_graph(
        [helper.make_node("Loop", [count, "true", "x"], ["y"], body=body)],
        "endless",
        [info("x", TensorProto.FLOAT, [4])],
        [info("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def save_endless(path, kind="Loop"):
    onnx.save(endless_model(kind), path)
    return path


@contextmanager
def struck(number=signal.SIGINT, after_s=0.5):
    """Send this process a signal while the block runs; where that doesn't end, the tests do."""
    timer = threading.Timer(after_s, os.kill, (os.getpid(), number))
    faulthandler.dump_traceback_later(HANG_S, exit=True, file=sys.__stderr__)
    timer.start()
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        timer.cancel()
        timer.join()

"""Boosted trees that correct the bound of a kernel, trained with scikit-learn, as an ONNX model.

What leaves is one TreeEnsembleRegressor of ONNX's ai.onnx.ml, which ONNX Runtime executes without
scikit-learn. Rows are float32, and thresholds are rounded down to float32, so that each row goes
the way that it goes in scikit-learn. The metadata hold what `kernel_costs.py` needs beside it: the
operators, the interval, how errors are shared, and what was trained on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..adaptation import fit_spread
from ..errors import LearningError
from ..exported import METADATA
from ..predictor import COVERAGE, conformal_factor
from ..samples.kernel_rows import COLUMNS, TELLING, KernelRows
from .training_options import Progress

Array = np.ndarray[Any, Any]

KIND, FORMAT = "kernel trees", 1
FOLDS = 6
_TREES, _LEAVES, _LEAST_SAMPLES, _RATE = 300, 24, 3, 0.05
# Of rows and of features, what each tree and each split see: trees that differ err less together.
_ROWS_SEEN, _FEATURES_SEEN = 0.6, 0.4


def train_trees(
    kernels: Sequence[KernelRows],
    *,
    progress: Progress | None = None,
) -> onnx.ModelProto:
    """Train on measured kernels and return the ONNX model.

    The interval is that of architectures left out: trees trained without them tell how far
    predictions lie from times, of kernels whose operator others have too. Raises LearningError
    without scikit-learn, and for fewer than two architectures.
    """
    architectures = sorted({kernel.architecture for kernel in kernels})
    if len(architectures) < 2:
        raise LearningError(
            "trees need measured kernels of two models at least: name more, and measure them with "
            "tensolog costs collect"
        )
    folds = min(FOLDS, len(architectures))
    groups: list[tuple[Array, Array, Array]] = []
    for number in range(folds):
        unseen = {name for place, name in enumerate(architectures) if place % folds == number}
        tested = [kernel for kernel in kernels if kernel.architecture in unseen]
        groups += left_out(kernels, tested).values()
        if progress is not None:
            progress(number + 1, folds + 1)
    factor = conformal_factor(np.abs(np.concatenate([errors for _, _, errors in groups])), COVERAGE)
    operators = operators_of(kernels)
    metadata = {
        "kind": KIND,
        "format": FORMAT,
        "columns": list(COLUMNS),
        "operators": operators.tolist(),
        "configured": {
            "threads": sorted({int(row[-2]) for kernel in kernels for row in kernel.rows}),
            "levels": sorted({int(row[-1]) for kernel in kernels for row in kernel.rows}),
        },
        "interval": {"coverage": COVERAGE, "left_out": "architectures", "factor": min(factor, 1e9)},
        "spread": vars(fit_spread(groups)),
        "known": [
            {
                "label": kernel.label,
                "opcode": kernel.opcode,
                "time_ns": round(float(np.exp(kernel.logs[0])), 1),
                "place": [round(float(value), 2) for value in kernel.place[0, TELLING]],
            }
            for kernel in {kernel.content: kernel for kernel in kernels}.values()
        ],
    }
    model = exported(fit_trees(kernels, operators), metadata)
    if progress is not None:
        progress(folds + 1, folds + 1)
    return model


def left_out(
    kernels: Sequence[KernelRows], tested: Sequence[KernelRows]
) -> dict[str, tuple[Array, Array, Array]]:
    """Train without some kernels, wherever else they occur; return errors by architecture.

    Those are families (n), places (n, f) and errors of log(time) (n), of all configurations of
    kernels whose operator is known without them.
    """
    contents = {kernel.content for kernel in tested}
    names = {kernel.architecture for kernel in tested}
    training_kernels = [
        kernel
        for kernel in kernels
        if kernel.content not in contents and kernel.architecture not in names
    ]
    if not training_kernels:
        return {}
    operators = operators_of(training_kernels)
    trees = fit_trees(training_kernels, operators)
    scored: dict[str, tuple[Array, Array, Array]] = {}
    for name in sorted(names):
        of_one = [
            kernel
            for kernel in tested
            if kernel.architecture == name and kernel.opcode in operators
        ]
        if of_one:
            errors = [
                kernel.logs - kernel.guess - trees.predict(table([kernel], operators))
                for kernel in of_one
            ]
            families = [np.full(len(kernel.logs), kernel.opcode) for kernel in of_one]
            scored[name] = (
                np.concatenate(families),
                np.concatenate([kernel.place for kernel in of_one]),
                np.concatenate(errors),
            )
    return scored


def fit_trees(kernels: Sequence[KernelRows], operators: Array) -> Any:
    """Return scikit-learn's trees, which predict log(time) less the guess from rows of `table`."""
    try:
        # scikit-learn takes a second to import, and comes with an extra only.
        from sklearn.ensemble import GradientBoostingRegressor
    except ImportError as error:
        raise LearningError("learning needs scikit-learn: pip install 'tensolog[learn]'") from error
    model = GradientBoostingRegressor(
        n_estimators=_TREES,
        learning_rate=_RATE,
        max_depth=None,
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=_LEAST_SAMPLES,
        subsample=_ROWS_SEEN,
        max_features=_FEATURES_SEEN,
        random_state=0,
    )
    corrections = np.concatenate([kernel.logs - kernel.guess for kernel in kernels])
    return model.fit(table(kernels, operators), corrections)


def operators_of(kernels: Sequence[KernelRows]) -> Array:
    """Return the opcodes of kernels, each once, in order."""
    return np.unique([kernel.opcode for kernel in kernels])


def table(kernels: Sequence[KernelRows], operators: Array) -> Array:
    """Return what trees see: the place of the operator among those that are known, then a row."""
    return np.concatenate(
        [
            np.c_[
                np.full(len(kernel.rows), np.searchsorted(operators, kernel.opcode)), kernel.rows
            ].astype(np.float32)
            for kernel in kernels
        ]
    )


def exported(trees: Any, metadata: Mapping[str, Any]) -> onnx.ModelProto:
    """Return scikit-learn's trees as an ONNX model with metadata."""
    columns: dict[str, list[Any]] = {
        name: []
        for name in (
            *("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values"),
            *("nodes_modes", "nodes_truenodeids", "nodes_falsenodeids"),
            *("target_treeids", "target_nodeids", "target_ids", "target_weights"),
        )
    }
    for number, estimator in enumerate(trees.estimators_[:, 0]):
        tree = estimator.tree_
        is_leaf = tree.children_left < 0
        leaves = np.flatnonzero(is_leaf)
        count = tree.node_count
        columns["nodes_treeids"] += [number] * count
        columns["nodes_nodeids"] += range(count)
        columns["nodes_featureids"] += np.where(is_leaf, 0, tree.feature).tolist()
        columns["nodes_values"] += np.where(is_leaf, 0.0, _rounded_down(tree.threshold)).tolist()
        columns["nodes_modes"] += ["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf]
        columns["nodes_truenodeids"] += np.where(is_leaf, 0, tree.children_left).tolist()
        columns["nodes_falsenodeids"] += np.where(is_leaf, 0, tree.children_right).tolist()
        columns["target_treeids"] += [number] * len(leaves)
        columns["target_nodeids"] += leaves.tolist()
        columns["target_ids"] += [0] * len(leaves)
        columns["target_weights"] += (trees.learning_rate * tree.value[leaves, 0, 0]).tolist()
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["rows"],
        ["corrections"],
        domain="ai.onnx.ml",
        n_targets=1,
        base_values=[float(trees.init_.constant_.ravel()[0])],
    )
    node.attribute.extend(helper.make_attribute(name, values) for name, values in columns.items())
    graph = helper.make_graph(
        [node],
        "costs",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", len(COLUMNS) + 1])],
        [helper.make_tensor_value_info("corrections", TensorProto.FLOAT, ["n", 1])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    helper.set_model_props(model, {METADATA: json.dumps(metadata)})
    return model


def _rounded_down(thresholds: Array) -> Array:
    """Return the largest float32 that is not above: the same rows of float32 lie at most there."""
    nearest = thresholds.astype(np.float32)
    below: Array = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > thresholds, below, nearest)

"""Made-up reports for tests and for looking at the page; no model is run."""

import random


class Sketch:
    """A graph in the report's form, built node by node."""

    def __init__(self, seed=0):
        self.random = random.Random(seed)
        self.nodes = []
        self.constants = {}

    def add(
        self, op, *inputs, shape=(1, 64, 56, 56), weights=(), cost=None, rule=None, **attributes
    ):
        number = len(self.nodes)
        names = []
        for slot, weight in enumerate(weights):
            name = f"{op.lower()}_{number}.{'wb'[slot % 2]}"
            self.constants[name] = f"float32 {'x'.join(map(str, weight))}"
            names.append(name)
        output = f"{op.lower()}_{number}_output"
        self.nodes.append(
            {
                "id": number,
                "name": f"/block{number // 12}/{op}_{number}",
                "op": op,
                "inputs": [*inputs, *names],
                "outputs": [output],
                "shape": list(shape),
                "dtype": "float32",
                "attributes": {key: str(value) for key, value in attributes.items()},
                "cost_ns": cost if cost is not None else self.random.uniform(3e3, 4e4),
                "cost_source": "measured",
                "rule": rule,
            }
        )
        return output

    def graph(self, inputs, outputs):
        return {
            "nodes": self.nodes,
            "inputs": inputs,
            "outputs": outputs,
            "constants": self.constants,
        }


def residual_network(blocks=8, folded=False):
    """Convolution, normalization and residual blocks; `folded`: without the normalization."""
    sketch = Sketch()

    def conv(x, channels, kernel):
        size = 56
        weight = (channels, channels, kernel, kernel)
        cost = kernel * kernel * channels * 2.1e3
        y = sketch.add(
            "Conv",
            x,
            shape=(1, channels, size, size),
            weights=[weight, (channels,)] if folded else [weight],
            cost=cost,
            rule="FoldBatchNormalizationIntoConv" if folded else None,
            kernel_shape=[kernel, kernel],
            strides=[1, 1],
        )
        if folded:
            return y
        return sketch.add(
            "BatchNormalization",
            y,
            shape=(1, channels, size, size),
            weights=[(channels,)] * 4,
            cost=4.2e4,
            rule="FoldBatchNormalizationIntoConv",
            epsilon=1e-5,
        )

    x = sketch.add("Relu", conv("image", 64, 7))
    x = sketch.add("MaxPool", x, kernel_shape=[3, 3])
    for block in range(blocks):
        y = sketch.add("Relu", conv(x, 64, 1))
        y = sketch.add("Relu", conv(y, 64, 3))
        y = conv(y, 256, 1)
        shortcut = conv(x, 256, 1) if block % 4 == 0 else x
        x = sketch.add("Relu", sketch.add("Add", y, shortcut))
        if not folded:
            x = sketch.add("Identity", x, cost=900.0, rule="EliminateIdentity")
    x = sketch.add("GlobalAveragePool", x, shape=(1, 256, 1, 1))
    x = sketch.add("Flatten", x, shape=(1, 256))
    x = sketch.add("Gemm", x, shape=(1, 1000), weights=[(1000, 256), (1000,)], cost=2.4e5)
    return sketch.graph(["image"], [x])


def transformer(blocks=50):
    """About forty nodes a block, and a mask that every block reads."""
    sketch = Sketch(1)
    tokens = (1, 128, 768)
    mask = sketch.add("Where", "mask", shape=(1, 1, 128, 128))
    x = sketch.add("Gather", "input_ids", weights=[(50257, 768)], shape=tokens)
    for _ in range(blocks):
        heads = []
        for _ in "qkv":
            y = sketch.add("MatMul", x, weights=[(768, 768)], shape=tokens, cost=9.1e5)
            y = sketch.add("Add", y, weights=[(768,)], shape=tokens)
            y = sketch.add("Reshape", y, weights=[(4,)], shape=(1, 128, 12, 64))
            heads.append(sketch.add("Transpose", y, perm=[0, 2, 1, 3], shape=(1, 12, 128, 64)))
        scores = sketch.add("MatMul", heads[0], heads[1], shape=(1, 12, 128, 128), cost=4e5)
        scores = sketch.add("Div", scores, weights=[()], shape=(1, 12, 128, 128))
        scores = sketch.add("Add", scores, mask, shape=(1, 12, 128, 128))
        scores = sketch.add("Softmax", scores, axis=-1, shape=(1, 12, 128, 128))
        y = sketch.add("MatMul", scores, heads[2], shape=(1, 12, 128, 64), cost=4e5)
        y = sketch.add("Transpose", y, perm=[0, 2, 1, 3], shape=(1, 128, 12, 64))
        y = sketch.add("Reshape", y, weights=[(3,)], shape=tokens)
        y = sketch.add("MatMul", y, weights=[(768, 768)], shape=tokens, cost=9.1e5)
        x = sketch.add("Add", x, y, shape=tokens)
        mean = sketch.add("ReduceMean", x, shape=(1, 128, 1))
        centred = sketch.add("Sub", x, mean, shape=tokens)
        square = sketch.add("Pow", centred, weights=[()], shape=tokens)
        variance = sketch.add("ReduceMean", square, shape=(1, 128, 1))
        root = sketch.add("Sqrt", sketch.add("Add", variance, weights=[()]), shape=(1, 128, 1))
        x = sketch.add("Div", centred, root, shape=tokens)
        h = sketch.add("MatMul", x, weights=[(768, 3072)], shape=(1, 128, 3072), cost=3.3e6)
        e = sketch.add("Erf", sketch.add("Div", h, weights=[()]), shape=(1, 128, 3072))
        h = sketch.add("Mul", h, sketch.add("Add", e, weights=[()]), shape=(1, 128, 3072))
        h = sketch.add("MatMul", h, weights=[(3072, 768)], shape=tokens, cost=3.3e6)
        x = sketch.add("Add", h, x, shape=tokens)
    return sketch.graph(["input_ids", "mask"], [x])


def report(before, after, chosen="plan 1"):
    """A complete report over two graphs."""
    removed = [node for node in before["nodes"] if node["rule"]]
    steps = [
        {
            "position": position,
            "rule": node["rule"],
            "nodes": [node["name"]],
            "removed": 2 if node["rule"].startswith("Fold") else 1,
            "added": 1 if node["rule"].startswith("Fold") else 0,
            "cost_before_ns": node["cost_ns"] + 1e5,
            "cost_after_ns": 1e5,
            "accepted": True,
            "reason": "never costs more",
            "equal": "rounding" if node["rule"].startswith("Fold") else "exact",
            "summary": "multiplies the scale of a normalization into the weights before it",
        }
        for position, node in enumerate(removed)
    ]
    steps.append(
        {
            "position": len(steps),
            "rule": "MergeConvsSharingInput",
            "nodes": [node["name"] for node in before["nodes"] if node["op"] == "Conv"][3:5],
            "removed": 2,
            "added": 2,
            "cost_before_ns": 2.7e5,
            "cost_after_ns": 2.9e5,
            "accepted": False,
            "reason": "costs 20.0 µs more",
            "equal": "exact",
        }
    )
    kept = chosen == "original"

    def candidate(name, nodes, median, ratio, verdict):
        return {
            "candidate": name,
            "nodes": nodes,
            "predicted_ns": median * 1.04,
            "median_ns": median,
            "spread_ns": median * 0.012,
            "ratio": ratio,
            "ratio_low": ratio * 0.985,
            "ratio_high": ratio * 1.013,
            "samples": 31,
            "verdict": verdict,
        }

    return {
        "tensolog": "0.1.0",
        "chosen": chosen,
        "verdict": "The original is kept: no plan was faster beyond the noise."
        if kept
        else "plan 1 is written: 1.18x faster than the original, which it won in 31 of 31 rounds.",
        "nodes_before": len(before["nodes"]),
        "nodes_after": len(after["nodes"]),
        "created_at": "2026-01-02T03:04:05.678+00:00",
        "plan_id": 3,
        "model": {
            "name": "residual.onnx",
            "path": "models/residual.onnx",
            "size_bytes": 102_400_000,
            "producer": "pytorch 2.8",
            "opsets": {"": 18},
        },
        "options": {
            "target": "onnxruntime-cpu",
            "threads": 2,
            "budget_s": 20.0,
            "allow": ["exact", "rounding"],
            "seed": 0,
        },
        "latency_before": {"median_ns": 4.51e7, "spread_ns": 4e5},
        "latency_after": {"median_ns": 4.51e7 if kept else 3.82e7, "spread_ns": 3e5},
        "steps": steps,
        "candidates": [
            candidate("original", len(before["nodes"]), 4.51e7, 1.0, "kept" if kept else ""),
            candidate("plan 1", len(after["nodes"]), 3.82e7, 0.847, "fastest"),
            candidate("plan 2", len(after["nodes"]) + 4, 3.9e7, 0.865, "slower than plan 1"),
            candidate("simplified", len(before["nodes"]) - 8, 4.6e7, 1.02, "slower"),
        ],
        "deviations": [
            {
                "candidate": chosen,
                "distribution": distribution,
                "output": after["outputs"][0],
                "max_absolute": size,
                "max_relative": size * 3,
                "max_error": size * 2,
                "tolerance": 1e-4,
                "original_error": size,
                "reference": "float64",
                "no_float64": "",
                "within": True,
            }
            for distribution, size in [("normal", 2.1e-6), ("uniform", 1.3e-6), ("large", 8.8e-5)]
        ],
        "near_misses": [
            {
                "rule": "MergeMatMulsSharingLeft",
                "nodes": [before["nodes"][4]["name"], before["nodes"][5]["name"]],
                "condition": "W2 is const",
                "detail": "W2 = relu_3_output is computed by Relu",
            }
        ],
        "device": {
            "name": "Example CPU @ 2.50GHz",
            "cores": 2,
            "memory_bytes": 25_000_000_000,
            "instruction_set": "avx512",
            "bandwidth_bytes_per_s": 1.9e10,
            "peak_flops_per_s": 1.4e11,
        },
        "versions": {"onnxruntime": "1.31.1", "onnx": "1.23.2", "python": "3.11.7"},
        "phases": {
            "reading": 0.4,
            "rewriting": 1.2,
            "measuring kernels": 9.6,
            "searching": 0.7,
            "verifying": 2.2,
            "racing": 6.1,
        },
        "graphs": {"before": before, "after": after},
    }

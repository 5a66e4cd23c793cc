"""A trained network as an ONNX model: what the product runs, by ONNX Runtime alone.

All members of an ensemble lie in one model. Its metadata say which opcodes and features it reads,
what it was trained on, and how far predictions lie from times of architectures that it did not see.

| input | shape | |
|---|---|---|
| opcodes … segments | | as in `examples.Batch` |
| nodes | (b) | how many nodes each graph has |
| prior | (b, c) | first guess of log(time in ns) |
| elsewhere | (members, b, c, width) | sums over the nodes of segments that were run before |

Outputs: sums (members, b, c, width), the sums over all nodes so far, and log_time (members, b, c).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

Array = np.ndarray[Any, Any]

METADATA = "tensolog.costs"
FORMAT = 1
# Features are cut at so many deviations from their means: beyond, a network would say anything.
MOST_DEVIATIONS = 4.0
_OPSET = 18

_HEAD = """
<ir_version: 9, opset_import: ["" : {opset}]>
costs (
  int64[n] opcodes, float[n, {features}] features, float[n, c, {configured}] configurations,
  int64[m] consumers, int64[m] producers, float[m] reading, float[m] feeding,
  int64[n] segments, float[b] nodes, float[b, c] prior, float[{members}, b, c, {width}] elsewhere
) => (float[{members}, b, c, {width}] sums, float[{members}, b, c] log_time) {{
  last = Constant <value_ints = [-1]> ()
  least = Constant <value_float = -{most}> ()
  most = Constant <value_float = {most}> ()
  both = Constant <value_ints = [1, 2]> ()
  first = Constant <value_ints = [0]> ()
  middle = Constant <value_ints = [1]> ()
  to = Unsqueeze (consumers, last)
  from = Unsqueeze (producers, last)
  into = Unsqueeze (segments, last)
  reading_3 = Unsqueeze (reading, both)
  feeding_3 = Unsqueeze (feeding, both)
  count = Unsqueeze (nodes, both)
  log_count = Log (count)
  prior_shape = Shape (prior)
  width = Constant <value_ints = [{width}]> ()
  one = Constant <value_ints = [1]> ()
  sums_shape = Concat <axis = 0> (prior_shape, width)
  size_shape = Concat <axis = 0> (prior_shape, one)
  nothing = ConstantOfShape (sums_shape)
  size = Expand (log_count, size_shape)
"""
_MEMBER = """
  {p}feature_0 = Sub (features, {p}fixed_features_mean)
  {p}feature_1 = Div ({p}feature_0, {p}fixed_features_deviation)
  {p}feature = Clip ({p}feature_1, least, most)
  {p}setting_0 = Sub (configurations, {p}fixed_configurations_mean)
  {p}setting_1 = Div ({p}setting_0, {p}fixed_configurations_deviation)
  {p}setting_2 = Clip ({p}setting_1, least, most)
  {p}setting = MatMul ({p}setting_2, {p}configured)
  {p}embedded = Gather <axis = 0> ({p}embedding, opcodes)
  {p}given = Concat <axis = 1> ({p}embedded, {p}feature)
  {p}node_2 = MatMul ({p}given, {p}node)
  {p}node_3 = Unsqueeze ({p}node_2, middle)
  {p}state_a = Add ({p}node_3, {p}setting)
  {p}state_b = Add ({p}state_a, {p}start)
  {p}state_0 = Relu ({p}state_b)
"""
_LAYER = """
  {q}normal = LayerNormalization <axis = -1, epsilon = 1e-5> ({p}state_{layer}, {p}gain_{layer},
      {p}shift_{layer})
  {q}zero = Sub ({q}normal, {q}normal)
  {q}read_0 = Gather <axis = 0> ({q}normal, producers)
  {q}read_1 = Mul ({q}read_0, reading_3)
  {q}read_2 = ScatterND <reduction = "add"> ({q}zero, to, {q}read_1)
  {q}read = MatMul ({q}read_2, {p}reads_{layer})
  {q}feed_0 = Gather <axis = 0> ({q}normal, consumers)
  {q}feed_1 = Mul ({q}feed_0, feeding_3)
  {q}feed_2 = ScatterND <reduction = "add"> ({q}zero, from, {q}feed_1)
  {q}feed = MatMul ({q}feed_2, {p}feeds_{layer})
  {q}sharp = Mul ({q}normal, {p}sharpness_{layer})
  {q}share = Softmax <axis = 1> ({q}sharp)
  {q}compared_0 = Mul ({q}share, {q}normal)
  {q}compared = MatMul ({q}compared_0, {p}compared_{layer})
  {q}self = MatMul ({q}normal, {p}self_{layer})
  {q}change = Sum ({q}self, {q}read, {q}feed, {q}compared, {p}bias_{layer})
  {q}more = Relu ({q}change)
  {p}state_{next} = Add ({p}state_{layer}, {q}more)
"""
_END = """
  {p}pool_0 = MatMul ({p}state_{layers}, {p}pool)
  {p}pool_1 = Add ({p}pool_0, {p}pool_bias)
  {p}pool_2 = Relu ({p}pool_1)
  {p}sum = ScatterND <reduction = "add"> (nothing, into, {p}pool_2)
  {p}number = Constant <value_int = {member}> ()
  {p}before = Gather <axis = 0> (elsewhere, {p}number)
  {p}total = Add ({p}sum, {p}before)
  {p}mean = Div ({p}total, count)
  {p}sized = Concat <axis = 2> ({p}mean, size)
  {p}hidden_0 = MatMul ({p}sized, {p}hidden)
  {p}hidden_1 = Add ({p}hidden_0, {p}hidden_bias)
  {p}hidden_2 = Relu ({p}hidden_1)
  {p}last_0 = MatMul ({p}hidden_2, {p}last)
  {p}last_1 = Add ({p}last_0, {p}last_bias)
  {p}last_2 = Squeeze ({p}last_1, last)
  {p}last_3 = Mul ({p}last_2, {p}fixed_scale)
  {p}last_4 = Sum (prior, {p}last_3, {p}fixed_mean)
  {p}sum_4 = Unsqueeze ({p}total, first)
  {p}time_3 = Unsqueeze ({p}last_4, first)
"""


def cost_model(
    members: Sequence[Mapping[str, Array]], metadata: Mapping[str, Any]
) -> onnx.ModelProto:
    """Return the ONNX model of an ensemble whose members have parameters of the same shapes.

    `metadata` goes into it as JSON, with the format's number.
    """
    first = members[0]
    layers = sum(name.startswith("self_") for name in first)
    width = first["pool"].shape[0]
    text = _HEAD.format(
        opset=_OPSET,
        most=MOST_DEVIATIONS,
        features=len(first["fixed_features_mean"]),
        configured=len(first["fixed_configurations_mean"]),
        members=len(members),
        width=width,
    )
    for member in range(len(members)):
        prefix = f"m{member}_"
        text += _MEMBER.format(p=prefix)
        for layer in range(layers):
            text += _LAYER.format(p=prefix, q=f"{prefix}{layer}_", layer=layer, next=layer + 1)
        text += _END.format(p=prefix, layers=layers, member=member)
    for name, part in (("sums", "sum_4"), ("log_time", "time_3")):
        parts = ", ".join(f"m{member}_{part}" for member in range(len(members)))
        text += f"  {name} = Concat <axis = 0> ({parts})\n"
    model = onnx.parser.parse_model(text + "}")
    for member, parameters in enumerate(members):
        for name, value in parameters.items():
            model.graph.initializer.append(
                numpy_helper.from_array(np.asarray(value, np.float32), f"m{member}_{name}")
            )
    entry = model.metadata_props.add()
    entry.key = METADATA
    entry.value = json.dumps({"format": FORMAT, **metadata}, sort_keys=True)
    onnx.checker.check_model(model)
    return model

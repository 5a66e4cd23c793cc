"""The weights of an ONNX model in a PyTorch module."""

from __future__ import annotations

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn


def give_weights(module: nn.Module, model: onnx.ModelProto) -> None:
    """Copy a model's initializers into a module that holds its own in the same order.

    The second operand of a MatMul is transposed: linear layers of PyTorch hold outputs by inputs.
    Raises ValueError where the number of weights or the shape of one is another.
    """
    transposed = {node.input[1] for node in model.graph.node if node.op_type == "MatMul"}
    places = {
        name: tensor
        for name, tensor in module.state_dict().items()
        if not name.endswith("num_batches_tracked")  # which counts batches in training
    }
    for (name, place), tensor in zip(places.items(), model.graph.initializer, strict=True):
        array = numpy_helper.to_array(tensor)
        weight = array.T if tensor.name in transposed else array
        if weight.shape != tuple(place.shape):
            raise ValueError(f"{name} is {tuple(place.shape)}, {tensor.name} {weight.shape}")
        place.copy_(torch.from_numpy(np.array(weight)))

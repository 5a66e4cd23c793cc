"""Transformer architectures: BERT, GPT-2, a Llama-style block stack, and ViT."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from . import layers
from .network import Dimension, Network, assemble, dimension, reshape, slice_, split, unsqueeze

LOWEST = float(np.finfo(np.float32).min)


def bert(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    tokens: Dimension = 128,
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = 30522,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build BERT-base (Devlin et al. 2018): post-norm, erf GELU, an attention mask, a pooler."""
    net = Network("bert", opset=opset, seed=seed)
    ids, mask, kinds = (
        net.input(name, (batch, tokens), TensorProto.INT64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    shape = _shape(net, ids, batch, tokens)
    with net.scope("embeddings"):
        value = net.op("Gather", net.normal("word", vocabulary, width, std=0.5), ids)
        value = net.op("Add", value, net.op("Gather", net.normal("kind", 2, width, std=0.5), kinds))
        value = net.op("Add", value, _positions(net, tokens, shape[1], width))
        value = layers.layer_normalization(net, value, width, 1e-12)
    with net.scope("mask"):
        mask = net.op("Cast", unsqueeze(net, unsqueeze(net, mask, 1), 2), to=TensorProto.FLOAT)
        mask = net.op("Sub", net.constant(1.0), mask)
        mask = net.op("Mul", mask, net.constant(LOWEST))
    for layer in range(depth):
        with net.scope(f"layer.{layer}"):
            with net.scope("attention"):
                attended = _attention(net, value, shape, width, heads, mask)
                value = net.op("Add", attended, value)
                value = layers.layer_normalization(net, value, width, 1e-12)
            hidden = layers.gelu_erf(net, layers.dense(net, value, width, width * 4))
            hidden = layers.dense(net, hidden, width * 4, width)
            value = layers.layer_normalization(net, net.op("Add", hidden, value), width, 1e-12)
    with net.scope("pooler"):
        first = net.op("Gather", value, net.constant(0, np.int64), axis=1)
        pooled = net.op("Tanh", layers.classifier(net, first, width, width))
    net.output(value, "last_hidden_state", (batch, tokens, width))
    net.output(pooled, "pooler_output", (batch, width))
    return net.model()


def gpt2(
    *,
    opset: int = 17,
    batch: Dimension = 1,
    tokens: Dimension = 128,
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = 50257,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a GPT-2 block stack (Radford 2019): pre-norm, merged QKV as Gemm, tanh GELU."""
    net = Network("gpt2", opset=opset, seed=seed)
    ids = net.input("input_ids", (batch, tokens), TensorProto.INT64)
    shape = _shape(net, ids, batch, tokens)
    word = net.normal("wte", vocabulary, width, std=0.3)
    value = net.op("Gather", word, ids)
    value = net.op("Add", value, _positions(net, tokens, shape[1], width))
    mask = _causal_mask(net, tokens, shape[1])
    for layer in range(depth):
        with net.scope(f"h.{layer}"):
            with net.scope("attn"):
                normal = layers.layer_normalization(net, value, width)
                merged = _conv1d(net, normal, shape, width, width * 3)
                parts = split(net, merged, [width] * 3, axis=2)
                split_shape = (*shape, heads, width // heads)
                query = layers.heads(net, parts[0], split_shape)
                key = layers.heads(net, parts[1], split_shape, (0, 2, 3, 1))
                past = layers.heads(net, parts[2], split_shape)
                attended = layers.attend(net, query, key, past, width // heads, mask)
                joined = net.op("Transpose", attended, perm=[0, 2, 1, 3])
                joined = reshape(net, joined, (*shape, width))
                value = net.op("Add", _conv1d(net, joined, shape, width, width), value)
            with net.scope("mlp"):
                normal = layers.layer_normalization(net, value, width)
                hidden = layers.gelu_tanh(net, _conv1d(net, normal, shape, width, width * 4))
                value = net.op("Add", value, _conv1d(net, hidden, shape, width * 4, width))
    value = layers.layer_normalization(net, value, width)
    logits = net.op("MatMul", value, net.op("Transpose", word, perm=[1, 0]))
    net.output(logits, "logits", (batch, tokens, vocabulary))
    return net.model()


def llama(
    *,
    opset: int = 18,
    batch: Dimension = 1,
    tokens: Dimension = 128,
    depth: int = 8,
    width: int = 1024,
    heads: int = 16,
    groups: int = 4,
    hidden: int = 2816,
    vocabulary: int = 8192,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a Llama-style block stack: RMSNorm, rotary embedding, grouped queries, SwiGLU."""
    net = Network("llama", opset=opset, seed=seed)
    ids = net.input("input_ids", (batch, tokens), TensorProto.INT64)
    shape = _shape(net, ids, batch, tokens)
    value = net.op("Gather", net.normal("embed_tokens", vocabulary, width, std=0.7), ids)
    mask = _causal_mask(net, tokens, shape[1])
    rotary = _rotary_tables(net, tokens, shape[1], width // heads)
    for layer in range(depth):
        with net.scope(f"layers.{layer}"):
            with net.scope("self_attn"):
                normal = layers.rms_normalization(net, value, width)
                attended = _grouped_attention(
                    net, normal, shape, width, heads, groups, rotary, mask
                )
                value = net.op("Add", value, attended)
            with net.scope("mlp"):
                normal = layers.rms_normalization(net, value, width)
                gate = layers.silu(net, layers.dense(net, normal, width, hidden, bias=False))
                up = layers.dense(net, normal, width, hidden, bias=False)
                down = layers.dense(net, net.op("Mul", gate, up), hidden, width, bias=False)
                value = net.op("Add", value, down)
    value = layers.rms_normalization(net, value, width)
    net.output(
        layers.dense(net, value, width, vocabulary, bias=False),
        "logits",
        (batch, tokens, vocabulary),
    )
    return net.model()


def vit(
    *,
    opset: int = 21,
    batch: Dimension = 1,
    image: int = 224,
    patch: int = 16,
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build ViT-B/16 (Dosovitskiy 2020): patch embedding, class token, pre-norm, erf GELU."""
    net = Network("vit", opset=opset, seed=seed)
    pixels = net.input("image", (batch, 3, image, image))
    patches = (image // patch) ** 2
    size: Dimension = batch if isinstance(batch, int) else dimension(net, pixels, 0)
    with net.scope("embeddings"):
        weight = net.normal("weight", width, 3, patch, patch, std=(3 * patch * patch) ** -0.5)
        value = net.op(
            "Conv",
            pixels,
            weight,
            net.normal("bias", width, std=0.02),
            kernel_shape=[patch, patch],
            strides=[patch, patch],
        )
        value = net.op("Transpose", reshape(net, value, (size, width, patches)), perm=[0, 2, 1])
        token = net.normal("cls_token", 1, 1, width, std=0.5)
        token = net.op("Expand", token, assemble(net, (size, 1, width)))
        value = net.op("Concat", token, value, axis=1)
        value = net.op("Add", value, net.normal("position", 1, patches + 1, width, std=0.3))
    for layer in range(depth):
        with net.scope(f"layer.{layer}"):
            normal = layers.layer_normalization(net, value, width, 1e-12)
            shape = (size, patches + 1)
            value = net.op("Add", _attention(net, normal, shape, width, heads, None), value)
            normal = layers.layer_normalization(net, value, width, 1e-12)
            hidden = layers.gelu_erf(net, layers.dense(net, normal, width, width * 4))
            value = net.op("Add", layers.dense(net, hidden, width * 4, width), value)
    value = layers.layer_normalization(net, value, width, 1e-12)
    first = net.op("Gather", value, net.constant(0, np.int64), axis=1)
    net.output(layers.classifier(net, first, width, classes), "logits", (batch, classes))
    return net.model()


Shape = tuple[Dimension, Dimension]


def _shape(net: Network, ids: str, batch: Dimension, tokens: Dimension) -> Shape:
    """Return [batch, tokens] as numbers where static, as computed scalars where dynamic."""
    return (
        batch if isinstance(batch, int) else dimension(net, ids, 0),
        tokens if isinstance(tokens, int) else dimension(net, ids, 1),
    )


def _positions(net: Network, tokens: Dimension, count: Dimension, width: int) -> str:
    table = net.normal("position", tokens if isinstance(tokens, int) else 512, width, std=0.2)
    if isinstance(tokens, int):
        return net.op("Gather", table, net.constant([range(tokens)], np.int64))
    zero, one = net.constant(0, np.int64), net.constant(1, np.int64)
    return net.op("Gather", table, unsqueeze(net, net.op("Range", zero, str(count), one), 0))


def _causal_mask(net: Network, tokens: Dimension, count: Dimension) -> str:
    """Compute the additive mask [1, 1, s, s]: a constant, or from Range where s is dynamic."""
    if isinstance(tokens, int):
        triangle = np.triu(np.full((tokens, tokens), LOWEST, np.float32), 1)
        return net.weight("causal_mask", triangle[None, None])
    zero, one = net.constant(0, np.int64), net.constant(1, np.int64)
    positions = net.op("Range", zero, str(count), one)
    allowed = net.op("LessOrEqual", unsqueeze(net, positions, 0), unsqueeze(net, positions, 1))
    mask = net.op("Where", allowed, net.constant(0.0), net.constant(LOWEST))
    return unsqueeze(net, mask, 0, 1)


def _attention(
    net: Network, value: str, shape: Shape, width: int, heads: int, mask: str | None
) -> str:
    """Attend with separate Q, K, V projections, then project the joined heads."""
    split_shape = (*shape, heads, width // heads)
    query = layers.heads(net, layers.dense(net, value, width, width), split_shape)
    key = layers.heads(net, layers.dense(net, value, width, width), split_shape)
    values = layers.heads(net, layers.dense(net, value, width, width), split_shape)
    key = net.op("Transpose", key, perm=[0, 1, 3, 2])
    attended = layers.attend(net, query, key, values, width // heads, mask)
    joined = reshape(net, net.op("Transpose", attended, perm=[0, 2, 1, 3]), (*shape, width))
    return layers.dense(net, joined, width, width)


def _conv1d(net: Network, value: str, shape: Shape, inputs: int, outputs: int) -> str:
    """Apply GPT-2's linear layer: flatten to two axes, Gemm, back to three."""
    flat = reshape(net, value, (-1, inputs))
    weight = net.normal("weight", inputs, outputs, std=(2 / (inputs + outputs)) ** 0.5)
    flat = net.op("Gemm", flat, weight, net.normal("bias", outputs, std=0.02))
    return reshape(net, flat, (*shape, outputs))


def _rotary_tables(
    net: Network, tokens: Dimension, count: Dimension, depth: int
) -> tuple[str, str]:
    """Compute cosines and sines [1, 1, s, d] from positions (Su et al. 2021), as nodes."""
    frequencies = 10000.0 ** -(np.arange(0, depth, 2, dtype=np.float32) / depth)
    with net.scope("rotary"):
        inverse = net.weight("inv_freq", frequencies[None, :, None])
        if isinstance(tokens, int):
            positions = net.constant([range(tokens)], np.int64)
        else:
            zero, one = net.constant(0, np.int64), net.constant(1, np.int64)
            positions = unsqueeze(net, net.op("Range", zero, str(count), one), 0)
        positions = net.op("Cast", unsqueeze(net, positions, 1), to=TensorProto.FLOAT)
        angles = net.op("Transpose", net.op("MatMul", inverse, positions), perm=[0, 2, 1])
        angles = net.op("Concat", angles, angles, axis=-1)
        cosine, sine = (unsqueeze(net, net.op(op, angles), 1) for op in ("Cos", "Sin"))
    return cosine, sine


def _rotate(net: Network, value: str, rotary: tuple[str, str], depth: int) -> str:
    """Rotate [b, h, s, d]: x cos + (-x2, x1) sin."""
    first = slice_(net, value, 0, depth // 2, 3)
    second = slice_(net, value, depth // 2, np.iinfo(np.int64).max, 3)
    turned = net.op("Concat", net.op("Neg", second), first, axis=-1)
    return net.op("Add", net.op("Mul", value, rotary[0]), net.op("Mul", turned, rotary[1]))


def _grouped_attention(
    net: Network,
    value: str,
    shape: Shape,
    width: int,
    heads: int,
    groups: int,
    rotary: tuple[str, str],
    mask: str,
) -> str:
    depth = width // heads
    narrow = groups * depth
    query = layers.dense(net, value, width, width, bias=False)
    key = layers.dense(net, value, width, narrow, bias=False)
    values = layers.dense(net, value, width, narrow, bias=False)
    query = layers.heads(net, query, (*shape, heads, depth))
    key = layers.heads(net, key, (*shape, groups, depth))
    values = layers.heads(net, values, (*shape, groups, depth))
    query, key = _rotate(net, query, rotary, depth), _rotate(net, key, rotary, depth)
    key, values = (_repeat(net, item, shape, heads, groups, depth) for item in (key, values))
    key = net.op("Transpose", key, perm=[0, 1, 3, 2])
    scores = net.op("Mul", net.op("MatMul", query, key), net.constant(depth**-0.5))
    weights = net.op("Softmax", net.op("Add", scores, mask), axis=-1)
    attended = net.op("Transpose", net.op("MatMul", weights, values), perm=[0, 2, 1, 3])
    return layers.dense(net, reshape(net, attended, (*shape, width)), width, width, bias=False)


def _repeat(net: Network, value: str, shape: Shape, heads: int, groups: int, depth: int) -> str:
    """Repeat each of [b, g, s, d]'s groups for its query heads: [b, h, s, d]."""
    wide = (shape[0], groups, heads // groups, shape[1], depth)
    value = net.op("Expand", unsqueeze(net, value, 2), assemble(net, wide))
    return reshape(net, value, (shape[0], heads, shape[1], depth))

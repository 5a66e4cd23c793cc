"""Transformer architectures as PyTorch modules."""

# torch types what a module returns, and its buffers, too loosely for strict checking.
# mypy: disable-error-code="no-any-return, index, arg-type, union-attr"

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Self-attention with separate projections; `native` calls PyTorch's fused function."""

    def __init__(self, width: int, heads: int, *, native: bool) -> None:
        super().__init__()
        self.heads, self.native = heads, native
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, tokens, width = hidden.shape
        query, key, value = (
            project(hidden).view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        if self.native:
            joined = functional.scaled_dot_product_attention(query, key, value, mask)
        else:
            joined = explicit_attention(query, key, value, mask)
        return self.out(joined.transpose(1, 2).reshape(batch, tokens, width))


def explicit_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attend in single steps, as most model sources did before the fused function."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ value


def lowest() -> float:
    return torch.finfo(torch.float32).min


def causal_mask(tokens: int) -> Tensor:
    return torch.full((tokens, tokens), lowest()).triu(1)[None, None]


class BertLayer(nn.Module):
    """A post-norm encoder layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, native=False)
        self.first = nn.LayerNorm(width, eps=1e-12)
        self.up, self.down = nn.Linear(width, width * 4), nn.Linear(width * 4, width)
        self.second = nn.LayerNorm(width, eps=1e-12)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        hidden = self.first(self.attention(hidden, mask) + hidden)
        return self.second(self.down(functional.gelu(self.up(hidden))) + hidden)


class Bert(nn.Module):
    """BERT-base with the default arguments."""

    def __init__(
        self,
        *,
        tokens: int = 128,
        depth: int = 12,
        width: int = 768,
        heads: int = 12,
        vocabulary: int = 30522,
    ) -> None:
        super().__init__()
        self.word = nn.Embedding(vocabulary, width)
        self.kind = nn.Embedding(2, width)
        self.position = nn.Embedding(max(tokens, 512), width)
        self.normalize = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(width, heads) for _ in range(depth))
        self.pooler = nn.Linear(width, width)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        positions = torch.arange(input_ids.shape[1])[None]
        hidden = self.word(input_ids) + self.kind(token_type_ids) + self.position(positions)
        hidden = self.normalize(hidden)
        mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * lowest()
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return hidden, torch.tanh(self.pooler(hidden[:, 0]))


class Gpt2Layer(nn.Module):
    """A pre-norm decoder layer with merged QKV and the tanh GELU of GPT-2's source."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.merged, self.out = nn.Linear(width, width * 3), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, width * 4), nn.Linear(width * 4, width)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        batch, tokens, width = hidden.shape
        query, key, value = (
            part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.merged(self.first(hidden)).split(width, 2)
        )
        attended = explicit_attention(query, key, value, mask).transpose(1, 2)
        hidden = hidden + self.out(attended.reshape(batch, tokens, width))
        inner = self.up(self.second(hidden))
        cubic = 0.7978845608 * (inner + 0.044715 * torch.pow(inner, 3.0))
        return hidden + self.down(0.5 * inner * (1.0 + torch.tanh(cubic)))


class Gpt2(nn.Module):
    """A GPT-2 block stack; the output weight is the embedding's."""

    def __init__(
        self,
        *,
        tokens: int = 128,
        depth: int = 12,
        width: int = 768,
        heads: int = 12,
        vocabulary: int = 50257,
    ) -> None:
        super().__init__()
        self.word = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(max(tokens, 512), width)
        self.layers = nn.ModuleList(Gpt2Layer(width, heads) for _ in range(depth))
        self.normalize = nn.LayerNorm(width)
        self.register_buffer("mask", causal_mask(max(tokens, 512)))

    def forward(self, input_ids: Tensor) -> Tensor:
        tokens = input_ids.shape[1]
        hidden = self.word(input_ids) + self.position(torch.arange(tokens)[None])
        mask = self.mask[:, :, :tokens, :tokens]
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return functional.linear(self.normalize(hidden), self.word.weight)


class RMSNorm(nn.Module):
    """Root mean square normalization as in Llama's source."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width).uniform_(0.8, 1.2))

    def forward(self, hidden: Tensor) -> Tensor:
        variance = hidden.pow(2).mean(-1, keepdim=True)
        return self.weight * (hidden * torch.rsqrt(variance + 1e-6))


class LlamaLayer(nn.Module):
    """A decoder layer with rotary embedding, grouped queries and SwiGLU."""

    def __init__(self, width: int, heads: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.groups, self.depth = heads, groups, width // heads
        self.first, self.second = RMSNorm(width), RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.depth, bias=False)
        self.value = nn.Linear(width, groups * self.depth, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, hidden: Tensor, cosine: Tensor, sine: Tensor, mask: Tensor) -> Tensor:
        batch, tokens, width = hidden.shape
        normal = self.first(hidden)
        query = self.query(normal).view(batch, tokens, self.heads, self.depth).transpose(1, 2)
        key = self.key(normal).view(batch, tokens, self.groups, self.depth).transpose(1, 2)
        value = self.value(normal).view(batch, tokens, self.groups, self.depth).transpose(1, 2)
        query = query * cosine + rotate_half(query) * sine
        key = key * cosine + rotate_half(key) * sine
        attended = explicit_attention(query, self.repeat(key), self.repeat(value), mask)
        hidden = hidden + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        normal = self.second(hidden)
        return hidden + self.down(functional.silu(self.gate(normal)) * self.up(normal))

    def repeat(self, value: Tensor) -> Tensor:
        batch, groups, tokens, depth = value.shape
        value = value[:, :, None].expand(batch, groups, self.heads // groups, tokens, depth)
        return value.reshape(batch, self.heads, tokens, depth)


def rotate_half(value: Tensor) -> Tensor:
    first, second = value[..., : value.shape[-1] // 2], value[..., value.shape[-1] // 2 :]
    return torch.cat((-second, first), -1)


class Llama(nn.Module):
    """A Llama-style block stack."""

    def __init__(
        self,
        *,
        tokens: int = 128,
        depth: int = 8,
        width: int = 1024,
        heads: int = 16,
        groups: int = 4,
        hidden: int = 2816,
        vocabulary: int = 8192,
    ) -> None:
        super().__init__()
        size = width // heads
        self.word = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, groups, hidden) for _ in range(depth))
        self.normalize = RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("inverse", 10000.0 ** -(torch.arange(0, size, 2) / size))
        self.register_buffer("mask", causal_mask(max(tokens, 512)))

    def forward(self, input_ids: Tensor) -> Tensor:
        tokens = input_ids.shape[1]
        hidden = self.word(input_ids)
        positions = torch.arange(tokens)[None, None].to(torch.float32)
        angles = (self.inverse[None, :, None] @ positions).transpose(1, 2)
        angles = torch.cat((angles, angles), -1)[:, None]
        cosine, sine = angles.cos(), angles.sin()
        mask = self.mask[:, :, :tokens, :tokens]
        for layer in self.layers:
            hidden = layer(hidden, cosine, sine, mask)
        return self.head(self.normalize(hidden))


class ViTLayer(nn.Module):
    """A pre-norm encoder layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, native=True)
        self.up, self.down = nn.Linear(width, width * 4), nn.Linear(width * 4, width)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.first(hidden))
        return hidden + self.down(functional.gelu(self.up(self.second(hidden))))


class ViT(nn.Module):
    """ViT-B/16 with the default arguments."""

    def __init__(
        self,
        *,
        image: int = 224,
        patch: int = 16,
        depth: int = 12,
        width: int = 768,
        heads: int = 12,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.5)
        self.position = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.3)
        self.layers = nn.Sequential(*(ViTLayer(width, heads) for _ in range(depth)))
        self.normalize = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, pixels: Tensor) -> Tensor:
        hidden = self.patches(pixels).flatten(2).transpose(1, 2)
        hidden = torch.cat((self.token.expand(pixels.shape[0], -1, -1), hidden), 1)
        hidden = self.layers(hidden + self.position)
        return self.head(self.normalize(hidden)[:, 0])

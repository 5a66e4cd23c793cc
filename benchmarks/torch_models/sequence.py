"""A T5 encoder, an unrolled recurrent cell and a recommendation model as PyTorch modules.

Submodules stand in the order in which the zoo's models hold their weights.
"""

# torch types what a module returns too loosely for strict checking.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from .transformer import RMSNorm, lowest


class T5Layer(nn.Module):
    """Attention without a scale of its own but with a bias, and a perceptron."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (heads / width) ** 0.5
        self.first = RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.second = RMSNorm(width)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        batch, tokens, width = hidden.shape
        normal = self.first(hidden)
        query, key, value = (
            project(normal).view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        joined = (query @ key.transpose(-1, -2) * self.scale + bias).softmax(-1) @ value
        hidden = hidden + self.out(joined.transpose(1, 2).reshape(batch, tokens, width))
        return hidden + self.down(functional.relu(self.up(self.second(hidden))))


class T5Encoder(nn.Module):
    """T5-small's encoder with the default arguments."""

    def __init__(
        self,
        *,
        depth: int = 6,
        width: int = 512,
        heads: int = 8,
        hidden: int = 2048,
        vocabulary: int = 32128,
        buckets: int = 32,
    ) -> None:
        super().__init__()
        self.buckets = buckets
        self.shared = nn.Embedding(vocabulary, width)
        self.relative = nn.Embedding(buckets, heads)
        self.layers = nn.ModuleList(T5Layer(width, heads, hidden) for _ in range(depth))
        self.normalize = RMSNorm(width)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self.shared(input_ids)
        mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * lowest()
        bias = self.relative(self.bucket(input_ids.shape[1])).permute(2, 0, 1)[None] + mask
        for layer in self.layers:
            hidden = layer(hidden, bias)
        return self.normalize(hidden)

    def bucket(self, tokens: int, longest: int = 128) -> Tensor:
        """Number the distances of tokens: near ones one by one, far ones by their logarithm."""
        half, exact = self.buckets // 2, self.buckets // 4
        positions = torch.arange(tokens)
        distances = positions[None, :] - positions[:, None]
        after = (distances > 0).to(torch.int64) * half
        distances = distances.abs()
        far = torch.log(distances.clamp(min=1).to(torch.float32) / exact)
        far = far / math.log(longest / exact) * (half - exact)
        far = (far.to(torch.int64) + exact).clamp(max=half - 1)
        return after + torch.where(distances < exact, distances, far)


class NasRnn(nn.Module):
    """A recurrent cell found by search, applied to each step of a sequence."""

    def __init__(self, *, width: int = 512) -> None:
        super().__init__()
        products = (nn.Linear(width, width, bias=False) for _ in range(16))
        self.products = nn.ModuleList(products)  # of the input and of the state, in turns

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        for value in inputs.unbind(1):
            state = self.cell(value, state)
        return state

    def cell(self, value: Tensor, state: Tensor) -> Tensor:
        gates = [
            of_input(value) + of_state(state)
            for of_input, of_state in zip(self.products[::2], self.products[1::2], strict=True)
        ]
        first = gates[0].relu() + gates[3].sigmoid()
        second = gates[1].sigmoid() + gates[2].tanh()
        third = gates[4].sigmoid() * gates[5].tanh()
        fourth = gates[6].sigmoid() * gates[7].relu()
        fifth = second.sigmoid() + third.tanh()
        sixth = first.tanh() * fourth.tanh()
        return torch.tanh(fifth.tanh() * sixth.tanh())


def perceptron(widths: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    """A recommendation model: sums of embeddings, their products by pairs, and two perceptrons."""

    def __init__(
        self,
        *,
        tables: int = 26,
        rows: int = 20000,
        width: int = 64,
        bottom: Sequence[int] = (512, 256),
        top: Sequence[int] = (512, 256),
    ) -> None:
        super().__init__()
        self.bottom = perceptron((13, *bottom, width))
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        pairs = (tables + 1) * tables // 2
        self.top = perceptron((width + pairs, *top))
        self.head = nn.Linear(top[-1], 1)

    def forward(self, dense: Tensor, *ids: Tensor) -> Tensor:
        value = self.bottom(dense)
        # Inductor fuses these sums; an EmbeddingBag, which it calls, takes longer.
        bags = [table(chosen).sum(1) for table, chosen in zip(self.tables, ids, strict=True)]
        joined = torch.stack([value, *bags], 1)
        dots = joined @ joined.transpose(1, 2)
        rows, columns = torch.tril_indices(len(bags) + 1, len(bags) + 1, -1)
        value = torch.cat([value, dots[:, rows, columns]], 1)
        return torch.sigmoid(self.head(self.top(value)))

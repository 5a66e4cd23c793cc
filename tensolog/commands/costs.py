"""`tensolog costs`: measured times as a data set, and what is learned from them."""

from __future__ import annotations

import click

from .costs_data import export_data, import_data
from .costs_learn import collect, score
from .costs_train import show, train


@click.group()
def costs() -> None:
    """Collect, exchange and learn from measured times.

    Graphs with timed configurations are files of TpuGraphs' own format (docs/learned-costs.md), and
    rows of the catalog's tables cost_graph, cost_graph_node, cost_graph_edge and
    cost_graph_configuration.

    \b
    Examples:
      tensolog costs collect a.onnx b.onnx c.onnx --threads 1 --budget 600
      tensolog costs train a.onnx b.onnx c.onnx --threads 1 -o costs.onnx
      tensolog costs score a.onnx b.onnx c.onnx --threads 1
      tensolog costs import npz/
      tensolog costs export data/
    """


for command in (collect, train, score, show, import_data, export_data):
    costs.add_command(command)

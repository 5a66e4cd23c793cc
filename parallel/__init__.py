"""Which device computes what: plans for several devices.

In go a model and a description of devices (devices.py); out comes a plan. Begin at planning.py:
cuts/ says how operators can be divided, simulation/ what a plan takes, search/ finds plans, and
rewriting/ chooses the program that is divided. materialization.py writes a plan as one model;
partitioner.py as a model for each device and stage, which runnable_plan.py holds together and
serving/worker_group.py runs.

On one machine a plan says how many instances, threads and rows: choosing/ measures that,
deployment/ writes it down, and serving/ runs it. measure.py describes this machine as devices.
training/ plans the training of a stack of layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..catalog.lazy_imports import lazily

if TYPE_CHECKING:
    from .device_rows import load_cluster, store_cluster
    from .devices import Cluster, Device, Link, parse_cluster, read_cluster, to_toml
    from .materialization import materialize
    from .plan_rows import store_plan
    from .planning import ParallelPlan, plan

__all__ = [
    "Cluster",
    "Device",
    "Link",
    "ParallelPlan",
    "load_cluster",
    "materialize",
    "parse_cluster",
    "plan",
    "read_cluster",
    "store_cluster",
    "store_plan",
    "to_toml",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Cluster": ".devices",
        "Device": ".devices",
        "Link": ".devices",
        "ParallelPlan": ".planning",
        "load_cluster": ".device_rows",
        "materialize": ".materialization",
        "parse_cluster": ".devices",
        "plan": ".planning",
        "read_cluster": ".devices",
        "store_cluster": ".device_rows",
        "store_plan": ".plan_rows",
        "to_toml": ".devices",
    },
)

"""Parts of a model on workers of other machines, which an engine holds together.

In: a partition (parallel/runnable_plan.py) and the address of a scheduler. Out: a group that
parallel/serving/runner_sources.py hands to requests as it does one of this machine.
`dask_engine.py` is all that knows the engine, `places.py` says which worker runs what and who
stands in for a lost one, `cluster_group.py` is the caller's side and `worker_site.py` what runs in
a worker. `relays.py` and `connections.py` carry tensors from one site to the other.
`measured_cluster.py` describes the workers as devices, `piece_times.py` times pieces of a model on
them, and `crew.py` opens what races on them when a model is deployed.
"""

"""Instances of a model as processes, and requests that are shared out to them.

In: a `Deployment`. Out: answers. Begin at `pool.py`; `instance.py` is one process, seen from here,
and `instance_worker.py` what runs in it; `http_server.py` answers over HTTP. A model that is cut
over several devices is run by `worker_group.py`, with a process for each device (`part_worker.py`).
"""

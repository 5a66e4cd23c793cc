"""A plan over machines made of network namespaces, with 1 ms and 1 Gbit/s between them.

`python -m benchmarks.cluster` measures larger models so; here a small one loses a worker.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.machines import dask_cluster, machines, why_not
from tests import campaigns

pytest.importorskip("distributed", reason="needs dask[distributed]")
ROOT = Path(__file__).parents[2]
CALLER = """
import os, signal, sys, time
from pathlib import Path
from tensolog import open_parallel
from tensolog.parallel.cluster.dask_engine import Engine
from tests.parallel.test_cluster import REQUESTS, answered, plan_of

with Engine(sys.argv[1]) as engine:
    while len(engine.workers()) < 2:
        time.sleep(0.1)
    assert len({worker.machine for worker in engine.workers()}) == 2
    with open_parallel(plan_of(engine, Path(sys.argv[2])), deadline_s=10) as session:
        start = time.perf_counter()
        session.run(REQUESTS[0])
        # From the caller to the one, six operators on the one and the other in turns, and back.
        assert time.perf_counter() - start > 7e-3
        answered(session)
        address = engine.workers()[0].address
        pid = engine.run(os.getpid, [], [address])[address]
        answered(session, lambda: os.kill(pid, signal.SIGKILL))
        assert session.restarts == 1
print("answered")
"""


@pytest.mark.skipif(not campaigns.ALL, reason="takes long: name it, or ask for whole campaigns")
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "machines can be made")
def test_a_plan_over_machines_loses_a_worker(tmp_path):
    caller = tmp_path / "caller.py"
    caller.write_text(CALLER)
    with (
        machines(3, 1e-3, 125e6) as (hub, *others),
        dask_cluster(hub, others, tmp_path, ["2GiB", "2GiB"]) as address,
    ):
        command = ["env", f"PYTHONPATH={ROOT}", sys.executable, str(caller), address, str(tmp_path)]
        done = subprocess.run(hub.command(command), capture_output=True, text=True, timeout=200)
    assert done.stdout.endswith("answered\n"), done.stderr[-2000:]

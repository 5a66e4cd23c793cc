"""What a hop between two workers costs on engines that run clusters.

python -m benchmarks.engines [--rounds 200] [--out FOLDER]     writes results/engines.md
pip install 'tensolog[cluster]' ray                            before

Two workers on this machine, persistent actors that each hold an ONNX Runtime session of one
operator (Neg). A hop: a tensor that one worker has is sent to the other, which runs its session on
it. Timed are round trips of two hops, from within the first worker where the engine lets it call
the second; medians of single round trips, halved. `the session alone` is what of a hop is no
transport. Sockets stand for what any engine could be bypassed with. Of a compiled graph of Ray a
hop is what a second actor adds. The last rows are groups as plans run in them, without the time of
the session.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from tensolog.parallel.measure import measure_hop

SIZES = {"1 kB": 1_000, "100 kB": 100_000, "10 MB": 10_000_000}
_WARM = 10
_GROUPS = 3  # of which each hop is the median of eight in a row, less the session's time
Times = dict[str, list[float]]


def model() -> bytes:
    """One operator on a vector of any length."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n",)) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "hop", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


class Part:
    """An actor: a session, and what times round trips to another actor."""

    def __init__(self, proto: bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(proto, options)

    def step(self, array: Any) -> Any:
        return self._session.run(None, {"x": array})[0]

    def trips(self, call: Callable[[Any], Any], rounds: int) -> Times:
        """Time round trips: a call of the other one's step, and a step here."""
        return {name: timed(lambda a: self.step(call(a)), s, rounds) for name, s in SIZES.items()}

    def trips_ray(self, other: Any, rounds: int) -> Times:
        import ray

        return self.trips(lambda array: ray.get(other.step.remote(array)), rounds)

    def trips_dask(self, other: Any, rounds: int) -> Times:
        return self.trips(lambda array: other.step(array).result(), rounds)


def timed(trip: Callable[[Any], Any], size: int, rounds: int) -> list[float]:
    """Return the seconds of single hops, of round trips of two."""
    array = np.zeros(size // 4, np.float32)
    times = []
    for number in range(_WARM + rounds):
        start = time.perf_counter()
        trip(array)
        if number >= _WARM:
            times.append((time.perf_counter() - start) / 2)
    return times


# ---- the engines


def session_alone(rounds: int) -> Times:
    part = Part(model())
    return {
        name: timed(lambda a: part.step(part.step(a)), size, rounds) for name, size in SIZES.items()
    }


def ray_actors(rounds: int) -> Times:
    import ray

    with _ray():
        first, second = (ray.remote(Part).options(num_cpus=0).remote(model()) for _ in range(2))
        return dict(ray.get(first.trips_ray.remote(second, rounds)))


def ray_compiled(rounds: int) -> Times:
    """What a second actor in the graph adds: it may not lead back to the first one."""
    import ray
    from ray.dag import InputNode

    with _ray():
        times: Times = {name: [] for name in SIZES}
        parts = [ray.remote(Part).options(num_cpus=0).remote(model()) for _ in range(3)]
        graphs = []
        for chain in (parts[:1], parts[1:]):
            with InputNode() as value:
                node = value
                for part in chain:
                    node = part.step.bind(node)
            graphs.append(node.experimental_compile(_buffer_size_bytes=20_000_000))
        for name, size in SIZES.items():
            array = np.zeros(size // 4, np.float32)
            for number in range(_WARM + rounds):
                moments = []
                try:
                    for graph in graphs:
                        start = time.perf_counter()
                        ray.get(graph.execute(array))
                        moments.append(time.perf_counter() - start)
                except ray.exceptions.RayError as error:
                    print(f"{name}: {type(error).__name__}")
                    break
                if number >= _WARM:
                    times[name].append(moments[1] - moments[0])
        return times


@contextmanager
def _ray() -> Iterator[None]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        yield
    finally:
        ray.shutdown()


def dask_actors(rounds: int) -> Times:
    with _dask() as client:
        names = list(client.scheduler_info(n_workers=-1)["workers"])
        first, second = (
            client.submit(Part, model(), actor=True, workers=[name], pure=False).result()
            for name in names
        )
        return dict(first.trips_dask(second, rounds).result())


def dask_comms(rounds: int) -> Times:
    """The connections that the engine's workers have with each other, kept open."""
    with _dask() as client:
        names = list(client.scheduler_info(n_workers=-1)["workers"])
        address = client.run(_listen, model(), workers=[names[1]])[names[1]]
        return dict(client.run(_ask, address, model(), rounds, workers=[names[0]])[names[0]])


async def _listen(proto: bytes, dask_worker: Any) -> str:
    from distributed.comm import listen
    from distributed.protocol import to_serialize

    part = Part(proto)

    async def serve(comm: Any) -> None:
        with suppress(Exception):
            while True:
                message = await comm.read()
                await comm.write({"array": to_serialize(part.step(message["array"]))})

    dask_worker.benchmark_listener = await listen("tcp://127.0.0.1:0", serve, deserialize=True)
    return str(dask_worker.benchmark_listener.contact_address)


async def _ask(address: str, proto: bytes, rounds: int) -> Times:
    from distributed.comm import connect
    from distributed.protocol import to_serialize

    part, comm = Part(proto), await connect(address, deserialize=True)
    times: Times = {name: [] for name in SIZES}
    for name, size in SIZES.items():
        array = np.zeros(size // 4, np.float32)
        for number in range(_WARM + rounds):
            start = time.perf_counter()
            await comm.write({"array": to_serialize(array)})
            part.step((await comm.read())["array"])
            if number >= _WARM:
                times[name].append((time.perf_counter() - start) / 2)
    await comm.close()
    return times


@contextmanager
def _dask() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def sockets(rounds: int) -> Times:
    """A connection of the system between two processes, read into memory that is there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"from benchmarks.engines import echo; echo({port})"
        with subprocess.Popen([sys.executable, "-c", code]) as process:
            connection = server.accept()[0]
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            part = Part(model())

            def trip(array: Any) -> None:
                connection.sendall(array.nbytes.to_bytes(8, "little"))
                connection.sendall(memoryview(array).cast("B"))
                into = np.empty_like(array)
                _read(connection, memoryview(into).cast("B"))
                part.step(into)

            times = {name: timed(trip, size, rounds) for name, size in SIZES.items()}
            connection.close()
            process.wait()
    return times


def echo(port: int) -> None:
    part = Part(model())
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = bytearray(8)
        with suppress(EOFError):
            while True:
                _read(connection, memoryview(head))
                array = np.empty(int.from_bytes(head, "little") // 4, np.float32)
                _read(connection, memoryview(array).cast("B"))
                connection.sendall(memoryview(part.step(array)).cast("B"))


def _read(connection: socket.socket, into: memoryview) -> None:
    while len(into):
        if not (count := connection.recv_into(into)):
            raise EOFError
        into = into[count:]


def groups_sharing(rounds: int) -> Times:
    return _groups("")


def groups_apart(rounds: int) -> Times:
    return _groups("import tensolog.parallel.cluster.connections as c; c.machine_key = lambda: ''")


def _groups(code: str) -> Times:
    """What tensolog.parallel.cluster does: processes beside the engine's workers, and relays."""
    from tensolog.parallel.cluster.cluster_group import ClusterGroup, StageFiles
    from tensolog.parallel.cluster.dask_engine import Engine
    from tensolog.parallel.cluster.places import Place

    times: Times = {}
    with _dask() as client, Engine(client.scheduler.address) as engine:
        client.run(exec, code)
        workers = engine.workers()

        def start(partition: Any, folder: Path) -> ClusterGroup:
            places = [Place(worker, 1, 0) for worker in workers[: len(partition.devices)]]
            return ClusterGroup(engine, StageFiles(partition, folder), places, 1)

        for name, size in SIZES.items():
            hops = []
            for _ in range(_GROUPS):
                with tempfile.TemporaryDirectory() as folder:
                    hops.append(measure_hop(start, Path(folder), size))
            times[name] = hops
    return times


ENGINES: dict[str, Callable[[int], Times]] = {
    "the session alone": session_alone,
    "Ray, actors": ray_actors,
    "Ray, compiled graph": ray_compiled,
    "Dask, actors": dask_actors,
    "Dask, connections of workers": dask_comms,
    "sockets": sockets,
    "tensolog, workers that share memory": groups_sharing,
    "tensolog, by relays": groups_apart,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", help="one of them, by the beginning of its name")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    chosen = {n: f for n, f in ENGINES.items() if n.startswith(arguments.only or "")}
    lines = [
        "# A hop between two workers",
        "",
        f"`python -m benchmarks.engines --rounds {arguments.rounds}`: {__doc__.splitlines()[5]}",
        *__doc__.splitlines()[6:],
        "Median, and 90th percentile in parentheses.",
        "",
        f"| | {' | '.join(SIZES)} |",
        f"|---|{'---:|' * len(SIZES)}",
    ]
    for name, engine in chosen.items():
        start = time.perf_counter()
        try:
            times_of_engine = engine(arguments.rounds)
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        cells = [
            f"{statistics.median(times) * 1e6:.0f} µs ({np.percentile(times, 90) * 1e6:.0f})"
            if times
            else "fails"
            for times in times_of_engine.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], f"{time.perf_counter() - start:.1f} s", flush=True)
    if not arguments.only:
        (arguments.out / "engines.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""A deployed model over HTTP, by the Open Inference Protocol that KServe and Triton speak.

`application` makes an ASGI application, for any server of those; `serve` runs it by uvicorn.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ...catalog.errors import TensologError
from ...optimizer.result.summary import version_of
from ..deployment.deployment import Deployment
from ..deployment.settings import Setting
from .open_inference import HEADER, ProtocolError, metadata, read_request, write_answer
from .pool import ClosedError, FeedError, FullError, ParallelSession
from .process import RunError

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise TensologError(
        f"serving over HTTP needs starlette and uvicorn ({error}): pip install 'tensolog[serve]'"
    ) from error

_LOG = logging.getLogger("uvicorn.error")
MOST_BYTES = 1 << 30
# Tensors as text take milliseconds to read: others are not to wait for that.
_LARGE_BYTES = 1 << 16
_STOP_S = 15.0
_SOON_S = 1.0
_LOOK_S = 0.2


class ServingError(TensologError):
    """The server can't listen where it is asked to."""


def application(session: ParallelSession, name: str | None = None) -> Starlette:
    """Make the ASGI application that answers for one model, which goes by `name`."""
    endpoints = _Endpoints(session, name_to_serve(session.plan, name))
    return Starlette(routes=endpoints.routes(), exception_handlers={HTTPException: _no_such_path})


def name_to_serve(plan: Deployment, name: str | None = None) -> str:
    """Return a model's name in addresses, by default its folder's; ServingError for no name."""
    shown = plan.name if name is None else name
    if not shown or "/" in shown or not shown.isprintable():
        raise ServingError(
            f"{shown!r} can't be part of an address: give the model another name with --name"
        )
    return shown


class _Endpoints:
    """What is answered: health, metadata, inference. Errors are objects with an `error`."""

    def __init__(self, session: ParallelSession, name: str) -> None:
        self._session, self._name = session, name

    def routes(self) -> list[Route]:
        """List the paths of the protocol; a model has one version, "1"."""
        paths: list[tuple[str, Callable[[Request], Any], str]] = [
            ("/v2/health/live", self.live, "GET"),
            ("/v2/health/ready", self.ready, "GET"),
            ("/v2", self.server, "GET"),
        ]
        for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
            paths += [
                (f"{model}/ready", self.ready, "GET"),
                (f"{model}/infer", self.infer, "POST"),
                (model, self.model, "GET"),
            ]
        return [Route(path, self._guarded(answer), methods=[how]) for path, answer, how in paths]

    def _guarded(self, answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """Turn what is raised into an answer."""

        async def guarded(request: Request) -> Response:
            parameters = request.path_params
            is_served = parameters.get("name", self._name) == self._name
            if not is_served or parameters.get("version", "1") != "1":
                return _error(404, f"there is no such model: {self._name}, version 1, is served")
            try:
                response: Response = await answer(request)
            except (ProtocolError, FeedError, RunError) as error:
                return _error(400, str(error))
            except FullError as error:
                return _error(503, str(error), {"Retry-After": "1"})
            except ClosedError as error:
                return _error(503, str(error))
            except TensologError as error:
                return _error(500, str(error))
            except ClientDisconnect:
                return Response(status_code=400)  # nobody is there to read it
            except Exception as error:  # ours, or memory that is used up: others are served on
                message = f"{type(error).__name__}: {' '.join(str(error).split())}"
                _LOG.error("a request could not be answered: %s", message)
                return _error(500, message)
            return response

        return guarded

    async def live(self, request: Request) -> Response:
        """Say that the server runs."""
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        """Say whether requests are answered."""
        ready = self._session.is_alive
        named = {"name": self._name} if "name" in request.path_params else {}
        return JSONResponse({**named, "ready": ready}, 200 if ready else 503)

    async def server(self, request: Request) -> Response:
        """Describe the server."""
        return JSONResponse(
            {
                "name": "tensolog",
                "version": version_of("tensolog"),
                "extensions": ["binary_tensor_data"],
            }
        )

    async def model(self, request: Request) -> Response:
        """Describe what the model takes and gives."""
        return JSONResponse(
            {
                "name": self._name,
                "versions": ["1"],
                "platform": "onnxruntime_onnx",
                "inputs": metadata(self._session.inputs),
                "outputs": metadata(self._session.outputs),
            }
        )

    async def infer(self, request: Request) -> Response:
        """Run the model."""
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and (len(announced) > 15 or int(announced) > MOST_BYTES):
            return _error(413, f"a request has at most {MOST_BYTES} bytes")
        chunks, size = [], 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > MOST_BYTES:
                return _error(413, f"a request has at most {MOST_BYTES} bytes")
            chunks.append(chunk)
        body, length = b"".join(chunks), request.headers.get(HEADER)
        if size > _LARGE_BYTES:
            asked = await run_in_threadpool(read_request, body, length)
        else:
            asked = read_request(body, length)
        names = asked.names or [slot.name for slot in self._session.outputs]
        outputs = await self._session.run_async(asked.feeds, names, wait=False)
        if sum(array.nbytes for array in outputs) > _LARGE_BYTES:
            written = await run_in_threadpool(write_answer, asked, self._name, names, outputs)
        else:
            written = write_answer(asked, self._name, names, outputs)
        content, json_length = written
        if json_length is None:
            return Response(content, media_type="application/json")
        headers = {HEADER: str(json_length)}
        return Response(content, headers=headers, media_type="application/octet-stream")


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status, headers)


def _no_such_path(request: Request, error: Exception) -> Response:
    """Answer for a path or method that there is not, as for all else that is wrong."""
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: {request.method} {request.url.path}"
    return _error(error.status_code, message, error.headers)


def listen(host: str, port: int) -> socket.socket:
    """Open the socket to serve at; ServingError, with what to do, where it is taken."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        opened = socket.socket(family)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind((host, port))
            opened.listen()  # several may bind, one may listen: seen before the model is opened
        except BaseException:
            opened.close()
            raise
    except (OSError, OverflowError, ValueError) as error:  # ValueError: no name of a host at all
        reason = getattr(error, "strerror", None) or str(error)
        raise ServingError(
            f"can't serve at {host}, port {port} ({reason}): name others with --host and --port"
        ) from error
    return opened


def serve(
    plan: Deployment,
    place: socket.socket,
    name: str | None = None,
    *,
    started: Callable[[Setting], object] | None = None,
    waiting: Callable[[], object] | None = None,
) -> None:
    """Serve a deployment until the calling thread is interrupted; then answer what waits.

    The server runs in a thread of its own, so that signals reach the caller. `started` is called
    with the setting that fits here once requests are taken, `waiting` where what waits at the end
    is not answered soon.
    """
    with contextlib.closing(place), ParallelSession(plan) as session:
        config = uvicorn.Config(application(session, name), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        # Not the thread is waited for: one whose `join` is interrupted counts as ended in Python
        # 3.11, though it runs (bpo-45274), and what waits would not be answered.
        ended = threading.Event()

        def run() -> None:
            try:
                server.run([place])
            finally:
                ended.set()

        threading.Thread(target=run, daemon=True).start()
        try:
            is_announced = False
            while not ended.wait(_LOOK_S if is_announced else 0.01):
                if server.started and not is_announced:
                    is_announced = True
                    if started is not None:
                        started(session.setting)
        finally:
            server.should_exit = True
            if not ended.wait(_SOON_S):
                if waiting is not None:
                    waiting()
                ended.wait(_STOP_S)
    raise ServingError("the server ended by itself: its messages above say why")

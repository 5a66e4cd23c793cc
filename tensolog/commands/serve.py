"""`tensolog serve`: a deployed model over HTTP."""

from __future__ import annotations

from pathlib import Path

import click

from ..interrupts import on_interrupt


@click.command(no_args_is_help=True)
@click.argument("plan", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="The port, or 0 for one that is free.",
)
@click.option("--name", metavar="NAME", help="What the model is called.  [default: as the folder]")
def serve(plan: Path, host: str, port: int, name: str | None) -> None:
    """Serve what deploy wrote over HTTP.

    Clients of the Open Inference Protocol, version 2, which KServe and Triton speak, can ask for
    health, metadata and inference, with tensors as JSON or as binary data. Once requests are taken
    the address is printed. Ctrl-C answers what waits and ends all instances. Whoever reaches the
    address can ask: there is no authentication.

    \b
    Examples:
      tensolog serve plan
      tensolog serve plan --host 0.0.0.0 --port 8080 --name bert
      curl localhost:8000/v2/models/plan
    """
    with on_interrupt("the server has stopped"):
        from ..parallel.choosing.deployment import read_deployment
        from ..parallel.serving.http_server import listen
        from ..parallel.serving.http_server import serve as run

        read = read_deployment(plan)
        place = listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{place.getsockname()[1]}/v2/models/{name or read.name}"
        run(read, place, name, started=lambda: click.echo(f"serving {read.setting} at {address}"))

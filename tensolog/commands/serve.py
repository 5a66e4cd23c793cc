"""`tensolog serve`: a deployed model over HTTP."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..interrupts import on_interrupt
from ..printing import echo

if TYPE_CHECKING:
    from ..parallel.deployment.settings import Setting


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
@click.option("-q", "--quiet", is_flag=True, help="No progress while the model is opened.")
def serve(plan: Path, host: str, port: int, name: str | None, quiet: bool) -> None:
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
    with on_interrupt("the server has stopped"), ExitStack() as opening:
        from ..progress import Progress

        progress = opening.enter_context(Progress(quiet=quiet))
        progress("opening", 0, 0, str(plan))
        from urllib.parse import quote

        from ..parallel.deployment.deployment import read_deployment
        from ..parallel.serving.http_server import listen, name_to_serve
        from ..parallel.serving.http_server import serve as run

        read = read_deployment(plan)
        name = name_to_serve(read, name)
        place = listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{place.getsockname()[1]}/v2/models/{quote(name, safe='')}"

        def started(setting: Setting) -> None:
            opening.close()
            echo(f"serving {setting} at {address}")

        def waiting() -> None:
            click.echo("answering what was asked for before; interrupt again to end now", err=True)

        run(read, place, name, started=started, waiting=waiting)

"""The `tensolog` command: what leaves it, in every case, is a result or one clear line.

Exit codes: 0 done; 2 bad input or options, or a model that the runtime can't run; 3 interrupted,
and the best so far written as asked for; 70 a defect of tensolog; 130 interrupted; 141 the reader
of standard output went away; 143 terminated.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from . import interrupts
from .printing import one_line

# Imported within functions: what a command needs; --help and completion take none of it.

_FULL = (errno.ENOSPC, errno.EDQUOT)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # µ and – on an ASCII terminal
    code = run(sys.argv[1:] if arguments is None else arguments, last=True)
    if code in (interrupts.INTERRUPTED, interrupts.TERMINATED):
        with suppress(OSError):
            sys.stdout.flush()
        interrupts.leave(code)  # to shut down takes long with so many libraries loaded
    sys.exit(code)


def run(arguments: Sequence[str], *, last: bool = False) -> int:
    """Run the command line; return the exit code instead of exiting. `last`: the caller exits."""
    debug = bool(os.environ.get("TENSOLOG_DEBUG")) or "--debug" in arguments[:1]
    try:
        with interrupts.one_interrupt(last=last), _notes():
            from .commands import tensolog

            if "_TENSOLOG_COMPLETE" in os.environ:
                tensolog.main(list(arguments), prog_name="tensolog")
            # Not through main(): it would swallow a broken pipe and the kind of an interrupt.
            with tensolog.make_context("tensolog", list(arguments)) as context:
                tensolog.invoke(context)
            sys.stdout.flush()
            return 0
    except KeyboardInterrupt as interrupt:
        return _report_interrupt(interrupts.caught() or interrupt)
    except BrokenPipeError:
        # What is left in the buffer would raise once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if (struck := interrupts.caught()) is not None:
            return _report_interrupt(struck)
        if debug:
            raise
        return _report(error)


@contextmanager
def _notes() -> Iterator[None]:
    """Print each warning of ours on a line; those of the catalog once no progress is shown."""
    from .catalog.errors import CatalogWarning, TensologWarning

    notes: list[str] = []
    with warnings.catch_warnings():
        show = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, CatalogWarning):
                notes.append(str(message))
            elif issubclass(category, TensologWarning):
                _note(str(message))
            else:
                show(message, category, *where, **more)

        warnings.showwarning = note
        warnings.simplefilter("always", TensologWarning)
        try:
            yield
        finally:
            for text in notes:
                _note(text)


def _note(text: str) -> None:
    print(f"note: {one_line(' '.join(text.split()))}", file=sys.stderr, flush=True)


def _report(error: Exception) -> int:
    """Print one line about `error`; return the exit code it stands for."""
    import click

    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case click.Abort():
            return _report_interrupt(error)
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.message, err=True)
            return 2
        case click.UsageError():
            hint = f" (see '{error.ctx.command_path} --help')" if error.ctx else ""
            return _fail(error.format_message() + hint, 2)
        case click.ClickException():
            return _fail(error.format_message(), 2)
        case _ if _is_known(error):
            # The errors of a Datalog program, or of a file of rules, are told at once, a line each.
            for line in str(error).split("\n") if hasattr(error, "errors") else [str(error)]:
                _fail(line, 2)
            return 2
        case OSError() if error.errno in _FULL:
            where = error.filename or "where the output, the catalog or temporary files go"
            return _fail(f"{where}: {error.strerror}", 2)
        case OSError() if error.filename is not None:
            return _fail(f"{error.filename}: {error.strerror or error}", 2)
        case _ if _is_of_the_catalog(error):
            advice = "make room or restore it, or give another file with --catalog PATH"
            return _fail(f"the catalog can't be used ({error}): {advice}", 2)
        case MemoryError():
            return _fail("out of memory: close other programs or use a machine with more", 2)
    summary = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    advice = "set TENSOLOG_DEBUG=1 for the traceback and report it, please"
    return _fail(f"a defect of tensolog: {summary} ({advice})", 70)


def _is_known(error: Exception) -> bool:
    """Tell whether `error` is a TensologError, without loading what defines it for --help."""
    errors = sys.modules.get(f"{__package__}.catalog.errors")
    return errors is not None and isinstance(error, errors.TensologError)


def _is_of_the_catalog(error: Exception) -> bool:
    """Tell whether DuckDB says that its file is damaged or can't be written, or that rows are not
    what they should be; not that a query of ours is wrong, which is a defect."""
    duckdb = sys.modules.get("duckdb")
    if duckdb is None or not isinstance(error, duckdb.Error):
        return False
    return not isinstance(error, duckdb.ProgrammingError)


def _report_interrupt(interrupt: BaseException) -> int:
    state = getattr(interrupt, "__notes__", [interrupts.NOTHING_WRITTEN])[0]
    line, code = interrupts.describe(type(interrupt), state)
    print(line, file=sys.stderr)
    return code


def _fail(message: str, code: int) -> int:
    """Print `message` as one line on standard error."""
    print(f"error: {one_line(' '.join(message.split()))}", file=sys.stderr)
    return code

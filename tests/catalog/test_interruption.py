"""Native code that a signal ends, and who hears of signals when."""

import contextlib
import os
import signal
import socket
import threading
import time

import duckdb
import pytest
from tensolog.catalog import Catalog
from tensolog.catalog.interruption import Watch, endable, interruptible

from tests.endless import QUERY, struck

HANG_S = 60


@pytest.fixture(autouse=True)
def default_handler():
    """What Python itself does; a shell starts what it leaves in the background without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler
    assert signal.set_wakeup_fd(-1) == -1


def test_an_endless_query_ends_by_an_interrupt_and_the_catalog_goes_on():
    with Catalog(":memory:") as catalog:
        with pytest.raises(KeyboardInterrupt), struck(), interruptible():
            catalog.connection.execute(QUERY).fetchall()
        assert catalog.connection.execute("SELECT 7").fetchall() == [(7,)]


def test_what_is_interrupted_in_a_transaction_is_undone():
    with Catalog(":memory:") as catalog:
        with pytest.raises(KeyboardInterrupt), struck(), interruptible(), catalog.transaction():
            catalog.connection.execute("CREATE TABLE half AS SELECT 1 AS n")
            catalog.connection.execute(QUERY).fetchall()
        with pytest.raises(duckdb.CatalogException):
            catalog.connection.execute("FROM half")


def test_python_code_is_interrupted_as_ever():
    with pytest.raises(KeyboardInterrupt), struck(after_s=0.1), interruptible():
        time.sleep(HANG_S)


def test_an_interrupt_that_was_swallowed_comes_back():
    with pytest.raises(KeyboardInterrupt), interruptible(), contextlib.suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(HANG_S)


def test_a_handler_of_somebody_else_stays():
    heard = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert heard == [signal.SIGINT]


def test_other_threads_are_left_alone():
    inside = []

    def work():
        with interruptible():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(HANG_S)
    assert inside == [signal.default_int_handler]


def test_who_heard_of_signals_before_still_does():
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    reader.settimeout(HANG_S)
    signal.set_wakeup_fd(writer.fileno())
    try:
        with pytest.raises(KeyboardInterrupt), interruptible():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(HANG_S)
        assert reader.recv(1) == bytes([signal.SIGINT])
    finally:
        signal.set_wakeup_fd(-1)
        reader.close()
        writer.close()


class Running:
    """Native code that ends where it is told to often enough."""

    def __init__(self, patience):
        self.requests, self.patience, self.ended = 0, patience, threading.Event()

    def end(self):
        self.requests += 1
        if self.requests >= self.patience:
            self.ended.set()


def never_reached(watch_of, wait):
    """Have a watch hear of a signal whose handler never says that it was reached."""
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    watch = watch_of({signal.SIGUSR1})
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        wait()
    finally:
        watch.close()
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no such signal")
class TestWatch:
    def test_what_runs_is_told_again_until_it_ends(self):
        running = endable(Running(3), Running.end)
        never_reached(Watch, lambda: running.ended.wait(HANG_S))
        assert running.requests >= 3

    def test_nothing_is_told_to_end_without_a_signal(self):
        running = endable(Running(1), Running.end)
        watch = Watch({signal.SIGUSR1})
        watch.close()
        assert running.requests == 0

    def test_what_is_gone_is_not_told(self):
        running = Running(1)
        ended = running.ended
        endable(running, Running.end)
        del running
        other = endable(Running(1), Running.end)
        never_reached(Watch, lambda: other.ended.wait(HANG_S))
        assert not ended.is_set()

    def test_where_the_handler_is_not_reached_in_time_force_is_used(self):
        forced = threading.Event()
        numbers = []

        def force(number):
            numbers.append(number)
            forced.set()

        never_reached(lambda signals: Watch(signals, force), lambda: forced.wait(HANG_S))
        assert numbers[0] == signal.SIGUSR1

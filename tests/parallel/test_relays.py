"""Relays between sites: what is no message ends them with a reason, and never in silence."""

import os
import socket
import struct
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.parallel.cluster.connections import (
    ConnectionLostError,
    MessageError,
    exchange_descriptors,
    receive_message,
)
from tensolog.parallel.cluster.relays import LOST, Layout, Relay
from tensolog.parallel.partitioner import part
from tensolog.parallel.runnable_plan import CALLER
from tensolog.parallel.serving.part_messages import DONE_BYTES, done_message, unpack_done
from tensolog.parallel.serving.shared_memory import SharedMemory
from tensolog.parallel.simulation.placement import whole_on

from .models import perceptron, problem

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")
PARTITION = part(problem(perceptron(4, 16, 1), 2), (whole_on(0), whole_on(1))).partition
SLOTS = 2


class Site:
    """The site of device 1, with a relay to that of device 0, whose end `far` is ours."""

    def __init__(self):
        near, self.far = socket.socketpair()
        self.far.settimeout(10)
        self.delivered, self.lost = [], []
        layout = Layout(PARTITION, SLOTS, (0, 1))
        self.memories = [SharedMemory() for _ in PARTITION.slot_bytes]
        layout.reserve(self.memories)
        deliver = lambda *message: self.delivered.append(message)  # noqa: E731
        self.relay = Relay(layout, 1, 0, near, self.memories, deliver, self.lost.append)
        self.relay.start()

    def reported_state(self):
        """Return the state and reason of what the relay says to the other site."""
        head = self.far.recv(DONE_BYTES, socket.MSG_WAITALL)
        _, _, state, length, _ = unpack_done(head)
        return state, self.far.recv(length, socket.MSG_WAITALL).decode()

    def close(self):
        self.far.close()
        self.relay.end()
        self.relay.join(10)
        for memory in self.memories:
            memory.close()


@pytest.fixture
def site():
    site_ = Site()
    yield site_
    site_.close()


def of_stage_0():
    """A message that stage 0 is done, and the bytes of what it gives."""
    (tensor,) = PARTITION.stages[0].gives
    return done_message(0, 1, 0, 7), np.zeros(PARTITION.tensors[tensor].shape, np.float32).tobytes()


def test_what_a_stage_gave_is_delivered(site):
    head, tensor = of_stage_0()
    site.far.sendall(head + tensor)
    site.far.shutdown(socket.SHUT_WR)
    site.relay._threads[1].join(10)
    assert site.delivered == [(0, 1, 0, 7, "")]
    (error,) = site.lost
    assert not isinstance(error, MessageError) and "closed the connection" in str(error)


@pytest.mark.parametrize(
    "message",
    [
        done_message(99, 0, 0, 7),  # no such stage
        done_message(1, 0, 0, 7),  # a stage of this site
        done_message(CALLER, 0, 0, 7),  # the caller's
        done_message(0, SLOTS, 0, 7),  # no such slot
        done_message(0, 0, 3, 7),  # no such state
        struct.pack("<iHHHQ", 0, 0, 1, 60_000, 7),  # a reason longer than any
    ],
)
def test_what_is_no_message_ends_the_relay_on_both_sides(site, message):
    site.far.sendall(message)
    state, reason = site.reported_state()
    site.relay._threads[1].join(10)
    assert state == LOST and "is none that this group has" in reason
    (error,) = site.lost
    assert isinstance(error, MessageError) and not site.delivered


@given(st.binary(min_size=1, max_size=200))
@settings(max_examples=40, deadline=None)
def test_no_bytes_end_a_relay_in_silence(noise):
    site_ = Site()
    try:
        site_.far.sendall(noise)
        site_.far.shutdown(socket.SHUT_WR)
        site_.relay._threads[1].join(10)
        assert len(site_.lost) == 1 and isinstance(site_.lost[0], ConnectionLostError)
    finally:
        site_.close()


def test_an_error_of_who_is_told_ends_the_relay(site):
    def fails(*message):
        raise KeyError("nobody")

    site.relay.deliver = fails
    site.far.sendall(b"".join(of_stage_0()))
    site.relay._threads[1].join(10)
    assert "can't be passed on: KeyError('nobody')" in str(site.lost[0])


def test_more_descriptors_than_a_message_has_room_for():
    """The kernel passes 253 at once: a group of many devices has more inboxes and memories."""
    here, there = socket.socketpair()
    read, write = os.pipe()
    results = {}
    other = threading.Thread(
        target=lambda: results.update(there=exchange_descriptors(there, [write] * 3, 600))
    )
    other.start()
    received = exchange_descriptors(here, [read] * 600, 3)
    other.join(10)
    try:
        assert len(received) == 3 and len(results["there"]) == 600
        os.write(received[2], b"x")
        assert os.read(results["there"][599], 1) == b"x"
    finally:
        for descriptor in (read, write, *received, *results["there"]):
            os.close(descriptor)
        here.close()
        there.close()


def test_fewer_descriptors_than_were_to_come_are_refused():
    here, there = socket.socketpair()
    socket.send_fds(there, [b"d"], [here.fileno()])
    with here, there, pytest.raises(MessageError, match="passed 1 descriptors, and not 2"):
        exchange_descriptors(here, [], 2)


def test_a_message_that_is_no_json_is_refused():
    here, there = socket.socketpair()
    there.sendall(struct.pack("<Q", 3) + b"{]x")
    with here, there, pytest.raises(MessageError, match="none of a group's"):
        receive_message(here, 10)

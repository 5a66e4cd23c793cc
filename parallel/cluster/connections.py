"""Connections between the sites of a group: who may open one, and how bytes get through it.

Sites on one machine connect by a socket that also passes descriptors, so that they share memory;
others by TCP. A token that the engine hands to all sites of a group lets them in, and nobody else.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import select
import socket
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...catalog.errors import TensologError

_HELLO = struct.Struct("<32si")  # token, number of the site that connects
_LENGTH = struct.Struct("<Q")
_MOST_MESSAGE_BYTES = 1 << 26
_CONNECT_S = 10.0
_HELLO_S = 5.0
# Bytes that are copied to be sent at once rather than in several packets.
_TOGETHER_BYTES = 1 << 16
_BUFFER_BYTES = 1 << 22
# The kernel passes at most 253 descriptors with a message (SCM_MAX_FD).
_MOST_DESCRIPTORS = 250
# A machine that is gone without a word is noticed after about so long.
_SILENCE_S = 15


class ConnectionLostError(TensologError):
    """The other side of a connection is gone, or can't be reached."""


class MessageError(ConnectionLostError):
    """What came through a connection is no message of a group: it is of no use any more."""


@dataclass(frozen=True)
class Address:
    """Where a site listens: by TCP, and for sites of its machine by a name that the kernel knows.

    `machine` is equal for processes that can share memory.
    """

    host: str
    port: int
    name: str
    machine: str


def new_token() -> str:
    """Draw a token, 64 hex digits."""
    return secrets.token_hex(32)


def machine_key() -> str:
    """Tell machines apart: a kernel that was started once, and what of the network is seen of it.

    Processes of one machine in network namespaces of their own, as containers are, count as apart.
    Empty where the system does not say.
    """
    if sys.platform != "linux":
        return ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/net').readlink()}"
    except OSError:
        return ""


class Listener:
    """Waits for the sites of a group that connect to this one."""

    def __init__(self, host: str, token: str) -> None:
        """Listen on a free port of a host; raises OSError where it is not of this machine."""
        self._token = bytes.fromhex(token)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._sockets = [socket.create_server((host, 0), family=family)]
        port = self._sockets[0].getsockname()[1]
        name, machine = "", machine_key()
        if machine:
            # In Linux' abstract namespace: no file is left, and other network namespaces see none.
            local = socket.socket(socket.AF_UNIX)
            name = f"tensolog-{secrets.token_hex(8)}"
            local.bind(f"\0{name}")
            local.listen()
            self._sockets.append(local)
        self.address = Address(host, port, name, machine)

    def accept(self, limit_s: float) -> tuple[int, socket.socket] | None:
        """Return the number of the next site that connects and knows the token; None: none came."""
        poll = select.poll()
        for listening in self._sockets:
            poll.register(listening, select.POLLIN)
        ready = dict(poll.poll(limit_s * 1e3))
        for listening in self._sockets:
            if listening.fileno() not in ready:
                continue
            connection = listening.accept()[0]
            try:
                connection.settimeout(_HELLO_S)
                head = bytearray(_HELLO.size)
                receive_into(connection, memoryview(head))
            except (OSError, ConnectionLostError):
                connection.close()
                continue
            token, number = _HELLO.unpack(head)
            if not hmac.compare_digest(token, self._token):
                connection.close()
                continue
            _tune(connection)
            return number, connection
        return None

    def close(self) -> None:
        """Listen no more."""
        for listening in self._sockets:
            listening.close()


def connect(address: Address, token: str, number: int) -> socket.socket:
    """Connect to a site as site `number`; ConnectionLostError where it can't be reached."""
    where = f"{address.host}:{address.port}"
    try:
        if address.machine and address.machine == machine_key():
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(f"\0{address.name}")
        else:
            connection = socket.create_connection((address.host, address.port), _CONNECT_S)
        connection.sendall(_HELLO.pack(bytes.fromhex(token), number))
        _tune(connection)
    except OSError as error:
        reason = error.strerror or error
        raise ConnectionLostError(f"no connection to the worker at {where}: {reason}") from error
    return connection


def is_shared(connection: socket.socket) -> bool:
    """Tell whether descriptors can be passed: the other site is on this machine."""
    return connection.family == socket.AF_UNIX


def _tune(connection: socket.socket) -> None:
    connection.settimeout(None)
    if is_shared(connection):
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _SILENCE_S // 3),
        ("TCP_KEEPINTVL", _SILENCE_S // 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", _SILENCE_S * 1000),
    ):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


# ---- bytes


def receive_into(connection: socket.socket, into: memoryview) -> None:
    """Fill memory with what comes; ConnectionLostError at the end."""
    while len(into):
        try:
            count = connection.recv_into(into)
        except OSError as error:
            raise ConnectionLostError(error.strerror or str(error)) from error
        if not count:
            raise ConnectionLostError("it closed the connection")
        into = into[count:]


def send(connection: socket.socket, pieces: Iterable[bytes | memoryview]) -> None:
    """Send pieces one after the other, small ones together; raises OSError."""
    gathered = bytearray()
    for piece in pieces:
        if len(gathered) + len(piece) <= _TOGETHER_BYTES:
            gathered += piece
            continue
        if gathered:
            connection.sendall(gathered)
            gathered = bytearray()
        connection.sendall(piece)
    if gathered:
        connection.sendall(gathered)


def send_message(connection: socket.socket, message: Any) -> None:
    """Send plain values, before tensors go through the connection; ConnectionLostError."""
    text = json.dumps(message).encode()
    try:
        connection.sendall(_LENGTH.pack(len(text)) + text)
    except OSError as error:
        raise ConnectionLostError(error.strerror or str(error)) from error


def receive_message(connection: socket.socket, limit_s: float | None = None) -> Any:
    """Wait for plain values; ConnectionLostError where none come in time."""
    connection.settimeout(limit_s)
    head = bytearray(_LENGTH.size)
    receive_into(connection, memoryview(head))
    (length,) = _LENGTH.unpack(head)
    if length > _MOST_MESSAGE_BYTES:
        raise MessageError(f"a message of {length} bytes is none of a group's")
    text = bytearray(length)
    receive_into(connection, memoryview(text))
    connection.settimeout(None)
    try:
        return json.loads(text)
    except ValueError as error:
        raise MessageError(f"a message that is none of a group's: {error}") from error


def send_file(connection: socket.socket, file: Path) -> None:
    """Send the bytes of a file; ConnectionLostError."""
    try:
        with file.open("rb") as source:
            connection.sendfile(source)
    except OSError as error:
        raise ConnectionLostError(error.strerror or str(error)) from error


def receive_file(connection: socket.socket, size_bytes: int, file: Path) -> None:
    """Write so many bytes that come to a file."""
    buffer = memoryview(bytearray(min(size_bytes, _BUFFER_BYTES)))
    with file.open("wb") as target:
        missing = size_bytes
        while missing:
            part = buffer[: min(missing, len(buffer))]
            receive_into(connection, part)
            target.write(part)
            missing -= len(part)


def exchange_descriptors(connection: socket.socket, ours: list[int], count: int) -> list[int]:
    """Pass descriptors to the other site and return `count` of it; ConnectionLostError."""
    connection.settimeout(_CONNECT_S)
    received: list[int] = []
    try:
        for first in range(0, max(1, len(ours)), _MOST_DESCRIPTORS):
            socket.send_fds(connection, [b"d"], ours[first : first + _MOST_DESCRIPTORS])
        for _ in range(0, max(1, count), _MOST_DESCRIPTORS):
            # What one message has comes with its byte, never with another one's.
            data, descriptors, _, _ = socket.recv_fds(connection, 1, _MOST_DESCRIPTORS)
            received += descriptors
            if data != b"d":
                raise ConnectionLostError("it passed no descriptors")
        if len(received) != count:
            raise MessageError(f"it passed {len(received)} descriptors, and not {count}")
    except (OSError, ConnectionLostError) as error:
        for descriptor in received:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        if isinstance(error, OSError):
            raise ConnectionLostError(error.strerror or str(error)) from error
        raise
    connection.settimeout(None)
    return received


def shut(connection: socket.socket) -> None:
    """End a connection for who reads or writes on it, here and there."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)

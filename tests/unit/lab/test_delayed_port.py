# SPDX-License-Identifier: PostgreSQL
"""The emulated network: what arrives, when, and how connections end."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pgflash_lab.delayed_port import DelayedPort

HOST = "127.0.0.1"
DELAY_S = 0.05


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], int]]:
    """Return what starts a server of one connection, and returns its port."""
    listeners: list[socket.socket] = []

    def start(answer: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server((HOST, 0))
        listeners.append(listener)

        def run() -> None:
            connection, _address = listener.accept()
            with connection:
                answer(connection)

        threading.Thread(target=run, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for one in listeners:
        one.close()


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        connection.sendall(data)


def received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(1 << 16)):
        data += more
    return data


def test_an_answer_takes_both_ways(serve: Callable[..., int]) -> None:
    network = DelayedPort(HOST, 0, to_port=serve(echo), delay_s=DELAY_S)
    with socket.create_connection((HOST, network.port)) as connection:
        for word in (b"one", b"two"):
            begin_s = time.monotonic()
            connection.sendall(word)
            assert received(connection, len(word)) == word
            assert time.monotonic() - begin_s >= 2 * DELAY_S
    network.close()


def test_much_arrives_whole_and_in_order(serve: Callable[..., int]) -> None:
    network = DelayedPort(HOST, 0, to_port=serve(echo), delay_s=0.001)
    sent = b"".join(number.to_bytes(4, "big") for number in range(1 << 20))
    with socket.create_connection((HOST, network.port)) as connection:

        def send() -> None:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)

        threading.Thread(target=send, daemon=True).start()
        assert received(connection, len(sent) + 1) == sent  # and then the end
    network.close()


def test_the_end_of_a_server_is_the_end_of_its_connections(serve: Callable[..., int]) -> None:
    network = DelayedPort(HOST, 0, to_port=serve(lambda one: one.close()), delay_s=0.001)
    with socket.create_connection((HOST, network.port)) as connection:
        assert received(connection, 1) == b""
    network.close()


def test_without_a_server_a_connection_ends() -> None:
    with socket.socket() as silent:
        silent.bind((HOST, 0))  # and it does not listen
        network = DelayedPort(HOST, 0, to_port=silent.getsockname()[1], delay_s=0.001)
        with socket.create_connection((HOST, network.port)) as connection:
            assert received(connection, 1) == b""
        network.close()


def test_a_closed_port_ends_what_it_forwarded(serve: Callable[..., int]) -> None:
    network = DelayedPort(HOST, 0, to_port=serve(echo), delay_s=0.001)
    with socket.create_connection((HOST, network.port)) as connection:
        connection.sendall(b"one")
        assert received(connection, 3) == b"one"
        network.close()
        assert received(connection, 1) == b""
    # Not by connecting: a stranger may listen on that port now.
    assert network._listener.fileno() == -1

# SPDX-License-Identifier: PostgreSQL
"""An emulated network: a port that forwards its connections, each byte a fixed time later.

It stands for the distance between two machines of a lab that has only one.  The time is that of
one way, and bandwidth is not limited.  Threads sleep until a byte is due, which is exact to some
0.1 ms.
"""

import contextlib
import queue
import socket
import threading
import time

_CHUNK = 64 * 1024
#: Chunks that are on their way in one direction, at most; then the sender waits.
_CHUNKS_MAX = 256


class DelayedPort:
    """Forwards connections of one port to another of the same address until it is closed."""

    def __init__(self, host: str, port: int, *, to_port: int, delay_s: float) -> None:
        """Listen from now on; PORT 0 is any that is free."""
        self._host = host
        self._to_port = to_port
        self._delay_s = delay_s
        self._lock = threading.Lock()
        self._closed = False
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server((host, port))
        self.port = int(self._listener.getsockname()[1])
        _start(self._accept)

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self._closed = True
            ended = {self._listener, *self._sockets}
        for one in ended:
            _end(one)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            _start(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection((self._host, self._to_port))
        except OSError:
            client.close()
            return
        with self._lock:
            closed = self._closed
            self._sockets |= {client, server}
        if closed:
            _end(client)
            _end(server)
        directions = [
            _Direction(source, target, self._delay_s)
            for source, target in ((client, server), (server, client))
        ]
        for one in directions:
            one.wait()
        with self._lock:
            self._sockets -= {client, server}
        client.close()
        server.close()


class _Direction:
    """One direction of a connection: a thread that receives, and one that sends when it is time."""

    def __init__(self, source: socket.socket, target: socket.socket, delay_s: float) -> None:
        self._source = source
        self._target = target
        self._delay_s = delay_s
        self._under_way: queue.Queue[tuple[float, bytes]] = queue.Queue(_CHUNKS_MAX)
        target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._threads = [_start(self._receive), _start(self._send)]

    def wait(self) -> None:
        """Wait until the source has ended, and the target knows."""
        for one in self._threads:
            one.join()

    def _receive(self) -> None:
        data = b"-"
        while data:
            try:
                data = self._source.recv(_CHUNK)
            except OSError:
                data = b""
            self._under_way.put((time.monotonic() + self._delay_s, data))

    def _send(self) -> None:
        broken = False
        while True:
            due_s, data = self._under_way.get()
            time.sleep(max(due_s - time.monotonic(), 0.0))
            if not data:
                with contextlib.suppress(OSError):
                    self._target.shutdown(socket.SHUT_WR)
                return
            try:
                if not broken:
                    self._target.sendall(data)
            except OSError:
                broken = True
                _end(self._source)


def _start(target: object, *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)

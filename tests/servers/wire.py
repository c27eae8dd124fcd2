"""A line between a client and a server that can be cut at any message, before or after the server
has heard it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

Cut = Literal["unheard", "unanswered"]


@dataclass
class Line:
    """One connection. Once it is muted, the client hears nothing more."""

    client: socket.socket
    server: socket.socket
    is_muted: bool = False
    has_turned: bool = True  # what the client says next is a new message, which may come in pieces

    def end(self) -> None:
        for one in (self.client, self.server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Wire:
    """Forwards connections on a port of its own to a port of this machine."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._left: int | None = None
        self._cut: Cut = "unheard"
        self._lines: list[Line] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut_at(self, message: int | None, cut: Cut = "unheard") -> None:
        """Cut the line of the n-th message that clients send from now, counted from 1; None: no
        line at all."""
        with self._lock:
            self._left, self._cut = message, cut

    @property
    def is_cut(self) -> bool:
        """The message has come."""
        return self._left == 0

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for line in self._lines:
            line.end()
        for thread in self._threads:
            thread.join()
        for line in self._lines:
            line.client.close()
            line.server.close()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._to_port))
            except OSError:
                client.close()  # there is no server just now
                continue
            line = Line(client, server)
            self._lines.append(line)
            for pump in (self._up, self._down):
                self._threads.append(threading.Thread(target=pump, args=(line,), daemon=True))
                self._threads[-1].start()

    def _up(self, line: Line) -> None:
        with suppress(OSError):
            while data := line.client.recv(1 << 20):
                if line.has_turned and self._is_last():
                    line.is_muted = True
                    if self._cut == "unheard":
                        break
                line.has_turned = False
                line.server.sendall(data)
        line.end()

    def _down(self, line: Line) -> None:
        with suppress(OSError):
            while (data := line.server.recv(1 << 20)) and not line.is_muted:
                line.has_turned = True
                line.client.sendall(data)
        line.end()

    def _is_last(self) -> bool:
        with self._lock:
            if not self._left:
                return False
            self._left -= 1
            return self._left == 0

"""A client of the language server: the process of `headgate lsp`, spoken to in framed JSON over its
pipes.

Does not belong here: what is expected of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
MARK = "¦"  # in a text: where the cursor is


class Client:
    """`told`: diagnostics as they came, by URI."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._number = 0
        self.told: dict[str, list[dict[str, Any]]] = {}

    def ask(self, method: str, params: Any) -> Any:
        """The result of a request. Notifications that come before it are kept."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        number = self._number
        while True:
            message = self._read()
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self._keep(message)

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def problems(self, path: Path, version: int | None = None) -> list[dict[str, Any]]:
        """Those of a document, once they are told (of this version of it)."""
        uri = path.as_uri()
        while True:
            message = self._read()
            self._keep(message)
            params = message.get("params") or {}
            is_reported = (
                message.get("method") == "textDocument/publishDiagnostics" and params["uri"] == uri
            )
            if is_reported and version in (None, params.get("version")):
                return self.told[uri]

    def open(self, path: Path, text: str) -> list[dict[str, Any]]:
        item = {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        return self.problems(path, 1)

    def change(self, path: Path, text: str, version: int) -> list[dict[str, Any]]:
        self.change_without_waiting(path, text, version)
        return self.problems(path, version)

    def change_without_waiting(self, path: Path, text: str, version: int) -> None:
        document = {"uri": path.as_uri(), "version": version}
        self.tell(
            "textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]}
        )

    def at(self, method: str, path: Path, text: str) -> Any:
        """Asked of the place of MARK in a text that the server has without it."""
        line = text[: text.index(MARK)].count("\n")
        character = text.index(MARK) - (text.rfind("\n", 0, text.index(MARK)) + 1)
        where = {
            "textDocument": {"uri": path.as_uri()},
            "position": {"line": line, "character": character},
        }
        return self.ask(f"textDocument/{method}", where)

    def _send(self, message: Mapping[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            length = int(value) if name.lower() == "content-length" else length
        assert length, "the server ended"
        found: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return found

    def _keep(self, message: Mapping[str, Any]) -> None:
        if message.get("method") == "textDocument/publishDiagnostics":
            self.told[message["params"]["uri"]] = message["params"]["diagnostics"]


@contextmanager
def lsp(folder: Path, **environment: str) -> Iterator[Client]:
    """A server in a folder, shut down in good order."""
    command = [sys.executable, "-m", "controlplane", "lsp"]
    given = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
    }
    with subprocess.Popen(command, cwd=folder, env=given, **pipes) as process:
        try:
            client = Client(process)
            client.ask(
                "initialize",
                {"processId": os.getpid(), "rootUri": folder.as_uri(), "capabilities": {}},
            )
            client.tell("initialized", {})
            yield client
            client.ask("shutdown", None)
            client.tell("exit", None)
            assert process.wait() == 0
        finally:
            process.kill()

"""A throw-away server of MongoDB's protocol on a free loopback port: FerretDB 1.24.0 over SQLite,
built from its Go module once and kept in the user's cache.

Does not belong here: what is read from it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.servers.programs import from_go

SOURCE = Path(__file__).with_name("mongodb_server")
DATABASE = "shop"


class MongoServer:
    """`remove` ends it. `insert` adds documents as a client does."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="headgate-mongodb-")
        self._process = subprocess.Popen(
            [str(from_go(SOURCE)), self._folder.name, DATABASE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._documents, self._answers = self._process.stdin, self._process.stdout
        self.uri = self._answers.readline().strip()

    def insert(self, collection: str, *documents: dict[str, Any]) -> None:
        for document in documents:
            self._documents.write(f"{collection}\t{json.dumps(document)}\n")
            assert self._answers.readline() == "inserted\n"

    def remove(self) -> None:
        with self._process:
            self._process.kill()
        self._folder.cleanup()

"""The bytes of an answer of a catalogue, within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataplane.connectors.iceberg.table_files import TABLE_BYTES
from dataplane.storage.http_files import chunks
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import httpx2


def body_of(uri: str, answer: httpx2.Response) -> bytes:
    """TaskFailure for an answer that is too large."""
    body = bytearray()
    for part in chunks(answer, uri):
        body += part
        if len(body) > TABLE_BYTES:
            message = f"{uri} answers with more than {TABLE_BYTES >> 20} MiB"
            raise TaskFailure("listing-too-large", f"{message}: expire snapshots of the table")
    return bytes(body)

"""Loads as files: rows as JSON texts in Parquet, with the state after them in its metadata.

`<dataset>/_loads/<source>/<name>-<content>.parquet`. A file is complete or absent, and never changes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from secrets import token_hex

import pyarrow as pa
import pyarrow.parquet as pq

from dataplane.contract.jobs import ConnectorSettings
from dataplane.storage.lake import Lake
from dataplane.task_failures import TaskFailure

MOST_BYTES = 2 << 30  # of the rows of a load, as JSON
STATE_BYTES = 1 << 20
STATE = b"headgate.dlt.state"
ROWS = pa.schema([("row", pa.string()), ("_load", pa.int64()), ("_row", pa.int64())])
AT_A_TIME = 10_000  # rows that are written together
SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True)
class Load:
    """What a file holds. `content`: SHA-256 (hex) over its rows, in any order."""

    content: str
    rows: int
    size: int  # bytes of the rows as JSON
    state: str  # SHA-256 (hex)


def write_load(
    file: Path,
    number: int,
    rows: Iterable[str],
    state: Callable[[], str],
    most_bytes: int = MOST_BYTES,
) -> Load:
    """Write the rows (JSON texts), then the state that they led to. TaskFailure
    `listing-too-large` beyond `most_bytes` of rows, or STATE_BYTES of state."""
    total, count, size = 0, 0, 0
    with pq.ParquetWriter(file, ROWS, compression="zstd") as writer:
        for texts in _batches(rows):
            size += sum(map(len, texts))
            if size > most_bytes:
                raise _too_large(f"the rows of a load have more than {most_bytes >> 20} MiB")
            total += sum(int.from_bytes(sha256(text.encode()).digest()) for text in texts)
            places = range(count, count + len(texts))
            writer.write(pa.record_batch([texts, [number] * len(texts), places], schema=ROWS))
            count += len(texts)
        text = state()
        if len(text) > STATE_BYTES:
            raise _too_large(f"the state of a resource has more than {STATE_BYTES >> 10} KiB")
        writer.add_key_value_metadata({STATE: text.encode()})
    digest = sha256(f"dlt-load/1 {count} {total % (1 << 256)}".encode()).hexdigest()
    return Load(digest, count, size, sha256(text.encode()).hexdigest())


def _batches(rows: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(rows)
    while texts := list(islice(remaining, AT_A_TIME)):
        yield texts


def _too_large(message: str) -> TaskFailure:
    return TaskFailure("listing-too-large", f"{message}: fetch less at a time, by arguments")


def state_of(lake: Lake, path: str) -> str:
    """The state in a file of the lake. TaskFailure `load-lost` where there is no such file."""
    try:
        metadata = pq.read_metadata(lake.open(path)).metadata or {}
    except FileNotFoundError as e:
        message = f"the load {path} is no longer in the lake, and with it the state of the source"
        raise TaskFailure("load-lost", message) from e
    text: bytes = metadata[STATE]
    return text.decode()


def put_load(lake: Lake, file: Path, path: str) -> None:
    """Copy a file into the lake: it appears whole."""
    with lake.new_file(path) as target:
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}.{token_hex(8)}")
        shutil.copyfile(file, hidden)
        os.replace(hidden, target)


def folder_of(dataset: str, settings: ConnectorSettings) -> str:
    """Where the loads of a source lie: plans and branches that fetch the same have one folder."""
    return f"{dataset}/_loads/{_source_of(settings)}"


def _source_of(settings: ConnectorSettings) -> str:
    """As the listing is identified: `code` stands for modules."""
    own = {k: v for k, v in settings.items() if k not in ("row_schema", "modules")}
    return sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:32]


def checked_path(path: str, namespace: str, settings: ConnectorSettings) -> str:
    """The path itself. TaskFailure `load-lost` if it is of no load of this source: code of users
    runs where listings are made, and the lake has the rows of everybody."""
    own = rf"{re.escape(namespace)}/[a-z0-9_]+/[a-z0-9_]+/_loads/{_source_of(settings)}"
    if re.fullmatch(rf"{own}/[0-9]+-[0-9a-f]{{32}}{re.escape(SUFFIX)}", path):
        return path
    raise TaskFailure("load-lost", f"{path[:300]!r} is no load of this source")


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def path_of(folder: str, name: str, content: str) -> str:
    """`content`: SHA-256 (hex) over rows, or over rows and state."""
    return f"{folder}/{name}-{content[:32]}{SUFFIX}"


def is_of(path: str, load: Load) -> bool:
    """Whether a file has these rows."""
    return path.endswith(f"-{load.content[:32]}{SUFFIX}")

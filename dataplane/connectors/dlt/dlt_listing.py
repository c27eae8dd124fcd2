"""Loads as source objects. `replace`: one partition, the newest load, whose content is its version.
`append`: each listing adds a partition, the load that begins with the state of the one before it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from dataplane.connectors.dlt.extraction import Extraction, opened_resource
from dataplane.connectors.dlt.load_files import (
    SUFFIX,
    Load,
    checked_path,
    folder_of,
    is_of,
    path_of,
    put_load,
    state_of,
    write_load,
)
from dataplane.contract.failpoints import failpoint
from dataplane.contract.jobs import ConnectJob, ConnectorSettings, ListJob
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.listed_partitions import listed
from dataplane.storage.lake import Lake

ALL = "all"  # the key of a replaced resource
DIGITS = 12  # of a load's number, so that keys come in its order
KEPT_MS = 24 * 3600 * 1000  # a replaced load stays so long for tasks that read it


def partitions(job: ListJob, lake: Lake, dataset: str) -> Iterator[ListedPartition]:
    """Fetch a load. One without rows is none for `append`: the next one begins where it did."""
    folder = folder_of(dataset, job["settings"])
    with tempfile.TemporaryDirectory(prefix="headgate-") as scratch:
        file = Path(scratch) / f"load{SUFFIX}"
        if job["settings"]["write_disposition"] == "append":
            yield from _appended(job, lake, folder, file)
        else:
            yield _replaced(job["settings"], lake, folder, file)


def check(job: ConnectJob) -> None:
    """Whether there is such a resource; nothing is fetched. TaskFailure says why not."""
    with opened_resource(job["settings"]):
        pass


def _fetched(settings: ConnectorSettings, file: Path, number: int, state: str) -> Load:
    with opened_resource(settings) as resource:
        extraction = Extraction(resource, state)
        return write_load(file, number, extraction.rows(), extraction.state)


def _appended(job: ListJob, lake: Lake, folder: str, file: Path) -> Iterator[ListedPartition]:
    last = job["known"]
    assert last is not None, "a claim says what is known"
    number = int(last["key"]) + 1 if last["key"] else 1
    namespace, state = folder.partition("/")[0], ""
    if last["objects"]:
        before = checked_path(last["objects"][0]["detail"]["path"], namespace, job["settings"])
        state = state_of(lake, before)
    load = _fetched(job["settings"], file, number, state)
    if not load.rows:
        return
    key = f"{number:0{DIGITS}}"
    # Other loads with this number, of plans and of attempts that were given up, may have equal rows
    path = path_of(folder, key, sha256(f"{load.content} {load.state}".encode()).hexdigest())
    failpoint("dlt-fetched")
    put_load(lake, file, path)
    failpoint("dlt-put")
    version = f"load:{number}:{load.content}"
    yield listed(key, [_object(key, version, load, path, number)], ())


def _replaced(settings: ConnectorSettings, lake: Lake, folder: str, file: Path) -> ListedPartition:
    """An unchanged load is not written again."""
    load = _fetched(settings, file, 1, "")
    now_ms = int(time.time() * 1000)
    before = sorted(path for path in lake.sizes(folder) if path.endswith(SUFFIX))
    if before and is_of(before[-1], load):
        path = before[-1]
    else:
        path = path_of(folder, f"{now_ms:015}", load.content)
        put_load(lake, file, path)
    lake.delete(_outdated([*before, path], now_ms))
    version = f"sha256:{load.content}"
    return listed(ALL, [_object(ALL, version, load, path, 1)], ())


def _outdated(paths: list[str], now_ms: int) -> list[str]:
    """Loads that a later one replaced long ago."""
    times = [int(path.rpartition("/")[2].partition("-")[0]) for path in paths]
    return [path for path, later in zip(paths, times[1:], strict=False) if now_ms - later > KEPT_MS]


def _object(name: str, version: str, load: Load, path: str, number: int) -> SourceObject:
    return {
        "name": name,
        # Equal rows may come to lie in another file: the listing then moves to that one
        "uri": f"dlt:{path if name == ALL else name}",
        "size": load.size,
        "modified_ms": 0,
        "version": version,
        "columns": None,
        "detail": {"path": path, "load": number},
    }

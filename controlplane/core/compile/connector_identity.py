"""The identity of a place that a connector reads or writes, and the description of it for the data
plane.

`files` came first: its identities and jobs stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

from controlplane.core.blueprint import KeyColumn, Read, Settings, Write, feed, iceberg
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Node
from controlplane.core.model.feeds import FeedAddress
from controlplane.core.model.revisions import FOLDERS, edition_of
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import ConnectorSettings
from dataplane.contract.key_folders import SETTING

FILES = "files"


def is_files(body: Read | Write) -> bool:
    return body.connector == FILES


def is_path(body: Read | Write) -> bool:
    """Whether `path` is one of files, which may be relative to the blueprint's."""
    if body.connector == "iceberg":
        return not body.path.startswith(iceberg.CATALOGUE)
    return is_files(body) or body.connector == "delta"


def is_whole(write: Write) -> bool:
    """Whether a generation is written by one task, all its partitions at once."""
    return write.connector in ("delta", "kafka")


def with_defaults(read: Read, uid: str) -> Read:
    """With the settings that it has by the edition of its component."""
    is_on = edition_of(uid) >= FOLDERS if read.hive_partitioning is None else read.hive_partitioning
    if not is_files(read) or not is_on:
        return read
    return replace(read, settings=tuple(sorted((*read.settings, (SETTING, True)))))


def reads_folders(read: Read) -> bool:
    """Whether folders `key=value` are columns."""
    return (SETTING, True) in read.settings


def has_columns(read: Read) -> bool:
    """Whether the source has columns while it is empty."""
    return read.connector in ("delta", "iceberg")


def logic_options(read: Read) -> dict[str, str]:
    """Options that can change rows: not those that refer to secrets. Where late rows are judged by
    event times, the rule of these is among them."""
    options = {
        name: text
        for name, text in read.options
        if is_files(read) or not text.startswith("secret://")
    }
    if read.keeps_late_rows and (rule := read.event_time) is not None:
        options["event_time"] = f"{rule.column} {rule.max_ahead_us}"
    return options


def listed_metadata(read: Read) -> tuple[str, ...]:
    """The metadata of files that enters rows, so it is part of what identifies their partitions.
    Quarantined records name their file."""
    if not is_files(read) or read.on_bad_record != "quarantine":
        return read.metadata
    return tuple({*read.metadata, "name"})


def listing_id(read: Read, location: str) -> bytes:
    """Equal places that are listed in the same way share the listing."""
    if is_files(read):
        files = ids.listing_id(
            location, read.format, dict(read.options), read.partition, listed_metadata(read)
        )
        return (
            digest("files-listing/1", listing=files, settings=dict(read.settings))
            if read.settings
            else files
        )
    place = {
        "location": location,
        "settings": _identifying(read.settings),
        "options": dict(read.options),
    }
    return digest(
        "connector-listing/1", connector=read.connector, metadata=sorted(read.metadata), **place
    )


def feed_of(read: Read, namespace: str) -> FeedAddress | None:
    """The feed that a component of this namespace reads, if it reads one."""
    if read.connector != feed.CONNECTOR:
        return None
    named = dict(read.settings)
    return FeedAddress(str(named["namespace"] or namespace), str(named["feed"]))


def feed_listing_id(address: FeedAddress, dataflow: str) -> bytes:
    """The id of the listing that a dataflow has of a feed. Grants are given to dataflows, so each
    has one of its own."""
    return digest(
        "feed-listing/1", namespace=address.namespace, feed=address.name, dataflow=dataflow
    )


def key_columns(key: Sequence[KeyColumn]) -> tuple[str, ...]:
    """The columns of a key that is made of plain values; none where it is not."""
    return (
        ()
        if any(part.granule or part.buckets for part in key)
        else tuple(part.column for part in key)
    )


def is_keyed_by_columns(dataset: str, nodes: Mapping[str, Node]) -> bool:
    """Whether plain values of columns name the partitions of a dataset: columns of its own, or of
    the datasets that it follows."""
    node = nodes.get(dataset)
    if node is None:
        return False
    if node.key:
        return bool(key_columns(node.key))
    followed = [slot.dataset for slot in node.slots if slot.mode == "each"]
    return bool(followed) and all(is_keyed_by_columns(name, nodes) for name in followed)


def target_id(
    namespace: str, dataset: str, uid: str, write: Write, path: str, keyed: Sequence[str]
) -> bytes:
    """Where and how a copy is kept. A copy with another id is written from the start; `uid` is that
    of the component."""
    if is_files(write):
        files = ids.target_id(namespace, dataset, path, write.format, dict(write.options))
        endpoint = dict(write.settings).get("storage.endpoint")
        return digest("files-target/1", target=files, endpoint=endpoint) if endpoint else files
    place = {"path": path, "settings": _identifying(write.settings), "keyed": list(keyed)}
    return digest(
        "connector-target/1",
        namespace=namespace,
        component=dataset,
        uid=uid,
        connector=write.connector,
        **place,
    )


def _identifying(settings: Settings) -> dict[str, object]:
    """Excluded are the client's settings (`client.`), the copy's reaction to changed columns, the
    columns of rows that a listing fetches as they are, and modules: `code` stands for them."""
    return {
        k: v
        for k, v in settings
        if k not in ("schema_change", "modules", "row_schema") and not k.startswith("client.")
    }


class ConnectorFacts(TypedDict, total=False):
    """The part of a job that says which connector is to work, and by which settings."""

    connector: str
    settings: ConnectorSettings


class ReadSettings(ConnectorFacts, total=False):
    location: str


def settings_of(body: Read | Write) -> ConnectorFacts:
    """For `files` only settings, if there are any."""
    settings = {k: _plain(v) for k, v in body.settings}
    if is_files(body):
        return {"settings": settings} if settings else {}
    return {"connector": body.connector, "settings": settings}


def reading_job(read: Read, location: str) -> ReadSettings:
    """The job of `settings_of`, and the location to read; with `files` each object has its own."""
    if is_files(read):
        return {**settings_of(read)}
    return {**settings_of(read), "location": location}


def _plain(value: object) -> object:
    """As JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value

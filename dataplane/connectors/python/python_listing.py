"""Listings by a user's own code: `list(context)` in a worker. Errors name the lines of the user's
code.

The code is run in this process, as that of transforms is in a driver.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

from dataplane.connectors.user_code import telling
from dataplane.contract.jobs import ConnectJob, ConnectorJob, ConnectorSettings, ListJob
from dataplane.contract.keys import key_of
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.bounds import ListingBounds
from dataplane.listing.listed_partitions import listed
from dataplane.secrets import resolved
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from dataplane.transform.bundle import Bundle

KIND = "python:"
EACH = 50  # what an object that is held in memory counts for, beside one that is only looked at
_KNOWN = frozenset({"name", "version", "size", "modified_ms", "detail"})


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What the user's functions are called with: `params` of the read component, secrets among them
    as their values."""

    params: Mapping[str, Json] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Object:
    """What `list` named, as `read` gets it."""

    name: str
    version: str
    detail: Json = None


def partitions(job: ListJob) -> Iterator[ListedPartition]:
    """Each object is a partition; its key is its name, as that of a file is."""
    objects = sorted(objects_of(job), key=lambda pair: pair[0])
    before: str | None = None
    for key, source in objects:
        if key == before:
            raise TaskFailure(
                "invalid-object",
                f"list named {source['name']!r} twice",
                file=job["settings"]["main"],
            )
        before = key
        yield listed(key, [source], ())


def check(job: ConnectJob) -> None:
    """Whether the code can be called, and its first object be had. TaskFailure says why not."""
    next(objects_of(job), None)


def objects_of(
    job: ConnectorJob, bounds: ListingBounds | None = None
) -> Iterator[tuple[str, SourceObject]]:
    """With their keys, in the order of the user's code."""
    bounds = bounds or ListingBounds.of(os.environ)
    with user_code(job["settings"]) as (bundle, context), telling(bundle):
        for described in bundle.load().list(context):
            bounds.count(EACH)
            bounds.check_time()
            yield _object(described, job["settings"]["main"])


@contextmanager
def user_code(settings: ConnectorSettings) -> Iterator[tuple[Bundle, SourceContext]]:
    from dataplane.transform.bundle import opened

    params = json.loads(settings["params"])
    values = {
        name: resolved(value) if isinstance(value, str) else value for name, value in params.items()
    }
    with opened(json.loads(settings["modules"]), settings["main"]) as bundle:
        yield bundle, SourceContext(values)


def _object(described: Any, main: str) -> tuple[str, SourceObject]:
    if (
        not isinstance(described, Mapping)
        or not isinstance(described.get("name"), str)
        or not described["name"]
    ):
        _refuse("list has to name objects as {'name': ..., 'version': ...}", described, main)
    if described.get("version") is None:
        _refuse("an object needs a version, which moves when its rows do", described, main)
    if unknown := sorted(map(str, described.keys() - _KNOWN)):
        _refuse(f"an object has no {unknown[0]}: put it into detail", described, main)
    name, key = described["name"], key_of(described["name"], None)
    assert key is not None, "without a template every name is a key"
    source: SourceObject = {
        "name": name,
        "uri": KIND + quote(name),
        "size": int(described.get("size") or 0),
        "modified_ms": int(described.get("modified_ms") or 0),
        "version": f"{KIND}{described['version']}",
        "columns": None,
        "detail": _plain(described.get("detail"), described, main),
    }
    return key, source


def _plain(detail: Any, described: Any, main: str) -> Json:
    try:
        return json.loads(json.dumps(detail, allow_nan=False))
    except (TypeError, ValueError):
        _refuse("detail has to be what JSON can hold", described, main)


def _refuse(message: str, described: Any, main: str) -> NoReturn:
    raise TaskFailure("invalid-object", f"{message}; found {str(described)[:200]}", file=main)

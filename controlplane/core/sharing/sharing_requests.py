"""What clients ask for: forms of answers, a version of a table, changes, pages of a listing. Pure.

Anything that is not understood is refused in words, but for hints, which an answer may ignore.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from controlplane.core.errors import BadAddress, HeadgateError
from controlplane.core.model.addresses import MOST, Moment, moment_of
from controlplane.core.sharing.lines import LOCAL_TIMES, Form, needs_local_times
from dataplane.contract.schemas import Schema

MOST_ON_A_PAGE: Final = 500
MOST_HINTS: Final = 100
_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)


class BadRequest(HeadgateError):
    """A request of a client of Delta Sharing that cannot be answered as it is."""

    code = "invalid-request"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a client can read. `features`: of Delta tables, in lower case."""

    forms: frozenset[str] = frozenset({"parquet"})
    features: frozenset[str] = frozenset()

    def form_for(self, schema: Schema) -> Form:
        """The form of the answer: `delta` only where nothing else is read, or the table has times
        that only it knows. Raises BadRequest."""
        needs_delta = needs_local_times(schema)
        if "parquet" in self.forms and not (needs_delta and "delta" in self.forms):
            return "parquet"
        if "delta" not in self.forms:
            raise BadRequest("responseformat has to be parquet or delta, or both")
        if needs_delta and LOCAL_TIMES not in self.features:
            raise BadRequest(
                f"the table has columns of TIMESTAMP_NTZ, and readerfeatures does not have {LOCAL_TIMES}"
            )
        return "delta"


def capabilities_of(header: str) -> Capabilities:
    """As in `responseformat=delta,parquet;readerfeatures=timestampntz`; unknown ones are left
    out."""
    settings: dict[str, frozenset[str]] = {}
    for part in header.lower().split(";"):
        name, _, values = part.partition("=")
        settings[name.strip()] = frozenset(value.strip() for value in values.split(","))
    return Capabilities(
        settings.get("responseformat", frozenset({"parquet"})),
        settings.get("readerfeatures", frozenset()),
    )


@dataclass(frozen=True, slots=True)
class WantedSnapshot:
    """The newest version where neither `version` nor `at` is given. `limit`: rows that are enough.
    `texts`, `tree`: hints about rows that are kept (`hints`). All three may be ignored."""

    version: int | None = None
    at: Moment | None = None
    limit: int | None = None
    texts: tuple[str, ...] = ()
    tree: str = ""


def snapshot_of(body: bytes) -> WantedSnapshot:
    """Raises BadRequest."""
    try:
        request = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise BadRequest("the body is no JSON") from None
    if not isinstance(request, dict):
        raise BadRequest("the body is no JSON object")
    if "startingVersion" in request or "endingVersion" in request:
        raise BadRequest(
            "a query of several versions is not answered; ask for the changes of the table"
        )
    timestamp = request.get("timestamp")
    if timestamp is not None and not isinstance(timestamp, str):
        raise BadRequest("timestamp is no text")
    snapshot = _snapshot(
        _natural_number(request, "version"),
        _time("timestamp", timestamp),
        _natural_number(request, "limitHint"),
    )
    return _hinted(snapshot, request)


def _hinted(snapshot: WantedSnapshot, body: Mapping[str, object]) -> WantedSnapshot:
    """A limit counts kept rows, and hints mean that not all rows of a file are kept: then it limits
    nothing."""
    texts, tree = body.get("predicateHints"), body.get("jsonPredicateHints")
    if not texts and not tree:
        return snapshot
    sql = tuple(text for text in texts if isinstance(text, str)) if isinstance(texts, list) else ()
    return replace(
        snapshot, limit=None, texts=sql[:MOST_HINTS], tree=tree if isinstance(tree, str) else ""
    )


def head_of(query: Mapping[str, str]) -> WantedSnapshot:
    """The snapshot of a request for metadata. Raises BadRequest."""
    return _snapshot(_number(query, "version"), _time("timestamp", query.get("timestamp")))


def _snapshot(version: int | None, at: Moment | None, limit: int | None = None) -> WantedSnapshot:
    if version is not None and at is not None:
        raise BadRequest("say version or timestamp, and not both")
    return WantedSnapshot(version, at, limit)


@dataclass(frozen=True, slots=True)
class VersionRange:
    """From a version or a time on, up to one, both included; to the newest version without
    `last`."""

    first: int | Moment
    last: int | Moment | None


def changes_of(query: Mapping[str, str]) -> VersionRange:
    """Raises BadRequest."""
    first, last = _end(query, "starting"), _end(query, "ending")
    if first is None:
        raise BadRequest("changes need startingVersion or startingTimestamp")
    return VersionRange(first, last)


def _end(query: Mapping[str, str], which: str) -> int | Moment | None:
    version = _number(query, f"{which}Version")
    at = _time(f"{which}Timestamp", query.get(f"{which}Timestamp"))
    if version is not None and at is not None:
        raise BadRequest(f"say {which}Version or {which}Timestamp, and not both")
    return at if version is None else version


def starting_time_of(query: Mapping[str, str]) -> Moment | None:
    """Raises BadRequest."""
    return _time("startingTimestamp", query.get("startingTimestamp"))


@dataclass(frozen=True, slots=True)
class WantedPage:
    """A page of a listing: the names behind `after` in their order."""

    limit: int
    after: str


def page_of(query: Mapping[str, str]) -> WantedPage:
    """Raises BadRequest."""
    limit = _number(query, "maxResults")
    token = query.get("pageToken", "")
    try:
        after = urlsafe_b64decode(token.encode("ascii")).decode()
    except (UnicodeError, binascii.Error):
        raise BadRequest("pageToken is not one that was given out") from None
    return WantedPage(MOST_ON_A_PAGE if limit is None else min(limit, MOST_ON_A_PAGE), after)


def token_of(name: str) -> str:
    """The token of the page behind this name."""
    return urlsafe_b64encode(name.encode()).decode("ascii")


def _natural_number(body: Mapping[str, object], name: str) -> int | None:
    value = body.get(name)
    if value is None or (type(value) is int and 0 <= value <= MOST):
        return value
    raise BadRequest(f"{name} is no whole number from 0 on")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise BadRequest(f"{name} is no whole number from 0 on")
    return int(text)


def _time(name: str, text: str | None) -> Moment | None:
    if text is None:
        return None
    try:
        return moment_of(text)
    except BadAddress:
        raise BadRequest(f"{name} is no time with a zone such as 2026-11-24T07:00:00Z") from None

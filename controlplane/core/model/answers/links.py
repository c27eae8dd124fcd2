"""Answers about signed links."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.records.formats import Compression, Format


class LinkEntry(TypedDict):
    """A link without its address. `point`: empty for the newest state; `ended`: why it is over,
    empty while it is not."""

    id: str
    branch: str
    dataset: str
    point: str
    format: Format
    compression: Compression | None
    partition: str | None
    columns: list[str]
    where: str | None
    limit: int | None
    by: str
    at: float
    expires: float
    ended: str


class NewLinkAnswer(LinkEntry):
    """`url` is complete. Its holder reads the dataset."""

    url: str


class LinksAnswer(TypedDict):
    items: list[LinkEntry]
    next: str | None

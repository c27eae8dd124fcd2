"""Signed links: addresses under which one dataset is read without a token."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.core.records.formats import Compression, Format


@dataclass(frozen=True, slots=True)
class Link:
    """All that is answered under a link is fixed here. `point`: a generation or a time, empty for
    the newest state; `columns`: all where it is empty. `maker` is the id of the token that made it,
    with which it ends."""

    id: str
    maker: str
    actor: str
    branch: str
    dataset: str
    format: Format
    compression: Compression | None
    point: str
    partition: str | None
    columns: tuple[str, ...]
    where: str | None
    limit: int | None
    at: float
    expires: float
    revoked: bool = False

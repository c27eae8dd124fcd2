"""How requests are written: paths, names in them, and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias
from urllib.parse import quote

from controlplane.core.model.addresses import Generation, Moment, named

Query: TypeAlias = Mapping[str, str | int | Sequence[str]]
Time: TypeAlias = str | datetime  # with a zone


def only_given(**query: str | int | None) -> Query:
    return {k: v for k, v in query.items() if v is not None}


def overriding(override: bool) -> dict[str, str]:
    return {"override": "true"} if override else {}


def refreshing(timeout_s: float | None) -> dict[str, str | int]:
    return {} if timeout_s is None else {"refresh": "true", "timeout_s": f"{timeout_s:g}"}


def match_of(revision: int | None) -> dict[str, str]:
    if revision is None:
        return {}
    return {"If-Match": f'"{revision}"'} if revision else {"If-None-Match": "*"}


def dataset_path(branch: str, name: str) -> str:
    return f"/v1/branches/{segment(branch)}/datasets/{segment(name)}"


def state_path(branch: str, name: str, generation: int | None, at: Time | None) -> tuple[str, Query]:
    """The path of a dataset that an address may name, and which state of it is meant."""
    address = named(name, generation, at)
    match address.point:
        case Generation(number):
            return dataset_path(branch, address.name), {"generation": number}
        case Moment() as moment:
            return dataset_path(branch, address.name), {"at": str(moment)}
        case None:
            return dataset_path(branch, address.name), {}


def segment(text: str) -> str:
    """One segment of a path, whatever the text holds."""
    return quote(text, safe="").replace(".", "%2E") if text in (".", "..") else quote(text, safe="")

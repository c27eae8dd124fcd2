"""Addresses of the S3 view below the bucket, which is the namespace. Pure.

    main/shop/orders/                     the newest state of a dataset
    main/shop/orders@12/                  its generation 12
    main@20261124T070000Z/shop/orders/    its newest state that was committed by then

No colons: paths of Hadoop have none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.core.model.addresses import MOST, Generation, Moment, Point

_REF = re.compile(r"(?P<branch>[a-z0-9][a-z0-9._-]{0,62})(?:@(?P<time>\d{8}T\d{6}Z))?", re.ASCII)
_DATASET = re.compile(r"(?P<name>[^@/]+)(?:@(?P<generation>[1-9][0-9]{0,15}))?", re.ASCII)
_LEVELS = 3  # above the files: ref, dataflow, dataset


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch, and the time as of which it is read."""

    branch: str
    time: Moment | None = None


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A dataset in a ref. `folder` is its address as it was written, with a slash at the end."""

    ref: Ref
    dataflow: str
    dataset: str
    generation: Generation | None
    folder: str

    @property
    def name(self) -> str:
        """As everywhere: `dataflow.dataset`."""
        return f"{self.dataflow}.{self.dataset}"

    @property
    def point(self) -> Point | None:
        """The state that is meant whenever it is read. None: the newest, which moves."""
        return self.generation or self.ref.time


def ref(text: str) -> Ref | None:
    """None for a text that is no ref."""
    match = _REF.fullmatch(text)
    if match is None:
        return None
    if match["time"] is None:
        return Ref(match["branch"])
    try:
        at = datetime.strptime(match["time"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return Ref(match["branch"], Moment(int(at.timestamp()) * 1000 + 999))  # the whole second


def table(ref_text: str, dataflow: str, dataset: str) -> TableAddress | None:
    """None for texts that are no address of a dataset. A ref with a time has no generations."""
    place, match = ref(ref_text), _DATASET.fullmatch(dataset)
    if place is None or match is None or not dataflow:
        return None
    number = int(match["generation"]) if match["generation"] else None
    if number is not None and (place.time is not None or number > MOST):
        return None
    generation = None if number is None else Generation(number)
    return TableAddress(
        place, dataflow, match["name"], generation, f"{ref_text}/{dataflow}/{dataset}/"
    )


def split(path: str) -> tuple[TableAddress, str] | None:
    """The dataset that a path lies in, and the rest of the path."""
    parts = path.split("/", _LEVELS)
    if len(parts) <= _LEVELS:
        return None
    address = table(*parts[:_LEVELS])
    return None if address is None else (address, parts[_LEVELS])

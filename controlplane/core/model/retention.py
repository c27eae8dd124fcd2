"""What the store holds of the past, as collecting and checking see it: pointers to trees, and spans
of states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dataplane.contract.identity import Content, label_of
from dataplane.contract.results import LABEL, FileEntry

PointerKind: TypeAlias = Literal[
    "state", "input", "building", "build", "listing", "target", "task", "publication"
]
"""What holds on to a tree. `input`: what a newest state, or a half-built dataset, was made of.
`build`: a build trace. `task`: the `shared` inputs of queued work."""

HOLDERS: tuple[PointerKind, ...] = (
    "state",
    "input",
    "building",
    "build",
    "listing",
    "target",
    "task",
    "publication",
)
WEAK_POINTERS: tuple[PointerKind, ...] = ("publication",)
"""Pointers whose trees are not read."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """One tree that is in use. `number` is a state's seq; partitions and rows are what a state says
    of its tree."""

    holder: PointerKind
    name: str
    root: bytes
    branch: str = ""
    number: int = 0
    partitions: int = 0
    rows: int = 0

    def __str__(self) -> str:
        words = [self.holder, f"{self.branch}/{self.name}" if self.branch else self.name]
        return " ".join([*words, str(self.number)] if self.number else words)


@dataclass(frozen=True, slots=True)
class Span:
    """The states that are kept of one dataset: the newest, and the oldest with its time."""

    branch: str
    dataset: str
    seq: int
    generation: int
    oldest_seq: int
    oldest_generation: int
    oldest_at: float


@dataclass(frozen=True, slots=True)
class Expired:
    """States of one dataset up to `seq` that are older than `before` and of a generation below
    `generation`."""

    branch: str
    dataset: str
    seq: int
    generation: int
    before: float


@dataclass(frozen=True, slots=True)
class Stored:
    """What a fragment's row says of it."""

    status: str
    content: Content


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one fragment, and the attempt that wrote them."""

    fragment: bytes
    attempt: str
    files: tuple[FileEntry, ...]

    @property
    def is_pack(self) -> bool:
        """Packs are named after themselves, other fragments after the tasks that gave them."""
        return (
            f"{LABEL}={label_of(self.fragment)}" in self.files[0]["path"].split("/")
            if self.files
            else False
        )

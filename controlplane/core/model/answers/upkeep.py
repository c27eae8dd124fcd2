"""Tokens, upkeep and health."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12


class WithinAnswer(TypedDict):
    """Patterns of the names that a token is narrowed to. None of a kind: to nothing."""

    dataflows: list[str]
    datasets: list[str]
    branches: list[str]


class TokenEntry(TypedDict):
    """A token, without its text. `used`: when it was last used, to the minute; None: never."""

    id: str
    name: str
    scopes: list[str]
    at: float
    expires: float | None
    expired: bool
    revoked: bool
    within: WithinAnswer
    used: float | None


class TokensAnswer(TypedDict):
    """All tokens that people made."""

    items: list[TokenEntry]
    next: None


class NewTokenAnswer(TypedDict):
    """A new token; `token` is its text, which is never shown again."""

    token: str
    id: str
    name: str
    namespace: str
    scopes: list[str]
    at: float
    expires: float | None
    within: WithinAnswer


class S3KeyEntry(TypedDict):
    """An S3 key, without its secret. `read`: scopes (docs/s3.md). `parent`: the id of the token
    that made it, with which it ends; empty where it stands alone."""

    access_key: str
    name: str
    read: list[str]
    at: float
    expires: float | None
    expired: bool
    revoked: bool
    parent: str
    used: float | None


class S3KeysAnswer(TypedDict):
    """All S3 keys."""

    items: list[S3KeyEntry]
    next: None


class SessionLinkAnswer(TypedDict):
    """A link that opens one session of the pages, once. `path` begins with a slash; `expires`:
    seconds since 1970."""

    path: str
    expires: float


class NewS3KeyAnswer(TypedDict):
    """A new S3 key, with all the settings of a client; the secret is never shown again."""

    access_key: str
    secret_key: str
    endpoint: str
    region: str
    name: str
    read: list[str]
    at: float
    expires: float | None


class CollectAnswer(TypedDict):
    """How many rows of each kind went, and how many tree nodes are in use. `packs`: how many were
    given up."""

    packs: NotRequired[int]
    states: int
    builds: int
    tasks: int
    events: int
    answers: int
    drivers: int
    attempts: int
    reads: int
    nodes: int
    nodes_in_use: int
    superseded: int
    folders: int
    packages: int


class FindingEntry(TypedDict):
    """One fault: a stable code, the place, the cause, and how to mend it."""

    code: str
    where: str
    what: str
    fix: str


class Repairs(TypedDict):
    """How many fragments were given up, and the datasets (`branch/dataset`) that are made whole
    again."""

    fragments: int
    datasets: list[str]


class FsckAnswer(TypedDict):
    """The faults of the database or the lake. Not `complete`: more may be wrong."""

    findings: list[FindingEntry]
    complete: bool
    repaired: NotRequired[Repairs]


class HealthAnswer(TypedDict):
    """This process is well."""

    status: Literal["ok"]

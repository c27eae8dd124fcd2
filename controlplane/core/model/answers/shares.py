"""Answers about shares and their recipients."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12


class SharedTableEntry(TypedDict):
    """A dataset in a share. `table`: as recipients name it, `schema.table`. `history`: earlier
    generations and changes are given, too."""

    table: str
    branch: str
    dataset: str
    history: bool
    at: float


class ShareEntry(TypedDict):
    """`recipients`: names of those that read it now."""

    name: str
    by: str
    at: float
    tables: list[SharedTableEntry]
    recipients: list[str]


class SharesAnswer(TypedDict):
    items: list[ShareEntry]
    next: str | None


class RecipientEntry(TypedDict):
    """Without the text of its token. `shares`: by name, those that are there."""

    id: str
    name: str
    shares: list[str]
    at: float
    expires: float
    expired: bool
    revoked: bool
    used: float | None


class RecipientsAnswer(TypedDict):
    items: list[RecipientEntry]
    next: str | None


class ProfileFile(TypedDict):
    """What clients of Delta Sharing read,
    https://github.com/delta-io/delta-sharing/blob/main/PROTOCOL.md."""

    shareCredentialsVersion: int
    endpoint: str
    bearerToken: str
    expirationTime: str


class NewRecipientAnswer(RecipientEntry):
    """`profile` is the content of a profile file. Its holder reads the shares."""

    profile: ProfileFile

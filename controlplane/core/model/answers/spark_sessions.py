"""Answers about Spark sessions."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12


class SparkView(TypedDict):
    """A dataset as a session shows it. `name`: of the view, in backquotes where it is written in
    SQL."""

    name: str
    generation: int


class SparkSessionEntry(TypedDict):
    """A session that is open. `at`, `expires`: seconds since 1970."""

    id: str
    branch: str
    by: str
    at: float
    expires: float
    views: list[SparkView]


class NewSparkSessionAnswer(SparkSessionEntry):
    """`url`: for a client of Spark Connect on the service's machine, or on that where `forward`
    runs; its holder may do what the session may. `python`: the lines that connect. `forward`: a
    command that makes a port of the client's machine the session's; None where the session is on
    the service's machine."""

    url: str
    python: str
    forward: str | None


class SparkSessionsAnswer(TypedDict):
    items: list[SparkSessionEntry]
    next: str | None

"""Answers about namespaces."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12


class NamespaceEntry(TypedDict):
    """`by` and `at` are empty for `default`, which was always there. `dataflows`: of its main
    branch; `branches`: beside it; `tasks`: queued and running; `drivers`: drivers and workers that
    run."""

    name: str
    by: str
    at: float
    dataflows: int
    branches: int
    tasks: int
    drivers: int


class NamespacesAnswer(TypedDict):
    items: list[NamespaceEntry]
    next: str | None

"""A blueprint is compiled before the transaction that stores it, and planned after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import StaleRevision
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from controlplane.ports.store import Tx
from controlplane.store import open_store, upgrade

FLOW = "dataflow: %s\ncomponents: {a: {transform: {sql: SELECT %s AS n}}}\n"


class Watched:
    """A store that calls back as each writing transaction begins."""

    def __init__(self, url: str) -> None:
        self._inner = open_store(url)
        self.before_writing: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Tx]:
        while self.before_writing:
            self.before_writing.pop()()
        with self._inner.begin(namespace) as tx:
            yield tx


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    url = f"sqlite:///{tmp_path / 'metadata.db'}"
    upgrade(url)
    found = Watched(url)
    yield found
    found.close()


def apply(store: Any, flow: str, value: int, **options: Any) -> Any:
    source = blueprints.Source(f"/{flow}.yaml", FLOW % (flow, value), {})
    return blueprints.apply(Context(store), "main", [source], **options)


def test_what_others_apply_meanwhile_is_not_lost(store: Any) -> None:
    """The edit was compiled over what was live before."""
    apply(store, "one", 1)
    store.before_writing.append(lambda: apply(store, "other", 2))
    apply(store, "one", 3)
    assert {flow["name"]: flow["revision"] for flow in blueprints.dataflows(Context(store), "main")} == {
        "one": 2,
        "other": 1,
    }


def test_of_two_edits_of_one_revision_the_second_is_refused(store: Any) -> None:
    apply(store, "one", 1)
    store.before_writing.append(lambda: apply(store, "one", 2))
    with pytest.raises(StaleRevision):
        apply(store, "one", 3, expected=1)
    assert "2 AS n" in blueprints.dataflow(Context(store), "main", "one")["text"]


def test_the_answer_is_planned_after_the_commit(store: Any) -> None:
    found = apply(store, "one", 1)
    assert found["revisions"] == {"one": 1}
    assert [item["dataset"] for item in found["plan"]["items"]] == ["one.a"]

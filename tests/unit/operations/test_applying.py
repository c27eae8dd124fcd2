"""A blueprint is compiled before the transaction that stores it, and planned after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import InvalidBlueprint, StaleRevision
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from controlplane.operations.desired.drafts import DraftSet
from controlplane.operations.planning.snapshot import attempt_cached, compile_live
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
    source = blueprints.SentBlueprint(f"/{flow}.yaml", FLOW % (flow, value), {})
    return blueprints.apply(Context(store), "main", [source], **options)


def test_what_others_apply_meanwhile_is_not_lost(store: Any) -> None:
    """The edit was compiled over what was live before."""
    apply(store, "one", 1)
    store.before_writing.append(lambda: apply(store, "other", 2))
    apply(store, "one", 3)
    assert {
        flow["name"]: flow["revision"] for flow in blueprints.dataflows(Context(store), "main")
    } == {
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


READER = """\
dataflow: reports
components:
  daily: {transform: {sql: "SELECT * FROM other.a JOIN one.a USING (n)"}}
  copy: {write: {connector: files, from: one.a, path: /out, format: csv}}
  total: {transform: {sql: SELECT count(*) AS n FROM daily}}
"""


def refused(act: Callable[[], object]) -> list[str]:
    with pytest.raises(InvalidBlueprint) as caught:
        act()
    return [f"{p.line}:{p.column} {p.code}: {p.message} ({p.hint})" for p in caught.value.problems]


def test_an_attempt_with_problems_is_not_remembered() -> None:
    """Wrong columns are a problem of a text that is sent, not of one that an earlier release
    stored."""
    text = 'dataflow: f\ncomponents: {a: {transform: {sql: SELECT 1 AS n}, expect: [{check: "m > 1"}]}}\n'
    draft_set = DraftSet.of([blueprints.SentBlueprint("/f.yaml", text, {})])
    sent = attempt_cached(draft_set.revisions, "default", draft_set.by_flow)
    assert [problem.code for problem in sent.problems] == ["unknown-column"]
    assert attempt_cached(draft_set.revisions, "default").problems == ()
    assert compile_live(draft_set.revisions, "default").nodes.keys() == {"f.a"}


def test_a_dataflow_that_others_read_is_not_deleted_and_they_are_named(store: Any) -> None:
    apply(store, "one", 1)
    apply(store, "other", 1)
    blueprints.apply(
        Context(store), "main", [blueprints.SentBlueprint("/reports.yaml", READER, {})]
    )
    assert refused(lambda: blueprints.delete(Context(store), "main", "one")) == [
        "3:56 still-read: reports.daily reads one.a (delete these first: the component daily, or the dataflow reports)",
        "4:42 still-read: reports.copy reads one.a (delete these first: the component copy, or the dataflow reports)",
    ]
    blueprints.delete(Context(store), "main", "reports")
    assert blueprints.delete(Context(store), "main", "one")["deleted"] == "one"


def test_a_set_with_one_bad_blueprint_is_refused_with_what_is_wrong_beside_what_is_live(
    store: Any,
) -> None:
    apply(store, "one", 1)
    bad = "dataflow: two\ncomponents:\n  b: {transform: {sql: SELECT * FROM one.a JOIN one.c}, colour: red}\n"
    good = "dataflow: three\ncomponents:\n  a: {transform: {sql: SELECT * FROM two.b JOIN two.c}}\n"
    sources = [
        blueprints.SentBlueprint("/two.yaml", bad, {}),
        blueprints.SentBlueprint("/three.yaml", good, {}),
    ]
    found = refused(lambda: blueprints.apply(Context(store), "main", sources))
    assert [line.partition(" (")[0] for line in found] == [
        "3:49 missing-input: there is no dataset 'two.c'",
        "3:49 missing-input: there is no dataset 'one.c'",
        "3:57 unknown-key: there is no key 'colour' here",
    ]
    assert [flow["name"] for flow in blueprints.dataflows(Context(store), "main")] == ["one"]

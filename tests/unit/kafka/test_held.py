"""What a topic holds by key, and what it takes to make it hold something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane.connectors.kafka.key_cache import ROWS, Change, KeyCache, opened
from dataplane.task_failures import TaskFailure


@pytest.fixture
def held(tmp_path: Path) -> Iterator[KeyCache]:
    with opened(tmp_path / "held.db") as found:
        yield found


def sent(held: KeyCache) -> list[Change]:
    count, found = held.settle(), list(held.outgoing())
    assert count == len(found)
    return found


def test_what_a_log_leaves_behind(held: KeyCache) -> None:
    held.replay([(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", b"1")])
    held.add("f", [(b"a", b"2")])
    assert sent(held) == [(b"c", None)]


def test_only_what_differs_goes_out(held: KeyCache) -> None:
    held.replay([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    held.add("f", [(b"a", b"1"), (b"b", b"2")])
    held.add("g", [(b"d", b"1")])
    assert sent(held) == [(b"b", b"2"), (b"c", None), (b"d", b"1")]
    assert held.fragments() == {"f", "g"}


def test_a_row_that_moves_stays(held: KeyCache) -> None:
    held.replay([])
    held.add("f", [(b"a", b"1"), (b"b", b"1")])
    held.connection.execute("DELETE FROM outgoing")
    held.drop(["f"])
    held.add("g", [(b"a", b"1")])
    assert sent(held) == [(b"b", None)]


def test_a_key_has_one_row(held: KeyCache) -> None:
    with pytest.raises(TaskFailure, match="the key a:") as failure:
        held.add("f", [(b"a", b"1"), (b"b", b"1"), (b"a", b"1")])
    assert failure.value.condition == "key-not-unique"
    held.add("f", ((b"%d" % n, b"1") for n in range(ROWS + 1)))
    with pytest.raises(TaskFailure, match="the key 7:"):
        held.add("g", [(b"7", b"1")])


def test_nothing_is_known_that_was_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "held.db"
    with opened(file) as held:
        held.replay([(b"a", b"1")])
        held.add("f", [(b"a", b"1")])
        held.keep({"as of": 1})
    with opened(file) as held:
        held.drop(["f"])
        held.settle()
    with opened(file) as held:
        assert held.mark() == {"as of": 1}
        assert held.fragments() == {"f"}
    file.write_bytes(b"no database" * 1000)
    with opened(file) as held:
        assert held.mark() is None

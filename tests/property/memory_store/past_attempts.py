"""Attempts that are over, in memory: the twin of `sql.past_attempts`. Does not belong here: the use
of these records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from controlplane.core.model.past_attempts import (
    COST_ATTEMPTS,
    Cost,
    PastAttempt,
    TaskShare,
    cost,
    is_measured,
    share,
)
from controlplane.core.model.revisions import MAIN
from tests.property.memory_store.queue import MemoryPart


class MemoryPastAttempts(MemoryPart):
    def put_past_attempts(self, attempts: Sequence[PastAttempt]) -> None:
        for one in attempts:
            self._space.past_attempts.setdefault((one.id, one.branch), one)

    def _newest_past(self) -> Iterator[PastAttempt]:
        return iter(
            sorted(self._space.past_attempts.values(), key=lambda a: (-a.ended_at, a.id, a.branch))
        )

    def newest_past(
        self, branch: str, datasets: Iterable[str], *, limit: int
    ) -> tuple[PastAttempt, ...]:
        wanted = set(datasets)
        theirs = (a for a in self._newest_past() if a.branch == branch and a.dataset in wanted)
        return tuple(islice(theirs, limit))

    def past_costs(self, branch: str, datasets: Iterable[str]) -> Mapping[str, Cost]:
        wanted = set(datasets)
        known: dict[str, dict[str, PastAttempt]] = {}
        for one in self._newest_past():
            if one.dataset in wanted and one.branch in (branch, MAIN) and is_measured(one):
                known.setdefault(one.dataset, {}).setdefault(one.id, one)
        return {
            name: cost(map(_share, islice(of.values(), COST_ATTEMPTS)))
            for name, of in known.items()
        }

    def drop_past_attempts(self, before: float, limit: int) -> int:
        old = [one.id for one in self._space.past_attempts.values() if one.ended_at < before]
        named = set(old[:limit])
        gone = [key for key in self._space.past_attempts if key[0] in named]
        for key in gone:
            del self._space.past_attempts[key]
        return len(gone)


def _share(one: PastAttempt) -> TaskShare:
    assert one.seconds is not None
    return share(one.seconds, one.done, one.rows, one.bytes_written)

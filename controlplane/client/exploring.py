"""Looking through what there is: graphs, searches, waves, ranges, profiles."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from controlplane.client.connection import HttpConnection
from controlplane.client.requests import Time, state_of
from controlplane.core import rest
from controlplane.core.model.addresses import moment_of, named

if TYPE_CHECKING:
    from controlplane.core.model.answers.explore import (
        Collapse,
        GraphAnswer,
        PartitionAnswer,
        RangesAnswer,
        SearchAnswer,
        WaveAnswer,
        WavesAnswer,
    )
    from controlplane.core.model.answers.profiles import ProfileAnswer, ProfileHistoryAnswer


class ExploreCalls(HttpConnection):
    """Graphs, searches, waves, ranges, profiles."""

    def graph(
        self,
        dataflow: str | None = None,
        *,
        around: str | None = None,
        up: int | None = None,
        down: int | None = None,
        collapse: Collapse | None = None,
        branch: str = "main",
        limit: int | None = None,
    ) -> GraphAnswer:
        """Datasets, how they read each other, and how each stands: of a dataflow, of the
        neighbourhood of `around`, or of all. `collapse`: those of one dataflow or tag as one."""
        shown = {
            "dataflow": dataflow,
            "around": around,
            "up": up,
            "down": down,
            "collapse": collapse,
        }
        return self._call(rest.GRAPH, branch=branch, limit=limit, **shown)

    def search(self, query: str, *, branch: str = "main", limit: int | None = None) -> SearchAnswer:
        """Datasets with all of these words, the best first. `col:`, `tag:`, `owner:`, `state:` and
        `is:` say where one is."""
        return self._call(rest.SEARCH, q=query, branch=branch, limit=limit)

    def waves(
        self,
        dataflow: str | None = None,
        *,
        branch: str = "main",
        before: str | None = None,
        limit: int | None = None,
    ) -> WavesAnswer:
        """Commits that one thing led to, the last ones first. `before`: the `next` of the page
        before."""
        return self._call(rest.WAVES, branch=branch, dataflow=dataflow, before=before, limit=limit)

    def wave(self, id: str, *, branch: str = "main") -> WaveAnswer:
        """One wave, with its commits and the datasets that it left alone."""
        return self._call(rest.WAVE, branch=branch, wave=id)

    def ranges(
        self,
        name: str,
        *,
        generation: int | None = None,
        at: Time | None = None,
        against: int | Time | None = None,
        after: str | None = None,
        last: str | None = None,
        cells: int | None = None,
        branch: str = "main",
    ) -> RangesAnswer:
        """Partitions as ranges of their keys. `against`: a generation or time to compare with.
        `after` and `last`: of a range, to look into it."""
        other = str(moment_of(against)) if isinstance(against, datetime) else against
        bounds = {"from": after, "to": last}  # `from` is a word of Python's
        state = state_of(name, generation, at)
        return self._call(rest.RANGES, branch=branch, against=other, cells=cells, **bounds, **state)

    def partition(
        self,
        name: str,
        key: str,
        *,
        branch: str = "main",
        generation: int | None = None,
        at: Time | None = None,
    ) -> PartitionAnswer:
        """One partition: files, attempt, inputs and readers."""
        return self._call(rest.PARTITION, branch=branch, key=key, **state_of(name, generation, at))

    def profile(
        self,
        name: str,
        *,
        partition: str | None = None,
        column: str | None = None,
        generation: int | None = None,
        at: Time | None = None,
        branch: str = "main",
    ) -> ProfileAnswer:
        """The profile of each column of one generation, or of one partition (docs/profiles.md).
        `is_partial`: a further request gives the rest."""
        state = state_of(name, generation, at)
        return self._call(rest.PROFILE, branch=branch, partition=partition, column=column, **state)

    def profile_history(
        self, name: str, *, column: str | None = None, branch: str = "main"
    ) -> ProfileHistoryAnswer:
        """The profiles of each column in the last generations, oldest first, and where they
        moved."""
        dataset = named(name, None, None).name
        return self._call(rest.PROFILE_HISTORY, branch=branch, dataset=dataset, column=column)

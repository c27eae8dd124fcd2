"""Work: runs, attempts, tasks, logs of drivers, and events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from controlplane.client.connection import HttpConnection
from controlplane.core import rest

if TYPE_CHECKING:
    from controlplane.core.model.answers import EventRecord, TasksAnswer
    from controlplane.core.model.answers.spending import CostAnswer
    from controlplane.core.model.answers.work import AttemptsAnswer, PastRunAnswer, PastRunsAnswer

QUIET_LIMIT_S = 60.0  # a stream of events says something at least every 15 s


class WorkCalls(HttpConnection):
    """Runs, attempts, tasks, logs of drivers, and events."""

    def attempts(self, name: str, *, branch: str = "main", limit: int = 100) -> AttemptsAnswer:
        """Attempts at a dataset that are over, the last ones first."""
        answer = self._call(rest.TASKS, branch=branch, dataset=name, state="ended", limit=limit)
        return cast("AttemptsAnswer", answer)

    def runs(
        self, target: str | None = None, *, branch: str = "main", limit: int = 20
    ) -> PastRunsAnswer:
        """The last runs that reached the target, the last ones first."""
        return self._call(rest.PAST_RUNS, branch=branch, target=target, limit=limit)

    def past_run(self, id: str, *, branch: str = "main") -> PastRunAnswer:
        """One run, with its steps and its attempts."""
        return self._call(rest.PAST_RUN, branch=branch, run=id)

    def cost(
        self,
        target: str | None = None,
        *,
        branch: str = "main",
        days: int = 7,
        limit: int = 100,
    ) -> CostAnswer:
        """What work of the last days cost, by dataflow, component, owner and day."""
        return self._call(rest.COST, branch=branch, target=target, days=days, limit=limit)

    def events(
        self, after: int | None = None, *, branch: str = "main", follow: bool = True
    ) -> Iterator[EventRecord | None]:
        """Events of a branch, and those of no branch, after an id (None: from now on), in order;
        None in between shows that the connection lives."""
        with self._stream(
            rest.EVENTS, QUIET_LIMIT_S, after=after, branch=branch, follow=follow
        ) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))
                elif line.startswith(":"):
                    yield None

    def tasks(
        self, name: str, *, branch: str = "main", after: int = 0, limit: int = 100
    ) -> TasksAnswer:
        answer = self._call(rest.TASKS, branch=branch, dataset=name, after=after, limit=limit)
        return cast("TasksAnswer", answer)

    def log(self, attempt: str, *, tail: int = 200) -> str:
        """The last lines of the log of an attempt's driver."""
        return self._text(rest.ATTEMPT_LOG, attempt=attempt, tail=tail)

    def dataset_log(self, name: str, *, branch: str = "main", tail: int = 200) -> str:
        """The last lines of the log of the driver of a dataset's newest attempt."""
        return self._text(rest.DATASET_LOG, branch=branch, dataset=name, tail=tail)

    def driver_log(self, driver: str, *, tail: int = 200) -> str:
        """The last lines of the log of a driver or worker."""
        return self._text(rest.DRIVER_LOG, driver=driver, tail=tail)

"""Work: runs, attempts, tasks, logs of drivers, and events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx2

from controlplane.client.connection import CONNECT_TIMEOUT_S, Connection, value_of
from controlplane.client.requests import dataset_path, only_given, segment

if TYPE_CHECKING:
    from controlplane.core.model.answers import EventRecord, TasksAnswer
    from controlplane.core.model.answers.work import AttemptsAnswer, PastRunAnswer, PastRunsAnswer

QUIET_LIMIT_S = 60.0  # a stream of events says something at least every 15 s


class Work(Connection):
    """Runs, attempts, tasks, logs of drivers, and events."""

    def attempts(self, name: str, *, branch: str = "main", limit: int = 100) -> AttemptsAnswer:
        """Attempts at a dataset that are over, the last ones first."""
        query = only_given(state="ended", limit=limit)
        return self._get(f"{dataset_path(branch, name)}/tasks", query)

    def runs(self, target: str | None = None, *, branch: str = "main", limit: int = 20) -> PastRunsAnswer:
        """The last runs that reached the target, the last ones first."""
        path = f"/v1/branches/{segment(branch)}/runs"
        return self._get(path, only_given(target=target, limit=limit))

    def past_run(self, id: str, *, branch: str = "main") -> PastRunAnswer:
        """One run, with its steps and its attempts."""
        return self._get(f"/v1/branches/{segment(branch)}/runs/{segment(id)}")

    def events(
        self, after: int | None = None, *, branch: str = "main", follow: bool = True
    ) -> Iterator[EventRecord | None]:
        """Events of a branch, and those of no branch, after an id (None: from now on), in order; None in between shows
        that the connection lives."""
        query = only_given(after=after, branch=branch, follow=str(follow).lower())
        timeout = httpx2.Timeout(QUIET_LIMIT_S, connect=CONNECT_TIMEOUT_S)
        with self._http.stream("GET", "/v1/events", params=query, timeout=timeout) as response:
            if response.status_code >= 400:
                response.read()
                value_of(response)
            for line in response.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))
                elif line.startswith(":"):
                    yield None

    def tasks(self, name: str, *, branch: str = "main", after: int = 0, limit: int = 100) -> TasksAnswer:
        return self._get(f"{dataset_path(branch, name)}/tasks", {"after": after, "limit": limit})

    def log(self, attempt: str, *, tail: int = 200) -> str:
        """The last lines of the log of an attempt's driver."""
        return self._text(f"/v1/attempts/{segment(attempt)}/log", tail)

    def dataset_log(self, name: str, *, branch: str = "main", tail: int = 200) -> str:
        """The last lines of the log of the driver of a dataset's newest attempt."""
        return self._text(f"{dataset_path(branch, name)}/log", tail)

    def driver_log(self, driver: str, *, tail: int = 200) -> str:
        """The last lines of the log of a driver or worker."""
        return self._text(f"/v1/drivers/{segment(driver)}/log", tail)

    def _text(self, path: str, tail: int) -> str:
        response = self._http.get(path, params={"tail": tail})
        return response.text if response.status_code < 400 else str(value_of(response))

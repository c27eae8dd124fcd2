"""`branch merge` waits for what is missing while somebody is at it, and no longer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.cli.branches import _when_ready
from controlplane.client import ApiError


class Scripted:
    """A service that has `steps` left to do: one for each event that it tells. It merges when none
    is left."""

    def __init__(self, steps: int, *, fails: bool = False) -> None:
        self.steps, self.fails, self.attempts = steps, fails, 0

    def status(self, target: str | None = None, *, branch: str = "main") -> dict[str, Any]:
        done = "failed" if self.fails else "up_to_date"
        state = "building" if self.steps and branch == "dev" else done
        return {"state": state, "dataflows": [{"datasets": [{"state": state}], "targets": []}]}

    def events(self, branch: str) -> Iterator[None]:
        while True:
            self.steps -= 1
            yield

    def require_service(self) -> Scripted:
        return self

    def merge(self) -> Any:
        self.attempts += 1
        if self.steps or self.fails:
            raise ApiError(
                409,
                {"type": "urn:headgate:merge-not-ready", "status": 409, "detail": "", "errors": []},
            )
        return {"merged": True}


def merged(service: Any) -> Any:
    return _when_ready(service, service, ("dev", "main"), service.merge)


@pytest.mark.parametrize(("steps", "attempts"), [(0, 1), (3, 2)])
def test_it_waits_until_the_branch_rests(steps: int, attempts: int) -> None:
    service = Scripted(steps)
    assert merged(service) == {"merged": True}
    assert service.attempts == attempts


@pytest.mark.parametrize(("steps", "attempts"), [(0, 1), (3, 2)])
def test_what_does_not_come_by_itself_is_told(steps: int, attempts: int) -> None:
    service = Scripted(steps, fails=True)
    with pytest.raises(ApiError):
        merged(service)
    assert service.attempts == attempts

"""A pool of drivers that are started and ended outside of Headgate."""

from __future__ import annotations

from collections.abc import Collection

from controlplane.core.errors import LogGone
from controlplane.core.model.drivers import Driver
from controlplane.core.model.namespaces import DEFAULT
from controlplane.core.model.scaling import PoolShare
from controlplane.core.model.tasks import Size


class ExternalPool:
    """A pool of drivers that are started and ended outside Headgate (HEADGATE_POOL=none)."""

    name = "none"
    outlives = True
    shares: tuple[PoolShare, ...] = ()

    def scale(
        self,
        kind: str,
        count: int,
        size: Size = "standard",
        busy: Collection[str] = (),
        *,
        namespace: str = DEFAULT,
    ) -> None:
        """Not ours to start."""

    def end(self, driver: str, reason: str) -> None:
        """Not ours to end."""

    def poll(self) -> tuple[Driver, ...]:
        return ()

    def log(self, driver: str, lines: int) -> str:  # noqa: ARG002  # as of every pool
        raise LogGone(
            f"{driver} was started outside of Headgate (HEADGATE_POOL=none):"
            " its log is where it was started"
        )

    def close(self) -> None:
        """Not ours to end."""

"""Who asks, and of which store. Every operation that a user can call takes one of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controlplane.ports import Store


def _nobody() -> None:
    """Nudge nobody."""


@dataclass(frozen=True, slots=True)
class Context:
    """`wake` nudges the loop and waiting claims after a change."""

    store: Store
    namespace: str = "default"
    actor: str = "local"
    request_id: str = ""
    wake: Callable[[], None] = _nobody
    lake: str = ""  # URI of the lake, for the addresses of tables

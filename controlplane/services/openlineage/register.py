"""Lineage events of one namespace, as the loop exports them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from controlplane.settings import Settings

if TYPE_CHECKING:
    from controlplane.ports.store import Store
    from controlplane.services.openlineage.export import Export


def export(
    settings: Settings, store: Store, namespace: str, count: Callable[[str], None], ends: ExitStack
) -> Export | None:
    """None where the settings name no service. `count` is called with the outcome of each event;
    `ends` closes the connection."""
    if settings.openlineage is None:
        return None
    from controlplane.services.openlineage.adapter import HttpSink
    from controlplane.services.openlineage.export import Export

    sink = HttpSink(settings.openlineage, settings.openlineage_token)
    ends.callback(sink.close)
    return Export(store, namespace, sink, settings.lake, count)

"""How far the export of lineage is."""

from __future__ import annotations

from typing import Final

from controlplane.ports.store import Tx

CURSOR: Final = "openlineage"


def behind(tx: Tx) -> int | None:
    """How many events are not processed yet; None where nothing was ever exported."""
    cursor = tx.events.cursor(CURSOR)
    return None if cursor is None else max(0, tx.events.last() - cursor)

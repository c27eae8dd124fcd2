"""Where a loop publishes whose tables nobody reads."""

from __future__ import annotations

from controlplane.core.model.projections import Table


class Nowhere:
    """Tables that nobody reads."""

    def publish(self, table: Table, told: object = None) -> int:
        return table.generation

    def close(self) -> None:
        """Nothing to end."""

"""Where a loop publishes whose tables nobody reads."""

from __future__ import annotations

from controlplane.core.model.projections import TableContent


class Nowhere:
    """Tables that nobody reads."""

    def publish(self, table: TableContent, told: object = None) -> int:
        return table.generation

    def close(self) -> None:
        """Nothing to end."""

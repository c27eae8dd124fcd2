"""What a component needs of its dataflow's time zone: days and hours of `volatile:`, and the clock
of its SQL."""

from __future__ import annotations

from controlplane.core import sql, zone_periods
from controlplane.core.blueprint import Component
from controlplane.core.blueprint.lasting import PERIODS


def zone_fault(component: Component, query: sql.AnalysedQuery | None, timezone: str) -> str | None:
    """Why days and hours of this zone cannot be determined: here, and not by Spark."""
    if component.volatile not in PERIODS and not (query and query.reads_clock):
        return None
    try:
        zone_periods.zone(timezone)
    except zone_periods.UnknownZone as e:
        return str(e)
    return None

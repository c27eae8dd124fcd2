"""What a component needs of its dataflow's time zone: days and hours of `volatile:`, the clock of
its SQL, and the times of cron expressions."""

from __future__ import annotations

from controlplane.core import sql, zone_periods
from controlplane.core.blueprint import Component, Read
from controlplane.core.blueprint.lasting import PERIODS


def zone_fault(component: Component, query: sql.AnalysedQuery | None, timezone: str) -> str | None:
    """Why days and hours of this zone cannot be determined: here, and not by Spark."""
    is_read_by_cron = isinstance(component.body, Read) and component.body.cron is not None
    is_by_clock = component.volatile in PERIODS or (query is not None and query.reads_clock)
    if not is_by_clock and not is_read_by_cron:
        return None
    try:
        zone_periods.zone(timezone)
    except zone_periods.UnknownZone as e:
        return str(e)
    return None

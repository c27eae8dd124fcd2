"""The services of the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

from controlplane.parts.driver_pools import DriverPools
from controlplane.parts.foundation import Foundation

if TYPE_CHECKING:
    from controlplane.api.driver_services import DriverServices
    from controlplane.api.services import Services
    from controlplane.issuers.identity_tokens import JwtIssuers
    from controlplane.ports.issuers import SignOn


def driver_services(foundation: Foundation, pools: DriverPools) -> DriverServices:
    from controlplane.api.driver_services import DriverServices
    from controlplane.lake.lake_objects import open_lake

    liveness = pools.liveness
    return DriverServices(
        foundation.store,
        open_lake(foundation.settings.lake),
        foundation.wake,
        counters=foundation.counters,
        stopping=foundation.stopping,
        failing_units=foundation.failing_units,
        planners=foundation.planners,
        batch_sizes=foundation.batch_sizes,
        note_call=liveness.note,
        has_spark=liveness.note_spark,
        note_unknown_call=liveness.note_unknown_call,
        notify=foundation.notify,
        kinds=foundation.role.kinds,
        exports=foundation.settings.openlineage is not None,
        hosts=foundation.settings.hosts,
    )


def build_services(
    foundation: Foundation,
    pools: DriverPools,
    drivers: DriverServices,
    unready: Callable[[], str],
    is_alive: Callable[[], bool],
) -> Services:
    """Queries have processes once there is one, which `foundation.ends` ends."""
    from controlplane.api.services import Services
    from controlplane.issuers.identity_tokens import JwtIssuers
    from controlplane.lake.checkpoints import make_checkpoint
    from controlplane.lake.contents import damages
    from controlplane.services.examples.register import examples
    from controlplane.services.queries import register as row_queries
    from controlplane.services.sessions.register import sessions

    settings, role, ends, stopping = (
        foundation.settings,
        foundation.role,
        foundation.ends,
        foundation.stopping,
    )
    lake = drivers.lake
    results = foundation.home.path / "queries"
    issuers = JwtIssuers()
    return Services(
        **{part.name: getattr(drivers, part.name) for part in fields(drivers)},
        render=row_queries.records(settings.lake, ends),
        log=pools.log,
        unready=unready,
        is_alive=is_alive,
        packages=pools.packages,
        damages=partial(damages, lake.uri),
        compare=row_queries.comparison(lake.uri, stopping),
        render_changes=row_queries.changes(lake.uri, stopping),
        queries=row_queries.queries(
            settings, results, foundation.s3_secret, ends, is_service=role.has_spark
        ),
        spark_sessions=sessions(settings, foundation.store, ends, is_service=role.has_spark),
        examples=examples(settings, ends, is_service=role.leads),
        s3_secret=foundation.s3_secret(),
        checkpoint=make_checkpoint,
        issuers=issuers,
        sign_on=_sign_on(foundation, issuers),
        is_shown_only=not role.has_actions,
        analyser=(lambda: "") if role.kinds is None else pools.require_driver,
    )


def _sign_on(foundation: Foundation, issuers: JwtIssuers) -> SignOn | None:
    """Sign-on of people at the issuer of the settings. MissingPackage where a package that it needs
    is not installed."""
    settings = foundation.settings
    if settings.sign_on is None or not foundation.role.leads:
        return None
    from controlplane.issuers.identity_tokens import library
    from controlplane.issuers.oidc_sign_on import OidcSignOn

    library()
    return OidcSignOn(settings.sign_on, issuers)

"""The foundation of all parts: settings and role, home, store, the wakes, failures and counters of
this process."""

from __future__ import annotations

import os
import secrets
import threading
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from controlplane.core.redaction import remember
from controlplane.home import Home
from controlplane.parts.process_roles import ROLES, RoleName
from controlplane.settings import BadSetting, Settings, secrets_in

if TYPE_CHECKING:
    from controlplane.api.driver_services import Counters
    from controlplane.core.model.alerts import Channel
    from controlplane.operations.context import Context
    from controlplane.operations.failing_units import FailingUnits
    from controlplane.operations.planning.branch_view import Planners
    from controlplane.operations.work.batch_sizes import BatchSizes
    from controlplane.ports.store import Store
    from controlplane.reconciler.wake import WakeCounter


class Foundation:
    """Each part pushes its end on `ends` as it begins, so that they end in the opposite order."""

    url: str  # of the API, once it is bound

    def __init__(self, settings: Settings, role: RoleName) -> None:
        self.settings, self.role, self.home = settings, ROLES[role], Home(settings.home)
        self.ends = ExitStack()
        self.stopping = threading.Event()
        remember(secrets_in(os.environ, settings))

    @cached_property
    def store(self) -> Store:
        from controlplane.store import open_store, upgrade

        upgrade(self.settings.database_url)
        return open_store(self.settings.database_url)

    @cached_property
    def wake(self) -> WakeCounter:
        from controlplane.reconciler.wake import WakeCounter

        return WakeCounter()

    @cached_property
    def counters(self) -> Counters:
        from controlplane.api.driver_services import Counters

        return Counters()

    @cached_property
    def failing_units(self) -> FailingUnits:
        """The failures of the loop, which outlive its terms."""
        from controlplane.operations.failing_units import FailingUnits

        return FailingUnits()

    @cached_property
    def planners(self) -> Planners:
        from controlplane.operations.planning.branch_view import Planners

        return Planners()

    @cached_property
    def batch_sizes(self) -> BatchSizes:
        from controlplane.operations.work.batch_sizes import BatchSizes

        return BatchSizes(self.settings.batch_s)

    @cached_property
    def notify(self) -> tuple[Channel, ...]:
        """The installation's channels for alerts. BadSetting where the file cannot be used."""
        path, pool = self.settings.notify, self.settings.pool
        if path is None:
            return ()
        from controlplane.core.blueprint.notify import parse_channels
        from controlplane.core.errors import InvalidBlueprint

        try:
            channels = parse_channels(path.read_bytes(), file=str(path))
        except OSError as e:
            raise BadSetting(
                f"HEADGATE_NOTIFY is {str(path)!r}, which cannot be read: {e.strerror}"
            ) from e
        except InvalidBlueprint as e:
            raise BadSetting(
                "; ".join(f"{p.file}:{p.line}:{p.column}: {p.summary}" for p in e.problems)
            ) from e
        if pool != "local" and any(channel.to == "command" for channel in channels):
            raise BadSetting(
                f"{path} has a command, which only local workers run; HEADGATE_POOL is {pool!r}"
            )
        return channels

    def context(self, actor: str) -> Context:
        """For operations that this process itself asks for."""
        from controlplane.operations.context import Context

        return Context(
            self.store,
            actor=actor,
            request_id=secrets.token_hex(16),
            wake=self.wake.notify,
            lake=self.settings.lake,
            planners=self.planners,
            batch_sizes=self.batch_sizes,
            failing_units=self.failing_units,
            notify=self.notify,
            exports=self.settings.openlineage is not None,
        )

    def first_token(self) -> str:
        """The home's own token; made at the first start, and again if it is lost or revoked, unless
        one was chosen."""
        from controlplane.operations.context import Context
        from controlplane.operations.desired import tokens

        chosen, local = self.settings.admin_token, Context(self.store, actor="local")
        if chosen is not None:
            tokens.admit(local, chosen, "admin", ("admin",))
            self.home.keep_token(chosen)
            return chosen
        text = self.home.token()
        if text is None or tokens.authenticate(self.store, text) is None:
            text, _ = tokens.create(local, "home", ("admin",))
            self.home.keep_token(text)
        return text

    def s3_secret(self) -> bytes:
        """The installation's, from which the secrets of S3 keys are made: the one that was chosen,
        or that of the first token that was chosen, or the home's."""
        from controlplane.operations.desired import s3_keys

        text, shared = self.settings.s3_secret, self.settings.admin_token
        if text is None:
            text = self.home.s3_secret() if shared is None else s3_keys.installation_secret(shared)
        remember([text])
        return text.encode()

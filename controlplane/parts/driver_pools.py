"""The pools in which the drivers and workers of a process run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.parts.foundation import Foundation
from controlplane.settings import BadSetting

if TYPE_CHECKING:
    from controlplane.drivers.liveness import Liveness
    from controlplane.drivers.tracked import TrackedPool
    from controlplane.drivers.user import User
    from controlplane.ports.pool import NamespacedPool

DRIVER_TOKEN_S = 30 * 86400.0


class DriverPools:
    def __init__(self, foundation: Foundation) -> None:
        self._foundation, self._settings = foundation, foundation.settings
        self._no_driver = ""  # why the driver of our own ended

    @cached_property
    def own(self) -> TrackedPool:
        """The pool of a process that has one for as long as it lives."""
        return self.open(self._foundation.ends)

    def open(self, ends: ExitStack) -> TrackedPool:
        """A pool until `ends`. Its first worker starts while we go on, and waits at the socket."""
        from controlplane.drivers.tracked import TrackedPool

        pool = TrackedPool(self.make(self._foundation.wake.notify_all))
        ends.callback(pool.close)
        if not pool.outlives:
            pool.scale("worker", 1)
        return pool

    def make(self, nudge: Callable[[], None] | None) -> NamespacedPool:
        """`nudge` is called when drivers may have changed; None: the pool only reads logs."""
        if self._settings.pool == "none":
            from controlplane.drivers.external import ExternalPool

            return ExternalPool()
        if self._settings.pool == "kubernetes":
            return self._kubernetes(nudge)
        from controlplane.drivers.local_pool import LocalPool

        return LocalPool(
            self._foundation.url,
            self._foundation.home.path,
            self._mint,
            liveness=self.liveness,
            silent_s=self._settings.silent_s,
            user=self._user,
            own=self._folder,
            driver_idle_s=self._settings.driver_idle_s,
        )

    def _kubernetes(self, nudge: Callable[[], None] | None) -> NamespacedPool:
        from controlplane.drivers.cluster_settings import api_of, read_pools

        cluster = read_pools(self._settings)
        api = api_of(cluster, self._settings)()
        from controlplane.drivers.kubernetes import KubernetesPool

        named = replace(cluster, url=cluster.url or self._foundation.url)
        keep = self._foundation.role.leads or nudge is None
        return KubernetesPool(named, api, self._mint, keep=keep, nudge=nudge)

    def _mint(self, driver: str) -> str:
        """A token for one driver of the pool, in the namespace of the driver's id."""
        from controlplane.core.model import namespaces
        from controlplane.operations.desired import tokens

        theirs = replace(self._foundation.context("pool"), namespace=namespaces.of_id(driver))
        text, _ = tokens.create(
            theirs, f"of {driver}", ("driver",), subject=driver, ttl_s=DRIVER_TOKEN_S
        )
        return text

    @cached_property
    def liveness(self) -> Liveness:
        from controlplane.drivers.liveness import Liveness

        return Liveness()

    def log(self, driver: str, lines: int) -> str:
        """The log of a driver. Any process can read it, by a pool of its own that starts, ends and
        follows nothing."""
        with closing(self.make(None)) as reading:
            return reading.log(driver, lines)

    def require_driver(self) -> str:
        """Have one driver, which ends with this process. Why there is none, if it ended by
        itself."""
        from controlplane.core.errors import PoolUnavailable

        try:
            ended = [d.reason for d in self.own.poll() if d.kind == "driver" and d.ended]
            if ended:
                self._no_driver = ended[0]
            if not self._no_driver:
                self.own.scale("driver", 1)
        except PoolUnavailable as e:
            return str(e)
        return self._no_driver

    def packages(self, namespace: str) -> Callable[[Collection[str]], int]:
        """Forgets packages that drivers of this home installed for a namespace."""
        from controlplane.drivers.package_folders import forget, own_of

        home = own_of(self._folder, namespace)
        return lambda needed: forget(home, needed, time.time())

    def open_home(self) -> None:
        """Open the home to the user as whom drivers run, if that is another than ours."""
        if self._user is not None:
            from controlplane.drivers.user import open_to

            open_to(self._user, self._foundation.home.path, self._settings.lake)

    @cached_property
    def _user(self) -> User | None:
        if self._settings.driver_user is None or self._settings.pool != "local":
            return None
        from controlplane.drivers import user

        try:
            return user.read(self._settings.driver_user)
        except user.BadUser as e:
            raise BadSetting(f"HEADGATE_DRIVER_USER: {e}") from e

    @property
    def _folder(self) -> Path:
        """The folder in which drivers of this machine keep packages and caches of sources."""
        home = self._foundation.home.path
        return home if self._user is None else home / "driver"

"""The caller of an operation, and its store. Every operation that a user can call takes one of
these."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from controlplane.core.model.alerts import Channel
from controlplane.core.name_redaction import NameRedaction
from controlplane.core.plan import Plan
from controlplane.core.rights import EVERYTHING, Principal, may
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.planning.branch_view import Planners
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.operations.work.batch_sizes import BatchSizes
from controlplane.ports.store import Store, Tx


def _nobody() -> None:
    """The default nudge: does nothing."""


def _no_pass() -> bool:
    """The default pass: none is made."""
    return False


def _no_namespace(_: str) -> None:
    """The default nudge of a namespace: does nothing."""


@dataclass(frozen=True, slots=True)
class Context:
    """`wake` nudges the loop and waiting claims after a change. `make_pass` makes a pass in this
    thread, if the loop runs in this process and waits; True if neither has to be nudged then."""

    store: Store
    namespace: str = "default"
    actor: str = "local"
    request_id: str = ""
    wake: Callable[[], None] = _nobody
    make_pass: Callable[[], bool] = _no_pass
    wake_of: Callable[[str], None] = _no_namespace  # the same in another namespace
    lake: str = ""  # URI of the lake, for the addresses of tables
    planners: Planners = field(default_factory=Planners)
    batch_sizes: BatchSizes = field(default_factory=BatchSizes)
    # Of the loop, where it runs in this process
    failing_units: FailingUnits = field(default_factory=FailingUnits)
    notify: tuple[Channel, ...] = ()  # channels of the installation
    principal: Principal = EVERYTHING  # what the actor may do
    exports: bool = False  # events of lineage are sent
    name_redaction: NameRedaction | None = (
        None  # over answers that pages are put together of, where the actor must not see all names
    )
    override: bool = False  # an administrator changes a protected branch, which is noted

    def begin(self) -> AbstractContextManager[Tx]:
        """Open a writing transaction in the namespace."""
        return self.store.begin(self.namespace)

    def read(self) -> AbstractContextManager[Tx]:
        """Open a consistent snapshot of the namespace."""
        return self.store.read(self.namespace)

    def sees(self, dataset: str) -> bool:
        """Whether the actor may know of it, as `dataflow.component`."""
        return may(self.principal, "view", dataset=dataset)

    def visible(self, plan: Plan) -> Plan:
        """The part of a plan that is about datasets that the actor may know of."""
        if not self.principal.within:
            return plan
        return Plan(tuple(decision for decision in plan.decisions if self.sees(decision.dataset)))

    def read_plan(
        self, branch: str, flows: Iterable[str] | None = None
    ) -> AbstractContextManager[tuple[Plan, StoreSnapshot]]:
        """The plan of these dataflows and their upstream (all by default), and the facts that it
        rests on."""
        return self.planners.of(self.store, self.namespace, branch).read_plan(flows)

"""Looking after the database: collecting unreferenced objects, and checking the rest."""

from __future__ import annotations

from controlplane.api import auth
from controlplane.api.calls import Call, Called, ClosedBody, JsonAnswer, answer
from controlplane.api.services import Services
from controlplane.core import rest
from controlplane.core.model.answers import CollectAnswer, FsckAnswer
from controlplane.operations.context import Context
from controlplane.operations.upkeep import upkeep_requests
from controlplane.operations.upkeep.fsck import RowCheck

router = auth.router("admin")


class Check(ClosedBody):
    """`files` also looks for every file in the lake, which takes a listing for each attempt that
    ever wrote one. `contents` also reads all rows, or those of one `dataset`, and compares them
    with the written contents. `types` also reports which columns of files an earlier version
    misread. `repair` does so beforehand, and has lost or damaged files made again."""

    files: bool = False
    contents: bool = False
    types: bool = False
    dataset: str | None = None
    repair: bool = False


class Collection(ClosedBody):
    """`packs` also gives up all packs, which are made again in time: after files of some were
    lost."""

    packs: bool = False


@router.answers(rest.GC)
def gc(call: Called, options: Collection | None = None) -> JsonAnswer[CollectAnswer]:
    """Collect now; a running service does it by itself now and then. Answers how many rows of each
    kind went."""
    return call.once(lambda: answer(_collect(call, packs=bool(options and options.packs))))


def _collect(call: Call, *, packs: bool) -> CollectAnswer:
    packages = call.services.packages(call.context.namespace)
    return upkeep_requests.collect_now(call.context, call.services.lake, packages, packs=packs)


@router.answers(rest.FSCK)
def check(call: Called, options: Check | None = None) -> JsonAnswer[FsckAnswer]:
    """Check that what the database says is so. Changes only what `repair` names, and answers the
    other faults. `complete` is false where more may be wrong."""
    return call.once(lambda: answer(_checked(call.context, call.services, options or Check())))


def _checked(context: Context, services: Services, options: Check) -> FsckAnswer:
    lake = services.lake
    reading = RowCheck(services.damages, options.dataset) if options.contents else None
    if not options.repair:
        return upkeep_requests.check_now(
            context, lake if options.files else None, reading, types=options.types
        )
    return upkeep_requests.repair_now(context, lake, reading)

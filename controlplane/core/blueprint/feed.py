"""The keys of `connector: feed`: a dataset that another dataflow, or another namespace, offers
under a name."""

from __future__ import annotations

from controlplane.core.blueprint.common_keys import READ_CONNECTOR, section
from controlplane.core.blueprint.expectations import EXPECT
from controlplane.core.blueprint.model import Read
from controlplane.core.blueprint.problems import shown
from controlplane.core.blueprint.section_keys import Fields, Key, Nested
from controlplane.core.blueprint.value_kinds import Fault, Reading, Text
from controlplane.core.model import feeds, namespaces

CONNECTOR = "feed"
# Keys of a component that say how rows are written: a feed's are written already
MISPLACED = ("profile", "sort_by")
FILTERING = ("drop", "quarantine")


def _feed_name(text: str) -> Fault | None:
    if feeds.FEED_NAME.fullmatch(text):
        return None
    return Fault(
        "invalid-name",
        f"{shown(text)} is no name of a feed",
        "lower-case letters, digits and _: orders",
    )


def _namespace_name(text: str) -> Fault | None:
    if namespaces.is_name(text):
        return None
    return Fault(
        "invalid-name",
        f"{shown(text)} is no name of a namespace",
        "as its administrators call it: team-a",
    )


FEED = Key(
    "feed",
    Text((_feed_name,), f"^{feeds.NAME}$"),
    "",
    "Name of the feed.",
    is_required=True,
    example="orders",
)
NAMESPACE = Key(
    "namespace",
    Text((_namespace_name,)),
    "",
    "The namespace that offers it. Else this one.",
    example="team-a",
)


def _read(fields: Fields, _: Reading) -> Read:
    name, namespace = fields[FEED], fields[NAMESPACE]
    return Read(
        connector=CONNECTOR,
        path=f"{namespace}/{name}" if namespace else name,
        format=CONNECTOR,
        schema_change="append",
        settings=(("feed", name), ("namespace", namespace)),
    )


READ = Nested(section((READ_CONNECTOR, FEED, NAMESPACE)), _read)


def report_misplaced(fields: Fields, body: object, reading: Reading) -> None:
    """Its files are the producer's, and stay as they are."""
    if not isinstance(body, Read) or body.connector != CONNECTOR:
        return
    for name in MISPLACED:
        if name in fields.nodes:
            message = (
                f"{name!r} says how rows are written, and the rows of a feed are written already"
            )
            hint = "say it of the dataset that is offered, or of a transform that reads this one"
            reading.problems.add(fields.nodes[name][0].place, "conflicting-keys", message, hint)
    for expectation in fields[EXPECT]:
        if expectation.on_fail in FILTERING:
            message = f"on_fail: {expectation.on_fail} takes rows out, and the rows of a feed are written already"
            hint = "write on_fail: fail or warn here, or take rows out in a transform that reads this dataset"
            reading.problems.add(expectation.place, "conflicting-keys", message, hint)

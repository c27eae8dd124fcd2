"""The key `notices` of `connector: files`: the topic to which an object store sends its events."""

from __future__ import annotations

from controlplane.core.blueprint.kafka import CLIENT, OPTIONS, SERVERS, TOPIC, client_settings
from controlplane.core.blueprint.model import Settings
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.value_kinds import Reading
from dataplane.contract.jobs import NOTICES as PREFIX

NOTHING: Settings = ()


def _notices(fields: Fields, reading: Reading) -> Settings:
    named = (("servers", fields[SERVERS]), ("topic", fields[TOPIC]))
    every = (*named, *client_settings(fields, reading, CLIENT))
    return tuple((f"{PREFIX}{name}", setting) for name, setting in every)


NOTICES: Key[Settings] = Key(
    "notices",
    Nested(Section((SERVERS, TOPIC, OPTIONS), may_hold_secrets=True), _notices),
    NOTHING,
    "The topic of Kafka to which the store of an s3:// path sends its events, for refresh: on_change.",
    example={"servers": "broker-1:9092", "topic": "bucket-events"},
)


def notice_settings(fields: Fields, path: str, *, is_watched: bool, reading: Reading) -> Settings:
    """What the key comes to. A problem where the path is in no S3 store, or is not watched."""
    for misplaced in fields.present((NOTICES,)):
        if not path.startswith("s3://"):
            message = "'notices' belongs to paths of the form s3://bucket/..."
            reading.problems.add(misplaced.place, "conflicting-keys", message, "remove it")
        elif not is_watched:
            message = "'notices' belongs to refresh: on_change"
            hint = "write refresh: on_change, or remove it"
            reading.problems.add(misplaced.place, "conflicting-keys", message, hint)
    return fields[NOTICES]

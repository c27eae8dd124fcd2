"""The language of alerts: `notify:` of a dataflow, and of the installation's own file.

A command runs only if the installation's file names it: who writes a blueprint must not run
commands. Does not belong here: when alerts are sent (`core.alerts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import cast, get_args

from controlplane.core.blueprint import yaml_reader
from controlplane.core.blueprint.freshness import Duration
from controlplane.core.blueprint.model import QUARANTINE
from controlplane.core.blueprint.problems import BlueprintRefused, Problems, shown
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.text_forms import no_link_local
from controlplane.core.blueprint.text_places import Position
from controlplane.core.blueprint.value_kinds import (
    Choice,
    Fault,
    ListOf,
    Reading,
    Text,
    secret_fault,
)
from controlplane.core.model.alerts import AFTER_S, OCCASIONS, Channel
from controlplane.core.model.answers.datasets import TrendMeasure
from dataplane.contract.jobs import ChannelKind

_URL = re.compile(r"https?://(\[[0-9A-Za-z:.%]+\]|[^\s/:@\[\]]+)(:[0-9]{1,5})?(/\S*)?")
_SERVER = re.compile(r"smtps?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")
_ADDRESS = re.compile(r"[^\s@<>,;]+@[^\s@<>,;]+")
NO_TEXTS: tuple[str, ...] = ()


def _url(text: str) -> Fault | None:
    if text.startswith("secret://"):
        return secret_fault(text)
    hint = "https://example.com/hook, or secret://name/key"
    if not _URL.fullmatch(text):
        return Fault("invalid-value", f"{shown(text)} is no address of a web service", hint)
    return no_link_local(text)


def _secret(text: str) -> Fault | None:
    if text.startswith("secret://"):
        return secret_fault(text)
    return Fault(
        "literal-secret", "this key holds a secret in plain text", "write secret://name/key"
    )


def _server(text: str) -> Fault | None:
    if not _SERVER.fullmatch(text):
        hint = "smtp://mail.example.com:587, or smtps://..."
        return Fault("invalid-value", f"{shown(text)} is no mail server", hint)
    return no_link_local(text)


def _address(text: str) -> Fault | None:
    if _ADDRESS.fullmatch(text):
        return None
    return Fault(
        "invalid-value", f"{shown(text)} is no e-mail address", "for example ops@example.com"
    )


KINDS: tuple[ChannelKind, ...] = ("webhook", "slack", "email")
ON = Key(
    "on",
    ListOf(Choice(OCCASIONS)),
    OCCASIONS,
    "Occasions that are reported; all by default.",
    example=["failed", "recovered"],
)
AFTER = Key(
    "after",
    Duration(),
    AFTER_S,
    "How long a dataset is late or blocked before it is reported.",
    example="30m",
    written="10m",
)
MEASURES: tuple[TrendMeasure, ...] = get_args(TrendMeasure)
NO_MEASURES: tuple[TrendMeasure, ...] = ()
JUMPS = Key(
    "jumps",
    ListOf(Choice(MEASURES)),
    NO_MEASURES,
    "Measures whose jumps are reported; none by default.",
    example=["rows", "cost"],
)
DATASETS = Key(
    "datasets",
    ListOf(Text()),
    NO_TEXTS,
    "The only datasets that are reported; all by default.",
    example=["orders"],
)
URL = Key(
    "url",
    Text((_url,)),
    "",
    "Address of a webhook or of Slack; it may be a secret.",
    example="jdbc:postgresql://host:5432/shop",
)
SECRET = Key(
    "secret",
    Text((_secret,)),
    "",
    "What a webhook's messages are signed with.",
    example="secret://alerts/key",
)
ADDRESS = Key(
    "address", ListOf(Text((_address,))), NO_TEXTS, "Who gets e-mail.", example=["data@example.com"]
)
SENDER = Key("from", Text((_address,)), "", "The sender of e-mail.", example="headgate@example.com")
SERVER = Key(
    "server",
    Text((_server,)),
    "",
    "The mail server: smtp://host:587 or smtps://host:465.",
    example="smtp://mail.example.com:587",
)
USER = Key("user", Text(), "", "The user of the mail server.", example="headgate")
PASSWORD = Key(
    "password",
    Text((_secret,)),
    "",
    "The password of the mail server.",
    example="secret://mail/password",
)
COMMAND = Key("command", ListOf(Text()), NO_TEXTS, "A program with its arguments.")

OWN = (URL, SECRET, ADDRESS, SENDER, SERVER, USER, PASSWORD)
REQUIRED = {
    "webhook": ("url",),
    "slack": ("url",),
    "email": ("address", "from", "server"),
    "command": ("command",),
}
ALLOWED = {
    "webhook": ("url", "secret"),
    "email": ("address", "from", "server", "user", "password"),
} | {kind: REQUIRED[kind] for kind in ("slack", "command")}


def _channel(fields: Fields, reading: Reading) -> Channel:
    to = cast("ChannelKind", fields.values.get("to", ""))
    if not to:
        raise BlueprintRefused  # which has been reported
    own = [key for key in (*OWN, COMMAND) if key.name in fields.nodes]
    for key in own:
        if key.name not in ALLOWED[to]:
            message = f"{key.name!r} says nothing of {to}"
            place = fields.nodes[key.name][0].place
            reading.problems.add(
                place, "conflicting-keys", message, f"known here: {', '.join(ALLOWED[to])}"
            )
    for name in REQUIRED[to]:
        if name not in fields.nodes:
            reading.problems.add(fields.place, "missing-key", f"the key {name!r} is missing")
    settings = tuple(sorted((key.name, cast("str | tuple[str, ...]", fields[key])) for key in own))
    return Channel(
        to, fields[ON], fields[AFTER], settings, jumps=fields[JUMPS], datasets=fields[DATASETS]
    )


def _kind(kinds: tuple[ChannelKind, ...], keys: tuple[Key[object], ...] = ()) -> Nested[Channel]:
    to = Key("to", Choice(kinds), kinds[0], "webhook, slack or email.", is_required=True)
    return Nested(
        Section((to, ON, AFTER, JUMPS, DATASETS, *OWN, *keys), first="to", may_hold_secrets=True),
        _channel,
    )


NO_CHANNELS: tuple[Channel, ...] = ()
NOTIFY = Key(
    "notify",
    ListOf(_kind(KINDS)),
    NO_CHANNELS,
    "Who is told when something fails, is late or blocked.",
    example=[{"to": "slack", "url": "secret://slack/url"}],
)


def report_unknown_datasets(
    channels: Iterable[Channel], components: Set[str], place: Position, problems: Problems
) -> None:
    """Report the datasets of channels that the blueprint does not have. A quarantine belongs to its
    component."""
    for channel in channels:
        for name in channel.datasets:
            if name.removesuffix(QUARANTINE) not in components:
                message = f"`notify` names the dataset {shown(name)}, which is no component"
                hint = problems.guess(name, components) or "write the name of a component"
                problems.add(place, "unknown-reference", message, hint)


_INSTALLATION = Key(
    "notify",
    ListOf(_kind((*KINDS, "command"), (COMMAND,))),
    NO_CHANNELS,
    "Who is told of all dataflows.",
    is_required=True,
)
_FILE = Section((_INSTALLATION,))


def parse_channels(text: str | bytes, *, file: str) -> tuple[Channel, ...]:
    """The installation's own channels. Raises InvalidBlueprint with every problem of the file."""
    problems = Problems()
    channels = _parsed(text, file, problems)
    problems.raise_if_any()
    return channels


def _parsed(text: str | bytes, file: str, problems: Problems) -> tuple[Channel, ...]:
    document = yaml_reader.read(text, file, problems)
    if document is None:
        return NO_CHANNELS
    try:
        return _FILE.read(document.root, Reading(document, {}, problems))[_INSTALLATION]
    except BlueprintRefused:
        return NO_CHANNELS

"""Changes of the audit in words, by names instead of ids: `created token` **ci**."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.core.model.answers import AuditEntry
from controlplane.operations.desired.tokens import OURS

# Actors that no person is: processes of the service, and the token of the home itself
MACHINES: Final = frozenset({*OURS, "home", "reconciler", "run"})
EVERYTHING: Final = "*"  # a target
# By an action, or its noun, whose targets are ids: the field of a change that has the name
NAME_FIELDS: Final[Mapping[str, str]] = {
    "link": "dataset",
    "recipient": "name",
    "s3-key": "name",
    "session": "name",
    "session.login": "rule",
    "token": "name",
    "token.exchange": "rule",
    "trust": "name",
}
VERBS: Final[Mapping[str, str]] = {
    "add": "added to",
    "admit": "admitted",
    "change": "changed",
    "create": "created",
    "delete": "deleted",
    "end": "ended",
    "expire": "deleted expired",
    "grant": "granted",
    "merge": "merged into",
    "open": "opened",
    "override": "overrode the protection of",
    "protect": "changed the protection of",
    "remove": "removed from",
    "revoke": "revoked",
    "update": "updated",
}
PHRASES: Final[Mapping[str, str]] = {
    "accept-deletes": "confirmed the deletion in",
    "apply": "applied dataflow",
    "delete": "deleted dataflow",
    "fsck.repair": "repaired",
    "gc": "cleaned up",
    "gc.packs": "cleaned up packs of",
    "import": "imported rows into",
    "namespace.token": "created a token in namespace",
    "pause": "paused",
    "refresh": "checked sources of",
    "resume": "resumed",
    "retry": "retried",
    "revert": "reverted dataflow",
    "rollback": "rolled back",
    "run": "ran",
    "session.login": "signed in by the rule",
    "token.exchange": "received a token by the rule",
    "session.link": "created a sign-in link for",
}


def phrase(change: AuditEntry) -> str:
    """The verb of a change with its noun; the action itself where there is no verb for it."""
    action = change["action"]
    if action == "refresh" and _field(change["after"], "force"):
        return "recomputed"
    if action in PHRASES:
        return PHRASES[action]
    noun, _, verb = action.rpartition(".")
    return f"{VERBS[verb]} {noun.replace('-', ' ')}" if noun and verb in VERBS else action


def target_name(change: AuditEntry) -> str:
    """The target, or the name of a target that is an id. A link is named by its dataset."""
    target = change["target"]
    if target == EVERYTHING:
        return "everything"
    action = change["action"]
    field = NAME_FIELDS.get(action) or NAME_FIELDS.get(action.partition(".")[0])
    if field is None:
        return target
    name = _field(change["after"], field) or _field(change["before"], field)
    return str(name or target)


def _field(side: object, name: str) -> object:
    return side.get(name) if isinstance(side, Mapping) else None

"""Answers without the names that a narrowed token must not see. Pure.

Every answer to a narrowed token passes here, whatever route made it, so that a new field shows no more than the old
ones. An entry about a hidden name is removed; a text that mentions one has `(hidden)` there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from controlplane.core.model.branches import MAIN
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.rights import Principal, may, may_see_part

HIDDEN = "(hidden)"
OWN: Final = frozenset({"text", "files", "schema", "columns", "row_changes", "diff", "text_diff", "examples"})
"""Fields with content of the thing that they stand in: rows, columns, texts."""

KEYS: Final = frozenset({"objects", "partitions"})
"""Fields whose texts are content, too; what else is in them tells what it is about."""

NAMED: Final = frozenset({"modes", "inputs", "revisions", "failed", "generations", "redirects"})
"""Fields whose objects have names as keys. Keys of others are those of the answer, whatever names there are."""

CLOSED: Final = frozenset(
    {
        "cause",
        "change",
        "code",
        "fault",
        "field",
        "kind",
        "mode",
        "on_fail",
        "outcome",
        "severity",
        "size",
        "state",
        "status",
        "type",
        "wish",
    }
)
"""Fields whose texts are words of ours, also where something hidden is called like one of them."""

CURSOR: Final = "next"
"""A field whose text is asked with: one that was changed would lead elsewhere."""

_ABOUT = ("dataset", "of_dataset", "dataflow", "target", "component", "by", "name", "id", "deleted", "from", "to")
_FLOW, _DATASET = re.compile(r"[a-z][a-z0-9_]*"), re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
_FOLDER = re.compile(r"(?P<flow>[a-z][a-z0-9_]*)/(?P<component>[a-z][a-z0-9_]*)/_frags/")
_GONE: Final = object()


@dataclass(frozen=True, slots=True)
class NameRedaction:
    """The names hidden from one principal: `datasets` of dataflows that it sees in part; `dataflows` of which it sees
    nothing; `branches`, but main, which is no secret since all are made of it."""

    principal: Principal
    dataflows: frozenset[str] = frozenset()
    datasets: frozenset[str] = frozenset()
    branches: frozenset[str] = frozenset()

    def over(self, value: JsonValue) -> JsonValue:
        """The same without hidden parts; None where all of it is about something hidden."""
        shown = self._over(value)
        return None if shown is _GONE else shown  # type: ignore[return-value]  # else it is a value

    def words(self, text: str, sent: str = "") -> str:
        """With `(hidden)` in place of hidden names; but names in `sent` stay, since a gap would reveal that they
        exist."""
        text = _FOLDER.sub(self._folder, text)
        pattern = _pattern(self._names())
        if pattern is None:
            return text
        return pattern.sub(lambda match: match[0] if match[0] in sent else HIDDEN, text)

    def _folder(self, match: re.Match[str]) -> str:
        """The folder of a dataset in the lake."""
        is_seen = may(self.principal, "view", dataset=f"{match['flow']}.{match['component']}")
        return match[0] if is_seen else f"{HIDDEN}/_frags/"

    def _over(self, value: JsonValue) -> JsonValue | object:
        match value:
            case dict():
                return _GONE if self._is_hidden(value) else self._fields(value)
            case list():
                return [member for member in map(self._over, value) if member is not _GONE]
            case str():
                return _GONE if self._is_hidden_name(value) else self.words(value)
            case _:
                return value

    def _named(self, value: JsonObject) -> JsonObject:
        """An object whose keys are names, without the hidden ones."""
        hidden = _components(self.datasets)
        return {
            key: self.over(member) for key, member in value.items() if not (self._is_hidden_name(key) or key in hidden)
        }

    def _field(self, key: str, value: JsonValue, *, is_match: bool) -> JsonValue | object:
        match value:
            case _ if _is_own(key, value) and not (is_match and key == "text"):
                return value
            case str() if key in CLOSED:
                return value
            case str():
                is_gone = key == CURSOR and self._is_hidden_name(value)
                return _GONE if is_gone else self.words(value)
            case list() if key in KEYS:
                return self._keys(value)
            case dict() if key in NAMED and not self._is_hidden(value):
                return self._named(value)
            case _:
                return self._over(value)

    def _fields(self, value: JsonObject) -> JsonObject | object:
        """A run of which nothing is left goes, too."""
        fields: JsonObject = {}
        is_match = "field" in value  # of a search: the text is whatever was looked through
        for key, member in value.items():
            if _DATASET.fullmatch(key) and self._is_hidden_name(key):
                continue
            field = self._field(key, member, is_match=is_match)
            fields[key] = None if field is _GONE else field  # type: ignore[assignment]  # else it is a value
        is_run = "id" in fields and bool(value.get("datasets"))
        return _GONE if is_run and not fields["datasets"] else fields

    def _keys(self, value: list[JsonValue]) -> JsonValue | object:
        shown = (member if isinstance(member, str) else self._over(member) for member in value)
        return [member for member in shown if member is not _GONE]

    def _is_hidden(self, value: JsonObject) -> bool:
        """Whether it is about a hidden name, by the fields that name its subject."""
        if self._is_hidden_branch(value.get("branch")):
            return True
        if _is_of_branches(value):
            return any(self._is_hidden_branch(name) for name in _branches_of(value))
        flow, component = value.get("dataflow"), value.get("component")
        if isinstance(flow, str) and isinstance(component, str) and self._is_hidden_name(f"{flow}.{component}"):
            return True
        if "diff" in value and isinstance(flow, str) and not may(self.principal, "view", dataflow=flow):
            return True  # text of a dataflow
        return any(self._is_hidden_in(key, value) for key in _ABOUT)

    def _is_hidden_branch(self, name: JsonValue) -> bool:
        """Also one that has ended, and is in no list: events of a branch are shown for longer than it exists."""
        if not isinstance(name, str) or name in ("", MAIN):
            return False
        return name in self.branches or not may(self.principal, "view", branch=name)

    def _is_hidden_in(self, key: str, value: JsonObject) -> bool:
        name = value.get(key)
        if not isinstance(name, str):
            return False
        if self._is_hidden_name(name):
            return True
        if key in ("dataset", "of_dataset", "dataflow", "target") and _FLOW.fullmatch(name):
            return not may_see_part(self.principal, name)
        if key in ("dataset", "of_dataset") and _DATASET.fullmatch(name):
            return not may(self.principal, "view", dataset=name)
        if key == "id" and _DATASET.fullmatch(name):  # of a run: the dataflow, and its revision
            return not may_see_part(self.principal, name.partition(".")[0])
        return False

    def _is_hidden_name(self, name: str) -> bool:
        """Whether an existing name is hidden."""
        if name in self.dataflows or name in self.branches or name in self.datasets:
            return True
        return bool(_DATASET.fullmatch(name)) and name.partition(".")[0] in self.dataflows

    def _names(self) -> frozenset[str]:
        return self.dataflows | self.branches | self.datasets | _components(self.datasets)


def _is_of_branches(value: JsonObject) -> bool:
    """An event or an entry of the audit about a branch, in place of a dataset."""
    return any(str(value.get(key)).startswith("branch.") for key in ("kind", "action"))


def _branches_of(value: JsonObject) -> Iterator[JsonValue]:
    yield value.get("dataset")
    yield value.get("target")
    for part in (value, value.get("before"), value.get("after")):
        if isinstance(part, dict):
            yield part.get("from")


def _is_own(key: str, value: JsonValue) -> bool:
    """`files` are texts by name, or else paths in the lake, where rows that were adopted lie below another's name."""
    return key in OWN and not (key == "files" and isinstance(value, list))


@lru_cache(maxsize=64)
def _components(datasets: frozenset[str]) -> frozenset[str]:
    """Names without those of their dataflows, as texts of these have them."""
    return frozenset(name.partition(".")[2] for name in datasets)


@lru_cache(maxsize=64)
def _pattern(names: frozenset[str]) -> re.Pattern[str] | None:
    """Each as a whole word, a dataflow with the component behind it. None where there are none."""
    if not names:
        return None
    words = "|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{words})(?:\.[a-z][a-z0-9_]*)?(?![A-Za-z0-9_])")


def problem_over(name_redaction: NameRedaction, document: Mapping[str, JsonValue], sent: str) -> JsonObject:
    """A problem document: no part of it goes, since clients read all. `sent`: the text of the request."""
    return {key: _redacted(name_redaction, value, sent) for key, value in document.items()}


def _redacted(name_redaction: NameRedaction, value: JsonValue, sent: str) -> JsonValue:
    match value:
        case str():
            return name_redaction.words(value, sent)
        case list():
            return [_redacted(name_redaction, member, sent) for member in value]
        case dict():
            return {key: _redacted(name_redaction, member, sent) for key, member in value.items()}
        case _:
            return value

"""Texts without the names that a narrowed token must not see. Pure.

Operations leave hidden entries out of their lists. What remains are texts that mention a hidden
name: each answer to a narrowed token passes here, of each route, and has `(hidden)` in its
place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.rights import Principal, may

HIDDEN = "(hidden)"
OWN: Final = frozenset(
    {"text", "files", "schema", "columns", "row_changes", "diff", "text_diff", "examples"}
)
"""Fields with content of the thing that they stand in: rows, columns, texts."""

KEYS: Final = frozenset({"objects", "partitions"})
"""Lists with content, too, where they are of texts."""

CLOSED: Final = frozenset(
    {
        "cause",
        "change",
        "code",
        "fault",
        "field",
        "kind",
        "mode",
        "next",
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

_FOLDER = re.compile(r"(?P<flow>[a-z][a-z0-9_]*)/(?P<component>[a-z][a-z0-9_]*)/_frags/")


@dataclass(frozen=True, slots=True)
class NameRedaction:
    """The names hidden from one principal: `datasets` of dataflows that it sees in part;
    `dataflows` of which it sees nothing; `branches`, but main, which is no secret since all are
    made of it."""

    principal: Principal
    dataflows: frozenset[str] = frozenset()
    datasets: frozenset[str] = frozenset()
    branches: frozenset[str] = frozenset()

    def over(self, value: JsonValue, sent: str = "") -> JsonValue:
        """The same value with the texts of `words`. Contents, closed words and keys of objects
        stay."""
        match value:
            case dict():
                fields = value.items()
                return {
                    key: m if _stays(key, m, value) else self.over(m, sent) for key, m in fields
                }
            case list():
                return [self.over(member, sent) for member in value]
            case str():
                return self.words(value, sent)
            case _:
                return value

    def words(self, text: str, sent: str = "") -> str:
        """With `(hidden)` in place of hidden names; but names in `sent` stay, since a gap would
        reveal that they exist."""
        text = _FOLDER.sub(self._folder, text)
        pattern = _pattern(self._names())
        if pattern is None:
            return text
        return pattern.sub(lambda match: match[0] if match[0] in sent else HIDDEN, text)

    def _folder(self, match: re.Match[str]) -> str:
        """The folder of a dataset in the lake."""
        is_seen = may(self.principal, "view", dataset=f"{match['flow']}.{match['component']}")
        return match[0] if is_seen else f"{HIDDEN}/_frags/"

    def _names(self) -> frozenset[str]:
        return self.dataflows | self.branches | self.datasets | _components(self.datasets)


def _stays(key: str, value: JsonValue, beside: JsonObject) -> bool:
    """Whether a field has no text of ours. A match of a search is in any text. Paths lie in the
    lake, where adopted rows are in the folder of another dataset."""
    match value:
        case str():
            return key in CLOSED or (key in OWN and not (key == "text" and "field" in beside))
        case list() if key in KEYS:
            return all(isinstance(member, str) for member in value)
        case list() if key == "files":
            return False
        case _:
            return key in OWN


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

"""Examples for OpenAPI, from answers of the fast world. Lists are short. Each run gives the same
text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from dataplane.contract.schemas import Json

MOST_ENTRIES = 2
HOUR_S = 3600.0
LOCAL_URL = re.compile(r"http://127\.0\.0\.1:\d+")
LOCAL_HOST = re.compile(r"127\.0\.0\.1(?::\d+)?")
SECRET = re.compile(r"(?<![\w-])(?![0-9a-f]+(?![\w-]))[\w-]{40,}")
# The folder of an attempt lies in a folder with its first two digits.
HEX_ID = re.compile(r"(?:\b[0-9a-f]{2}/)?\b([0-9a-f]{12,})\b")


@dataclass
class Recorder:
    """Makes the example of one answer.

    `home`: the folder of the world. `started`: by the machine's clock, in seconds since 1970.
    Later times become whole hours after `began`, which is by the world's clock.
    """

    home: str
    started: float
    began: float
    ids: dict[str, str] = field(default_factory=dict)

    def example(self, value: Any) -> Any:
        match value:
            case dict():
                return {self._text(name): self.example(inner) for name, inner in value.items()}
            case list():
                return [self.example(entry) for entry in value[:MOST_ENTRIES]]
            case str():
                return self._text(value)
            case float() if value >= self.started:
                return self.began + round((value - self.started) / HOUR_S) * HOUR_S
            case _:
                return value

    def _text(self, text: str) -> str:
        text = text.replace(self.home, "/data")
        text = LOCAL_URL.sub("https://headgate.example", text)
        text = LOCAL_HOST.sub("headgate.example", text)
        text = SECRET.sub("example", text)
        return HEX_ID.sub(self._id, text)

    def _id(self, match: re.Match[str]) -> str:
        """The same id for the same id: a digest of how many came before it."""
        number = str(len(self.ids))
        stable = self.ids.setdefault(match[1], sha256(number.encode()).hexdigest()[: len(match[1])])
        return stable if match[0] == match[1] else f"{stable[:2]}/{stable}"


def examples(
    answers: Mapping[tuple[str, str], Json], home: str, started: float, began: float
) -> str:
    """The text of the file of examples for these answers, by method and path."""
    in_order = sorted(answers, key=lambda route: route[::-1])
    by_route = {
        f"{method.upper()} {path}": Recorder(home, started, began).example(answers[method, path])
        for method, path in in_order
    }
    return json.dumps(by_route, indent=1, ensure_ascii=False) + "\n"

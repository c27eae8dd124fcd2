"""Answers of tools as JSON of bounded size, and errors with their code, message and hint."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from itertools import islice
from typing import Any

import httpx2
from mcp.server.mcpserver.exceptions import ToolError

from controlplane.cli import failures
from controlplane.cli.output import problem_lines
from controlplane.client import ApiError
from controlplane.core.errors import HeadgateError

MOST_BYTES = 60_000
MOST_ITEMS = 500  # of a list or an object
MOST_CHARACTERS = MOST_BYTES // 2  # of a text
MOST_NOTES = 20
MOST_PROBLEMS = 50
REPORTED = (ApiError, HeadgateError, OSError, httpx2.HTTPError)


@dataclass
class Folding:
    """Limits of lists and texts, and notes on what they cut."""

    items: int
    characters: int
    cuts: list[dict[str, object]] = field(default_factory=list)

    def fold(self, node: Any, path: str = "answer") -> Any:
        match node:
            case dict():
                self._note(path, len(node), self.items)
                fields = islice(node.items(), self.items)
                return {key: self.fold(each, f"{path}.{key}") for key, each in fields}
            case list():
                self._note(path, len(node), self.items)
                entries = enumerate(node[: self.items])
                return [self.fold(each, f"{path}[{index}]") for index, each in entries]
            case str():
                self._note(path, len(node), self.characters)
                return node[: self.characters]
            case _:
                return node

    def _note(self, path: str, size: int, limit: int) -> None:
        if size > limit:
            self.cuts.append({"at": path, "shown": limit, "of": size})


def bounded(answer: object) -> str:
    """JSON with `answer` and, if its lists or texts lost their ends, `cut`: at most MOST_BYTES.
    Raises ToolError."""
    items, characters = MOST_ITEMS, MOST_CHARACTERS
    while items:
        folding = Folding(items, characters)
        document = {"answer": folding.fold(answer)}
        if folding.cuts:
            document |= {"cut": folding.cuts[:MOST_NOTES], "cuts": len(folding.cuts)}
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        encoded = text.encode(errors="replace")
        if len(encoded) <= MOST_BYTES:
            return encoded.decode()
        items, characters = items // 2, characters // 2
    raise ToolError(f"too-large: the answer has more than {MOST_BYTES} bytes; ask for less")


def answering(tool: Callable[..., object]) -> Callable[..., str]:
    """The tool with its answer bounded, and errors of users as errors of the protocol."""

    @wraps(tool)
    def answer(**arguments: Any) -> str:
        try:
            return bounded(tool(**arguments))
        except REPORTED as error:
            problems = failures.document(error, {})["errors"][:MOST_PROBLEMS]
            text = "\n".join(problem_lines(problems))
            raise ToolError(text[:MOST_CHARACTERS]) from error

    return answer

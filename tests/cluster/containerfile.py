"""What the last stage of a Containerfile says about running its image, so that assembled images run
as built ones do.

Does not belong here: what is installed, which the lists and locks beside the Containerfiles say.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

FILES = Path(__file__).parents[2] / "deploy" / "images"


@dataclass(frozen=True, slots=True)
class Runs:
    """How a container of an image is started."""

    user: int
    entrypoint: tuple[str, ...]
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


def read(image: str) -> Runs:
    told = dict(_instructions(image))
    environment = tuple(
        (k, v) for k, _, v in (word.partition("=") for word in told.get("ENV", "").split())
    )
    user, _, group = told["USER"].partition(":")
    assert user == group, "users and groups have the same number here"
    return Runs(
        int(user),
        tuple(json.loads(told["ENTRYPOINT"])),
        tuple(json.loads(told.get("CMD", "[]"))),
        environment,
    )


def users(image: str) -> dict[str, int]:
    """By name, the users that an image has beside Debian's."""
    found = (
        re.search(r"useradd --uid (\d+) .*?--no-create-home ([a-z]\w*)", said)
        for _, said in _instructions(image)
    )
    return {made[2]: int(made[1]) for made in found if made}


def _instructions(image: str) -> list[tuple[str, str]]:
    """Of the last stage: each keyword with what it says, in one line."""
    text = (FILES / f"{image}.Containerfile").read_text()
    stage = re.sub(
        r"\\\n\s*", " ", text[text.rindex("\nFROM ") + 1 :] if "\nFROM " in text else text
    )
    lines = [
        line.partition(" ") for line in stage.splitlines() if line and not line.startswith("#")
    ]
    return [(keyword, said.strip()) for keyword, _, said in lines]

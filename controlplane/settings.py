"""Settings from the environment and the command line, read once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_HOME = ".headgate"


class BadSetting(ValueError):
    """A setting has a value that cannot be meant."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where things are. `url` and `token` name a running service, for the command line; the rest is for our own."""

    home: Path
    database_url: str
    lake: str
    pool: str = "local"
    secrets: Path | None = None
    semantics: int = 0
    url: str | None = None
    token: str | None = None


def read(home: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in force: `home` from the command line wins over HEADGATE_HOME. Empty variables count as absent."""
    given = {
        k.removeprefix("HEADGATE_"): v for k, v in (environ or os.environ).items() if v and k.startswith("HEADGATE_")
    }
    place = Path(home or given.get("HOME", DEFAULT_HOME)).expanduser().absolute()
    return Settings(
        home=place,
        database_url=given.get("DATABASE_URL", f"sqlite:///{place / 'metadata.db'}"),
        lake=given.get("LAKE", (place / "lake").as_uri()),
        pool=_one_of(given.get("POOL", "local"), "HEADGATE_POOL", ("local", "none")),
        secrets=Path(given["SECRETS"]) if "SECRETS" in given else None,
        semantics=_number(given.get("SEMANTICS", "0"), "HEADGATE_SEMANTICS"),
        url=given.get("URL"),
        token=given.get("TOKEN"),
    )


def _one_of(value: str, name: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise BadSetting(f"{name} is {value!r}; it can be {' or '.join(allowed)}")
    return value


def _number(value: str, name: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise BadSetting(f"{name} is {value!r}; it must be a small whole number")
    return int(value)

"""A branch: a name under which dataflows can be edited, and which follows main in all that it did
not edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.core.model.revisions import MAIN as MAIN

NAME = r"[a-z0-9][a-z0-9._-]{0,62}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Times are seconds since 1970. `source` is the branch that it was made from.

    `expires`: None for a branch that stays. `protected`: it changes by merges alone. `redirects`:
    places that its write components write to, by component; all others are off. `pinned`: it sees
    main as it was when it was made or last updated; any other one follows main. `publish`: its own
    datasets are also there as Delta tables.
    """

    name: str
    source: str
    at: float
    actor: str
    expires: float | None = None
    protected: bool = False
    redirects: Mapping[str, str] = field(default_factory=dict)
    pinned: bool = False
    publish: bool = False

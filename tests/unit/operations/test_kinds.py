"""The table of task kinds is whole."""

from __future__ import annotations

from typing import get_args

from dataplane.contract.kinds import DRIVER_KINDS, KINDS, WORKER_KINDS, Kind


def test_each_kind_has_its_row() -> None:
    assert set(KINDS) == set(get_args(Kind)) == WORKER_KINDS | DRIVER_KINDS
    assert not WORKER_KINDS & DRIVER_KINDS


def test_only_a_driver_writes_a_manifest() -> None:
    assert {kind for kind, traits in KINDS.items() if traits.has_manifest} <= DRIVER_KINDS

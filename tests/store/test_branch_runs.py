"""Truth and Thrift with branches on PostgreSQL: the random runs of `property.branching`.

Does not belong here: the same in memory and on SQLite, with the model (property).
"""

from __future__ import annotations

import uuid

import pytest

from tests.property import branching
from tests.servers.postgres import Postgres
from tests.slices import sliced


# Seeds are alike: stores are told apart by the suite over all of them.
@pytest.mark.slow
@pytest.mark.parametrize("seed", sliced(range(4), 4))
def test_whatever_happens_to_main_and_its_branches(postgres: Postgres, seed: int) -> None:
    branching.run(seed, postgres.create(f"t{uuid.uuid4().hex}"))

"""Tables of branches lie apart."""

from __future__ import annotations

from controlplane.core.model.table_paths import branch_tables, table_path


def test_each_branch_has_a_log_of_its_own() -> None:
    assert table_path("default", "main", "air.flights") == "default/air/flights"
    assert table_path("default", "try", "air.flights") == "default/air/flights/_branches/try"
    assert branch_tables("default", "air.flights") == "default/air/flights/_branches"

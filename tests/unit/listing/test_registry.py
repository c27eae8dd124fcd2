"""Each connector that is read has a lister, a reader and a checker in the registry, files as
well."""

from __future__ import annotations

import pytest

from dataplane.connectors.jdbc.dialects import DIALECTS
from dataplane.connectors.registry import checker, lister, reader, writer
from dataplane.contract.jdbc_options import SCHEMES
from dataplane.task_failures import TaskFailure

SOURCES = ["files", "delta", "iceberg", "jdbc", "kafka", "python", "dlt", "spark"]


@pytest.mark.parametrize("connector", SOURCES)
def test_sources_are_registered(connector: str) -> None:
    assert callable(lister(connector))
    assert callable(checker(connector))
    work = reader(connector)
    assert callable(work.parse)
    assert callable(work.infer)


@pytest.mark.parametrize("find", [lister, reader, writer, checker])
def test_an_unknown_connector_is_a_failure(find: object) -> None:
    assert callable(find)
    with pytest.raises(TaskFailure, match="no connector ftp"):
        find("ftp")


def test_a_blueprint_knows_the_databases_that_there_are() -> None:
    assert tuple(DIALECTS) == SCHEMES

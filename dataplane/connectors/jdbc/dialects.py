"""The databases that `jdbc` reads and writes, by the scheme of a URL."""

from __future__ import annotations

from collections.abc import Mapping

from dataplane.connectors.jdbc.dialect import DatabaseDialect
from dataplane.connectors.jdbc.mysql import MARIADB, MYSQL
from dataplane.connectors.jdbc.oracle import ORACLE
from dataplane.connectors.jdbc.postgresql import POSTGRESQL
from dataplane.connectors.jdbc.redshift import REDSHIFT
from dataplane.connectors.jdbc.snowflake import SNOWFLAKE
from dataplane.connectors.jdbc.sqlserver import SQLSERVER

_WRITABLE = (POSTGRESQL, MARIADB, MYSQL, SQLSERVER, ORACLE)
_ALL: tuple[DatabaseDialect, ...] = (*_WRITABLE, REDSHIFT, SNOWFLAKE)
DIALECTS: Mapping[str, DatabaseDialect] = {d.scheme: d for d in _ALL}

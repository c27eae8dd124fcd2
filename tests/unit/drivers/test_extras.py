"""Who lacks a package of an extra is told the line that installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1].split()))\n"
JOB = {"settings": {"servers": "localhost:1", "topic": "t"}, "options": {}, "known": None}
TABLE = (
    "{'settings': {'url': 'jdbc:%s://localhost:1/x', 'table': 't'}, 'options': {}, 'writes': False}"
)
CHECK = f"from dataplane.connectors.registry import checker; checker('jdbc')({TABLE})"
ASKED = {
    "mysql": [("pymysql", CHECK % "mysql"), ("pymysql", CHECK % "mariadb")],
    "oracle": [("oracledb", (CHECK % "oracle").replace("oracle://", "oracle:thin:@//"))],
    "sqlserver": [("pymssql", CHECK % "sqlserver")],
    "snowflake": [
        ("snowflake", CHECK.replace("localhost:1", "a.snowflakecomputing.com") % "snowflake")
    ],
    "postgresql": [
        ("psycopg", CHECK % "postgresql"),
        ("psycopg", CHECK % "redshift"),
        (
            "psycopg",
            "from controlplane.store import open_store; open_store('postgresql+psycopg://localhost:1/db')",
        ),
        (
            "psycopg",
            "from controlplane.store import upgrade; upgrade('postgresql+psycopg://localhost:1/db')",
        ),
    ],
    "kafka": [
        (
            "confluent_kafka",
            "from dataplane.connectors.registry import ListingContext, lister;"
            f"lister('kafka')({JOB}, ListingContext(None, None, '', ''))",
        )
    ],
    "s3": [
        ("obstore", "from dataplane.storage.lake import open_lake; open_lake('s3://bucket/x')"),
        (
            "obstore obstore.exceptions obstore.store",
            "from dataplane.storage.source_stores import StoreAccess, open_root;"
            " open_root('s3://bucket', StoreAccess())",
        ),
    ],
    "hdfs": [
        (
            "hdfs_native",
            "from dataplane.storage.lake import open_lake; open_lake('hdfs://host:8020/x')",
        )
    ],
}


@pytest.mark.parametrize(
    ("extra", "missing", "code"), [(e, *one) for e, some in ASKED.items() for one in some]
)
def test_the_error_names_the_line(extra: str, missing: str, code: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", WITHOUT + code, missing], capture_output=True, text=True, check=False
    )
    assert told.returncode == 1
    assert f"pip install 'headgate[{extra}]'" in told.stderr.splitlines()[-1], told.stderr

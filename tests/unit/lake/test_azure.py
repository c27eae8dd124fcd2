"""What Spark is told of a lake on Azure: where it is, and nothing secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataplane.spark.azure import settings
from dataplane.spark.hadoop import conf_for
from dataplane.spark.jars import AZURE, coordinates

KEY = {"AZURE_STORAGE_ACCOUNT_KEY": "the-key"}
PERSON = {"AZURE_CLIENT_ID": "who", "AZURE_TENANT_ID": "whose"}
TYPE = "fs.azure.account.oauth.provider.type"


def test_spark_is_told_where_and_no_credential(tmp_path: Path) -> None:
    (tmp_path / "a.jar").touch()
    lake = "abfss://lake@shop.dfs.core.windows.net/x"
    conf = conf_for(
        lake, {**KEY, "HEADGATE_JARS": str(tmp_path), "AZURE_STORAGE_USE_EMULATOR": "1"}
    )
    assert conf["spark.driver.extraClassPath"] == f"{tmp_path}/a.jar"
    assert conf["spark.hadoop.fs.azure.abfs.endpoint"] == "127.0.0.1:10000"
    assert conf["spark.hadoop.fs.azure.account.key"] == "${env.AZURE_STORAGE_ACCOUNT_KEY}"
    assert not any("the-key" in value for value in conf.values())


def test_without_an_emulator_it_goes_by_tls() -> None:
    assert settings(KEY)["fs.abfss.impl"].endswith(".SecureAzureBlobFileSystem")
    assert not any("endpoint" in name or "https" in name for name in settings(KEY))


@pytest.mark.parametrize(
    ("given", "kind", "more"),
    [
        (
            {**PERSON, "AZURE_CLIENT_SECRET": "the-secret"},
            "ClientCredsTokenProvider",
            {
                "client.id": "who",
                "client.secret": "${env.AZURE_CLIENT_SECRET}",
                "client.endpoint": "https://login.microsoftonline.com/whose/oauth2/token",
            },
        ),
        (
            {**PERSON, "AZURE_FEDERATED_TOKEN_FILE": "/token"},
            "WorkloadIdentityTokenProvider",
            {"client.id": "who", "msi.tenant": "whose", "token.file": "/token"},
        ),
        ({"AZURE_CLIENT_ID": "who"}, "MsiTokenProvider", {"client.id": "who"}),
        ({}, "MsiTokenProvider", {}),
    ],
)
def test_without_a_key_it_is_an_identity(
    given: dict[str, str], kind: str, more: dict[str, str]
) -> None:
    found = settings(given)
    assert found["fs.azure.account.auth.type"] == "OAuth"
    assert found[TYPE].endswith(f".{kind}")
    start = "fs.azure.account.oauth2."
    assert {
        name.removeprefix(start): value for name, value in found.items() if name.startswith(start)
    } == more


def test_hadoop_is_that_of_pyspark() -> None:
    import pyspark

    (ours,) = (c.rpartition(":")[2] for c in coordinates(AZURE))
    assert (Path(pyspark.__file__).parent / "jars" / f"hadoop-client-api-{ours}.jar").is_file()

"""How Spark finds its way to Azure: settings of Hadoop's ABFS, from the variables that obstore and
deltalake read.

Secrets are no settings: `${env.NAME}` stands for one, which Hadoop puts in where it is used and
which is all that an event log or page of Spark shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

SECURE = "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem"
PLAIN = "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem"  # by HTTP, under each scheme
EMULATOR = "http://127.0.0.1:10000"

_KEY, _SECRET = "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_CLIENT_SECRET"
_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2."


def settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Properties of Hadoop."""
    # About a minute
    options = {
        "fs.abfss.impl": SECURE,
        "fs.azure.io.retry.max.retries": "8",
        **_credentials(environ),
    }
    return options | (_emulated(environ) if is_emulated(environ) else {})


def is_emulated(environ: Mapping[str, str]) -> bool:
    return environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in (
        "1",
        "true",
        "t",
        "yes",
        "y",
        "on",
    )


def _emulated(environ: Mapping[str, str]) -> dict[str, str]:
    """Azurite, which speaks HTTP, has the account in its paths, and knows blobs only."""
    place = urlsplit(environ.get("AZURITE_BLOB_STORAGE_URL") or EMULATOR)
    return {
        "fs.abfss.impl": PLAIN,
        "fs.azure.abfs.endpoint": place.netloc,
        "fs.azure.always.use.https": "false",
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        # The other one makes no plain connection
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
    }


def _credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """In the order in which obstore takes them."""
    if environ.get(_KEY):
        return {
            "fs.azure.account.auth.type": "SharedKey",
            "fs.azure.account.key": f"${{env.{_KEY}}}",
        }
    login = {
        "client.id": environ.get("AZURE_CLIENT_ID"),
        "msi.tenant": environ.get("AZURE_TENANT_ID"),
    }
    if environ.get(_SECRET):
        kind = "ClientCredsTokenProvider"
        host = environ.get("AZURE_AUTHORITY_HOST") or "https://login.microsoftonline.com"
        login["client.endpoint"] = f"{host.rstrip('/')}/{login.pop('msi.tenant')}/oauth2/token"
        login["client.secret"] = f"${{env.{_SECRET}}}"
    elif environ.get("AZURE_FEDERATED_TOKEN_FILE"):
        kind, login["token.file"] = (
            "WorkloadIdentityTokenProvider",
            environ["AZURE_FEDERATED_TOKEN_FILE"],
        )
    else:
        kind = "MsiTokenProvider"
    oauth = {f"fs.azure.account.oauth2.{name}": value for name, value in login.items() if value}
    return {
        "fs.azure.account.auth.type": "OAuth",
        "fs.azure.account.oauth.provider.type": f"{_OAUTH}{kind}",
        **oauth,
    }

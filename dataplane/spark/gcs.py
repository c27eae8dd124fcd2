"""How Spark finds its way to Google Cloud Storage: settings of Hadoop's connector.

Google's client finds credentials where obstore and deltalake do: in the file that
GOOGLE_APPLICATION_CREDENTIALS names, else at the machine's metadata server. So nothing of them is a
setting.
"""

from __future__ import annotations

from collections.abc import Mapping

FILE_SYSTEM = "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"


def settings(environ: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG001  # as those of other stores
    """Properties of Hadoop."""
    return {"fs.gs.impl": FILE_SYSTEM, "fs.gs.auth.type": "APPLICATION_DEFAULT"}

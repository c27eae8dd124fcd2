"""Objects of Google and Azure as files of a table, opened as those of `connector: files` are.

Arrow itself takes no address of Azure with the account in it, and neither store's settings in the
environment that `files` has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.io import InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from dataplane.storage.source_stores import StoreAccess, head, open_path, open_root, root_of

STORES = ("gs", "abfs", "abfss")
# What a catalogue gives for them; the host of the account may stand behind a dot
GOOGLE_TOKEN, SAS_TOKEN = "gcs.oauth2.token", "adls.sas-token"


class IcebergObject(InputFile):
    """An object, which is the same until it is closed."""

    def __init__(self, location: str, access: StoreAccess) -> None:
        super().__init__(location)
        self._root = root_of(location)
        self._path = location.removeprefix(self._root).removeprefix("/")
        self._store = open_root(self._root, access)
        self._metadata: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        return int(self._present()["size"])

    def exists(self) -> bool:
        self._metadata = head(self._store, self._root, self._path)
        return self._metadata is not None

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002
        metadata = self._present()
        return open_path(self._store, self._path, metadata["size"], metadata["e_tag"])

    def _present(self) -> Mapping[str, Any]:
        if self._metadata is None and not self.exists():
            raise FileNotFoundError(self.location)
        assert self._metadata is not None, "it exists"
        return self._metadata


class StoreFiles(PyArrowFileIO):
    """Files of local folders and S3 by Arrow, and objects of other stores."""

    def new_input(self, location: str) -> InputFile:  # type: ignore[override]  # no file of Arrow's
        if location.partition("://")[0] not in STORES:
            return super().new_input(location)
        return IcebergObject(location, StoreAccess(bearer=self._bearer(location)))

    def _bearer(self, location: str) -> str:
        """The token of the catalogue; empty for the credentials of the environment."""
        names = [f"{SAS_TOKEN}.{urlsplit(location).hostname}", SAS_TOKEN]
        if location.startswith("gs:"):
            names = [GOOGLE_TOKEN]
        return next((str(self.properties[name]) for name in names if name in self.properties), "")

"""Opening a lake by its URI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataplane.lakes.lake_addresses import kind_of, local_root
from dataplane.lakes.lake_protocol import LakeFiles, MissingPackage
from dataplane.lakes.local_lake import LocalFiles

if TYPE_CHECKING:
    from dataplane.lakes.hdfs import HdfsFiles
    from dataplane.lakes.object_store import ObjectStoreFiles


def open_lake(uri: str) -> LakeFiles:
    """The files behind a URI. Raises MissingPackage, or Refused where the URI leads nowhere; makes
    no call to a store."""
    match kind_of(uri):
        case "local":
            return LocalFiles(local_root(uri))
        case "hdfs":
            return open_hdfs(uri)
        case "object-store":
            return open_object_store(uri)


def open_hdfs(uri: str) -> HdfsFiles:
    try:
        from dataplane.lakes.hdfs import HdfsFiles, connect
    except ModuleNotFoundError as e:
        raise MissingPackage(uri, e.name, "hdfs") from e
    return HdfsFiles(uri, connect(uri))


def open_object_store(uri: str) -> ObjectStoreFiles:
    try:
        from dataplane.lakes.object_store import ObjectStoreFiles, connect
    except ModuleNotFoundError as e:
        raise MissingPackage(uri, e.name, "s3") from e
    return ObjectStoreFiles(uri, connect(uri))

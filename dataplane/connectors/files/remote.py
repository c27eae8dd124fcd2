"""Objects of a store as Spark reads them: in place, with the labels of their tasks joined by path.

Hadoop keeps one connection to a bucket for each scheme, and ignores later credentials. So each
address with its credentials is a scheme of its own, and keys travel as options of the one reader
that uses them: no setting of Spark, no event log shows them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from dataplane.contract.claims import SourceClaim
from dataplane.contract.encoding import digest
from dataplane.contract.results import LABEL
from dataplane.contract.source_objects import SourceObject
from dataplane.fragments.file_links import OBJECT
from dataplane.fragments.spark.reading import LISTING, joined_by_path
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.spark.hadoop import Way, provide, way_to
from dataplane.spark.jars import NoJars
from dataplane.spark.s3a import FILE_SYSTEM, place_of
from dataplane.storage.source_stores import StoreAccess, is_remote, path_of, root_of
from dataplane.storage.store_addresses import access_of
from dataplane.task_failures import TaskFailure

_GLOB = re.compile(r"([\\{}\[\]*?])")
# By Spark, without a word
_IGNORED = re.compile(r"(_(?!common_metadata|metadata)[^=]*|\..*|.*\._COPYING_)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Remote:
    """The objects of one job. `scheme` stands in paths for `s3` where that is not empty."""

    scheme: str
    options: Mapping[str, str]

    @staticmethod
    def of(attempt: SparkAttempt[SourceClaim], objects: Sequence[SourceObject]) -> Remote | None:
        """None where they are local files. Spark is made ready for them."""
        if not objects or not is_remote(objects[0]["uri"]):
            return None
        way = way_to(objects[0]["uri"])
        if way is None:
            return Remote("", {})
        _provide(attempt.spark, way)
        is_s3 = objects[0]["uri"].startswith("s3:")
        remote = (
            _of_s3(access_of(attempt.claim["job"]))
            if is_s3
            else Remote("", way.of_source(os.environ))
        )
        attempt.rename(remote.renamed)
        return remote

    def reader(self, session: SparkSession, source: DataFrameReader) -> DataFrameReader:
        """The same reader with a way to the store; many paths are looked at by a job of Spark."""
        for name, value in LISTING.items():
            session.conf.set(name, value)
        return source.options(**self.options)

    def paths(self, objects: Iterable[SourceObject]) -> list[str]:
        """For `load`, which takes them for globs."""
        return [_GLOB.sub(r"\\\1", self.place(source)) for source in objects]

    def place(self, source: SourceObject) -> str:
        """An object as Spark names it. TaskFailure for one that Spark would pass over."""
        path = path_of(source["uri"])
        if _IGNORED.fullmatch(path.rpartition("/")[2]):
            message = "Spark reads no object whose name starts with _ or ., or ends in ._COPYING_"
            raise TaskFailure("hidden-name", f"{source['uri']}: {message}", file=source["uri"])
        root = root_of(source["uri"])
        return f"{re.sub('^s3:', f'{self.scheme}:', root) if self.scheme else root}/{path}"

    def labelled(
        self,
        session: SparkSession,
        rows: DataFrame,
        objects: Sequence[tuple[str, SourceObject]],
        *,
        numbered: bool,
    ) -> DataFrame:
        """Rows with the label of the object that each is from, and its number. One without would be
        lost: an error."""
        named = [
            (self.place(source), (label, i) if numbered else (label,))
            for i, (label, source) in enumerate(objects)
        ]
        kinds = f"{LABEL} STRING" + (f", {OBJECT} INT" if numbered else "")
        return joined_by_path(session, rows, named, kinds)

    def renamed(self, text: str) -> str:
        """A text with places as users know them."""
        return text.replace(f"{self.scheme}://", "s3://") if self.scheme else text


def _provide(spark: SparkSession, way: Way) -> None:
    try:
        provide(spark, way)
    except NoJars as e:
        raise TaskFailure(e.condition, str(e), "infrastructure") from e


def _of_s3(access: StoreAccess) -> Remote:
    options = place_of(os.environ) | _declared(access)
    scheme = f"hg{digest('s3-source/1', options=options).hex()[:16]}"
    return Remote(scheme, {**options, f"fs.{scheme}.impl": FILE_SYSTEM})


def _declared(access: StoreAccess) -> dict[str, str]:
    settings: dict[str, str] = {}
    if access.region:
        settings["fs.s3a.endpoint.region"] = access.region
    if access.endpoint:
        settings["fs.s3a.endpoint"] = access.endpoint.rstrip("/")
        settings["fs.s3a.path.style.access"] = "true"
        settings["fs.s3a.connection.ssl.enabled"] = str(
            access.endpoint.startswith("https:")
        ).lower()
    if access.access_key_id:
        kind = (
            "TemporaryAWSCredentialsProvider"
            if access.session_token
            else "SimpleAWSCredentialsProvider"
        )
        settings["fs.s3a.aws.credentials.provider"] = f"org.apache.hadoop.fs.s3a.{kind}"
        settings["fs.s3a.access.key"] = access.access_key_id
        settings["fs.s3a.secret.key"] = access.secret_access_key
    if access.session_token:
        settings["fs.s3a.session.token"] = access.session_token
    return settings

"""Names of packages in a Maven repository, as a source of Spark lists them.

Example: `org.mongodb.spark:mongo-spark-connector_2.13:10.5.0`, which is group, artifact, version.
"""

from __future__ import annotations

import re

# Each part stands in a POM and in names of folders as it is: no part has a character of XML, a
# range of versions, or `..`
_PART = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
COORDINATES = rf"(?!.*\.\.){_PART}:{_PART}:[A-Za-z0-9][A-Za-z0-9_.+-]{{0,59}}"
MOST_PACKAGES = 20  # of one source
# Versions that Maven or Ivy look up anew. Ivy reads `1.+` as the newest version that begins with `1.`
_CHANGING = re.compile(r"latest(\..*)?|release|.*snapshot|.*\+", re.IGNORECASE)


def is_pinned(coordinates: str) -> bool:
    """Whether a text names one version, which never changes in a repository."""
    if not re.fullmatch(COORDINATES, coordinates):
        return False
    version = coordinates.rpartition(":")[2]
    return _CHANGING.fullmatch(version) is None

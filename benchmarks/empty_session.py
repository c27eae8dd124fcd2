"""Start Spark as our driver does, and end it: the time that a cold run cannot be faster than."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dataplane.spark.spark_session import conf_from_environment, start, stop

if __name__ == "__main__":
    with TemporaryDirectory(prefix="empty-session-") as scratch:
        stop(start(Path(scratch), conf_from_environment()))

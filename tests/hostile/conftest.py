"""One Spark session for all tests here that need one."""

from tests.spark.conftest import spark  # noqa: F401  # a fixture, of the session's scope

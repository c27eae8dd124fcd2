"""How many threads requests may hold at a time, by kind of request, so that no kind waits for
another.

A reading thread holds one of the store's connections (24 on PostgreSQL, 32 on SQLite). Users,
events, probes and the S3 view together hold fewer, so that a heartbeat always finds one.
"""

from __future__ import annotations

from anyio import CapacityLimiter

# Also the default limit of the event loop (`serving`), for what the framework runs by itself
USERS = 16
DRIVERS = 16  # heartbeats, reports, and the tokens of all drivers' requests
CLAIMS = 256  # each holds a thread while it waits, and no transaction
CONNECTIONS = 32  # each waits for a worker to try places
EVENTS = 2  # tokens and pages of streams of events; a stream that waits holds none
PROBES = 2
S3_KEYS = 1  # signatures of the S3 view: one look-up each
S3 = 2  # its listings and look-ups, one at a time of each key (`s3.s3_app`)
# Pieces of records, for which no transaction is held either: one for each stream (`streams.MOST`)
RECORDS = 32
ISSUERS = 4  # questions to issuers of identity tokens, for which no transaction is held
S3_BODIES = 16  # pieces of objects, for which no transaction is held


class Threads:
    """One limiter for each kind of request."""

    def __init__(self) -> None:
        self.users = CapacityLimiter(USERS)
        self.drivers = CapacityLimiter(DRIVERS)
        self.claims = CapacityLimiter(CLAIMS)
        self.connections = CapacityLimiter(CONNECTIONS)
        self.events = CapacityLimiter(EVENTS)
        self.probes = CapacityLimiter(PROBES)
        self.s3_keys = CapacityLimiter(S3_KEYS)
        self.s3 = CapacityLimiter(S3)
        self.records = CapacityLimiter(RECORDS)
        self.issuers = CapacityLimiter(ISSUERS)
        self.s3_bodies = CapacityLimiter(S3_BODIES)

    def of(self, path: str) -> CapacityLimiter:
        """For the token of a request to a route of users."""
        return {"/v1/events": self.events, "/metrics": self.probes}.get(path, self.users)

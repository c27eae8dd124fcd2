"""Headgate in a notebook or a program: datasets as lazy values, over the client of the REST API.

import headgate

hg = headgate.connect()
hg["flights"]["late"].where("carrier = 'AA'").to_pandas()
"""

from __future__ import annotations

from headgate.connection import Connection, connect
from headgate.dataset import Dataset, Flow
from headgate.errors import MissingPackage, Refused
from headgate.lazy import Lazy, Rows
from headgate.magic import load_ipython_extension
from headgate.plans import Plan
from headgate.query import Query
from headgate.shown import Shown

__all__ = [
    "Connection",
    "Dataset",
    "Flow",
    "Lazy",
    "MissingPackage",
    "Plan",
    "Query",
    "Refused",
    "Rows",
    "Shown",
    "connect",
    "load_ipython_extension",
]

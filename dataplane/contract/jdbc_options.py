"""Options and URL parameters of JDBC that no blueprint may set: those that name a class or a file
of the machine.

Spark hands each option to the driver as a property. PostgreSQL's driver makes an object of a class
that is named, with a text as its argument, and writes a log to a file that is named. Certificates
of TLS in the URL are files to read that a connection may need; they stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# Of URLs: the databases that are read and written, and those that are read
WRITABLE: Final = ("postgresql", "mariadb", "mysql", "sqlserver", "oracle")
SCHEMES: Final = (*WRITABLE, "redshift", "snowflake")
_ENCODED: Final = re.compile("%([0-9A-Fa-f]{2})")
_NAMES_CODE: Final = re.compile(
    r"factory|class|plugin|provider|verifier|callback|file|keytab|jaas|^driver$|^service$|librar",
    re.IGNORECASE,
)


def is_refused(option: str) -> bool:
    """Whether an option or parameter names a class or a file: `socketFactory`, `loggerFile`,
    `driver`, `keytab`."""
    return bool(_NAMES_CODE.search(option))


def refused_parameters(url: str) -> Iterator[str]:
    """The parameters of a JDBC URL that are refused."""
    for part in re.split("[?&#]" if "?" in url else "[?&#;]", url)[1:]:
        name = _ENCODED.sub(lambda code: chr(int(code[1], 16)), part.partition("=")[0])
        if is_refused(name):
            yield name

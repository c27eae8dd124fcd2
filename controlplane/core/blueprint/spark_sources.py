"""The keys of `connector: spark`: a data source of Spark by its name, or a user's own `DataSource`
class.

Does not belong here: what other connectors read. Their formats are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from controlplane.core.blueprint.common_keys import (
    DELETES,
    NO_OPTIONS,
    READ_CONNECTOR,
    REFRESH,
    SCHEMA,
)
from controlplane.core.blueprint.model import Read, Settings
from controlplane.core.blueprint.problems import shown
from controlplane.core.blueprint.python import module_settings
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.text_places import ParamValue
from controlplane.core.blueprint.transforms import FILE, MODULES, NO_CODE
from controlplane.core.blueprint.value_kinds import (
    Choice,
    Fault,
    ListOf,
    Options,
    Reading,
    SourceText,
    Text,
)
from controlplane.core.blueprint.yaml_nodes import Items
from dataplane.contract.maven_coordinates import COORDINATES, MOST_PACKAGES, is_pinned

LONGEST_VALUE = 200  # characters; a partition key has up to nine of each
NO_TEXTS: tuple[str, ...] = ()
NOTHING: Settings = ()

CONNECTOR_OF: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("csv", "json", "parquet", "orc", "avro", "xml", "text", "binaryfile"), "files")
    | {"delta": "delta", "jdbc": "jdbc", "kafka": "kafka"}
)


def _format(text: str) -> Fault | None:
    connector = CONNECTOR_OF.get(text.lower())
    if connector is None:
        return None
    message = f"the format {shown(text)} has a connector of its own"
    return Fault("not-supported", message, f"connector: {connector}")


def _option_text(text: str) -> Fault | None:
    if 0 < len(text) <= LONGEST_VALUE:
        return None
    return Fault("invalid-value", f"a value has 1 to {LONGEST_VALUE} characters: {shown(text)}")


def _coordinates(text: str) -> Fault | None:
    if is_pinned(text):
        return None
    message = f"{shown(text)} does not name one version of a package"
    return Fault("invalid-value", message, "group:artifact:version, without a snapshot or a range")


FORMAT: Key[str | None] = Key(
    "format",
    Text((_format,)),
    None,
    "The name of a source that the operator allows (HEADGATE_SPARK_FORMATS).",
    example="mongodb",
)
PACKAGES = Key(
    "packages",
    ListOf(Text((_coordinates,), pattern=f"^{COORDINATES}$")),
    NO_TEXTS,
    "Packages of Maven with the source, that the operator allows (HEADGATE_SPARK_PACKAGES).",
    example=["org.mongodb.spark:mongo-spark-connector_2.13:10.5.0"],
)
PYTHON = Key(
    "python",
    SourceText("Python"),
    NO_CODE,
    "A module with a function that returns a DataSource class.",
    example="def source(): ...",
)
SOURCE: Key[str | None] = Key(
    "source",
    Text(),
    None,
    "The function in file or python that returns the class.",
    example="fakes",
)
OPTIONS = Key(
    "options",
    Options(may_refer=True),
    NO_OPTIONS,
    "Options of the source; secrets as secret://name/key.",
    example={"database": "shop", "connection.uri": "secret://shop/uri"},
)
VERSION = Key(
    "version",
    Choice(("each run", "options")),
    "each run",
    "When rows are read again: at each refresh, or when options or code change.",
)
OPTION = Key(
    "option",
    Text(),
    "",
    "The option that has another value for each partition.",
    is_required=True,
    example="region",
)
VALUES = Key(
    "values",
    ListOf(Text((_option_text,))),
    NO_TEXTS,
    "Its values: the partition keys.",
    is_required=True,
    example=["eu", "us"],
)


def _partitions(fields: Fields, reading: Reading) -> Settings:
    place, node = fields.nodes.get(VALUES.name, (fields.place, None))
    if isinstance(node, Items) and not node.items:
        message = "a source without values has no partitions"
        raise reading.refuse(place, "invalid-value", message, "values: [eu, us]")
    return (("option", fields[OPTION]), ("values", fields[VALUES]))


PARTITIONS = Key(
    "partitions",
    Nested(Section((OPTION, VALUES)), _partitions),
    NOTHING,
    "A partition for each value of an option. Without: all rows are one.",
    example={"option": "region", "values": ["eu", "us"]},
)


def _read(fields: Fields, reading: Reading) -> Read:
    if SCHEMA.name not in fields.nodes:
        message = "the key 'schema' is missing; a worker lists, which has no Spark to find columns"
        reading.problems.add(fields.place, "missing-key", message, "schema: id BIGINT, name STRING")
    packages = _packages(fields, reading)
    settings: dict[str, ParamValue | tuple[str, ...]] = {
        "format": fields[FORMAT],
        "row_schema": fields[SCHEMA],
        "source": fields[SOURCE],
        "version": fields[VERSION],
        **({"packages": packages} if packages else {}),
        **dict(fields[PARTITIONS]),
        **_code(fields, reading),
    }
    references = [pair for pair in fields[OPTIONS] if pair[1].startswith("secret://")]
    identity = {
        **{name: settings.get(name) for name in ("code", "format", "option", "source")},
        "packages": " ".join(packages),
        # They may say which place is read. Options with references are no part of identities
        "references": json.dumps(references) if references else None,
    }
    logic = {f"headgate.{name}": str(part) for name, part in identity.items() if part}
    return Read(
        connector="spark",
        path=f"spark:{fields[FORMAT] or fields[SOURCE]}",
        format="spark",
        options=tuple(sorted({**dict(fields[OPTIONS]), **logic}.items())),
        schema=fields[SCHEMA],
        refresh_s=fields[REFRESH].every_s,
        cron=fields[REFRESH].cron,
        on_demand_s=fields[REFRESH].on_demand_s,
        deletes_max=fields[DELETES],
        settings=tuple(sorted(settings.items())),
    )


def _packages(fields: Fields, reading: Reading) -> tuple[str, ...]:
    """The listed packages in the order of their names."""
    packages, place = tuple(sorted(fields[PACKAGES])), fields.place_of(PACKAGES)
    if place is None:
        return ()
    if FORMAT.name not in fields.nodes:
        message = "packages hold a source that is read by its name"
        reading.problems.add(place, "conflicting-keys", message, "format: mongodb")
    if len(packages) > MOST_PACKAGES:
        message = f"a source has up to {MOST_PACKAGES} packages; these are {len(packages)}"
        reading.problems.add(
            place, "invalid-value", message, "their dependencies come by themselves"
        )
    return packages


def _code(fields: Fields, reading: Reading) -> Mapping[str, ParamValue]:
    """The user's modules, where there are some."""
    if not fields.present((FILE, PYTHON)):
        return {}
    if SOURCE.name not in fields.nodes:
        message = "the key 'source' is missing: the function that returns the class"
        reading.problems.add(fields.place, "missing-key", message, "source: fakes")
        return {}
    return module_settings(fields, reading, [fields[SOURCE] or ""])


READ = Nested(
    Section(
        (
            READ_CONNECTOR,
            FORMAT,
            PACKAGES,
            FILE,
            PYTHON,
            MODULES,
            SOURCE,
            OPTIONS,
            VERSION,
            PARTITIONS,
            SCHEMA,
            REFRESH,
            DELETES,
        ),
        one_of=("format", "file", "python"),
        first="connector",
        may_hold_secrets=True,
    ),
    _read,
)

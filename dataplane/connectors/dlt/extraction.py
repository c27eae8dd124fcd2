"""Rows of a resource of dlt, and its state: the one module that imports dlt.

dlt's own pipelines are not used: their state lies in a folder of the machine, and their tables have
names and types that change with the rows.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dataplane.connectors.user_code import telling
from dataplane.contract.hosts import REFUSED, is_link_local
from dataplane.contract.jobs import ConnectorSettings
from dataplane.contract.schemas import Json
from dataplane.secrets import resolved
from dataplane.spark.wheels import NotInstalled, installed
from dataplane.task_failures import TaskFailure
from dataplane.transform.bundle import Bundle, opened

FOLDER = "HEADGATE_DLT"  # a folder with dlt and the packages of sources, in place of the cache
REQUIREMENTS = Path(__file__).with_name("dlt.requirements")
QUIET = {"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"}


class Extraction:
    """One pass over a resource. `state` is complete once all rows were read."""

    def __init__(self, resource: Any, state: str) -> None:
        from dlt.common.json import json as typed

        self._resource, self._state = resource, typed.typed_loads(state) if state else {}

    def rows(self) -> Iterator[str]:
        """Rows as JSON texts. Raises what the resource raises."""
        from dlt.common.configuration.container import Container
        from dlt.common.json import custom_encode
        from dlt.common.pipeline import StateInjectableContext

        encode = json.JSONEncoder(default=custom_encode, sort_keys=True).encode
        with Container().injectable_context(StateInjectableContext(state=self._state)) as context:
            for batch in self._resource:
                yield from map(encode, _mappings(batch))
            self._state = context.state

    def state(self) -> str:
        from dlt.common.json import json as typed

        text: str = typed.typed_dumps(self._state)
        return text


def _mappings(batch: Any) -> Iterator[Mapping[str, Json]]:
    """The rows in what a resource gives: a mapping, or a table of Arrow."""
    rows = batch.to_pylist() if hasattr(batch, "to_pylist") else [batch]
    for row in rows:
        if not isinstance(row, Mapping):
            message = f"a resource has to give rows as mappings, not {type(row).__name__}"
            raise TaskFailure("dlt-source", message)
        yield row


@contextmanager
def opened_resource(settings: ConnectorSettings) -> Iterator[Any]:
    """The resource that the settings name. TaskFailure where there is none, with the lines of the
    user's code where it raises, here and in the block."""
    _find_packages()
    modules = json.loads(settings.get("modules", "{}"))
    with opened(modules, settings.get("main", "")) as bundle, telling(bundle):
        yield _resource(_source(settings, bundle), settings["resource"])


def _find_packages() -> None:
    """Packages of Headgate itself come first."""
    os.environ.update(QUIET)
    try:
        folder = os.environ.get(FOLDER) or str(installed(REQUIREMENTS))
    except NotInstalled as e:
        message = f"dlt cannot be installed: {e}; install it into a folder, and set {FOLDER} to it"
        raise TaskFailure("missing-package", message, "infrastructure") from e
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        importlib.import_module("dlt")
    except ModuleNotFoundError as e:
        message = f"{FOLDER} has no package {e.name}: pip install --target {folder} dlt"
        raise TaskFailure("missing-package", message, "infrastructure") from e


def _source(settings: ConnectorSettings, bundle: Bundle) -> Any:
    if settings["rest_api"]:
        _refuse_link_local()
        from dlt.sources.rest_api import rest_api_source

        return rest_api_source(_with_secrets(json.loads(settings["rest_api"])))
    arguments = _with_secrets(json.loads(settings["arguments"]))
    if "main" in settings:
        return getattr(bundle.load(), settings["source"])(**arguments)
    module, _, function = settings["source"].partition(":")
    return getattr(importlib.import_module(module), function)(**arguments)


def _refuse_link_local() -> None:
    """From now on this process connects to no link-local address, by any name or redirect that
    leads there."""

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "socket.connect" or not isinstance(arguments[1], tuple):
            return
        host = str(arguments[1][0])
        if is_link_local(host):
            raise TaskFailure("place-refused", f"{host} {REFUSED}")

    sys.addaudithook(look)


def _with_secrets(config: Json) -> Json:
    match config:
        case dict():
            return {name: _with_secrets(inner) for name, inner in config.items()}
        case list():
            return [_with_secrets(inner) for inner in config]
        case str():
            return resolved(config)
        case _:
            return config


def _resource(source: Any, name: str) -> Any:
    """The resource itself, or its source without the others. Those that it follows are read."""
    from dlt.extract import DltResource, DltSource

    match source:
        case DltResource() if source.name == name:
            return source
        case DltSource() if name in source.resources:
            return source.with_resources(name)
        case DltResource():
            names = [source.name]
        case DltSource():
            names = sorted(source.resources)
        case _:
            message = f"the source gives {type(source).__name__}, and no source or resource of dlt"
            raise TaskFailure("dlt-source", message)
    raise TaskFailure("dlt-source", f"there is no resource {name!r}; there is {', '.join(names)}")

"""The columns of inputs: declared, analysed from declarations upstream, or taken from the rows of a
test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.core.blueprint import Read
from controlplane.core.blueprint.example_model import Given
from controlplane.core.compile.name_lookup import absolute
from controlplane.core.compile.nodes import Desired, Slot, Transform
from controlplane.core.errors import HeadgateError
from controlplane.core.examples.example_inputs import MixedTypes, declared, inferred
from controlplane.core.plan.transform.transform_jobs import logic_job
from controlplane.core.schema.ddl_schemas import parse_ddl
from controlplane.core.schema.widening import with_values
from controlplane.services.examples.port import ExampleRunner
from dataplane.contract.example_protocol import FileOfRows, error_in, schema_in
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Schema


class ExampleRefused(HeadgateError):
    """A test that cannot be run as it is."""

    code = "invalid-value"


@dataclass(slots=True)
class AnalysedColumns:
    """Schemas by dataset, with a cache of analyses. `errors`: why an analysis failed, by
    dataset."""

    desired: Desired
    runner: ExampleRunner
    schemas: dict[str, Schema | None] = field(default_factory=dict)
    errors: dict[str, TaskError] = field(default_factory=dict)

    def of_dataset(self, dataset: str) -> Schema | None:
        """The schema of a dataset; None if only data could give it."""
        if dataset not in self.schemas:
            self.schemas[dataset] = self._read_schema(dataset)
        return self.schemas[dataset]

    def _read_schema(self, dataset: str) -> Schema | None:
        node = self.desired.nodes[dataset]
        schema = declared(node)
        if schema is not None or not node.is_transform:
            return schema
        read: dict[str, Schema] = {}
        for slot in node.slots:
            own = self.of_dataset(slot.dataset)
            if own is None:
                return None
            read[slot.name] = node.read_schema(slot, own)
        answer = self.runner.ask({"ask": "analyse", "job": logic_job(node, read)})
        error = error_in(answer)
        if error is not None:
            self.errors[dataset] = error
            return None
        return node.with_reason(schema_in(answer))

    def of_input(self, slot: Slot, input_rows: Given | None, file: FileOfRows | None) -> Schema:
        """The columns of an input as a test gives it. Raises ExampleRefused where no type is
        known."""
        if input_rows is not None and input_rows.schema:
            return parse_ddl(input_rows.schema)
        schema = self.of_dataset(slot.dataset)
        if schema is not None:
            return schema
        if file is not None:
            return self._of_file(file, slot)
        if input_rows is None or not input_rows.rows:
            raise ExampleRefused(self._unknown(slot))
        try:
            return inferred(input_rows.rows).schema
        except MixedTypes as e:
            raise ExampleRefused(f"{slot.name}: {e}") from e

    def _of_file(self, file: FileOfRows, slot: Slot) -> Schema:
        answer = self.runner.ask({"ask": "infer", "file": file})
        error = error_in(answer)
        if error is not None:
            raise ExampleRefused(f"{slot.name}: {error['message']}")
        schema = schema_in(answer)
        assert schema is not None
        return with_values(schema, file["source"]["format"])[0]

    def _unknown(self, slot: Slot) -> str:
        error = self.errors.get(slot.dataset)
        why = f" ({error['message'].splitlines()[0]})" if error else ""
        return f"the columns of {slot.name} are not known{why}: give it rows, or a `schema`"


def notes(
    columns: AnalysedColumns, slots: tuple[Slot, ...], by_name: Mapping[str, Given]
) -> list[str]:
    """Columns without a known type."""
    lines = []
    for slot in slots:
        input_rows = by_name.get(slot.name)
        if (
            input_rows is None
            or input_rows.schema
            or input_rows.file
            or not input_rows.rows
            or columns.of_dataset(slot.dataset) is not None
        ):
            continue
        untyped = inferred(input_rows.rows).untyped
        if untyped:
            lines.append(
                f"{slot.name}: {', '.join(untyped)} could not be typed, and are read as STRING; give a `schema`"
            )
    return lines


def file_of(
    desired: Desired, node: Transform, slot: Slot | None, input_rows: Given
) -> FileOfRows | None:
    """The file of an input, read as its source reads files where the test says nothing else."""
    if input_rows.file is None:
        return None
    source = desired.nodes.get(slot.dataset) if slot else None
    read = source.read if source is not None and source.is_source else None
    path = absolute(input_rows.file.path, node.component.place.file)
    if path is None:
        raise ExampleRefused(f"{input_rows.name}: {input_rows.file.path} is relative to nothing")
    return {
        "path": path,
        "source": {
            "format": input_rows.file.format or _format(read, path),
            "options": _options(input_rows, read),
            "timezone": str(node.spark["timezone"]),
        },
        "schema": None,
    }


def _format(read: Read | None, path: str) -> str:
    if read is not None and read.connector == "files":
        return read.format
    suffix = path.rpartition(".")[2]
    return suffix if suffix in ("csv", "json", "parquet", "orc") else "text"


def _options(input_rows: Given, read: Read | None) -> dict[str, str]:
    assert input_rows.file is not None
    if input_rows.file.options is not None:
        return dict(input_rows.file.options)
    is_alike = (
        read is not None
        and read.connector == "files"
        and input_rows.file.format in (None, read.format)
    )
    return dict(read.options) if read is not None and is_alike else {}

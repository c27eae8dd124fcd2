"""Arguments of operations that the API takes as bodies of requests.

Such an argument is a frozen dataclass, with bounds in its annotations: pydantic checks a JSON
object by them, and OpenAPI shows them. A caller inside the process makes the same value without
these checks.

    @dataclass(frozen=True, slots=True)
    class NewShare(RequestBody):
        name: Annotated[str, Field(max_length=200)]
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, cast

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, Strict
from pydantic_core import CoreSchema

from controlplane.core.model.dataset_names import DATASET_NAME


class RequestBody:
    """A JSON object has the fields of the dataclass and no others, and no value is converted."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """The fields are strict. The body itself is not: a strict dataclass takes no object of
        JSON."""
        return cast("CoreSchema", {**handler(source), "strict": False})


DatasetName: TypeAlias = Annotated[str, Field(pattern=f"^{DATASET_NAME}$")]
BranchName: TypeAlias = Annotated[str, Field(max_length=100)]
Label: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")
]
"""A name that people give, in one line."""
Names: TypeAlias = Annotated[tuple[str, ...], Strict(False)]
"""JSON's lists are taken as tuples. Their items are strict."""

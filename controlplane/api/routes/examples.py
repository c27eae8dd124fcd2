"""Questions of tests of blueprints, which the service's own Spark answers."""

from __future__ import annotations

from typing import Annotated, cast

from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import Called, ClosedBody, JsonAnswer, answer
from controlplane.api.looks import waiting
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.model.answers.examples import ExampleAnswer
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.model.namespaces import DEFAULT
from controlplane.services.examples import asking
from dataplane.contract.example_protocol import Question

FILES = 100

router = auth.router("edit")


class QuestionBody(ClosedBody):
    """`question`: what `headgate test` asks of Spark. `files`: the content of each file that it
    names, by its path, in base64."""

    question: dict[str, JsonValue]
    files: dict[Annotated[str, Field(max_length=4096)], str] = Field({}, max_length=FILES)


@router.answers(rest.ASK_TEST)
async def ask(call: Called, body: QuestionBody) -> JsonAnswer[ExampleAnswer]:
    """Have the service's Spark answer one question of a test, for at most 600 s; 503 while it
    answers another one. It runs the code of the test on the service's machine, as transforms do, so
    it needs `edit`, which has `data`. Only files that the request brings are read."""
    if call.context.namespace != DEFAULT:
        raise RequestRefused(
            "not-supported", f"tests run here for the namespace {DEFAULT} only: run yours yourself"
        )

    contents = {path: asking.decoded(path, text) for path, text in body.files.items()}

    def work() -> JsonObject:
        question = cast("Question", body.question)
        return cast("JsonObject", asking.answer(call.services.examples, question, contents))

    return answer({"answer": await waiting(call, work, may_wait=True)})

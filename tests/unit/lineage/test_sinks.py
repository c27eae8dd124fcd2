"""The service that events of lineage are sent to: it takes them in order, and a refusal differs
from an outage."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from controlplane.services.openlineage.adapter import HttpSink
from tests.openlineage.service import Service, serving

EVENTS = [
    json.dumps({"n": n, "text": "a\nb 'é' \U0001f600"}, ensure_ascii=False).encode()
    for n in range(3)
]
REFUSED = [400, 409, 410, 413, 415, 422, 431]
UNAVAILABLE = [301, 307, 401, 403, 404, 405, 407, 408, 425, 429, 500, 502, 503, 504]


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as running:
        yield running


def test_events_arrive_as_they_are_in_order(service: Service) -> None:
    sink = HttpSink(service.url)
    assert [sink.send(event) for event in EVENTS] == [True, True, True]
    assert service.taken == EVENTS
    sink.close()


def test_an_event_that_is_sent_during_an_outage_is_taken_afterwards(service: Service) -> None:
    sink = HttpSink(service.url)
    sink.send(EVENTS[0])
    service.statuses.append(503)
    with pytest.raises(OSError, match="answered 503"):
        sink.send(EVENTS[1])
    assert sink.send(EVENTS[1])
    assert service.taken == EVENTS[:2]
    sink.close()


@pytest.mark.parametrize("status", REFUSED)
def test_an_event_that_is_refused_would_be_refused_again(service: Service, status: int) -> None:
    sink = HttpSink(service.url)
    service.statuses.append(status)
    assert [sink.send(event) for event in EVENTS[:2]] == [False, True]
    assert service.taken == [EVENTS[1]]
    sink.close()


@pytest.mark.parametrize("status", UNAVAILABLE)
def test_what_is_not_the_events_fault_is_tried_again(service: Service, status: int) -> None:
    sink = HttpSink(service.url, token="t0ken")
    service.statuses.append(status)
    with pytest.raises(OSError, match=f"answered {status}"):
        sink.send(EVENTS[0])
    assert len(service.headers) == 1  # no redirect was followed, with the token
    sink.close()


def test_a_service_is_told_who_asks(service: Service) -> None:
    sink = HttpSink(service.url, token="t0ken")
    sink.send(EVENTS[0])
    sink.close()
    [headers] = service.headers
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["Content-Type"] == "application/json"
    assert "t0ken" not in sink.place


def test_a_service_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sink = HttpSink(f"http://127.0.0.1:{silent.getsockname()[1]}/", answer_s=0.05)
        with pytest.raises(OSError, match="does not answer"):
            sink.send(EVENTS[0])
        sink.close()


def test_a_service_that_is_not_there_is_an_outage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    sink = HttpSink(f"http://127.0.0.1:{port}/")
    with pytest.raises(OSError, match="does not answer"):
        sink.send(EVENTS[0])
    sink.close()

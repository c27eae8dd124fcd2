"""What receivers get: signed JSON, Slack's form, e-mail, the input of a command."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import socketserver
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dataplane.contract.jobs import AlertItem, AlertMessage, ChannelKind, NotifyJob
from dataplane.notify.sending import send
from dataplane.task_failures import TaskFailure

ITEM: AlertItem = {
    "dataset": "shop.total",
    "occasion": "failed",
    "since": "2026-01-02",
    "text": "no number",
}
MESSAGE: AlertMessage = {
    "id": "m1",
    "branch": "main",
    "dataflow": "shop",
    "at": "2026-01-02",
    "summary": "shop.total: failed",
    "items": [ITEM],
}
LINE = "failed: shop.total since 2026-01-02: no number"


def job(to: ChannelKind, **settings: str | list[str]) -> NotifyJob:
    return {"to": to, "place": "", "settings": settings, "message": MESSAGE}


class Requests(list[tuple[Mapping[str, str], bytes]]):
    url = ""
    status = 200


@pytest.fixture
def requests() -> Iterator[Requests]:
    found = Requests()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(found.status)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/"
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def test_a_webhook_can_tell_who_sent_it(
    requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_HOOK_KEY", "very secret")
    send(job("webhook", url=requests.url, secret="secret://hook/key"))
    ((headers, body),) = requests
    assert json.loads(body) == MESSAGE
    text = headers["Headgate-Timestamp"].encode() + b"." + body
    expected = hmac.new(b"very secret", text, hashlib.sha256).hexdigest()
    assert headers["Headgate-Signature"] == f"v1={expected}"
    assert headers["Headgate-Id"] == "m1"


def test_slack_is_sent_a_text(requests: Requests) -> None:
    send(job("slack", url=requests.url))
    assert json.loads(requests[0][1]) == {"text": f"*shop.total: failed*\n{LINE}"}


@pytest.mark.parametrize("status", [302, 404, 500])
def test_what_a_service_refuses_was_not_sent(requests: Requests, status: int) -> None:
    requests.status = status
    with pytest.raises(TaskFailure, match=f"the service answered {status}"):
        send(job("webhook", url=requests.url))
    assert len(requests) == 1, "no redirect is followed"


def test_a_service_that_does_not_answer_is_told(requests: Requests) -> None:
    with pytest.raises(TaskFailure, match="the service does not answer"):
        send(job("webhook", url="http://127.0.0.1:1/"))


def test_no_message_goes_to_a_name_that_leads_to_a_link_local_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The resolver is the machine's own; here it has one answer more."""
    answer = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [answer])
    with pytest.raises(TaskFailure, match="link-local"):
        send(job("webhook", url="http://hook.example/x"))
    with pytest.raises(TaskFailure, match="link-local"):
        send(job("slack", url="http://hook.example/x"))
    with pytest.raises(TaskFailure, match="link-local"):
        send(
            job(
                "email",
                server="smtp://mail.example:25",
                sender="a@example.com",
                address=["b@example.com"],
            )
        )


class Smtp(socketserver.StreamRequestHandler):
    """Enough of a mail server without TLS."""

    mails: list[str]

    def handle(self) -> None:
        self._say("220 here")
        while line := self.rfile.readline().decode().strip():
            word = line[:4].upper()
            if word == "DATA":
                self._say("354 go on")
                self.mails.append(self._mail())
            refused = line.startswith("rcpt TO:<nobody@")
            self._say(
                "550 no such user" if refused else "221 bye" if word == "QUIT" else "250 fine"
            )
            if word == "QUIT":
                return

    def _mail(self) -> str:
        lines: list[str] = []
        while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
            lines.append(line)
        return "\n".join(lines)

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def smtp() -> Iterator[tuple[str, list[str]]]:
    mails: list[str] = []
    handler: Any = type("Handler", (Smtp,), {"mails": mails})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield f"smtp://127.0.0.1:{server.server_address[1]}", mails
        server.shutdown()
        thread.join()


def test_mail_is_sent_to_all(smtp: tuple[str, list[str]]) -> None:
    url, mails = smtp
    send(
        job(
            "email",
            server=url,
            address=["a@example.com", "b@example.com"],
            **{"from": "h@example.com"},
        )
    )
    (mail,) = mails
    assert "Subject: [Headgate] shop.total: failed" in mail
    assert "To: a@example.com, b@example.com" in mail
    assert mail.rstrip().endswith(LINE)


def test_mail_that_one_receiver_does_not_get_was_not_sent(smtp: tuple[str, list[str]]) -> None:
    with pytest.raises(TaskFailure, match=r"nobody@example\.com"):
        send(
            job(
                "email",
                server=smtp[0],
                address=["a@example.com", "nobody@example.com"],
                **{"from": "h@example.com"},
            )
        )


def test_a_password_goes_over_tls_only(
    smtp: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_MAIL_PASSWORD", "very secret")
    settings = {"from": "h@example.com", "user": "h", "password": "secret://mail/password"}
    with pytest.raises(TaskFailure, match="offers no TLS"):
        send(job("email", server=smtp[0], address=["a@example.com"], **settings))
    assert smtp[1] == []


def test_a_command_reads_the_message(tmp_path: Path) -> None:
    to = tmp_path / "got"
    script = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_bytes(sys.stdin.buffer.read())"
    send(job("command", command=[sys.executable, "-c", script, str(to)]))
    assert json.loads(to.read_bytes()) == MESSAGE


def test_a_command_that_fails_took_nothing() -> None:
    with pytest.raises(TaskFailure, match="ended with 3: no"):
        send(
            job(
                "command",
                command=[sys.executable, "-c", "import sys; sys.stderr.write('no'); sys.exit(3)"],
            )
        )
    with pytest.raises(TaskFailure, match="cannot be run"):
        send(job("command", command=["/nowhere/tell"]))

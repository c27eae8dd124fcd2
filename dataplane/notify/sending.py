"""One message to one channel. An exception says that the channel did not take it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from dataplane.contract.jobs import AlertMessage, ChannelKind, NotifyJob
from dataplane.notify import mail, message_lines, web
from dataplane.secrets import resolved
from dataplane.task_failures import TaskFailure

COMMAND_S = 60.0
Settings: TypeAlias = Mapping[str, str | list[str]]


def send(job: NotifyJob) -> None:
    """TaskFailure in words, or any error of a client."""
    _SENDERS[job["to"]](job["settings"], job["message"])


def _webhook(settings: Settings, message: AlertMessage) -> None:
    body = json.dumps(message, ensure_ascii=False).encode()
    headers = {"Headgate-Id": message["id"]}
    secret = text_in(settings, "secret")
    if secret:
        headers |= web.signed(body, secret, int(time.time()))
    web.post(text_in(settings, "url"), body, headers)


def _slack(settings: Settings, message: AlertMessage) -> None:
    text = "\n".join([f"*{message['summary']}*", *message_lines.lines(message)])
    web.post(
        text_in(settings, "url"),
        json.dumps({"text": text}).encode(),
        {"Headgate-Id": message["id"]},
    )


def _email(settings: Settings, message: AlertMessage) -> None:
    mail.send(
        mail.MailServer(
            text_in(settings, "server"), text_in(settings, "user"), text_in(settings, "password")
        ),
        sender=text_in(settings, "from"),
        receivers=texts_in(settings, "address"),
        message=message,
    )


def _command(settings: Settings, message: AlertMessage) -> None:
    """The program reads the message as JSON. Its exit code says whether it took it."""
    command = texts_in(settings, "command")
    try:
        done = subprocess.run(
            command,
            input=json.dumps(message).encode(),
            capture_output=True,
            timeout=COMMAND_S,
            check=False,
        )
    except OSError as e:
        raise TaskFailure("notify-refused", f"{command[0]} cannot be run: {e.strerror}") from e
    except subprocess.TimeoutExpired as e:
        raise TaskFailure(
            "notify-refused", f"{command[0]} ran for more than {COMMAND_S:.0f} seconds"
        ) from e
    if done.returncode:
        error_text = done.stderr.decode(errors="replace").strip()[-500:]
        raise TaskFailure(
            "notify-refused", f"{command[0]} ended with {done.returncode}: {error_text}"
        )


def text_in(settings: Settings, name: str) -> str:
    """A setting, or the secret that it refers to; empty where it is not given."""
    value = settings.get(name, "")
    return resolved(value) if isinstance(value, str) else ""


def texts_in(settings: Settings, name: str) -> list[str]:
    value = settings.get(name, [])
    return [value] if isinstance(value, str) else list(value)


_SENDERS: Mapping[ChannelKind, Callable[[Settings, AlertMessage], None]] = {
    "webhook": _webhook,
    "slack": _slack,
    "email": _email,
    "command": _command,
}

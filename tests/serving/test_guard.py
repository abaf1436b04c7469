"""The guard around an application that only echoes: who may ask, how much, and what may get out."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from resus.errors import ConfigError
from resus.serving.http import guard
from resus.serving.http.guard import HEADERS, MAX_IN_FLIGHT, Access, Gate, Guard, is_loopback, read_token

TOKEN = "0123456789abcdef-secret"
BOUND = 100


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    if message["body"] == b"fail":
        raise RuntimeError("alice liked it")
    if message["body"] == b"wait":
        await asyncio.sleep(0.05)
    if message["body"] == b"hang":
        await asyncio.Event().wait()
    if message["body"] == b"time out":
        raise TimeoutError("alice")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


async def ask(
    guarded: Guard, *chunks: bytes, headers: dict[str, str] | None = None, path: str = "/v1/predict"
) -> tuple[int, bytes, dict[bytes, bytes]]:
    sent: list[Message] = []
    waiting = [
        {"type": "http.request", "body": chunk, "more_body": place < len(chunks) - 1}
        for place, chunk in enumerate(chunks or (b"",))
    ]

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    named = {"host": "127.0.0.1:8000"} | (headers or {})
    scope: dict[str, Any] = {
        "type": "http",
        "path": path,
        "raw_path": path.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in named.items()],
    }
    await guarded(scope, receive, send)
    return sent[0]["status"], b"".join(m["body"] for m in sent[1:]), dict(sent[0]["headers"])


def answer(access: Access, *chunks: bytes, **options: Any) -> tuple[int, bytes, dict[bytes, bytes]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "REQUEST_BYTES", BOUND)
        return asyncio.run(ask(Guard(echo, gate=Gate(access)), *chunks, **options))


LOCAL = Access("127.0.0.1", None)


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=5))
@example([bytes(BOUND), b"x"])  # nothing is left to read
@example([bytes(BOUND), b"x", b"y"])
def test_a_body_passes_up_to_the_limit(chunks: list[bytes]) -> None:
    status, body, headers = answer(LOCAL, *chunks)
    whole = b"".join(chunks)
    if whole in (b"fail", b"wait", b"hang", b"time out"):
        return
    assert (status, body) == (200, whole) if len(whole) <= BOUND else status == 413
    assert dict(HEADERS).items() <= headers.items()


def test_a_declared_size_is_refused_before_the_body_is_read() -> None:
    assert answer(LOCAL, headers={"content-length": f"{BOUND + 1}"})[0] == 413


OWN = ("127.0.0.1", "127.0.0.1:8000", "localhost:1", "[::1]:8000", "LOCALHOST")
OTHER = ("evil.example", "127.0.0.1.evil.example:8000", "", "[", "localhost@evil.example")


def test_loopback_answers_only_to_its_own_names() -> None:
    assert {answer(LOCAL, headers={"host": host})[0] for host in OWN} == {200}
    assert {answer(LOCAL, headers={"host": host})[0] for host in OTHER} == {403}
    with_token = Access("127.0.0.1", TOKEN)  # a proxy passes the name on that its clients ask for
    asked = {"host": "resus.example.com", "origin": "https://resus.example.com"}
    assert answer(with_token, headers=asked)[0] == 401
    assert answer(with_token, headers=asked | {"authorization": f"Bearer {TOKEN}"})[0] == 200


def test_only_the_page_of_the_service_may_ask() -> None:
    assert answer(LOCAL, headers={"origin": "http://127.0.0.1:8000"})[0] == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9000", "http://[", ""):
        assert answer(LOCAL, headers={"origin": origin})[0] == 403, origin


@given(st.text(st.characters(codec="latin-1", exclude_categories=["Cc"])))
def test_only_the_token_opens(given_token: str) -> None:
    access = Access("0.0.0.0", TOKEN)
    opened = answer(access, headers={"authorization": given_token})[0]
    assert opened == (200 if given_token == f"Bearer {TOKEN}" else 401)


def test_the_token_opens() -> None:
    access = Access("0.0.0.0", TOKEN)
    assert answer(access, headers={"authorization": f"Bearer {TOKEN}"})[0] == 200
    assert answer(access)[0] == 401
    assert answer(access, path="/healthz")[0] == 200
    assert answer(access, path="/page/style.css")[0] == 200
    assert answer(access, path="/metrics")[0] == 401
    assert TOKEN not in repr(access)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_the_network_demands_a_token(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ConfigError, match=host):
        Access(host, None)


def test_a_token_comes_from_the_file_before_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file, {"RESUS_TOKEN": "another-token-of-some-length"}) == TOKEN
    assert read_token(None, {"RESUS_TOKEN": TOKEN}) == TOKEN
    assert read_token(None, {}) is None


@pytest.mark.parametrize("content", [b"", b"short", b"with a space in the middle", b"caf\xc3\xa9-0123456789abcdef"])
def test_a_bad_token_is_one_sentence_without_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="token file") as caught:
        read_token(file, {})
    assert not content or content.decode() not in str(caught.value)


def test_a_missing_token_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_token(tmp_path / "absent", {})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="pipe: it is a named pipe"):
        read_token(tmp_path / "pipe", {})


def test_a_failure_is_answered_and_logged_without_what_the_user_did(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        status, body, _ = answer(LOCAL, b"fail")
    assert status == 500
    assert b"error" in body
    assert "RuntimeError" in caplog.text
    assert "alice" not in caplog.text + body.decode()


def test_a_request_that_takes_too_long_gets_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "ANSWER_SECONDS", 0.05)
    status, body, headers = answer(LOCAL, b"hang")
    assert (status, headers[b"retry-after"]) == (503, b"1")
    assert b"try again" in body
    assert answer(LOCAL, b"time out")[0] == 500, "a failure of its own"


def test_who_asks_is_checked_before_the_body_is_read() -> None:
    status, _, headers = answer(Access("0.0.0.0", TOKEN), headers={"transfer-encoding": "chunked"})
    assert (status, headers[b"connection"]) == (401, b"close")


def test_an_address_without_a_body_takes_none() -> None:
    assert answer(LOCAL, b"x", headers={"content-length": "1"}, path="/healthz")[0] == 413
    assert answer(LOCAL, path="/healthz")[0] == 200


def test_too_many_requests_are_refused_until_some_are_answered() -> None:
    async def rush() -> tuple[list[int], int]:
        guarded = Guard(echo, gate=Gate(LOCAL))
        answers = await asyncio.gather(*(ask(guarded, b"wait") for _ in range(MAX_IN_FLIGHT + 5)))
        return [status for status, *_ in answers], (await ask(guarded, b"again"))[0]

    statuses, afterwards = asyncio.run(rush())
    assert statuses.count(200) == MAX_IN_FLIGHT
    assert statuses.count(429) == 5
    assert afterwards == 200

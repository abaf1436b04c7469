"""Between the network and the service: who may ask, how much, and what may get out."""

import asyncio
import contextlib
import hmac
import ipaddress
import json
import logging
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resus.errors import ConfigError
from resus.files import read_bounded, reason_of

REQUEST_BYTES = 1 << 20
MAX_IN_FLIGHT = 320  # requests at a time, waiting or in progress
BODY_SECONDS = 30
ANSWER_SECONDS = 30
LONGER: Mapping[str, float] = {"/v1/reload": 600}  # a large model takes its time
LINGER_SECONDS = 1  # in which a client that is refused may still send its body and read the answer
MIN_TOKEN = 16  # characters
TOKEN_FILE_BYTES = 1 << 16
TOKEN_VARIABLE = "RESUS_TOKEN"  # noqa: S105  # the name of a variable

PROBES = ("/healthz", "/readyz")
PAGES = ("/", "/curves")  # their scripts ask for the token
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
HEADERS = (
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
# two of these would let a proxy and the service understand a request in different ways
ONLY_ONCE = frozenset(
    (b"host", b"origin", b"authorization", b"content-length", b"transfer-encoding", b"sec-fetch-site")
)

log = logging.getLogger("resus.serving")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(file: Path | None, environment: Mapping[str, str]) -> str | None:
    """The token from a file, or else from the environment; None if neither has one."""
    if file is None:
        token, source = environment.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if token is None:
            return None
    else:
        source = f"token file {file}"
        try:
            token = read_bounded(file, TOKEN_FILE_BYTES).decode("ascii").strip()
        except OSError as error:
            raise ConfigError(f"{source}: {reason_of(error)}; check the path") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{source} is not plain ASCII: write one line of letters and digits") from None
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"{source} must hold a token of at least {MIN_TOKEN} printable characters without spaces: "
            "make one with 'openssl rand -hex 32'"
        )
    return token


@dataclass(frozen=True)
class Access:
    """Who may ask. Without a token, names of other hosts are refused: a page could bind its own name to our address."""

    host: str
    token: str | None

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise ConfigError(
                f"host {self.host} is open to the network: give a token with --token-file or {TOKEN_VARIABLE}, "
                "or serve on 127.0.0.1"
            )

    def __repr__(self) -> str:
        return f"<Access on {self.host}, {'with' if self.token else 'without'} token>"

    @cached_property
    def _names(self) -> frozenset[str] | None:
        """How clients may call the service; None if by any name."""
        return frozenset((*LOOPBACK_NAMES, self.host)) if self.token is None else None

    def refusal(self, path: str, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
        """Status and message for a request that is refused; None for one that may pass."""
        asked = headers.get(b"host", b"").decode("latin-1")
        if self._names is not None and _name_in(asked) not in self._names:
            return 403, "this service answers only on its loopback address: use 127.0.0.1 or localhost"
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1") not in (f"http://{asked}", f"https://{asked}"):
            return 403, "pages of other sites may not call this service: use its own page, or a program"
        if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin") and not _is_link_to_page(
            path, headers
        ):
            return 403, "pages of other sites may not call this service: use its own page, or a program"
        if self.token is not None and not _is_public(path):
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                return 401, "the token is missing or wrong: send 'Authorization: Bearer' with the service's token"
        return None


class Gate:
    """Which requests may pass, by their address and headers, and how many at a time."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.in_flight = 0

    def refusal(
        self, path: str, sent: Sequence[tuple[bytes, bytes]], headers: Mapping[bytes, bytes]
    ) -> tuple[int, str] | None:
        """Status and message for a request that is refused; None for one that may pass. `headers` are those `sent`."""
        refusal = _ambiguity(sent, headers) or self._access.refusal(path, headers)
        if refusal is not None:
            return refusal
        if _is_public(path):
            return (413, "this address takes no body: send the request without one") if _has_body(headers) else None
        if self.in_flight >= MAX_IN_FLIGHT:
            return 429, f"{MAX_IN_FLIGHT} requests are already in progress: try again in a moment"
        return None


class Guard:
    """ASGI middleware. It checks who asks, reads the whole body, up to the limit, and bounds every wait."""

    def __init__(self, app: ASGIApp, *, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # an id in a path may contain a slash, so the path is matched as it was sent, and each id is decoded on its own
        scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        answer = _Answer(send)
        headers = dict(scope["headers"])
        refusal = self._gate.refusal(scope["path"], scope["headers"], headers)
        if refusal is not None:
            await answer.refuse(*refusal, unread=receive if _has_body(headers) else None)
        elif _is_public(scope["path"]):
            await self._pass_on(scope, headers, receive, answer)
        else:
            self._gate.in_flight += 1
            try:
                await self._pass_on(scope, headers, receive, answer)
            finally:
                self._gate.in_flight -= 1

    async def _pass_on(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, answer: "_Answer") -> None:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._body(headers, receive)
        except TimeoutError:
            await answer.refuse(
                408, f"the body of the request did not arrive within {BODY_SECONDS} seconds: send it again"
            )
            return
        except TooLargeError as large:
            sentence = f"the request is larger than {REQUEST_BYTES:,} bytes: split it"
            await answer.refuse(413, sentence, unread=receive if large.is_unread else None)
            return
        seconds = LONGER.get(scope["path"], ANSWER_SECONDS)
        try:
            async with asyncio.timeout(seconds) as timer:
                await self._app(scope, _replay(body, receive), answer.send)
        except Exception as error:
            late = isinstance(error, TimeoutError) and timer.expired()
            log.error("a request was not answered in time" if late else kind_and_place(error))
            if answer.begun:
                return
            if late:
                await answer.refuse(503, f"the service did not answer within {seconds} seconds: try again in a moment")
            else:
                await answer.refuse(500, "the service failed on this request: see its log")

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The body; TooLargeError if it is too large, which the client may say beforehand."""
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > REQUEST_BYTES:
            raise TooLargeError(is_unread=True)
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return b""  # the client has disconnected
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > REQUEST_BYTES:
                raise TooLargeError(is_unread=more)
            if not more:
                return b"".join(parts)


class TooLargeError(Exception):
    """Some of the body may still be on its way."""

    def __init__(self, *, is_unread: bool) -> None:
        super().__init__()
        self.is_unread = is_unread


class _Answer:
    """Sends an answer; every answer carries the security headers."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
        await self._send(message)

    async def refuse(self, status: int, sentence: str, *, unread: Receive | None = None) -> None:
        """Refuse a request. A body that is `unread` ends the connection."""
        body = refusal_body(sentence)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if unread is not None or status in (400, 408, 413):
            headers.append((b"connection", b"close"))
        if status in (429, 503):
            headers.append((b"retry-after", b"1"))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": unread is not None})
        if unread is not None:
            await _linger(unread)
            await self.send({"type": "http.response.body", "body": b""})


async def _linger(unread: Receive) -> None:
    """Drop some of a body. If the connection ended at once, most clients would see an error and not the answer."""
    dropped, more = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while more and dropped < REQUEST_BYTES:
                message = await unread()
                dropped += len(message.get("body", b""))
                more = message.get("more_body", False)


def refusal_body(sentence: str) -> bytes:
    return json.dumps({"error": sentence}).encode()


def _has_body(headers: Mapping[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _ambiguity(sent: Sequence[tuple[bytes, bytes]], headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
    """Status and message for headers that a proxy before the service may understand in another way."""
    if len(sent) != len(headers):
        counts = Counter(name for name, _ in sent)
        for name in ONLY_ONCE:
            if counts[name] > 1:
                return 400, f"the header {name.decode()} came more than once: send it once"
    if b"transfer-encoding" in headers:
        if b"content-length" in headers:
            return 400, "content-length and transfer-encoding exclude each other: send one of them"
        if headers[b"transfer-encoding"].lower() != b"chunked":
            return 400, "the only transfer-encoding that the service takes is chunked: send the body as it is"
    return None


def kind_and_place(error: Exception) -> str:
    """Describes an unexpected error without its message, which could reveal what a user did."""
    frames = traceback.extract_tb(error.__traceback__)
    return type(error).__name__ + (f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else "")


def _is_public(path: str) -> bool:
    return path in PROBES or path in PAGES or path.startswith("/page/")


def _is_link_to_page(path: str, headers: Mapping[bytes, bytes]) -> bool:
    """Other sites may link to the pages: following a link reads nothing for them."""
    return path in PAGES and headers.get(b"sec-fetch-mode") == b"navigate"


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


@lru_cache(64)
def _name_in(host_header: str) -> str:
    """The name in a Host header, without port and brackets."""
    try:
        return urlsplit(f"//{host_header}").hostname or ""
    except ValueError:
        return ""

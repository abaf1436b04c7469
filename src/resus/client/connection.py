"""What both clients know about the service: its address, the token, and how failures of the network are told."""

import os
from dataclasses import dataclass, field
from typing import Any

import httpx

from resus.client.calls import Call
from resus.errors import ConfigError, NoAnswerError, ServiceError
from resus.version import __version__

TOKEN_VARIABLE = "RESUS_TOKEN"  # noqa: S105  # the name of a variable
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True)
class Address:
    """Where the service is, and the token that it wants."""

    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, token: str | None) -> "Address":
        """Check both; without a token, that of the environment counts."""
        if not isinstance(url, str):
            raise ConfigError(f"the address of the service is {url!r}: give a text such as 'http://127.0.0.1:8000'")
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ConfigError(f"the address {url!r} cannot be read ({error}): correct it") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ConfigError(
                f"the address {url!r} must begin with http:// or https://, as 'http://127.0.0.1:8000' does"
            )
        if parsed.query or parsed.fragment or parsed.userinfo:
            raise ConfigError("the address of the service takes no password, '?' or '#': give a token by token=")
        found = os.environ.get(TOKEN_VARIABLE) if token is None else token
        if found is not None and (not found.isascii() or not found.isprintable() or not found or " " in found):
            source = TOKEN_VARIABLE if token is None else "the token"
            raise ConfigError(f"{source} must be printable ASCII without spaces: give the token of the service")
        return cls(url.rstrip("/"), found)

    @property
    def options(self) -> dict[str, Any]:
        """Of a client of httpx. Idle connections end before the service closes them."""
        headers = {"user-agent": f"resus-client/{__version__}", "accept": "application/json"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        return {
            "base_url": self.url,
            "headers": headers,
            "follow_redirects": False,
            "limits": httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=5.0),
        }

    def no_answer(self, call: Call[Any], error: Exception, seconds: float) -> ServiceError:
        """The error of a request that got no answer."""
        if isinstance(error, httpx.TimeoutException | TimeoutError):
            sentence = (
                f"{self.url} did not answer {call} within {seconds:g} seconds: check the service, or raise timeout"
            )
        elif isinstance(error, httpx.ConnectError):
            sentence = f"{self.url} cannot be reached ({error}): check the address, and that 'resus serve' runs"
        else:
            sentence = f"{self.url} broke off before it answered {call} ({str(error) or type(error).__name__})"
        failure = NoAnswerError(sentence)
        failure.may_have_happened = not isinstance(error, NEVER_SENT)
        return failure


def request_options(call: Call[Any], content: bytes | None) -> dict[str, Any]:
    """What httpx needs to send a call."""
    headers = {} if content is None else {"content-type": "application/json"}
    return {"content": content, "headers": headers, "params": dict(call.query) if call.query else None}

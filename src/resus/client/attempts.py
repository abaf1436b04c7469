"""Which failures are tried again, and how long to wait before it."""

import math
import random
from dataclasses import dataclass
from typing import Any

from resus.client.calls import Call
from resus.errors import BusyError, ConfigError, NoAnswerError, ServiceError

FIRST_WAIT = 0.1  # seconds at most before the first repetition; doubled with each one
SLOW_SECONDS = 610  # that a call that is slow may take: the service gives up after 600


@dataclass(frozen=True)
class Patience:
    """How long a client tries: so many `retries` of a call, each within `timeout` seconds, and waits in between."""

    timeout: float
    retries: int
    longest_wait: float

    def __post_init__(self) -> None:
        for name, value, least in (("timeout", self.timeout, 0.001), ("longest_wait", self.longest_wait, 0)):
            if not math.isfinite(value) or value < least:
                raise ConfigError(f"{name} is {value}: give a number of seconds, at least {least}")
        if self.retries < 0:
            raise ConfigError(f"retries is {self.retries}: give 0 or more")

    def seconds(self, call: Call[Any]) -> float:
        return max(self.timeout, SLOW_SECONDS) if call.slow else self.timeout


class Attempts:
    """The tries of one call."""

    def __init__(self, call: Call[Any], patience: Patience) -> None:
        self._call, self._patience = call, patience
        self._tries = 0

    def wait_after(self, error: ServiceError) -> float:
        """The seconds to wait before the next try; raises the error if there is none."""
        self._tries += 1
        error.tries = self._tries
        wait = self._wait(error)
        if self._tries > self._patience.retries or wait is None:
            raise error
        return wait

    def _wait(self, error: ServiceError) -> float | None:
        """A random part of a wait that doubles, so that many clients do not come back at one moment."""
        if not isinstance(error, NoAnswerError | BusyError):
            return None
        if not self._call.repeatable and error.may_have_happened:
            return None
        longest = min(self._patience.longest_wait, FIRST_WAIT * 2.0 ** (self._tries - 1))
        wait = random.uniform(0, longest)  # noqa: S311  # not a secret
        asked = error.retry_after
        if asked is None:
            return wait
        return None if asked > self._patience.longest_wait else asked + wait

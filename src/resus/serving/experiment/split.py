"""Which users the second model answers."""

from dataclasses import dataclass
from hashlib import blake2b

from resus.errors import ConfigError

SALT = "resus"


@dataclass(frozen=True)
class Split:
    """A share of the users by the hash of their ids: the same ones in every worker, on every host, after a restart.

    Another salt chooses other users. A larger share keeps those of a smaller one.
    """

    share: float
    salt: str = SALT

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(
                f"--split is {self.share:g}: give the share of users that the second model answers, more than 0 and "
                "less than 1, such as 0.1"
            )

    def has(self, user: str) -> bool:
        digest = blake2b(user.encode(), key=blake2b(self.salt.encode()).digest(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.share * 2**64

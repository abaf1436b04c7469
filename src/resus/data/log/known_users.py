"""Which users a model has met, by hashes of their ids: a run need not keep the ids themselves."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from resus.arrays import Array, Booleans, Integers
from resus.data.log.log import InteractionLog
from resus.data.split import UserSplit

Hashes = npt.NDArray[np.uint64]
Users = Literal["unseen", "new", "all"]  # of a log: by what a model has met
HASH_BYTES = 8


@dataclass(frozen=True, eq=False)
class KnownUsers:
    """Sorted hashes of the users that a model learned from, was validated on, and was to be tested on.

    After a warm start these include the training and validation users of the run that it started from.
    """

    train: Hashes
    validation: Hashes
    test: Hashes

    @classmethod
    def of(cls, log: InteractionLog, split: UserSplit, before: "KnownUsers | None" = None) -> Self:
        """The users of a split, and those of a model that training started from."""
        own = hashes_of(log)
        train, validation = own[split.train], own[split.validation]
        if before is not None:
            train = np.union1d(train, before.train)
            validation = np.setdiff1d(np.union1d(validation, before.validation), train)
        return cls(np.sort(train), np.sort(validation), np.sort(own[split.test]))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """What `to_arrays` gave; ValueError if it is anything else."""
        names = [part.name for part in fields(cls)]
        if sorted(arrays) != sorted(names) or any(one.dtype != np.uint64 or one.ndim != 1 for one in arrays.values()):
            raise ValueError("it does not hold the users of a run")
        return cls(**{name: np.sort(arrays[name]) for name in names})

    def to_arrays(self) -> dict[str, Array]:
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def learned_from(self, users: Iterable[str]) -> int:
        """How many of these users the model was trained or validated on."""
        own = hashes_of_ids(users)
        return int((_within(own, self.train) | _within(own, self.validation)).sum())

    def among(self, log: InteractionLog) -> "Met":
        """Which users of a log the model has met."""
        own = hashes_of(log)
        return Met(*(_within(own, getattr(self, part.name)) for part in fields(self)))


@dataclass(frozen=True, eq=False)
class Met:
    """For each user of a log, whether a model learned from them, was validated on them, or was to be tested on them."""

    train: Booleans
    validation: Booleans
    test: Booleans

    @classmethod
    def of_split(cls, split: UserSplit, n_users: int) -> Self:
        parts = (np.isin(np.arange(n_users), part) for part in (split.train, split.validation, split.test))
        return cls(*parts)

    @cached_property
    def unseen(self) -> Booleans:
        """The model learned nothing from them."""
        return ~(self.train | self.validation)

    @cached_property
    def new(self) -> Booleans:
        """Its log did not have them."""
        return self.unseen & ~self.test

    def split(self) -> UserSplit:
        """Known users stay where they are, and all others are test users."""
        return UserSplit(*map(_numbers, (self.train, self.validation, self.unseen)))


def hashes_of(log: InteractionLog) -> Hashes:
    """A hash of each user's id."""
    return hashes_of_ids(log.user_ids.to_pylist())


def hashes_of_ids(users: Iterable[str]) -> Hashes:
    digests = (hashlib.blake2b(user.encode(), digest_size=HASH_BYTES).digest() for user in users)
    return np.frombuffer(b"".join(digests), dtype=np.dtype("<u8")).astype(np.uint64)


def _within(own: Hashes, known: Hashes) -> Booleans:
    if not len(known):
        return np.zeros(len(own), dtype=np.bool_)
    places = np.minimum(np.searchsorted(known, own), len(known) - 1)
    found: Booleans = known[places] == own
    return found


def _numbers(chosen: Booleans) -> Integers:
    return np.flatnonzero(chosen)

"""Users are split, never rows: no model was trained on anything of a test user."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from resus.arrays import Booleans, Integers
from resus.errors import DataError
from resus.randomness import Purpose, generator

PARTS = ("train", "validation", "test")
Protocol = Literal["paper", "authors-release"]  # whose way to prepare, split and evaluate


@dataclass(frozen=True, eq=False)
class UserSplit:
    """Three disjoint sets of users, each in ascending order."""

    train: Integers
    validation: Integers
    test: Integers

    def __post_init__(self) -> None:
        together = np.concatenate([self.train, self.validation, self.test])
        assert len(np.unique(together)) == len(together), "a user belongs to one part only"
        for part in PARTS:
            if len(getattr(self, part)) == 0:
                raise DataError(
                    f"no user of {len(together)} is left for the {part} part: give more users or other 'split.ratios'"
                )


@dataclass(frozen=True, eq=False)
class Population:
    """The users of a log that models are measured on. A log that is newer than a model may have no validation users."""

    validation: Integers
    test: Integers


def split_users(
    n_users: int, *, ratios: tuple[float, float, float], order: Literal["random", "ascending"], seed: int
) -> UserSplit:
    """Users at random with a seed (the paper), or in ascending id (the authors' release), cut at the ratios."""
    users = np.arange(n_users, dtype=np.int64)
    if order == "random":
        users = generator(Purpose.USER_SPLIT, seed).permutation(users)
    shares = np.cumsum(ratios) / sum(ratios)
    first, second = (round(n_users * share) for share in shares[:2])
    return UserSplit(*(np.sort(part) for part in (users[:first], users[first:second], users[second:])))


def split_further(
    trained: Booleans,
    validated: Booleans,
    *,
    ratios: tuple[float, float, float],
    order: Literal["random", "ascending"],
    seed: int,
) -> UserSplit:
    """Users of which a model has met some. Those stay where they are, so that no test user trained it.

    The others fill the validation and test parts to their share of all users, as far as they go, and then train.
    """
    n_users, shares = len(trained), np.array(ratios) / sum(ratios)
    others = np.flatnonzero(~trained & ~validated)
    if order == "random":
        others = generator(Purpose.USER_SPLIT, seed).permutation(others)
    held = np.flatnonzero(validated & ~trained)
    wanted = np.array([max(0, round(n_users * shares[1]) - len(held)), max(1, round(n_users * shares[2]))])
    if wanted.sum() > len(others):
        wanted = np.floor(wanted * len(others) / wanted.sum()).astype(np.int64)
        wanted[1] = len(others) - wanted[0]
    train, validation, test = np.split(others, [len(others) - wanted.sum(), len(others) - wanted[1]])
    parts = (np.append(np.flatnonzero(trained), train), np.append(held, validation), test)
    return UserSplit(*(np.sort(part) for part in parts))

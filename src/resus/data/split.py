"""Users are split, never rows: no model was trained on anything of a test user."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from resus.arrays import Integers
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

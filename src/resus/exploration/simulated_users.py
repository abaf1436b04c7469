"""New users of a planted world, and everything that the world and a model say about what they may be shown."""

from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from torch import Tensor

from resus.arrays import Doubles, Integers
from resus.data.datasets.planted import AGES, DAYPARTS, DEVICES, GENDERS, DrawnWorld, PlantedWorld, sigmoid
from resus.data.fields.feature_map import FeatureMap
from resus.episodes.batch import Features
from resus.model.personalizer import Personalizer
from resus.randomness import Purpose, generator

ROWS = 1 << 16  # encoded at a time


@dataclass(frozen=True, eq=False)
class SimulatedUsers:
    """Users as the world draws them, none of whom is in the log, and the contexts of their visits."""

    groups: Integers  # [U], by age and gender
    personal: Doubles  # [U, items], what a user adds to the logit of the user's group
    known: Doubles  # [groups, items], the logit without the user's own part and without a context
    of_context: Doubles  # [contexts]
    contexts: Integers  # [U, events]
    coins: Doubles  # [U, items]: an item is liked if its coin is below the probability

    @classmethod
    def drawn(cls, world: PlantedWorld, hidden: DrawnWorld, *, users: int, events: int, seed: int) -> "SimulatedUsers":
        random = generator(Purpose.EXPLORATION, seed)
        age, gender = random.integers(len(AGES), size=users), random.integers(len(GENDERS), size=users)
        taste = world.taste_spread * random.normal(size=(users, world.traits))
        bias = world.bias_spread * random.normal(size=users)
        group_tastes = hidden.group_tastes.reshape(-1, world.traits)
        return cls(
            groups=age * len(GENDERS) + gender,
            personal=bias[:, None] + taste @ hidden.traits.T,
            known=world.base + hidden.appeal + group_tastes @ hidden.traits.T,
            of_context=hidden.contexts.ravel(),
            contexts=random.integers(hidden.contexts.size, size=(users, events)),
            coins=random.random((users, len(hidden.appeal))),
        )

    def __len__(self) -> int:
        return len(self.groups)

    def chances(self, users: slice, context: Integers | None) -> Doubles:
        """The probability that each user `[U]` likes each item in a context `[U]`, or over all contexts."""
        logits = self.known[self.groups[users]] + self.personal[users]
        if context is not None:
            return sigmoid(logits + self.of_context[context][:, None])
        mean: Doubles = np.mean([sigmoid(logits + effect) for effect in self.of_context], axis=0)
        return mean


@dataclass(frozen=True, eq=False)
class EncodedWorld:
    """What a model makes of every item in every context, and for every group of users."""

    shared: Tensor  # [groups, contexts, items], logits of the shared model
    crowd: Tensor  # the same as the learner corrects them
    codes: Tensor  # [contexts, items, K]

    @classmethod
    @torch.no_grad()
    def of(cls, model: Personalizer, features: FeatureMap, hidden: DrawnWorld) -> "EncodedWorld":
        """Codes do not depend on the fields of users, which RESUS+ leaves out."""
        items, contexts = len(hidden.appeal), hidden.contexts.size
        shared, crowd, kept = [], [], []
        for group in range(len(AGES) * len(GENDERS)):
            ids, weights = features.encode(_frame(hidden, group), "the planted world")
            logits, codes = [], []
            for start in range(0, len(ids), ROWS):
                rows = slice(start, start + ROWS)
                part = Features.of(ids[rows], None if weights is None else weights[rows])
                logits.append(model.predictor.logits(part))
                codes.append(model.encode(part))
            encoded = torch.cat(codes)
            shared.append(torch.cat(logits).view(contexts, items))
            crowd.append(model.learner.crowd(torch.cat(logits), encoded).view(contexts, items))
            kept = [encoded.view(contexts, items, -1)]
        return cls(torch.stack(shared), torch.stack(crowd), kept[0])


def _frame(hidden: DrawnWorld, group: int) -> pl.DataFrame:
    """A row per context and item, for users of one group."""
    items, contexts = len(hidden.appeal), hidden.contexts.size
    item, context = np.tile(np.arange(items), contexts), np.repeat(np.arange(contexts), items)
    age, gender = divmod(group, len(GENDERS))
    daypart, device = np.divmod(context, len(DEVICES))
    return pl.DataFrame(
        {
            "item": item,
            "category": hidden.category[item],
            "brand": hidden.brand[item],
            "daypart": np.array(DAYPARTS)[daypart],
            "device": np.array(DEVICES)[device],
        }
    ).with_columns(age=pl.lit(AGES[age]), gender=pl.lit(GENDERS[gender]))

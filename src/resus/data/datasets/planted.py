"""A planted world: users with tastes, items and contexts with features, clicks drawn from known probabilities.

    logit P(click) = base + appeal(item) + context + bias(user) + taste(user) · traits(item)

A user's bias and taste are Gaussian around the mean of the user's visible group (age, gender). So two probabilities are
known exactly for every event: that of a click if one knows the user, and the best guess from the features alone.
"""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from resus.arrays import Doubles, Integers
from resus.data.build import log_of_frame
from resus.data.log.log import InteractionLog
from resus.data.options import BuildOptions
from resus.data.schema import FieldSchema, TableSchema
from resus.randomness import Purpose, generator

AGES = ("18-24", "25-34", "35-44", "45-54", "55+")
GENDERS = ("f", "m")
DAYPARTS = ("morning", "noon", "evening", "night")
DEVICES = ("desktop", "phone", "tablet")
TRUTHS = ("truth", "crowd")
FIELDS = ("item", "category", "brand", "age", "gender", "daypart", "device")


class PlantedWorld(BaseModel):
    """The size of the world, and how personal it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    users: int = Field(default=3000, ge=10)
    items: int = Field(default=300, ge=2)
    events_per_user: float = Field(default=60.0, gt=2)
    traits: int = Field(default=4, ge=1)
    categories: int = Field(default=12, ge=1)
    brands: int = Field(default=20, ge=1)
    base: float = -0.4
    taste_spread: float = Field(default=1.2, ge=0)
    bias_spread: float = Field(default=0.6, ge=0)
    seed: int = 1


def planted_log(world: PlantedWorld | None = None) -> InteractionLog:
    """Draw the events of a world, with both true probabilities."""
    world = world or PlantedWorld()
    fields = {name: FieldSchema() for name in FIELDS}
    schema = TableSchema(user="user", item="item", time="time", label="click", fields=fields)
    options = BuildOptions(duplicates="keep", single_events="keep")
    log = log_of_frame(draw_events(world), schema, options, name="planted", where="the planted world", truth=TRUTHS)
    return replace(log, manifest=log.manifest.model_copy(update={"data_set": "planted"}))


def draw_events(world: PlantedWorld) -> pl.DataFrame:
    """One row per event, with its features, its click and the two true probabilities."""
    return draw_world(world).events


@dataclass(frozen=True, eq=False)
class DrawnWorld:
    """The events, and what no model can see."""

    events: pl.DataFrame
    known: Doubles  # [events], the logit without the user's own part
    traits: Doubles  # [items, traits]
    appeal: Doubles  # [items]
    category: Integers  # [items]
    brand: Integers  # [items]
    group_tastes: Doubles  # [ages, genders, traits]
    contexts: Doubles  # [dayparts, devices], what a context adds to a logit


def draw_world(world: PlantedWorld) -> DrawnWorld:
    """Draw the events, and return what they were drawn from."""
    random = generator(Purpose.PLANTED_WORLD, world.seed)
    category = random.integers(world.categories, size=world.items)
    brand = random.integers(world.brands, size=world.items)
    traits = random.normal(size=(world.categories, world.traits))[category]
    traits = (traits + 0.8 * random.normal(size=traits.shape)) / np.sqrt(1.64 * world.traits)
    appeal = 0.5 * random.normal(size=world.brands)[brand] + 0.5 * random.normal(size=world.items)
    popularity = random.permutation(1.0 / np.arange(3, world.items + 3) ** 0.7)

    age, gender = random.integers(len(AGES), size=world.users), random.integers(len(GENDERS), size=world.users)
    by_age, by_gender = (random.normal(size=(len(names), world.traits)) for names in (AGES, GENDERS))
    group_tastes = 0.6 * (by_age[:, None] + by_gender)
    group_taste = group_tastes[age, gender]
    taste = group_taste + world.taste_spread * random.normal(size=group_taste.shape)
    bias = world.bias_spread * random.normal(size=world.users)

    spread = np.exp(0.6 * random.normal(size=world.users))
    lengths = np.maximum(2, np.round(world.events_per_user * spread / spread.mean())).astype(np.int64)
    user = np.repeat(np.arange(world.users), lengths)
    item = random.choice(world.items, size=len(user), p=popularity / popularity.sum())
    daypart, device = random.integers(len(DAYPARTS), size=len(user)), random.integers(len(DEVICES), size=len(user))
    by_daypart, by_device = (0.3 * random.normal(size=len(names)) for names in (DAYPARTS, DEVICES))
    contexts = by_daypart[:, None] + by_device
    context = contexts[daypart, device]

    known = world.base + appeal[item] + context + (group_taste[user] * traits[item]).sum(axis=1)
    personal = bias[user] + ((taste - group_taste)[user] * traits[item]).sum(axis=1)
    variance = world.bias_spread**2 + world.taste_spread**2 * (traits[item] ** 2).sum(axis=1)
    truth = sigmoid(known + personal)
    events = pl.DataFrame(
        {
            "user": user,
            "time": np.arange(len(user)) - np.repeat(np.cumsum(lengths) - lengths, lengths),
            "item": item,
            "category": category[item],
            "brand": brand[item],
            "age": np.array(AGES)[age][user],
            "gender": np.array(GENDERS)[gender][user],
            "daypart": np.array(DAYPARTS)[daypart],
            "device": np.array(DEVICES)[device],
            "click": (random.random(len(user)) < truth).astype(np.int8),
            "truth": truth,
            "crowd": mean_sigmoid(known, variance),
        }
    )
    return DrawnWorld(events, known, traits, appeal, category, brand, group_tastes, contexts)


def sigmoid(logits: Doubles) -> Doubles:
    return 1.0 / (1.0 + np.exp(-logits))


def mean_sigmoid(mean: Doubles, variance: Doubles) -> Doubles:
    """E[σ(z)] for z ~ N(mean, variance), by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    total = np.zeros_like(mean)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        total += weight * sigmoid(mean + node * np.sqrt(variance))
    return total

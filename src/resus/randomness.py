"""Every random stream has its own purpose and number, so that no two streams are the same."""

from enum import IntEnum, unique

import numpy as np


@unique
class Purpose(IntEnum):
    """What random numbers are drawn for. A new purpose takes a new number: a changed number changes every result."""

    SAMPLED_NEGATIVES = 0
    USER_SPLIT = 1
    EPISODES = 2
    SUPPORT_ORDER = 3
    PREDICTOR_BATCHES = 4
    FACTOR_BATCHES = 5
    FOLDS = 6
    FACTOR_SUPPORTS = 7
    BOOTSTRAP = 8
    HISTORY_TREES_TRAINING = 10
    HISTORY_TREES_VALIDATION = 11
    BOOSTED_SUPPORTS = 12
    METHOD_BOOTSTRAP = 13
    META_EMBEDDING_BATCHES = 14
    PLAYGROUND_USERS = 15
    PLANTED_WORLD = 16
    DIN_QUERIES = 17
    EXPLORATION = 18
    TAOBAO_ADS = 20
    TAOBAO_USERS = 21
    TAOBAO_TASTES = 22
    TAOBAO_CLICK_RATE = 23
    TAOBAO_IMPRESSIONS = 24


def generator(purpose: Purpose, seed: int, *numbers: int) -> np.random.Generator:
    """The stream of one purpose; `numbers` tell its epochs or parts apart."""
    return np.random.default_rng([seed, purpose, *numbers])

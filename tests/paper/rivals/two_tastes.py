"""A world of two tastes, half of the users each: one likes items a and b, the other c and d, and nothing else tells."""

import numpy as np
import pyarrow as pa

from resus.baselines.base import Method, Task
from resus.config.resolve import resolve
from resus.data.fields.categorical import CategoricalField
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import auc

USERS, EVENTS = 120, 14
SETTINGS = {
    "learner.kind": "ridge",
    "predictor.hidden_units": [16],
    "encoder.hidden_units": [16],
    "predictor.embedding_dim": 4,
    "encoder.embedding_dim": 4,
    "training.learning_rate": 0.01,
    "training.batch_size": 100,
    "predictor.embedding_std": 0.1,
    "training.epochs": 8,
    "training.patience": 8,
    "evaluation.max_size": 6,
}


def task_of_two_tastes() -> Task:
    random = np.random.default_rng(5)
    items = random.integers(4, size=(USERS, EVENTS))
    taste = random.permutation(USERS) % 2
    item = CategoricalField("item", tuple("abcd"))
    log = InteractionLog(
        features=FeatureMap((item,), item="item"),
        ids=(1 + items).reshape(-1, 1).astype(np.int32),
        weights=None,
        labels=(items // 2 == taste[:, None]).ravel().astype(np.float32),
        offsets=np.arange(USERS + 1) * EVENTS,
        user_ids=pa.array([str(user) for user in range(USERS)]),
        ordered=True,
    )
    return Task(log, resolve(SETTINGS))


def auc_on_test_users(method: Method, task: Task, size: int) -> float:
    """The AUC on the test users with `size` events known."""
    ordered = OrderedUsers.of(task.log, task.split.test, seed=1)
    queries = ordered.positions >= size
    logits = method.score_prefixes(task.log, ordered, [size])[queries, 0]
    return auc(task.log.labels[ordered.rows[queries]], logits)

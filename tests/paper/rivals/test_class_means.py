"""LWA and NLBA against their equations, user by user."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from two_tastes import auc_on_test_users, task_of_two_tastes

from resus.arrays import Doubles
from resus.baselines.base import Method
from resus.episodes.batch import EpisodeBatch
from resus.paper.rivals.class_means import ClassMeansNetwork, UserClassifier, class_means
from resus.paper.rivals.lwa import LWA, AdaptedWeights
from resus.paper.rivals.nlba import NLBA, AdaptedBiases

WIDTH, HIDDEN = 3, 5


def test_class_means_by_hand() -> None:
    support = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 0.0]]])
    labels = torch.tensor([[1.0, 0.0, 1.0]])
    masks = torch.tensor([[[True, True, True], [True, False, False], [False, False, False]]])
    expected = [[[3.0, 4.0], [3.0, 1.0]], [[0.0, 0.0], [1.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]]
    torch.testing.assert_close(class_means(support, labels, masks), torch.tensor([expected]))


def test_no_slot_at_all_gives_zero_means() -> None:
    means = class_means(torch.empty(2, 0, 3), torch.empty(2, 0), torch.empty(2, 1, 0, dtype=torch.bool))
    torch.testing.assert_close(means, torch.zeros(2, 1, 2, 3))


def lwa(own: dict[str, Doubles], query: Doubles, negatives: Doubles, positives: Doubles) -> float:
    return float(own["bias"] + query @ (own["mix"][0] * negatives + own["mix"][1] * positives))


def nlba(own: dict[str, Doubles], query: Doubles, negatives: Doubles, positives: Doubles) -> float:
    biases = own["biases.bias"] + own["biases.weight"] @ np.concatenate([negatives, positives])
    hidden = np.maximum(own["hidden.weight"] @ query + biases[:HIDDEN], 0)
    return float(own["output.weight"][0] @ hidden + biases[HIDDEN])


@pytest.mark.parametrize(
    ("classifier", "equation"), [(AdaptedWeights(), lwa), (AdaptedBiases(WIDTH, hidden=HIDDEN), nlba)]
)
def test_every_logit_is_the_equation_of_its_user(classifier: UserClassifier, equation: Callable[..., float]) -> None:
    random = np.random.default_rng(0)
    lengths, sizes = np.array([5, 1, 7, 4]), np.array([3, 0, 6, 1])
    encoded = random.normal(size=(lengths.sum(), WIDTH))
    labels = random.integers(2, size=lengths.sum()).astype(float)
    with torch.no_grad():
        for parameter in classifier.double().parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(3))
    own = {name: value.detach().numpy() for name, value in classifier.named_parameters()}

    expected, start = [], 0
    for length, size in zip(lengths, sizes, strict=True):
        known, clicked = encoded[start : start + size], labels[start : start + size]
        means = [known[clicked == label].sum(axis=0) / max((clicked == label).sum(), 1) for label in (0, 1)]
        expected += [equation(own, query, *means) for query in encoded[start + size : start + length]]
        start += length

    network = ClassMeansNetwork(torch.nn.Identity(), classifier)
    batch = EpisodeBatch(np.arange(lengths.sum()), lengths, sizes)
    logits = network(batch, torch.from_numpy(encoded), torch.from_numpy(labels))
    np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("method", [LWA(), NLBA(hidden=16)], ids=["lwa", "nlba"])
def test_a_few_events_tell_the_taste_of_a_new_user(method: Method) -> None:
    task = task_of_two_tastes()
    method.fit(task)
    assert auc_on_test_users(method, task, 0) < 0.8
    assert auc_on_test_users(method, task, 6) > 0.95

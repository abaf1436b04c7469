"""LWA against its equation, user by user."""

import numpy as np
import torch
from two_tastes import auc_on_strangers, task_of_two_tastes

from resus.episodes.batch import EpisodeBatch
from resus.paper.rivals.class_means import ClassMeansNetwork, class_means
from resus.paper.rivals.lwa import LWA, AdaptedWeights


def test_class_means_by_hand() -> None:
    support = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 0.0]]])
    labels = torch.tensor([[1.0, 0.0, 1.0]])
    masks = torch.tensor([[[True, True, True], [True, False, False], [False, False, False]]])
    expected = [[[3.0, 4.0], [3.0, 1.0]], [[0.0, 0.0], [1.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]]
    torch.testing.assert_close(class_means(support, labels, masks), torch.tensor([expected]))


def test_no_slot_at_all_gives_zero_means() -> None:
    means = class_means(torch.empty(2, 0, 3), torch.empty(2, 0), torch.empty(2, 1, 0, dtype=torch.bool))
    torch.testing.assert_close(means, torch.zeros(2, 1, 2, 3))


def test_every_logit_is_the_equation_of_its_user() -> None:
    random = np.random.default_rng(0)
    lengths, sizes = np.array([5, 1, 7, 4]), np.array([3, 0, 6, 1])
    encoded = random.normal(size=(lengths.sum(), 3))
    labels = random.integers(2, size=lengths.sum()).astype(float)
    classifier = AdaptedWeights().double()
    torch.nn.init.constant_(classifier.bias, 0.3)
    with torch.no_grad():
        classifier.mix.copy_(torch.tensor([0.7, -1.4]))

    expected, start = [], 0
    for length, size in zip(lengths, sizes, strict=True):
        weights = np.zeros(3)
        for label, weight in ((0, 0.7), (1, -1.4)):
            members = [encoded[start + i] for i in range(size) if labels[start + i] == label]
            weights += weight * (sum(members) / len(members) if members else np.zeros(3))
        expected += [0.3 + encoded[start + i] @ weights for i in range(size, length)]
        start += length

    network = ClassMeansNetwork(torch.nn.Identity(), classifier)
    batch = EpisodeBatch(np.arange(lengths.sum()), lengths, sizes)
    logits = network(batch, torch.from_numpy(encoded), torch.from_numpy(labels))
    np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=1e-6)


def test_a_few_events_tell_which_taste_a_stranger_has() -> None:
    task, method = task_of_two_tastes(), LWA()
    method.fit(task)
    assert auc_on_strangers(method, task, 0) == 0.5
    assert auc_on_strangers(method, task, 6) > 0.95

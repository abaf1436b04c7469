"""NLBA against its equation, user by user."""

import numpy as np
import torch
from two_tastes import auc_on_strangers, task_of_two_tastes

from resus.episodes.batch import EpisodeBatch
from resus.paper.rivals.class_means import ClassMeansNetwork
from resus.paper.rivals.nlba import NLBA, AdaptedBiases

WIDTH, HIDDEN = 3, 5


def test_every_logit_is_the_equation_of_its_user() -> None:
    random = np.random.default_rng(0)
    lengths, sizes = np.array([5, 1, 7, 4]), np.array([3, 0, 6, 1])
    encoded = random.normal(size=(lengths.sum(), WIDTH))
    labels = random.integers(2, size=lengths.sum()).astype(float)
    classifier = AdaptedBiases(WIDTH, hidden=HIDDEN).double()
    own = {name: value.detach().numpy() for name, value in classifier.named_parameters()}
    from_negatives, from_positives = own["biases.weight"][:, :WIDTH], own["biases.weight"][:, WIDTH:]

    expected, start = [], 0
    for length, size in zip(lengths, sizes, strict=True):
        biases = own["biases.bias"].copy()
        for label, weight in ((0, from_negatives), (1, from_positives)):
            members = [encoded[start + i] for i in range(size) if labels[start + i] == label]
            if members:
                biases += weight @ (sum(members) / len(members))
        for i in range(size, length):
            hidden = np.maximum(own["hidden.weight"] @ encoded[start + i] + biases[:HIDDEN], 0)
            expected.append(own["output.weight"][0] @ hidden + biases[HIDDEN])
        start += length

    network = ClassMeansNetwork(torch.nn.Identity(), classifier)
    batch = EpisodeBatch(np.arange(lengths.sum()), lengths, sizes)
    logits = network(batch, torch.from_numpy(encoded), torch.from_numpy(labels))
    np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=1e-6)


def test_a_few_events_tell_which_taste_a_stranger_has() -> None:
    task, method = task_of_two_tastes(), NLBA(hidden=16)
    method.fit(task)
    assert auc_on_strangers(method, task, 6) > 0.95

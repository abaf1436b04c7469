"""MeLU: DeepFM whose decision layers take gradient steps on a user's support."""

from functools import cache

import numpy as np
import torch
from planted_models import events, log_of
from torch import Tensor, nn
from torch.nn import functional

from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers
from resus.model.encoders.architectures import DeepFM
from resus.model.encoders.base import pairwise_interactions
from resus.paper.rivals.melu import MeLUNetwork

SIZES = [0, 3, 1, 6]
RATE = 0.5
STEPS = 2


@cache
def log() -> InteractionLog:
    return log_of(events())


def network() -> MeLUNetwork:
    torch.manual_seed(2)
    features = log().features
    encoder = DeepFM(features.n_ids, features.column_counts, embedding_dim=3, embedding_std=1.0, hidden_units=(7, 5))
    return MeLUNetwork(encoder, inner_rate=RATE, inner_steps=STEPS).double()


def episodes() -> EpisodeBatch:
    ordered = OrderedUsers.of(log(), np.arange(len(SIZES)), seed=1)
    return EpisodeBatch(ordered.rows, ordered.lengths, np.array(SIZES))


class DecisionLayers(nn.Module):
    """The plain way to write what MeLU adapts; it shares the network's layers."""

    def __init__(self, network: MeLUNetwork) -> None:
        super().__init__()
        self.deep = nn.Sequential(*(part for layer in network.hidden for part in (layer, nn.ReLU())))
        self.output = network.output

    def forward(self, vectors: Tensor) -> Tensor:
        encoded = torch.cat([pairwise_interactions(vectors), self.deep(vectors.flatten(1))], dim=1)
        return self.output(encoded).squeeze(1)  # type: ignore[no-any-return]


def naive_logits(network: MeLUNetwork) -> Tensor:
    """Equation by equation, user by user, with a full copy of the decision layers for each."""
    batch, layers, answers, start = episodes(), DecisionLayers(network), [], 0
    for length, size in zip(batch.lengths, SIZES, strict=True):
        rows = batch.rows[start : start + length]
        vectors = network.embedding(features_of(log(), rows))
        labels = labels_of(log(), rows).double()
        own: dict[str, Tensor] = dict(layers.named_parameters())
        for _ in range(STEPS if size else 0):
            logits = torch.func.functional_call(layers, own, (vectors[:size],))
            loss = functional.binary_cross_entropy_with_logits(logits, labels[:size])
            slopes = torch.autograd.grad(loss, list(own.values()), create_graph=True)
            own = {name: weight - RATE * slope for (name, weight), slope in zip(own.items(), slopes, strict=True)}
        answers.append(torch.func.functional_call(layers, own, (vectors[size:],)))
        start += length
    return torch.cat(answers)


def fast_logits(network: MeLUNetwork) -> Tensor:
    batch = episodes()
    logits: Tensor = network(batch, features_of(log(), batch.rows), labels_of(log(), batch.rows).double())
    return logits


def test_logits_are_those_of_a_loop_over_users() -> None:
    torch.testing.assert_close(fast_logits(network()), naive_logits(network()))


def test_every_weight_gets_the_second_order_gradient_of_the_loop() -> None:
    batch = episodes()
    targets = labels_of(log(), batch.rows)[batch.query].double()
    gradients = []
    for logits_of in (fast_logits, naive_logits):
        model = network()
        functional.binary_cross_entropy_with_logits(logits_of(model), targets).backward()  # type: ignore[no-untyped-call]
        gradients.append({name: weight.grad for name, weight in model.named_parameters()})
    torch.testing.assert_close(*gradients)

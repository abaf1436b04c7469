"""MeLU: DeepFM whose decision layers take gradient steps on a user's support."""

import numpy as np
import torch
from planted_models import small_log
from torch import Tensor, nn
from torch.nn import functional

from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers
from resus.model.encoders.base import pairwise_interactions
from resus.model.encoders.deepfm import DeepFM
from resus.paper.rivals.melu import MeLUNetwork

SIZES = [0, 3, 1, 6]
RATE = 0.5
STEPS = 2


def network() -> MeLUNetwork:
    torch.manual_seed(2)
    features = small_log().features
    encoder = DeepFM(features.n_ids, features.column_counts, embedding_dim=3, embedding_std=1.0, hidden_units=(7, 5))
    return MeLUNetwork(encoder, inner_rate=RATE, inner_steps=STEPS).double()


def episodes() -> EpisodeBatch:
    ordered = OrderedUsers.of(small_log(), np.arange(len(SIZES)), seed=1)
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
        vectors = network.embedding(features_of(small_log(), rows))
        labels = labels_of(small_log(), rows).double()
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
    logits: Tensor = network(batch, features_of(small_log(), batch.rows), labels_of(small_log(), batch.rows).double())
    return logits


def test_logits_and_second_order_gradients_are_those_of_a_loop_over_users() -> None:
    batch = episodes()
    targets = labels_of(small_log(), batch.rows)[batch.query].double()
    fast, naive = network(), network()
    logits = fast_logits(fast), naive_logits(naive)
    torch.testing.assert_close(*logits)
    for each in logits:
        functional.binary_cross_entropy_with_logits(each, targets).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(*([weight.grad for weight in model.parameters()] for model in (fast, naive)))

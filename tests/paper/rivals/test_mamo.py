"""MAMO: what the memories hold, who reads them, and when they are written."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from planted_models import KEEP, SCHEMA, TINY, events
from torch import Tensor
from torch.nn import functional

from resus import FieldSchema, build_log
from resus.baselines.base import Task
from resus.config.resolve import resolve
from resus.data.log.log import InteractionLog
from resus.data.log.user_fields import user_fields
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers
from resus.model.encoders.base import pairwise_interactions
from resus.model.encoders.deepfm import DeepFM
from resus.paper.rivals.mamo import MAMO, MAMONetwork, Memories

SIZES = [0, 3, 1, 6]
RATE = 0.5
BIAS_RATE = 0.3
MEMORIES = ("profiles", "biases", "transforms")


@cache
def log() -> InteractionLog:
    """Events with a field that is the user's own: a region."""
    table = events().with_columns(region=pl.col("user").cast(pl.String).hash() % 4)
    schema = SCHEMA.model_copy(update={"fields": SCHEMA.fields | {"region": FieldSchema()}})
    return build_log(table, schema, KEEP, name="regions")


def region() -> int:
    (field,) = user_fields(log(), np.arange(log().n_users))
    assert log().features.fields[field].name == "region"
    return field


def network(profile_fields: Sequence[int] | None = None) -> MAMONetwork:
    torch.manual_seed(2)
    features = log().features
    encoder = DeepFM(features.n_ids, features.column_counts, embedding_dim=3, embedding_std=1.0, hidden_units=(7, 5))
    made = MAMONetwork(
        encoder,
        [region()] if profile_fields is None else profile_fields,
        slots=3,
        inner_rate=RATE,
        inner_steps=1,
        bias_rate=BIAS_RATE,
        write_rate=0.2,
    )
    made.memories.biases.normal_()
    made.memories.transforms.normal_(std=0.2)
    return made.double()


def episodes() -> EpisodeBatch:
    ordered = OrderedUsers.of(log(), np.arange(len(SIZES)), seed=1)
    return EpisodeBatch(ordered.rows, ordered.lengths, np.array(SIZES))


def fast_logits(model: MAMONetwork) -> Tensor:
    batch = episodes()
    logits: Tensor = model(batch, features_of(log(), batch.rows), labels_of(log(), batch.rows).double())
    return logits


def naive_logits(model: MAMONetwork) -> Tensor:
    """User by user: read the memories, make full weights for the user, take one step, answer."""
    batch, answers, start = episodes(), [], 0
    for length, size in zip(batch.lengths, SIZES, strict=True):
        rows = batch.rows[start : start + length]
        vectors, labels = model.embedding(features_of(log(), rows)), labels_of(log(), rows).double()
        constant = torch.ones(1, dtype=torch.float64, requires_grad=True)
        # a region is the same in all rows of a user
        profile = vectors[: size or 1, region()].mean(dim=0) if model.profile_fields else constant
        own = initial_weights(model, profile)
        if size:
            loss = functional.binary_cross_entropy_with_logits(decide(vectors[:size], own), labels[:size])
            slopes = torch.autograd.grad(loss, own, create_graph=True)
            own = [weight - RATE * slope for weight, slope in zip(own, slopes, strict=True)]
        answers.append(decide(vectors[size:], own))
        start += length
    return torch.cat(answers)


def initial_weights(model: MAMONetwork, profile: Tensor) -> list[Tensor]:
    memories = model.memories
    slots = torch.stack([functional.cosine_similarity(profile, slot, dim=0) for slot in memories.profiles]).softmax(0)
    transform = sum(weight * slot for weight, slot in zip(slots, memories.transforms, strict=True))
    bias = sum(weight * slot for weight, slot in zip(slots, memories.biases, strict=True))
    second = model.rest[0]
    return [
        torch.eye(memories.transforms.shape[1]).double() + transform,
        model.first.weight,
        model.first.bias - BIAS_RATE * bias,
        second.weight,
        second.bias,
        model.output.weight,
        model.output.bias,
    ]


def decide(vectors: Tensor, own: list[Tensor]) -> Tensor:
    transform, first, first_bias, second, second_bias, output, output_bias = own
    hidden = functional.linear(vectors.flatten(1) @ transform.T, first, first_bias).relu()
    hidden = functional.linear(hidden, second, second_bias).relu()
    encoded = torch.cat([pairwise_interactions(vectors), hidden], dim=1)
    return functional.linear(encoded, output, output_bias).squeeze(1)


@pytest.mark.parametrize("profile_fields", [None, ()], ids=["the region", "one profile for all"])
def test_logits_and_gradients_are_those_of_a_loop_over_users(profile_fields: Sequence[int] | None) -> None:
    fast, naive = network(profile_fields).eval(), network(profile_fields).eval()
    logits = fast_logits(fast), naive_logits(naive)
    torch.testing.assert_close(*logits)
    for each in logits:
        each.square().sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(*([weight.grad for weight in model.parameters()] for model in (fast, naive)))


def test_training_writes_the_memories_and_scoring_does_not() -> None:
    model = network()
    before = {name: tensor.clone() for name, tensor in model.memories.state_dict().items()}
    fast_logits(model.eval())
    for name in MEMORIES:
        torch.testing.assert_close(getattr(model.memories, name), before[name], rtol=0, atol=0)
    fast_logits(model.train())
    for name in MEMORIES:
        assert not torch.equal(getattr(model.memories, name), before[name])


def test_a_slot_moves_to_what_is_written_by_the_attention_to_it() -> None:
    memories = Memories(2, 3, 4, 2, write_rate=0.5)
    before = memories.profiles.clone()
    attention = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    profiles, biases, transforms = torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 2, 2)
    memories.write(attention, profiles, biases, transforms)
    for values, memory, start in (
        (profiles, memories.profiles, before),
        (biases, memories.biases, torch.zeros(2, 4)),
        (transforms, memories.transforms, torch.zeros(2, 2, 2)),
    ):
        for slot in range(2):
            step = sum(attention[user, slot] * (values[user] - start[slot]) for user in range(2)) / 2
            torch.testing.assert_close(memory[slot], start[slot] + 0.5 * step)


def test_what_a_user_leaves_is_its_profile_its_gradient_and_its_transform() -> None:
    """With one user and a slot that takes everything, the memories become what the user left."""
    model = network()
    model.memories = Memories(1, 3, 7, model.first.in_features, write_rate=1.0).double()
    rows = log().rows_of(np.array([0]))
    batch = EpisodeBatch(rows, np.array([len(rows)]), np.array([4]))
    labels = labels_of(log(), rows).double()
    vectors = model.embedding(features_of(log(), rows)).detach()
    own = [weight.detach().requires_grad_() for weight in initial_weights(model, vectors[0, region()])]
    loss = functional.binary_cross_entropy_with_logits(decide(vectors[:4], own), labels[:4])
    transform, _, bias, *_ = torch.autograd.grad(loss, own)
    model(batch, features_of(log(), rows), labels)
    torch.testing.assert_close(model.memories.profiles[0], vectors[0, region()])
    torch.testing.assert_close(model.memories.biases[0], bias)
    torch.testing.assert_close(model.memories.transforms[0], -RATE * transform)


def test_a_run_that_was_cut_off_goes_on_with_its_memories(tmp_path: Path) -> None:
    whole, cut, resumed = MAMO(), MAMO(), MAMO()
    whole.fit(Task(log(), resolve(TINY)))

    def stop_in_the_second_epoch(task: str, done: int, total: int | None, unit: str = "") -> None:
        if "epoch 2" in task:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut.fit(Task(log(), resolve(TINY), folder=tmp_path, progress=stop_in_the_second_epoch))
    resumed.fit(Task(log(), resolve(TINY), folder=tmp_path))
    torch.testing.assert_close(resumed.network.state_dict(), whole.network.state_dict(), rtol=0, atol=0)

"""JTCN: routing against a loop over users, events and capsules, and the DeepFM against one on all its vectors."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from two_tastes import auc_on_test_users, task_of_two_tastes

from resus.model.encoders.base import FieldEmbedding, pairwise_interactions
from resus.paper.rivals.jtcn import JTCN, CapsuleDeepFM, InterestCapsules, squash

Floats = npt.NDArray[np.float64]
INPUTS, WIDTH, CAPSULES = 4, 3, 2


def routed(capsules: InterestCapsules, events: Floats, labels: Floats) -> Floats:
    """One user's capsules, slowly."""
    weight = capsules.maps.weight.detach().numpy().reshape(2, CAPSULES, WIDTH, INPUTS)
    bias = capsules.maps.bias.detach().numpy().reshape(2, CAPSULES, WIDTH)
    pairs = zip(events, labels.astype(int), strict=True)
    votes = [[weight[y, j] @ x + bias[y, j] for j in range(CAPSULES)] for x, y in pairs]
    agreement = np.zeros((len(events), CAPSULES))
    result = np.zeros((CAPSULES, WIDTH))
    for _ in range(capsules.iterations):
        for j in range(CAPSULES):
            total = np.zeros(WIDTH)
            for i in range(len(events)):
                total += np.exp(agreement[i, j]) / np.exp(agreement[i]).sum() * votes[i][j]
            length = np.linalg.norm(total)
            result[j] = length**2 / (1 + length**2) * total / length if length else 0.0
        for i in range(len(events)):
            for j in range(CAPSULES):
                agreement[i, j] += result[j] @ votes[i][j]
    return result


def network(fields_of_user: tuple[int, ...] = (2,)) -> CapsuleDeepFM:
    torch.manual_seed(3)
    embedding = FieldEmbedding(10, [1, 1, 1], WIDTH, std=1.0)
    return CapsuleDeepFM(embedding, fields_of_user, hidden_units=[6, 5], capsules=CAPSULES, iterations=3).double()


def test_squash_by_hand() -> None:
    torch.testing.assert_close(squash(torch.tensor([3.0, 4.0])), torch.tensor([0.6, 0.8]) * 25 / 26)


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_routing_equals_the_loop_at_every_size(iterations: int) -> None:
    torch.manual_seed(iterations)
    capsules = InterestCapsules(INPUTS, WIDTH, capsules=CAPSULES, iterations=iterations).double()
    events, labels = torch.randn(3, 5, INPUTS).double(), torch.randint(2, (3, 5)).double()
    masks = torch.arange(5) < torch.arange(6).unsqueeze(1)
    answers = capsules(events, labels, masks.expand(3, -1, -1)).detach().numpy()
    for user in range(3):
        for size in range(6):
            expected = routed(capsules, events[user, :size].numpy(), labels[user, :size].numpy())
            np.testing.assert_allclose(answers[user, size], expected, atol=1e-12)


def test_an_empty_support_has_no_preference_and_harmless_gradients() -> None:
    model = network()
    events = torch.randn(2, 4, 3 * WIDTH).double()
    preferences = model.preferences(events, torch.ones(2, 4).double(), torch.zeros(2, 1, 4, dtype=torch.bool))
    assert preferences.abs().max().item() == 0
    preferences.sum().backward()  # type: ignore[no-untyped-call]
    weight = model.capsules.maps.weight.grad
    assert weight is not None
    assert weight.isfinite().all()


def test_a_preference_lies_between_the_capsules() -> None:
    model = network()
    events, labels, masks = torch.randn(2, 4, 3 * WIDTH).double(), torch.ones(2, 4).double(), torch.ones(2, 1, 4) > 0
    capsules = model.capsules(events, labels, masks)
    weights = torch.stack([model.attention(capsules[:, :, j]).exp() for j in range(CAPSULES)])
    expected = sum(weights[j] * capsules[:, :, j] for j in range(CAPSULES)) / weights.sum(dim=0)
    torch.testing.assert_close(model.preferences(events, labels, masks), expected)


@pytest.mark.parametrize("fields_of_user", [(), (2,), (0, 2)])
def test_the_user_is_one_more_field_of_a_deepfm(fields_of_user: tuple[int, ...]) -> None:
    model = network(fields_of_user)
    vectors, preferences = torch.randn(7, 3, WIDTH).double(), torch.randn(7, 2, WIDTH).double()
    weight = torch.cat([model.first_of_fields.weight, model.first_of_user.weight], dim=1)
    columns = []
    for column in range(2):
        known = [vectors[:, field] for field in fields_of_user]
        user = model.fuse(torch.cat([*known, preferences[:, column]], dim=1)).relu()
        fields = torch.cat([vectors, user.unsqueeze(1)], dim=1)
        first = (fields.flatten(1) @ weight.T + model.first_of_fields.bias).relu()
        encoded = torch.cat([pairwise_interactions(fields), model.rest(first)], dim=1)
        columns.append(model.output(encoded).squeeze(1))
    torch.testing.assert_close(model.logits(vectors, preferences), torch.stack(columns, dim=1))


def test_a_few_events_tell_the_taste_of_a_new_user() -> None:
    task, method = task_of_two_tastes(), JTCN()
    method.fit(task)
    assert auc_on_test_users(method, task, 6) > 0.95

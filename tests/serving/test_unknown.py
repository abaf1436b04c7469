"""What a request holds that the model does not know is answered, counted and told."""

import re
from typing import Any

import pytest
from service_process import InProcess, event, post, predict

from resus.serving.noticed import MAX_WARNINGS


def counted(client: InProcess) -> dict[str, float]:
    """The counters of what the model does not know."""
    found = re.findall(r"^resus_unknown_(\S+) (\S+)$", client.get("/metrics").text, re.MULTILINE)
    return {name: float(value) for name, value in found if "created" not in name and float(value)}


@pytest.mark.parametrize(
    ("request_", "warnings", "counts"),
    [
        ({"items": ["1", 2]}, None, {}),
        (
            {"items": ["1", "never", "2", "seen"]},
            ["2 of 4 values of 'item' are unknown to the model"],
            {'values_total{field="item"}': 2},
        ),
        (
            {"items": ["1"], "context": {"tags": ["new", "evening"], "tgas": "x"}},
            [
                "1 of 1 values of 'tags' is unknown to the model",
                "'tgas' is not a field of the model, did you mean 'tags'?",
            ],
            {'values_total{field="tags"}': 1, "fields_total": 1},
        ),
        (
            {"candidates": [{"item": "1", "category": "x"}, {"item": "x", "colour": 1}, {"category": None, "item": 2}]},
            [
                "1 of 3 values of 'item' is unknown to the model",
                "1 of 3 values of 'category' is unknown to the model",
                "'colour' is not a field of the model",
            ],
            {'values_total{field="item"}': 1, 'values_total{field="category"}': 1, "fields_total": 1},
        ),
    ],
)
def test_an_answer_warns_once_per_field_and_the_metrics_count(
    client: InProcess, request_: dict[str, Any], warnings: list[str] | None, counts: dict[str, float]
) -> None:
    for times in (1, 2):  # the second time from what is kept
        assert predict(client, **request_).warnings == warnings
        assert counted(client) == {name: times * count for name, count in counts.items()}


def test_a_recommendation_and_events_are_counted_too(client: InProcess) -> None:
    asked = {"context": {"tags": "new", "never heard of": 1}}
    answer = client.post("/v1/recommend", json=asked).json()
    assert answer["warnings"] == [
        "1 of 1 values of 'tags' is unknown to the model",
        "'never heard of' is not a field of the model",
    ]
    assert "warnings" not in client.post("/v1/recommend", json={}).json()
    post(client, {**event(1), "item": "stranger", "features": {"colour": "red"}})
    assert counted(client) == {
        'values_total{field="tags"}': 1,
        'values_total{field="item"}': 1,
        "fields_total": 2,
    }


def test_names_that_clients_make_up_are_no_labels_and_warnings_have_a_bound(client: InProcess) -> None:
    made_up: dict[str, Any] = {f"made up {number}" * 9: 1 for number in range(50)}
    answer = predict(client, items=["1"], context=made_up)
    assert len(answer.warnings or []) == MAX_WARNINGS
    assert counted(client) == {"fields_total": 50}

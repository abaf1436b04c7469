"""`resus warm-up`: a table, a picture, a page and a file to draw them from again; and three ways to hold it wrong."""

import json
from pathlib import Path

import pytest
from resus_process import SMALL, refused_here, succeed_here

pytestmark = pytest.mark.integration

TRAIN = ("train", "log", *SMALL, "--set", "split.ratios=[1,1,1]")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 40 users a part, and two runs on one Ψ that saw up to 6 events of a user."""
    folder = tmp_path_factory.mktemp("warm-up")
    world = ("--set", "users=120", "--set", "items=40", "--set", "events_per_user=30")
    succeed_here("prepare", "planted", *world, "--out", "log", cwd=folder)
    for learner, of_another in (("ridge", ()), ("nearest", ("--predictor-from", "ridge"))):
        succeed_here(*TRAIN, "--learner", learner, *of_another, "--out", learner, cwd=folder)
    return folder


def test_the_curve_is_told_drawn_kept_and_drawn_again(workplace: Path) -> None:
    said = succeed_here("warm-up", "ridge", "nearest", "--up-to", 300, "--out", "curve", cwd=workplace)
    folder = workplace / "curve"
    assert sorted(path.name for path in folder.iterdir()) == ["warm-up.html", "warm-up.json", "warm-up.png"]
    curve = json.loads((folder / "warm-up.json").read_text())
    assert curve["trained_up_to"] == {"RESUS-RR": 6, "RESUS-NN": 6}
    assert 6 < curve["sizes"][-1] < curve["asked_up_to"] == 300
    rivals = ["user bias", "LightGBM with history"]
    assert list(curve["models"]) == ["DeepFM", "RESUS-RR", "RESUS-NN", "oracle", "crowd", *rivals]
    at_start = {curve["models"][name]["0"]["auc"] for name in ("DeepFM", "RESUS-RR", "user bias")}
    assert len(at_start) == 1, "without an event everyone who stands on Ψ answers as Ψ does"
    last = curve["models"]["RESUS-RR"][str(curve["sizes"][-1])]
    for fact in (f"{last['auc']:.4f}", f"{last['users']} test users", f"so the curve ends at {curve['sizes'][-1]}"):
        assert fact in said
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in ("warm-up.html", "warm-up.png"):
        (folder / name).unlink()
    succeed_here("report", "curve", cwd=workplace)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_rivals_are_chosen_by_name(workplace: Path) -> None:
    words = ("warm-up", "ridge", "--up-to", 5, "--part", "validation")
    succeed_here(*words, "--rivals", "none", "--out", "alone", cwd=workplace)
    curve = json.loads((workplace / "alone" / "warm-up.json").read_text())
    assert list(curve["models"]) == ["DeepFM", "RESUS-RR", "oracle", "crowd"]
    assert (curve["part"], curve["sizes"]) == ("validation", [0, 1, 2, 3, 5])
    succeed_here(*words, "--rivals", "lwa, user-bias", "--out", "rivals", cwd=workplace)
    curve = json.loads((workplace / "rivals" / "warm-up.json").read_text())
    assert {"LWA", "user bias"} < set(curve["models"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ridge", "--rivals", "user-bais"), "no method 'user-bais': did you mean 'user-bias'?"),
        (("ridge", "--rivals", "deepfm"), "two curves are named 'DeepFM': "),
        (("ridge", "ridge"), "the same run is named twice: "),
        (("nowhere",), "nowhere does not exist: "),
        (("ridge", "--part", "train"), "--part is 'train': choose test or validation"),
        (("ridge", "--data", "nowhere"), "no prepared log at nowhere"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(workplace: Path, words: tuple[str, ...], sentence: str) -> None:
    before = sorted(workplace.rglob("*"))
    assert refused_here("warm-up", *words, cwd=workplace).startswith(sentence)
    assert sorted(workplace.rglob("*")) == before


def test_a_split_with_few_test_users_is_refused(workplace: Path) -> None:
    succeed_here("train", "log", *SMALL, "--out", "usual", cwd=workplace)
    told = refused_here("warm-up", "usual", cwd=workplace)
    assert all(fact in told for fact in ("30 test users", "log 'planted' has 12", "split.ratios"))
    assert not list((workplace / "usual").glob("warm-up*"))

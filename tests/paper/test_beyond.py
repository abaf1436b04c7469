"""RESUS+ in a reproduction: its table holds the cells' numbers, and its claims follow them."""

from pathlib import Path

import pytest
from claim_verdicts import rulings
from planted_cells import cells_of, comparison, every_cell

from resus.errors import ConfigError
from resus.paper.claims.beyond import AIMS
from resus.paper.pairs import pairs_of
from resus.paper.questions import ABLATIONS, PAPER, PLUS, PRACTICE, QUESTIONS, chosen_questions
from resus.paper.report.beyond_table import beyond_table
from resus.paper.report.page import write_reproduction
from resus.paper.report.summary import Summary
from resus.paper.report.tables import Material
from resus.paper.rivals import METHODS

LABELS = {name: entry.label for name, entry in METHODS.items()}


def test_the_papers_questions_are_all_that_all_asks() -> None:
    assert chosen_questions("all") == list(PAPER)
    assert chosen_questions("beyond") == ["beyond"]
    with pytest.raises(ConfigError, match="did you mean 'beyond'"):
        chosen_questions("beyon")


def test_a_row_per_method_with_its_gain_over_the_predictor() -> None:
    cells = cells_of({"deepfm": 0.70, "user-bias": 0.71, PLUS: 0.74, ABLATIONS[0]: 0.73})
    material = Material(Summary(cells), [comparison(PLUS, "user-bias", stage="II")], LABELS, {})
    table = beyond_table(material, "ml-1m")
    assert [group.title for group in table.groups] == [
        material.stage_title("ml-1m", stage) for stage in ("I", "II", "III")
    ]
    rows = {row.title: row.entries for row in table.groups[1].rows}
    assert list(rows) == ["DeepFM", "user bias", "RESUS+", "RESUS+ without cross-fitting"]
    assert rows["RESUS+"][4].text == "+0.0400"
    assert rows["DeepFM"][4].text == "–"
    assert rows["RESUS+"][0].mark == "best"


def test_every_rival_is_drawn_against_and_the_parts_are_compared() -> None:
    pairs = pairs_of(every_cell(), ["beyond"])
    drawn = {pair.against for pair in pairs if pair.bootstrap}
    assert drawn == {*PRACTICE, "deepfm", "resus-nn", "resus-rr"}
    assert {pair.against for pair in pairs if not pair.bootstrap} == set(ABLATIONS)
    assert {pair.method for pair in pairs} == {PLUS}


@pytest.mark.parametrize(("gain", "words"), [(0.05, "holds"), (0.02, "holds in part: I"), (0.001, "does not hold")])
def test_the_aims_are_judged_stage_by_stage(gain: float, words: str) -> None:
    cells = cells_of({"deepfm": 0.70, PLUS: 0.70 + gain})
    found = {claim: ruling for claim, ruling in rulings(cells).items() if "in AUC at least what was aimed" in claim}
    (ruling,) = found.values()
    assert ruling.verdicts["ml-1m"].words == words
    assert f"aim {AIMS['auc']['ml-1m'][0]:+.4f}" in ruling.verdicts["ml-1m"].evidence


def test_a_page_of_its_own(tmp_path: Path) -> None:
    write_reproduction(
        tmp_path,
        every_cell(seeds=[1]),
        [],
        questions=["beyond"],
        labels=LABELS,
        searches=[],
        facts={},
        missing={},
    )
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# Beyond the paper: RESUS+")
    assert all(LABELS[method] in text for method in QUESTIONS["beyond"].methods)
    assert (tmp_path / "figures" / "beyond-sizes-ml-1m.png").is_file()

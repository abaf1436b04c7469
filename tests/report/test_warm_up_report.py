"""The warm-up curve as picture, page, table and sentences, from numbers that are known."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from resus.evaluation.results import LogFacts, SizeMetrics, WarmUp
from resus.report.warm_up_figure import warm_up_figure
from resus.report.warm_up_page import draw_warm_up
from resus.report.warm_up_summary import warm_up_population, warm_up_summary
from resus.report.warm_up_table import warm_up_table

SIZES = [0, 1, 3, 8, 30, 120, 300]


def point(auc: float | None, gauc: float | None = None) -> SizeMetrics:
    return SizeMetrics(
        auc=auc,
        gauc=gauc,
        logloss=0.5,
        calibration_error=0.1,
        rela_impr=None,
        gap_closed=None,
        users=41,
        queries=5678,
        gauc_users=40,
    )


def example(*, falls: bool = False, truth: bool = False, asked: int = 300) -> WarmUp:
    rise = [0.70, 0.71, 0.72, 0.74, 0.76, 0.78, 0.75 if falls else 0.80]
    models = {
        "DeepFM": {size: point(0.70, 0.65) for size in SIZES},
        "RESUS-RR": {size: point(value, value - 0.05) for size, value in zip(SIZES, rise, strict=True)},
        "<user> bias": {size: point(0.70 + 0.01 * place, 0.65) for place, size in enumerate(SIZES)},
    }
    if truth:
        models |= {name: {size: point(0.9, None) for size in SIZES} for name in ("oracle", "crowd")}
    return WarmUp(
        log=LogFacts(name="films", hash="0f" * 32, rows=99999, users=410),
        protocol="paper",
        seed=1,
        part="test",
        base="DeepFM",
        oracle="oracle" if truth else None,
        crowd="crowd" if truth else None,
        asked_up_to=asked,
        users_beyond_asked=7 if asked > 300 else 41,
        trained_up_to={"RESUS-RR": 30},
        sizes=SIZES,
        models=models,
    )


def printed(curve: WarmUp, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(*warm_up_table(curve), sep="\n")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_page_says_every_number_and_fetches_nothing(tmp_path: Path) -> None:
    picture, page = draw_warm_up(example(truth=True), tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    html = page.read_text()
    assert "http" not in html.replace("http://www.w3.org", "")
    assert "&lt;user&gt; bias" in html
    assert "<user>" not in html
    for words in ("41 test users", "5,678 queries", "0.8000", "0.7500", "planted world", "var(--line-0)"):
        assert words in html
    assert "No model was fitted on these users" in html
    assert "–</td>" in html, "a metric that does not exist is a dash"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["warm-up.html", "warm-up.png"]


def test_a_page_of_validation_users_says_what_was_chosen_on_them(tmp_path: Path) -> None:
    _, page = draw_warm_up(example().model_copy(update={"part": "validation"}), tmp_path)
    html = page.read_text()
    assert "Epochs, and what little a user bias learns, were chosen on these users" in html
    assert "three scales" not in html


def test_who_learned_scales_from_validation_users_is_said_on_page_and_terminal(tmp_path: Path) -> None:
    plus = example().model_copy(update={"tuned_on_validation": ["RESUS-RR"]})
    said = "RESUS-RR learned the three scales (bias, taste, repeats) from these users"
    for part, expected in (("validation", True), ("test", False)):
        curve = plus.model_copy(update={"part": part})
        _, page = draw_warm_up(curve, tmp_path)
        assert (said in page.read_text()) is expected
        assert (said in printed(curve, 200)) is expected


def test_a_screen_reader_hears_the_picture_its_caption_and_the_best_of_each_line(tmp_path: Path) -> None:
    _, page = draw_warm_up(example(), tmp_path)
    html = page.read_text()
    assert '<svg role="img" aria-label="AUC and GAUC of every model' in html
    assert '<figure role="img"' not in html
    assert html.count('class="best"') == html.count('<i class="unseen">best</i>') > 0


def test_the_table_says_what_bold_and_italic_mean() -> None:
    assert "Bold is the best trained model of a line; italic are events beyond training." in printed(example(), 100)
    short = example().model_copy(update={"trained_up_to": {"RESUS-RR": 300}})
    assert "Bold is the best trained model of a line.\n" in printed(short, 100)


def test_the_picture_has_a_line_per_model_and_marks_where_training_ended() -> None:
    figure = warm_up_figure(example())
    assert len(figure.axes) == 2
    for axes, last in zip(figure.axes, (0.80, 0.75), strict=True):
        curves = [line for line in axes.get_lines() if len(line.get_xdata()) == len(SIZES)]  # type: ignore[arg-type]
        assert len(curves) == 3
        assert any(list(line.get_ydata())[-1] == pytest.approx(last) for line in curves)  # type: ignore[arg-type]
        assert [text.get_text() for text in axes.texts if "τ = 30" in text.get_text()]
        places = axes.transData.transform([(size, 0.7) for size in SIZES])[:, 0]
        gaps = places[1:] - places[:-1]
        assert gaps.max() < 3 * gaps.min(), "300 events do not squeeze the first ones together"


def test_a_curve_that_ends_within_training_marks_nothing() -> None:
    short = example().model_copy(update={"trained_up_to": {"RESUS-RR": 300}})
    assert not [text for axes in warm_up_figure(short).axes for text in axes.texts if "τ" in text.get_text()]
    assert "Beyond" not in " ".join(warm_up_summary(short))


def test_sentences_tell_who_leads_and_what_happens_beyond_training() -> None:
    said = warm_up_summary(example())
    assert said[0] == "After 300 events RESUS-RR is measured highest in AUC, 0.8000; next is <user> bias with 0.7600."
    assert said[-1] == "No interval is given: other users may order models differently that are close here."
    assert said[-2] == (
        "RESUS-RR, trained with up to 30 events of a user: AUC 0.7000 at 0, 0.7600 at 30, 0.8000 at 300, "
        "GAUC 0.6500 at 0, 0.7100 at 30, 0.7500 at 300. Beyond what it was trained with neither is measured lower."
    )
    assert warm_up_summary(example(falls=True))[-2].endswith(
        "Beyond what it was trained with its AUC and its GAUC are measured lower."
    )


def test_the_population_is_said_and_why_the_curve_ends_early() -> None:
    (one,) = warm_up_population(example())
    assert one.startswith("41 test users have more than 300 events; what they did after those, 5,678 queries")
    assert warm_up_population(example(asked=2000))[1] == (
        "Only 7 have more than the 2,000 asked for, so the curve ends at 300."
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_shows_every_number_whole(width: int) -> None:
    text = printed(example(truth=True), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    rows = [line.split() for line in text.splitlines() if line.split()[:1] == ["300"]]
    assert rows == [
        ["300", "0.7000", "0.8000", "0.7600", "0.9000", "0.9000"],
        ["300", "0.6500", "0.7500", "0.6500", "–", "–"],
    ]

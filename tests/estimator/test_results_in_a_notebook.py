"""Results as a frame, a figure and an HTML table, and models as HTML."""

import importlib.util
from typing import Any

import matplotlib.figure
import numpy as np
import polars as pl
import pytest
from html_page import Page
from planted_models import small_log, tiny

from resus import ConfigError, Results, Resus


@pytest.fixture(scope="module")
def model() -> Resus:
    return tiny().fit(small_log())


@pytest.fixture(scope="module")
def results(model: Resus) -> Results:
    return model.evaluate(small_log(), draws=40)


def test_the_frame_by_stage_holds_every_number_once(results: Results) -> None:
    frame = results.to_frame()
    assert frame.columns == ["model", "stage", "metric", "value", "n", "gain", "low", "high"]
    assert frame.select("model", "stage", "metric").is_unique().all()
    stages = results.models["RESUS-RR"].stages
    assert frame.height == len(results.models) * len(stages) * len(stages["I"].metrics)
    row = frame.row(
        by_predicate=(pl.col("model") == "RESUS-RR") & (pl.col("stage") == "II") & (pl.col("metric") == "auc"),
        named=True,
    )
    assert results.gains is not None
    gain = results.gains.models["RESUS-RR"]["II"].auc
    assert (row["value"], row["gain"], row["low"], row["high"]) == (
        stages["II"].auc,
        gain.difference,
        gain.low,
        gain.high,
    )
    assert row["n"] == results.models["RESUS-RR"].sizes[results.stages["II"][0]].users
    assert frame.filter(model=results.base)["gain"].null_count() == frame.filter(model=results.base).height


def test_the_frame_by_size_holds_every_number_once(results: Results) -> None:
    frame = results.to_frame("size")
    assert frame.columns == ["model", "size", "metric", "value", "n"]
    for name, found in results.models.items():
        aucs = frame.filter(model=name, metric="auc")
        assert aucs["size"].to_list() == results.sizes
        assert aucs["value"].to_list() == [found.sizes[size].auc for size in results.sizes]
        assert aucs["n"].to_list() == [found.sizes[size].users for size in results.sizes]
    with pytest.raises(ConfigError, match="choose 'stage' or 'size'"):
        results.to_frame("user")  # type: ignore[arg-type]


def test_plot_draws_a_curve_of_each_model_in_each_panel(results: Results) -> None:
    figure = results.plot()
    assert isinstance(figure, matplotlib.figure.Figure)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        axes.get_title(loc="left") for axes in results.plot("auc", "gauc").axes
    ]
    assert len(results.plot("logloss").axes) == 1
    lines = [line for line in results.plot("auc").axes[0].lines if np.size(line.get_xdata()) == len(results.sizes)]
    assert len(lines) == len(results.models)
    with pytest.raises(ConfigError, match="there is no measure 'guac' to plot: did you mean 'gauc'"):
        results.plot("guac")


def test_plot_without_matplotlib_is_one_sentence(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str, *rest: Any) -> Any:
        return None if name == "matplotlib" else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(
        ConfigError, match=r"plot needs matplotlib, which is not installed: pip install 'resus\[report\]'"
    ):
        results.plot()


def test_the_html_of_results_shows_every_model_and_escapes_names(results: Results) -> None:
    named = {f"<i>{name}": found for name, found in results.models.items()}
    odd = results.model_copy(update={"models": named, "base": f"<i>{results.base}"})
    html = odd._repr_html_()
    assert "<i>" not in html
    assert all(f"&lt;i&gt;{name}" in html for name in results.models)
    shown = results._repr_html_()
    auc = results.models["RESUS-RR"].stages["I"].auc
    assert auc is not None
    assert f"{auc:.4f}" in shown
    assert shown.count("<tr>") == 2 + len(results.models)
    Page(shown)


def test_the_html_of_a_model_is_short(model: Resus) -> None:
    shown = model._repr_html_()
    assert "RESUS-RR" in shown
    assert "predictor" in shown
    assert len(shown) < 1000
    assert tiny()._repr_html_() == "<p><b>RESUS-RR</b> on DeepFM, not fitted</p>"


def test_results_are_read_from_their_file(results: Results, tmp_path: Any) -> None:
    results.write(tmp_path / "results.json")
    again = Results.read(tmp_path / "results.json")
    assert again == results
    assert again.to_frame().equals(results.to_frame())


def test_a_warm_up_curve_is_a_frame_and_a_figure() -> None:
    model = tiny(settings={"split.ratios": [3, 2, 5]}).fit(small_log())
    curve = Resus.warm_up({"mine": model}, small_log(), up_to=5)
    frame = curve.to_frame()
    assert frame.filter(model="mine", metric="auc")["size"].to_list() == curve.sizes
    assert isinstance(curve.plot(), matplotlib.figure.Figure)

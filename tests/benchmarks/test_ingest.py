"""The benchmark of engines runs to its end on a small table."""

from pathlib import Path

import pytest

from benchmarks.ingest import ENGINES, engines
from resus.data.datasets.taobao.planted import PlantedTaobao, write_planted_taobao


@pytest.mark.integration
def test_every_engine_sorts_a_small_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_planted_taobao(tmp_path, PlantedTaobao(rows=2000))
    engines(tmp_path, repeats=1)
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in said] == [engine for engine, _ in ENGINES]
    assert all("rows/s" in line for line in said), said

from pathlib import Path

import pytest
from typer.testing import CliRunner

from resus.cli.main import app

CLICKS = "user_id,item_id,ts,device\n" + "".join(f"u{n % 7},i{n % 11},{n},{'ab'[n % 2]}\n" for n in range(40))


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    path = tmp_path / "clicks.csv"
    path.write_text(CLICKS)
    return path


def test_a_draft_is_printed_or_written_and_prepare_reads_it(clicks: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    printed = run(app, ["doctor", str(clicks), "--draft-schema"])
    assert printed.exit_code == 0
    assert "user: user_id" in printed.output
    schema = tmp_path / "schema.yaml"
    assert run(app, ["doctor", str(clicks), "--draft-schema", "--out", str(schema)]).exit_code == 0
    assert "negatives: 2" in schema.read_text()
    prepared = run(
        app, ["prepare", str(clicks), "--schema", str(schema), "--out", str(tmp_path / "log"), "--seed", "3"]
    )
    assert prepared.exit_code == 0, prepared.output
    assert "negatives were drawn: 2 items per event" in prepared.output
    assert "(seed 3)" in prepared.output


def test_what_a_draft_refuses(clicks: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    before = clicks.read_text()
    for arguments in (
        [str(clicks), "--draft-schema", "--out", str(clicks)],
        [str(clicks), "--draft-schema", "--schema", str(clicks)],
        [str(clicks), "--out", str(tmp_path / "schema.yaml")],
        [str(tmp_path / "x.inter"), "--draft-schema"],
    ):
        assert run(app, ["doctor", *arguments]).exit_code != 0
    assert clicks.read_text() == before
    assert not (tmp_path / "schema.yaml").exists()

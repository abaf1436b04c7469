"""The documentation site: it builds without a warning, holds what is generated, and needs no other host."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import resus
from resus.cli.main import app

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[1]
SECONDS = 600
# what a browser would fetch to show a page: not links that a reader may follow
FETCHED = re.compile(
    r"""(?:<(?:script|img|iframe|source)\b[^>]*\bsrc=|<link\b[^>]*\brel="?(?:stylesheet|icon|preconnect)"?[^>]*\bhref=|@import\s+|url\()\s*["']?(https?:)?//"""
)


def build(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does."""
    words = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config), "--site-dir", str(out)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(words, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False, timeout=SECONDS)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", out)
    assert done.returncode == 0, done.stderr
    return out


def test_reference_pages_hold_every_name(site: Path) -> None:
    library, commands, settings, http = (
        (site / "reference" / f"{name}.html").read_text(encoding="utf-8")
        for name in ("library", "commands", "settings", "http")
    )
    assert [name for name in resus.__all__ if name != "__version__" and f"resus.{name}" not in library] == []
    assert [command.name for command in app.registered_commands if f"resus {command.name}" not in commands] == []
    assert all(key in settings for key in ("training.folds", "learner.similarity", "label_threshold"))
    assert all(route in http for route in ("POST /v1/predict", "PredictRequest", "GET /healthz"))


def test_links_that_leave_the_documents_work(site: Path) -> None:
    assert (site / "project" / "contributing.html").is_file()
    assert (site / "files" / "tests" / "extending" / "learner.py").is_file()
    assert (site / "files" / "examples" / "schema.yaml").is_file()


def test_no_page_needs_another_host(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 20
    found = {str(page.relative_to(site)): FETCHED.search(page.read_text(encoding="utf-8")) for page in pages}
    assert {name: match[0] for name, match in found.items() if match} == {}


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        (
            "[one](nowhere.md) [two](#nowhere) [three](../../nowhere.txt)",
            ["nowhere.md", "#nowhere", "nowhere.txt", "unlisted.md"],
        ),
        ("::: resus.nowhere", ["resus.nowhere"]),
    ],
    ids=["dead links, and a page outside the navigation", "a missing reference"],
)
def test_what_leads_nowhere_fails(text: str, complaints: list[str], tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text(f"# Title\n\n{text}\n")
    (tmp_path / "pages" / "unlisted.md").write_text("# Title\n")
    hooks = str(ROOT / "scripts" / "site" / "hooks.py")
    changes = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": "pages", "nav": ["index.md"], "hooks": [hooks]}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(changes))
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert [complaint for complaint in complaints if complaint not in done.stderr] == []

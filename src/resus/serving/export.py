"""A folder with everything that a service needs: model, catalogue, test users, ONNX files. Whole or not at all."""

from collections.abc import Mapping
from pathlib import Path

from resus.artifact import FACTS, NEGATIVES, WEIGHTS, Artifact, rebuild
from resus.checked_folder import CheckedFolder, write_facts
from resus.data.datasets.movielens import MOVIES
from resus.data.log.log import InteractionLog
from resus.data.log.recoded import recoded
from resus.data.problems import refuse
from resus.data.readers.delimited import read_delimited
from resus.data.split import UserSplit
from resus.errors import ConfigError, DataError
from resus.extras import missing, need
from resus.files import MAX_JSON_BYTES, atomic_folder, open_regular, read_bounded
from resus.serving.catalogue import CATALOGUE, Catalogue
from resus.serving.histories import TEST_USERS, histories_of, write_histories
from resus.serving.loaded import RESULTS
from resus.serving.onnx import ENCODER, PREDICTOR, export_onnx
from resus.serving.own_inputs import OwnInputs
from resus.serving.own_model import FILE as OWN_MODEL
from resus.serving.profiles import PROFILES, Profiles

PARTS = {FACTS, WEIGHTS, NEGATIVES, RESULTS, CATALOGUE, PROFILES, TEST_USERS, ENCODER}


def export(
    run: Path,
    log_folder: Path,
    out: Path,
    *,
    titles: Mapping[str, str],
    onnx: bool | None = None,
    profiles: bool = True,
    score_with: Path | None = None,
    table: Path | None = None,
) -> list[str]:
    """Write the folder and return the names of its files. `titles` maps items to titles and may be empty.

    By default, ONNX files are written if the extra is installed. Without `profiles`, the export holds no user ids.
    `score_with` is the file of the user's own model, which the service then runs, and `table` the table of the log, if
    it moved.
    """
    check_out_folder(out)
    if onnx:
        need("onnx", "writing ONNX files")
    opened = CheckedFolder.open(run)
    artifact = Artifact.of(opened)
    log = InteractionLog.open(log_folder)
    if artifact.log.hash != log.content_hash:
        raise ConfigError(
            f"{run} was trained on another log than {log_folder} (the hashes differ): name the right one with --data"
        )
    model = rebuild(artifact)
    log = recoded(log, artifact.features)
    split = artifact.users.among(log).split() if artifact.users else artifact.config.user_split(log.n_users)
    own = None if score_with is None else OwnInputs.of(score_with, artifact, log, table)
    catalogue = Catalogue.of(log, split).with_titles(titles)
    if titles and not any(catalogue.titles):
        raise DataError(f"none of the {len(titles):,} titles belongs to an item of {log_folder}: check the titles file")
    with atomic_folder(out) as aside:
        for name in (WEIGHTS, NEGATIVES):
            if name in opened:
                (aside / name).write_bytes(opened.read(name))
        _write_log_parts(aside, log, split, catalogue, own, seed=artifact.config.seed, profiles=profiles)
        if onnx or (onnx is None and not missing("onnx")):
            export_onnx(model, artifact.features, aside)
        write_facts(aside, opened.facts, [path.name for path in aside.iterdir()])
        if (run / RESULTS).is_file():
            (aside / RESULTS).write_bytes(read_bounded(run / RESULTS, MAX_JSON_BYTES))
        return sorted(path.name for path in aside.iterdir())


def _write_log_parts(
    folder: Path,
    log: InteractionLog,
    split: UserSplit,
    catalogue: Catalogue,
    own: OwnInputs | None,
    *,
    seed: int,
    profiles: bool,
) -> None:
    """What comes from the log: the catalogue, profiles, test users, and what the user's own model reads."""
    if own is not None:
        catalogue = own.with_score_in_context(catalogue)
    catalogue.save(folder)
    described = Profiles.of(log, split.train, catalogue) if profiles else None
    if described is not None and described.fields:
        described.save(folder)
    raw = None
    if own is not None:
        raw = own.save(folder, log, catalogue, described.fields if described else (), profiles=profiles)
        catalogue = own.without_score(catalogue)
    if own is None or raw is not None:  # else nothing can score what test users did
        write_histories(folder, histories_of(log, split.test, catalogue, seed=seed, raw=raw))


def check_out_folder(folder: Path) -> None:
    """Only an older export may be replaced."""
    if folder.is_file():
        raise ConfigError(f"{folder} is a file: choose a folder for the export")
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    foreign = {name for name in found - PARTS if not name.startswith((Path(PREDICTOR).stem, OWN_MODEL))}
    if found and (CATALOGUE not in found or foreign):
        raise ConfigError(
            f"{folder} holds {min(foreign or found)}, so it is not an export: choose another folder with --out"
        )


def read_titles(path: Path) -> dict[str, str]:
    """Item → title from a CSV or TSV file, or from a file of MovieLens or Frappe. The first title of an item counts."""
    if path.suffix.lower() == ".dat":
        read = read_delimited(path, separator="::", encoding="latin-1", names=MOVIES, quoted=False)
    else:
        tabbed = path.is_file() and b"\t" in _first_line(path)
        read = read_delimited(path, separator="\t" if tabbed else ",", quoted=not tabbed)
    refuse(read.problems)
    assert read.frame is not None
    names = read.frame.columns
    item = "item" if "item" in names else names[0]
    title = next((name for name in ("title", "name") if name in names), names[1] if len(names) == 2 else None)
    if title is None:
        raise DataError(f"{path} has no column 'title' among {', '.join(names)}: write two columns, item and title")
    listed = read.frame.select(item, title).drop_nulls().unique(item, keep="first")
    return dict(zip(listed[item], listed[title], strict=True))


def _first_line(path: Path) -> bytes:
    with open_regular(path) as stream:
        return stream.readline(1 << 20)

"""A run with all that it takes to serve it, in one folder: whole or not at all."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from resus.artifact import FACTS, WEIGHTS, Artifact, rebuild
from resus.data.log.log import InteractionLog
from resus.errors import ConfigError, DataError
from resus.files import atomic_folder
from resus.serving.catalogue.catalogue import CATALOGUE, Catalogue
from resus.serving.export.onnx import ENCODER, PREDICTOR, TREES, export_onnx
from resus.serving.live.strangers import STRANGERS, strangers_of, write_strangers
from resus.serving.loaded import RESULTS

PARTS = {FACTS, WEIGHTS, RESULTS, CATALOGUE, STRANGERS, PREDICTOR, TREES, ENCODER}


def export(run: Path, log_folder: Path, out: Path, *, titles: Mapping[str, str]) -> list[str]:
    """Write the folder and name its files; `titles` may be empty."""
    refuse_foreign(out)
    artifact = Artifact.load(run)
    log = InteractionLog.open(log_folder)
    if artifact.log["hash"] != log.content_hash:
        raise ConfigError(
            f"{run} was trained on another log than {log_folder} (the hashes differ): name the right one with --data"
        )
    model = rebuild(artifact)
    split = artifact.config.user_split(log.n_users)
    catalogue = Catalogue.of(log, split).with_titles(titles)
    if titles and not any(catalogue.titles):
        raise DataError(f"none of the {len(titles):,} titles is of an item of {log_folder}: check the file of titles")
    with atomic_folder(out) as aside:
        for name in (FACTS, WEIGHTS, RESULTS):
            if (run / name).is_file():
                shutil.copyfile(run / name, aside / name)
        catalogue.save(aside)
        write_strangers(aside, strangers_of(log, split.test, catalogue, seed=artifact.config.seed))
        export_onnx(model, artifact.features, aside)
        return sorted(path.name for path in aside.iterdir())


def refuse_foreign(folder: Path) -> None:
    """An export may be replaced; anything else in that place is somebody's work."""
    if folder.is_file():
        raise ConfigError(f"{folder} is a file: choose a folder for the export")
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if found and (CATALOGUE not in found or found - PARTS):
        raise ConfigError(
            f"{folder} holds {min(found - PARTS or found)}, which is not an export: choose another folder with --out"
        )

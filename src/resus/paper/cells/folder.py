"""The folder of a reproduction: with which settings each data set was run, and that it is never mixed with others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resus.errors import ArtifactError
from resus.files import locked, read_json, write_json

SETTINGS = "settings.json"


def claim(folder: Path, data_set: str, settings: Mapping[str, Any], log_hash: str) -> None:
    """Say that a data set is run here with these settings; refuse where it was run with others."""
    path = folder / SETTINGS
    own = {"settings": dict(settings), "log": log_hash}
    with locked(folder / "locks" / "settings.lock"):
        claims = read_claims(folder)
        if claims.setdefault(data_set, own) != own:
            was = ", ".join(f"{key}={value}" for key, value in claims[data_set]["settings"].items()) or "the defaults"
            raise ArtifactError(
                f"{folder} holds cells of {data_set} with other data or other settings ({was}): "
                "use the same ones, or choose another folder with --out"
            )
        write_json(path, claims)


def read_claims(folder: Path) -> dict[str, Any]:
    """The settings of each data set that was run in this folder."""
    path = folder / SETTINGS
    claims: dict[str, Any] = read_json(path) if path.is_file() else {}
    return claims

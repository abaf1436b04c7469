"""Which log a word on the command line means."""

from pathlib import Path

from resus.checking import nearest_key
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.log.log import MANIFEST, InteractionLog
from resus.errors import ArtifactError

LOGS = Path("data")


def default_log_folder(source: str, protocol: str = "paper") -> Path:
    name = Path(source).stem
    return LOGS / (name if protocol == "paper" else f"{name}-{protocol}")


def find_log(source: str, protocol: str | None = None) -> Path:
    """The folder of a prepared log: a path, or the name of one under data/. The planted world is made when missing."""
    if (Path(source) / MANIFEST).is_file():
        return Path(source)
    folder = default_log_folder(source, protocol or "paper")
    if (folder / MANIFEST).is_file():
        return folder
    if source == "planted":
        planted_at(folder, PlantedWorld())
        return folder
    raise ArtifactError(f"no prepared log at {source} or {folder}: {_advice(source, protocol)}")


def _advice(source: str, protocol: str | None) -> str:
    names = [path.parent.name for path in LOGS.glob(f"*/{MANIFEST}")]
    nearest = nearest_key(source, names)
    if Path(source).is_file():
        return f"make it with 'resus prepare {source} --schema …'"
    if protocol not in (None, "paper"):
        return f"protocol {protocol} is made for MovieLens: 'resus prepare ml-1m --protocol {protocol}'"
    return f"did you mean '{nearest}'?" if nearest else f"make it with 'resus prepare {source}'"


def planted_at(folder: Path, world: PlantedWorld) -> InteractionLog:
    """The planted world in a folder; drawn only if another one is there."""
    request = world.model_dump()
    try:
        log = InteractionLog.open(folder)
        if log.manifest.get("world") == request:
            return log
    except ArtifactError:  # absent or damaged: drawn anew
        pass
    return planted_log(world).save(folder, world=request)

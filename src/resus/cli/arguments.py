"""What the words on the command line stand for: logs, runs, parts and engines."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from resus.checking import nearest_key
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.log.known_users import Users
from resus.data.log.log import MANIFEST, InteractionLog
from resus.errors import ArtifactError, ConfigError

if TYPE_CHECKING:
    from resus.estimator import Resus
    from resus.model.devices import Device

LOGS = Path("data")
PARTS = ("test", "validation")
ENGINES = ("local", "ray")


def default_log_folder(source: str, protocol: str = "paper") -> Path:
    name = Path(source).stem
    return LOGS / (name if protocol == "paper" else f"{name}-{protocol}")


def find_log(source: str, protocol: str | None = None) -> Path:
    """The folder of a prepared log, given its path or its name under data/. Draws the planted world if missing."""
    if (Path(source) / MANIFEST).is_file():
        return Path(source)
    folder = default_log_folder(source, protocol or "paper")
    if (folder / MANIFEST).is_file():
        return folder
    if source == "planted":
        planted_at(folder, PlantedWorld())
        return folder
    places = " or ".join(dict.fromkeys([source, str(folder)]))
    raise ArtifactError(f"no prepared log at {places}: {_advice(source, protocol)}")


def _advice(source: str, protocol: str | None) -> str:
    names = [path.parent.name for path in LOGS.glob(f"*/{MANIFEST}")]
    nearest = nearest_key(Path(source).name, names)
    if Path(source).is_file():
        return f"make it with 'resus prepare {source} --schema SCHEMA'"
    if protocol not in (None, "paper"):
        return f"protocol {protocol} is made for MovieLens: 'resus prepare ml-1m --protocol {protocol}'"
    return f"did you mean '{LOGS / nearest}'?" if nearest else f"make it with 'resus prepare {source}'"


def planted_at(folder: Path, world: PlantedWorld) -> InteractionLog:
    """The planted world in a folder. Draws it unless the folder already holds this world."""
    request = world.model_dump()
    try:
        log = InteractionLog.open(folder)
        if log.manifest.world == request:
            return log
    except ArtifactError:  # missing or damaged
        pass
    return planted_log(world).save(folder, world=request)


def load_runs(runs: Sequence[Path], device: "Device | None" = None) -> "dict[str, Resus]":
    """The runs by the names that tables show. If two models have the same name, the folder is added."""
    from resus.estimator import Resus

    if len({run.resolve() for run in runs}) < len(runs):
        raise ConfigError("the same run is named twice: name each run once")
    models = [Resus.load(run, device=device) for run in runs]
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        names = [f"{name} [{run}]" for name, run in zip(names, runs, strict=True)]
    return dict(zip(names, models, strict=True))


def log_of_run(run: Path, model: "Resus", data: str | None) -> Path:
    """The log named by `data`, or else the log the run was trained on."""
    log = find_log(data) if data else model.log_path
    if not log.is_dir():
        raise ConfigError(f"the log {log} on which {run} was trained is gone: give its new place with --data")
    return log


def check_part(part: str) -> None:
    if part not in PARTS:
        raise ConfigError(f"--part is '{part}': choose {' or '.join(PARTS)}")


def check_users(users: str, part: str = "test") -> Users:
    found = next((known for known in get_args(Users) if known == users), None)
    if found is None:
        *others, last = get_args(Users)
        raise ConfigError(f"--users is '{users}': choose {', '.join(others)} or {last}")
    if part != "test" and users != "unseen":
        raise ConfigError(f"--users {users} chooses test users: leave out --part {part}")
    chosen: Users = found
    return chosen


def check_device(device: str, engine: str = "local") -> "Device":
    """Refuse a device that is unknown or not there, and any but the processor on a cluster, before any work starts."""
    if engine != "local" and device != "cpu":
        raise ConfigError(
            "--device is for --engine local: workers of a cluster run on their processors, so leave it out"
        )
    if device == "cpu":  # known without loading torch, which takes seconds
        return "cpu"
    from resus.model.devices import device_of

    device_of(device)
    return cast("Device", device)


def check_engine(engine: str, workers: int | None) -> None:
    """Refuse an unknown or missing engine before any long work starts."""
    if engine not in ENGINES:
        raise ConfigError(f"--engine is '{engine}': choose {' or '.join(ENGINES)}")
    if engine == "local" and workers is not None:
        raise ConfigError("--workers needs --engine ray: leave it out, or add --engine ray")
    if engine == "ray":
        from resus.cluster import need_ray

        need_ray()

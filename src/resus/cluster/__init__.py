"""Training and prediction on the workers of a Ray cluster: the one that RAY_ADDRESS names, or a new one here."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from resus.errors import ConfigError
from resus.extras import need

OBJECT_STORE_BYTES = 512 << 20


def need_ray() -> None:
    """Raise ConfigError if the extra is not installed."""
    need("ray", "the engine 'ray'")


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[None]:
    """Join the cluster, or start one on this machine with a core per worker and stop it afterwards."""
    need_ray()
    if workers < 1:
        raise ConfigError(f"--workers is {workers}: use at least 1")
    joined = bool(os.environ.get("RAY_ADDRESS"))
    if not joined:
        # Ray reads this when it is imported: a cluster of one machine then listens on loopback only.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ["RAY_TRAIN_V2_ENABLED"] = "1"
    import ray

    if ray.is_initialized():
        yield
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if joined:
        ray.init(**quiet)
        cores = int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]
        if cores < workers:
            ray.shutdown()
            raise ConfigError(
                f"--workers is {workers}, but the cluster has {cores} cores: use fewer workers, or add machines"
            )
    else:
        ray.init(num_cpus=workers, include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet)
    try:
        yield
    finally:
        ray.shutdown()

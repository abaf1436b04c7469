"""Where the work is done: in this process, or on the workers of a Ray cluster."""

from resus.errors import ConfigError

ENGINES = ("local", "ray")


def check_engine(engine: str, workers: int | None) -> None:
    """Refuse an engine that is not there before anything long begins."""
    if engine not in ENGINES:
        raise ConfigError(f"--engine is '{engine}': choose {' or '.join(ENGINES)}")
    if engine == "local" and workers is not None:
        raise ConfigError("--workers is for --engine ray: leave it out, or add --engine ray")
    if engine == "ray":
        from resus.cluster.ray_cluster import need_ray

        need_ray()

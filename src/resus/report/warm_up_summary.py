"""What a warm-up curve says, in plain words, computed from the numbers and nothing else."""

from resus.evaluation.results import WarmUp

# a difference that four digits hardly show is no difference
_VISIBLE = 0.0005


def warm_up_summary(curve: WarmUp) -> list[str]:
    """Who is ahead in the end, then how each run fares beyond what it was trained with, as measured on these users."""
    told = [*_leaders(curve), *(_run(curve, run) for run in curve.trained_up_to)]
    return [*told, "No interval is given: other users may order models differently that are close here."]


def warm_up_population(curve: WarmUp) -> list[str]:
    """Who is measured, and why not for as many events as asked, where that is so."""
    last, people = curve.sizes[-1], curve.population
    said = [
        f"{people.users:,} {curve.part} users have more than {last:,} events; what they did after those, "
        f"{people.queries:,} queries, is ranked anew at every size."
    ]
    if last < curve.asked_up_to:
        left = f"Only {curve.users_beyond_asked:,} have" if curve.users_beyond_asked else "None has"
        said.append(f"{left} more than the {curve.asked_up_to:,} asked for, so the curve ends at {last:,}.")
    return said


def _leaders(curve: WarmUp) -> list[str]:
    last, told = curve.sizes[-1], []
    for metric in ("auc", "gauc"):
        values = {name: getattr(curve.models[name][last], metric) for name in (curve.base, *curve.contenders)}
        known = {name: value for name, value in values.items() if value is not None}
        if len(known) < 2:
            continue
        best = max(known, key=lambda name: known[name])
        rest = sorted((value, name) for name, value in known.items() if name != best)
        told.append(
            f"After {last:,} events {best} is measured highest in {metric.upper()}, {known[best]:.4f}; next is "
            f"{rest[-1][1]} with {rest[-1][0]:.4f}."
        )
    return told


def _run(curve: WarmUp, run: str) -> str:
    """From no event to the most seen in training, and on to the last size."""
    trained = curve.trained_up_to[run]
    within = max(size for size in curve.sizes if size <= trained)
    steps = list(dict.fromkeys([0, within, curve.sizes[-1]]))
    parts = [f"{metric.upper()} {_way(curve, run, metric, steps)}" for metric in ("auc", "gauc")]
    return f"{run}, trained with up to {trained:,} events of a user: {', '.join(parts)}.{_beyond(curve, run, within)}"


def _way(curve: WarmUp, run: str, metric: str, steps: list[int]) -> str:
    shown = []
    for size in steps:
        value = getattr(curve.models[run][size], metric)
        shown.append(f"{'–' if value is None else f'{value:.4f}'} at {size:,}")
    return ", ".join(shown)


def _beyond(curve: WarmUp, run: str, within: int) -> str:
    """Whether it keeps beyond training what it has reached there."""
    last, fallen = curve.sizes[-1], []
    if last == within:
        return ""
    for metric in ("auc", "gauc"):
        start, end = (getattr(curve.models[run][size], metric) for size in (within, last))
        if start is not None and end is not None and end < start - _VISIBLE:
            fallen.append(metric.upper())
    if fallen:
        verb = "is" if len(fallen) == 1 else "are"
        return f" Beyond what it was trained with its {' and its '.join(fallen)} {verb} measured lower."
    return " Beyond what it was trained with neither is measured lower."

"""What intervals cover, in a sentence per model that has intervals, and in rows of a table."""

from collections.abc import Sequence

from resus.evaluation.results import Coverage, ModelCoverage, Results


def coverage_sentences(results: Results) -> list[str]:
    """None where no model has a posterior."""
    if results.coverage is None:
        return []
    return [_sentence(results.coverage, model, found) for model, found in results.coverage.models.items()]


def coverage_rows(results: Results) -> dict[str, list[str]]:
    """A row of stages per interval."""
    rows: dict[str, list[str]] = {}
    for model, found in (results.coverage.models if results.coverage is not None else {}).items():
        labels = {
            "clicks": f"{model}: a user's clicks",
            "coins": f"{model}, as if sure of the user: a user's clicks",
            "predictor": f"{found.predictor}: a user's clicks",
            "true_logits": f"{model}: true logits",
        }
        for share, label in labels.items():
            values = _shares(found, share)
            if any(value is not None for value in values):
                rows[label] = ["–" if value is None else f"{value:.0%}" for value in values]
    return rows


def _sentence(coverage: Coverage, model: str, found: ModelCoverage) -> str:
    own, sure, predictor, true = (
        _listed(_shares(found, share)) for share in ("clicks", "coins", "predictor", "true_logits")
    )
    if not own:
        return f"{model}: no user has a query, so that its intervals cannot be judged."
    contrasts = [f"{sure} if it were sure of the user", f"{predictor} for {found.predictor}" if predictor else ""]
    return (
        f"{model}: {100 * coverage.level:.0f} % intervals of a user's clicks cover {own} of users in "
        f"stage{'s' if len(found.stages) > 1 else ''} {' / '.join(found.stages)} ({', '.join(filter(None, contrasts))})"
        + (f"; those of a logit cover {true} of the true ones." if true else ".")
    )


def _shares(found: ModelCoverage, share: str) -> list[float | None]:
    return [getattr(stage, share) for stage in found.stages.values()]


def _listed(values: Sequence[float | None]) -> str:
    """Such as 88 / 89 / – %; empty where there is no value."""
    if all(value is None for value in values):
        return ""
    return " / ".join("–" if value is None else f"{100 * value:.0f}" for value in values) + " %"

"""What gains over the base say: in numbers, in a mark, and in one sentence per model."""

from collections.abc import Mapping, Sequence
from enum import Enum

from resus.evaluation.metrics import AUC, GAUC, LOGLOSS, Measure
from resus.evaluation.results import Gain, Results
from resus.report.words import joined

GAIN_COLUMNS = (AUC, GAUC, LOGLOSS)


class Verdict(Enum):
    """Which side of 0 the interval lies on, as the metric is meant."""

    BETTER = "better"
    WORSE = "worse"
    OPEN = "not decided"
    TOO_FEW = "too few users to tell"
    NONE = "no query"

    @property
    def mark(self) -> str:
        return {Verdict.BETTER: "✓", Verdict.WORSE: "✗"}.get(self, "")


def verdict(gain: Gain, column: Measure) -> Verdict:
    if gain.difference is None:
        return Verdict.NONE
    if gain.low is None:
        return Verdict.TOO_FEW
    if not gain.is_certain:
        return Verdict.OPEN
    return Verdict.BETTER if (gain.low > 0) == column.higher_is_better else Verdict.WORSE


def difference_text(gain: Gain) -> str:
    return "–" if gain.difference is None else f"{gain.difference:+.4f}"


def interval_text(gain: Gain) -> str:
    if gain.difference is None:
        return ""
    return "too few users" if gain.low is None or gain.high is None else f"{gain.low:+.4f} to {gain.high:+.4f}"


def direction(column: Measure) -> str:
    return f"{'higher' if column.higher_is_better else 'lower'} is better"


def gains_of(results: Results, column: Measure) -> dict[str, dict[str, Gain]]:
    """By model and stage, what each model gains by the column's metric; nothing where no users were drawn."""
    models = results.gains.models if results.gains is not None else {}
    return {
        model: {stage: getattr(gains, column.name) for stage, gains in of_model.items()}
        for model, of_model in models.items()
    }


def gain_sentence(results: Results, model: str) -> str:
    """Where the model is better than the base, worse, or not told from it; empty where no users were drawn."""
    if results.gains is None or model not in results.gains.models:
        return ""
    found: dict[Verdict, dict[str, list[str]]] = {each: {} for each in Verdict}
    for column in GAIN_COLUMNS:
        for stage, gain in gains_of(results, column)[model].items():
            found[verdict(gain, column)].setdefault(column.title, []).append(stage)
    stages = list(results.stages)
    better, worse = (_places(found[each], stages, "in every stage") for each in (Verdict.BETTER, Verdict.WORSE))
    clauses = [f"{model} gains over {results.base} {better}" if better else ""]
    if worse:
        clauses.append(f"it is worse {worse}" if better else f"{model} is worse than {results.base} {worse}")
    if not better and not worse:
        clauses.append(f"{model} shows no sure gain over {results.base}")
    for open_verdict in (Verdict.OPEN, Verdict.TOO_FEW):
        where = _places(found[open_verdict], stages, "in any stage")
        clauses.append(f"{open_verdict.value} {where}" if where else "")
    return "; ".join(filter(None, clauses)) + "."


def _places(stages_of: Mapping[str, Sequence[str]], stages: Sequence[str], everywhere: str) -> str:
    """Metrics with the same stages are said together; empty where there is none."""
    places = []
    for members in dict.fromkeys(tuple(of_metric) for of_metric in stages_of.values()):
        metrics = [title for title, of_metric in stages_of.items() if tuple(of_metric) == members]
        named = f"in stage{'s' if len(members) > 1 else ''} {joined(members)}"
        places.append(f"{everywhere if len(members) == len(stages) else named} ({', '.join(metrics)})")
    return joined(places) if places else ""

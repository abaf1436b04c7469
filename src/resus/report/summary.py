"""What the results say, in plain words, computed from the numbers and nothing else."""

from collections.abc import Sequence

from resus.evaluation.metrics import AUC, GAUC, RELA_IMPR, Measure
from resus.evaluation.results import Results
from resus.report.gains import Verdict, gain_sentence, gains_of, verdict
from resus.report.words import joined

# a difference that four digits hardly show is no difference
_VISIBLE = 0.0005


def summary(results: Results) -> list[str]:
    """The headline and what qualifies it, one finding per sentence."""
    best = best_contender(results)
    if best is None:
        return [f"Only {results.base} could be compared: there is nothing to set against it."]
    findings = [
        _headline(results, best),
        gain_sentence(results, best),
        _user_bias(results, best),
        _without_events(results, best),
    ]
    findings += [_gap_closed(results, best), _likelihood(results, best), _fixed_population(results, best)]
    for model in results.contenders:
        if model != best:
            findings += [_runner_up(results, model), gain_sentence(results, model)]
    return [finding for finding in findings if finding]


def best_contender(results: Results) -> str | None:
    """The contender with the highest mean AUC over the stages."""
    means = {}
    for model in results.contenders:
        aucs = [stage.auc for stage in results.models[model].stages.values() if stage.auc is not None]
        if aucs:
            means[model] = sum(aucs) / len(aucs)
    return max(means, key=lambda model: means[model]) if means else None


def size_range(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{min(sizes)}–{max(sizes)}"


def _headline(results: Results, model: str) -> str:
    listed = _listed(results, _rela_imprs(results, model)) if _rela_imprs(results, model) else ""
    gains = f": {listed}." if listed else f", though {results.base} itself ranks no better than chance."
    if results.gains is not None:
        return f"{_sure_headline(results, model)}{gains}"
    pairs = {stage: _pair(results, model, stage, "auc") for stage in results.stages}
    won = [stage for stage, pair in pairs.items() if pair is not None and pair[0] > pair[1]]
    if not won:
        return f"{model} does not rank new users' candidates better than {results.base} in any stage{gains}"
    where = "in every stage" if len(won) == len(results.stages) else f"in stage {joined(won)} only"
    return f"{model} ranks new users' candidates better than {results.base} {where}{gains}"


def _sure_headline(results: Results, model: str) -> str:
    """Only a stage whose interval leaves 0 out counts, as in the sentence about gains."""
    found = {stage: _verdict(results, model, stage, AUC) for stage in results.stages}
    better, worse = ([stage for stage in found if found[stage] is each] for each in (Verdict.BETTER, Verdict.WORSE))
    ranks = f"{model} ranks new users' candidates"
    if better:
        also = f", and worse {_stages(results, worse)}" if worse else ""
        return f"{ranks} better than {results.base} {_stages(results, better)}{also}"
    if worse:
        return f"{ranks} worse than {results.base} {_stages(results, worse)}"
    return f"These users do not tell whether {ranks} better than {results.base} in any stage"


def _stages(results: Results, stages: Sequence[str]) -> str:
    if len(stages) == len(results.stages):
        return "in every stage"
    return f"in stage{'s' if len(stages) > 1 else ''} {joined(stages)}"


def _verdict(results: Results, model: str, stage: str, column: Measure) -> Verdict | None:
    """What the interval of the gain says; None where no users were drawn."""
    gains = gains_of(results, column)
    return verdict(gains[model][stage], column) if model in gains else None


def _user_bias(results: Results, model: str) -> str:
    """AUC rewards knowing who clicks a lot; GAUC, inside each user, does not."""
    stage = _last_stage(results, model)
    if stage is None:
        return ""
    auc_gain, gauc_gain = (
        own - base for own, base in filter(None, (_pair(results, model, stage, metric) for metric in ("auc", "gauc")))
    )
    moved = f"In stage {stage} its AUC moves by {auc_gain:+.4f} and its GAUC by {gauc_gain:+.4f}"
    sure_auc, sure_gauc = (_verdict(results, model, stage, column) for column in (AUC, GAUC))
    if auc_gain < _VISIBLE or sure_auc not in (None, Verdict.BETTER):
        return f"{moved}."
    if sure_gauc not in (None, Verdict.BETTER):
        return f"{moved}: no gain within users is sure, so all of it may be user bias, knowing who clicks a lot."
    if gauc_gain < _VISIBLE:
        return f"{moved}: the gain is user bias, knowing who clicks a lot; users' own candidates are ordered no better."
    if gauc_gain < auc_gain / 2:
        return (
            f"{moved}: most of the gain is user bias, knowing who clicks a lot; "
            "the smaller part orders users' own candidates better."
        )
    return f"{moved}: most of the gain is not user bias; users' own candidates are ordered better."


def _without_events(results: Results, model: str) -> str:
    if results.sizes[0] != 0:
        return ""
    own, base = (results.models[name].sizes[0].auc for name in (model, results.base))
    if own is None or base is None:
        return ""
    if f"{own:.4f}" == f"{base:.4f}":
        return f"With no event at all its AUC is that of {results.base}, {own:.4f}."
    return f"With no event at all its AUC is {own:.4f}, where {results.base} has {base:.4f}."


def _gap_closed(results: Results, model: str) -> str:
    shares = {name: stage.gap_closed for name, stage in results.models[model].stages.items()}
    shown = [f"{share:.0%} in stage {stage}" for stage, share in shares.items() if share is not None]
    if not shown:
        return ""
    return f"Of the gap between the best that ignores who the user is and the truth it closes {joined(shown)}."


def _likelihood(results: Results, model: str) -> str:
    stage = _last_stage(results, model)
    if stage is None:
        return ""
    own, base = results.models[model].stages[stage], results.models[results.base].stages[stage]
    return (
        f"In stage {stage} its Logloss is {own.logloss:.4f} ({results.base}: {base.logloss:.4f}) "
        f"and its calibration error {own.calibration_error:.4f} ({base.calibration_error:.4f})."
    )


def _fixed_population(results: Results, model: str) -> str:
    fixed = results.models[model].fixed_population
    if fixed is None:
        return ""
    first, last = results.sizes[0], results.sizes[-1]
    start, end = fixed.sizes[first].auc, fixed.sizes[last].auc
    if start is None or end is None:
        return ""
    rises = end - start > _VISIBLE
    verdict = "so the rise does not come from users dropping out" if rises else "so it gains nothing there"
    return (
        f"On the {fixed.users:,} users that are there at every size, with the same queries throughout, "
        f"its AUC goes from {start:.4f} at {first} events to {end:.4f} at {last}, {verdict}."
    )


def _runner_up(results: Results, model: str) -> str:
    gains = _rela_imprs(results, model)
    return f"{model}: {_listed(results, gains)}." if gains else ""


def _listed(results: Results, gains: dict[str, float]) -> str:
    sizes = {stage: size_range(members) for stage, members in results.stages.items()}
    shown = [f"{RELA_IMPR.show(gain)} after {sizes[stage]} events" for stage, gain in gains.items()]
    return f"RelaImpr {', '.join(shown)}"


def _rela_imprs(results: Results, model: str) -> dict[str, float]:
    stages = results.models[model].stages
    return {name: stage.rela_impr for name, stage in stages.items() if stage.rela_impr is not None}


def _last_stage(results: Results, model: str) -> str | None:
    """The latest stage in which the model's AUC and GAUC can be held against the base's."""
    both = (
        stage
        for stage in reversed(results.stages)
        if _pair(results, model, stage, "auc") and _pair(results, model, stage, "gauc")
    )
    return next(both, None)


def _pair(results: Results, model: str, stage: str, metric: str) -> tuple[float, float] | None:
    """The model's and the base's metric in one stage, where both exist."""
    own, base = (getattr(results.models[name].stages[stage], metric) for name in (model, results.base))
    return None if own is None or base is None else (own, base)

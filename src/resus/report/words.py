"""What results and warm-up curves say, in sentences computed from the numbers alone."""

from collections.abc import Mapping, Sequence

from resus.evaluation.metrics import AUC, GAUC, RELA_IMPR, Metric
from resus.evaluation.results import Coverage, Evaluation, ModelCoverage, Results, WarmUp
from resus.report.measures import Verdict, gain_metrics, gains_of, metrics_of, verdict

_VISIBLE = 0.0005  # a smaller difference hardly shows in four digits


def joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def size_range(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{min(sizes)}–{max(sizes)}"


def summary(results: Results) -> list[str]:
    """The headline, then what qualifies it, one finding per entry."""
    best = best_contender(results)
    if best is None:
        return [f"Only {results.base} was measured: there is no model to compare it with."]
    findings = [
        _headline(results, best),
        gain_sentence(results, best),
        _bias_or_taste(results, best),
        _without_events(results, best),
        _gap_closed(results, best),
        _other_metrics(results, best),
        _fixed_population(results, best),
    ]
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


def gain_sentence(results: Results, model: str) -> str:
    """Where the model is better than the base, where worse, and where it is undecided; empty without draws."""
    if model not in results.contenders or not gain_metrics(results):
        return ""
    stages_by_title: dict[Verdict, dict[str, list[str]]] = {each: {} for each in Verdict}
    for metric in gain_metrics(results):
        for stage, gain in gains_of(results, metric)[model].items():
            stages_by_title[verdict(gain, metric)].setdefault(metric.title, []).append(stage)
    where = {each: _places(results, stages) for each, stages in stages_by_title.items()}
    better, worse = where[Verdict.BETTER], where[Verdict.WORSE]
    clauses = [
        f"{model} is better than {results.base} {better}" if better else "",
        f"worse {worse}" if better and worse else f"{model} is worse than {results.base} {worse}" if worse else "",
        "" if better or worse else f"{model} is not clearly better or worse than {results.base}",
        *(f"{each.value} {where[each]}" for each in (Verdict.UNDECIDED, Verdict.TOO_FEW) if where[each]),
    ]
    return "; ".join(filter(None, clauses)) + "."


def coverage_sentences(results: Results) -> list[str]:
    """One sentence per model that gives intervals."""
    if results.coverage is None:
        return []
    return [_coverage(results.coverage, model, found) for model, found in results.coverage.models.items()]


def wrong_way_sentences(results: Results) -> list[str]:
    """One sentence per model that learns from events."""
    sentences = []
    for model, found in results.wrong_way.items():
        shares = (("like", "lowered", found.likes), ("dislike", "raised", found.dislikes))
        said: list[str] = []
        for label, moved, share in shares:
            if share is not None:
                score = "it" if said else "the score of that very item"
                said.append(f"a {label} {moved} {score} in {100 * share:.1f} % of the {label}s")
        if said:
            sentences.append(f"{model}: {', '.join(said)}.")
    return sentences


def tuned_sentence(evaluation: Evaluation) -> str:
    """Warns if a model learned from the users it is measured on; empty for test users."""
    if evaluation.part != "validation" or not evaluation.tuned_on_validation:
        return ""
    models = joined(evaluation.tuned_on_validation)
    return f"{models} learned scales from these users, and training stopped by them: compare on test users instead."


def negatives_sentence(evaluation: Evaluation) -> str:
    """Says that negatives were drawn, and what that means for the numbers; empty if they were not."""
    said = evaluation.log.negatives
    if not said:
        return ""
    return (
        f"{said[0].upper()}{said[1:]}. Drawn rows count as events, too. Numbers compare models on this log; they do "
        "not say how often users click."
    )


def warm_up_population(curve: WarmUp) -> list[str]:
    """Who is measured, and why the curve ends early if it does."""
    last, people = curve.sizes[-1], curve.population
    said = [
        f"{people.users:,} {curve.part} users have more than {last:,} events. Their {people.queries:,} events after "
        f"the first {last:,} are the queries, the same at every size."
    ]
    if last < curve.asked_up_to:
        left = f"Only {curve.users_beyond_asked:,} users have" if curve.users_beyond_asked else "No user has"
        said.append(f"{left} more than the {curve.asked_up_to:,} events asked for, so the curve ends at {last:,}.")
    return [*said, *filter(None, [negatives_sentence(curve)])]


def warm_up_summary(curve: WarmUp) -> list[str]:
    """Who leads at the end, then how each run does beyond the events it was trained with."""
    leaders = [_leader(curve, metric) for metric in (AUC, GAUC)]
    return [
        *filter(None, leaders),
        *(_run(curve, run) for run in curve.trained_up_to),
        "These curves have no intervals: models that are close may change places for other users.",
    ]


def _headline(results: Results, model: str) -> str:
    stages = _better_stages(results, model)
    better, worse = stages[Verdict.BETTER], stages[Verdict.WORSE]
    ranks, base = f"{model} ranks candidates for new users", results.base
    if better:
        also = f", and worse {_in_stages(results, worse)}" if worse else ""
        said = f"{ranks} better than {base} {_in_stages(results, better)}{also}"
    elif worse:
        said = f"{ranks} worse than {base} {_in_stages(results, worse)}"
    else:
        said = f"These users do not show whether {ranks} better than {base}"
    improved = _rela_imprs(results, model)
    return f"{said}: {improved}." if improved else f"{said}. {base} itself ranks no better than chance."


def _better_stages(results: Results, model: str) -> dict[Verdict, list[str]]:
    """Stages by verdict on the AUC. Without intervals, the measured difference decides."""
    found: dict[Verdict, list[str]] = {each: [] for each in Verdict}
    for stage in results.stages:
        difference = _difference(results, model, stage, AUC)
        decided = _verdict(results, model, stage, AUC)
        if decided is None and difference:
            decided = Verdict.BETTER if difference > 0 else Verdict.WORSE
        if decided is not None:
            found[decided].append(stage)
    return found


def _bias_or_taste(results: Results, model: str) -> str:
    """AUC also rewards knowing who clicks a lot. GAUC, within each user, does not."""
    stage = _last_stage(results, model)
    if stage is None:
        return ""
    auc_gain, gauc_gain = (_difference(results, model, stage, metric) or 0.0 for metric in (AUC, GAUC))
    changed = f"In stage {stage} its AUC changes by {auc_gain:+.4f} and its GAUC by {gauc_gain:+.4f}."
    sure_auc, sure_gauc = (_verdict(results, model, stage, metric) for metric in (AUC, GAUC))
    if auc_gain < _VISIBLE or sure_auc not in (None, Verdict.BETTER):
        return changed
    if sure_gauc not in (None, Verdict.BETTER):
        return f"{changed} No gain in GAUC is certain: the model may have only learned who clicks a lot."
    if gauc_gain < _VISIBLE:
        return f"{changed} The model has only learned who clicks a lot, not what each user likes."
    if gauc_gain < auc_gain / 2:
        return f"{changed} Most of the gain is knowing who clicks a lot; less is knowing what each user likes."
    return f"{changed} Most of the gain is knowing what each user likes, not who clicks a lot."


def _without_events(results: Results, model: str) -> str:
    if results.sizes[0] != 0:
        return ""
    own, base = (results.models[name].sizes[0].auc for name in (model, results.base))
    if own is None or base is None:
        return ""
    if AUC.show(own) == AUC.show(base):
        return f"With no events its AUC equals that of {results.base}, {AUC.show(own)}."
    return f"With no events its AUC is {AUC.show(own)}; that of {results.base} is {AUC.show(base)}."


def _gap_closed(results: Results, model: str) -> str:
    shares = {name: stage.gap_closed for name, stage in results.models[model].stages.items()}
    shown = [f"{share:.0%} in stage {stage}" for stage, share in shares.items() if share is not None]
    if not shown:
        return ""
    return f"Of the AUC gap between the best model that ignores the user and the truth, it closes {joined(shown)}."


def _other_metrics(results: Results, model: str) -> str:
    stage = _last_stage(results, model)
    others = [metric for metric in metrics_of(results) if metric not in (AUC, GAUC)]
    if stage is None or not others:
        return ""
    shown = []
    for metric in others:
        own, base = (
            metric.show(results.models[name].stages[stage].metrics[metric.name]) for name in (model, results.base)
        )
        shown.append(f"{metric.title} {own} ({results.base}: {base})")
    return f"In stage {stage} it has {joined(shown)}."


def _fixed_population(results: Results, model: str) -> str:
    fixed = results.models[model].fixed_population
    if fixed is None:
        return ""
    first, last = results.sizes[0], results.sizes[-1]
    start, end = fixed.sizes[first].auc, fixed.sizes[last].auc
    if start is None or end is None:
        return ""
    rises = end - start > _VISIBLE
    meaning = "so the rise is not due to users dropping out" if rises else "so more events do not help there"
    return (
        f"For the {fixed.users:,} users who are present at every size, with the same queries throughout, "
        f"its AUC goes from {start:.4f} at {first} events to {end:.4f} at {last}, {meaning}."
    )


def _runner_up(results: Results, model: str) -> str:
    improved = _rela_imprs(results, model)
    return f"{model}: {improved}." if improved else ""


def _rela_imprs(results: Results, model: str) -> str:
    """RelaImpr of every stage that has one."""
    shown = [
        f"{RELA_IMPR.show(values.rela_impr)} after {size_range(results.stages[stage])} events"
        for stage, values in results.models[model].stages.items()
        if values.rela_impr is not None
    ]
    return f"{RELA_IMPR.title} {', '.join(shown)}" if shown else ""


def _verdict(results: Results, model: str, stage: str, metric: Metric) -> Verdict | None:
    """What the interval of the gain says; None without draws."""
    gains = gains_of(results, metric)
    return verdict(gains[model][stage], metric) if model in gains else None


def _difference(results: Results, model: str, stage: str, metric: Metric) -> float | None:
    """The model minus the base, if both have the metric."""
    own, base = (results.models[name].stages[stage].metrics[metric.name] for name in (model, results.base))
    return None if own is None or base is None else own - base


def _last_stage(results: Results, model: str) -> str | None:
    """The last stage in which both AUC and GAUC can be compared with the base."""
    for stage in reversed(results.stages):
        if all(_difference(results, model, stage, metric) is not None for metric in (AUC, GAUC)):
            return stage
    return None


def _in_stages(results: Results, stages: Sequence[str]) -> str:
    if len(stages) == len(results.stages):
        return "in every stage"
    return f"in stage{'s' if len(stages) > 1 else ''} {joined(stages)}"


def _places(results: Results, stages_by_title: Mapping[str, Sequence[str]]) -> str:
    """Stages with the metrics they hold for; metrics with the same stages are named together."""
    titles: dict[tuple[str, ...], list[str]] = {}
    for title, stages in stages_by_title.items():
        titles.setdefault(tuple(stages), []).append(title)
    places = [f"{_in_stages(results, stages)} ({', '.join(named)})" for stages, named in titles.items()]
    return joined(places) if places else ""


def _coverage(coverage: Coverage, model: str, found: ModelCoverage) -> str:
    own, certain, predictor, true = (
        _percentages([getattr(stage, share) for stage in found.stages.values()])
        for share in ("clicks", "coins", "predictor", "true_logits")
    )
    if not own:
        return f"{model}: no user has a query, so its intervals cannot be checked."
    contrasts = [f"{certain} if it were certain about the user", f"{predictor} for {found.predictor}"]
    return (
        f"{model}: {100 * coverage.level:.0f} % intervals for the clicks of a user cover {own} of users in "
        f"stage{'s' if len(found.stages) > 1 else ''} {' / '.join(found.stages)} "
        f"({', '.join(contrasts if predictor else contrasts[:1])})"
        + (f"; intervals for a logit cover {true} of the true ones." if true else ".")
    )


def _percentages(values: Sequence[float | None]) -> str:
    """Such as 88 / 89 / – %; empty if there is no value."""
    if all(value is None for value in values):
        return ""
    return " / ".join("–" if value is None else f"{100 * value:.0f}" for value in values) + " %"


def _leader(curve: WarmUp, metric: Metric) -> str:
    last = curve.sizes[-1]
    values = {name: curve.models[name][last].metrics[metric.name] for name in (curve.base, *curve.contenders)}
    ranked = sorted(((value, name) for name, value in values.items() if value is not None), key=lambda pair: -pair[0])
    if len(ranked) < 2:
        return ""
    (best, leader), (second, runner_up) = ranked[:2]
    return (
        f"After {last:,} events {leader} has the highest {metric.title}, {metric.show(best)}; next is {runner_up} with "
        f"{metric.show(second)}."
    )


def _run(curve: WarmUp, run: str) -> str:
    """From no event to the most seen in training, and on to the last size."""
    trained, last = curve.trained_up_to[run], curve.sizes[-1]
    within = max(size for size in curve.sizes if size <= trained)
    way, fallen = [], []
    for metric in (AUC, GAUC):
        values = {size: curve.models[run][size].metrics[metric.name] for size in (0, within, last)}
        way.append(f"{metric.title} " + ", ".join(f"{metric.show(value)} at {k:,}" for k, value in values.items()))
        start, end = values[within], values[last]
        if start is not None and end is not None and end < start - _VISIBLE:
            fallen.append(metric.title)
    said = f"{run}, trained with up to {trained:,} events per user: {'; '.join(way)}."
    if last == within:
        return said
    change = f"its {joined(fallen)} fall{'s' if len(fallen) == 1 else ''}" if fallen else "neither falls"
    return f"{said} Beyond {trained:,} events {change}."

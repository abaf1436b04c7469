"""The cost per row of each step at the size of Taobao, and the cost of more features.

    python -m benchmarks.scale                 all of the below; about forty-five minutes on two idle cores
    python -m benchmarks.scale 1000000         one size
    python -m benchmarks.scale features        rows per second of the shared model with many features and with few
    python -m benchmarks.scale store           bytes per event of a live user in SQLite
    python -m benchmarks.scale figures         print and draw what is recorded; measure nothing
    python -m benchmarks.scale quick           a smoke test with 20,000 rows, not recorded

Each finished step is one line of benchmarks/scale.jsonl and does not run again. A stopped step starts over. "logits" is
the time of training besides its two epochs: the logits of the shared model, process start and the artifact. What
preparing a table costs is measured by benchmarks.ingest.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.memory import cost_of
from resus import InteractionLog
from resus.config.resolve import resolve
from resus.data.fields.categorical import CategoricalField
from resus.data.fields.feature_map import FeatureMap
from resus.episodes.batch import features_of, labels_of
from resus.files import append_line
from resus.model.predictors.base import NeuralPredictor
from resus.serving.store import Event
from resus.serving.store.sqlite import SqliteStore
from resus.training.rowwise_adam import adam_of
from resus.training.run import METRICS_FILE

SIZES = (1_000_000, 5_000_000, 26_557_961)
STEPS = ("pretrain", "logits", "meta-train", "evaluate")
WORDS = ("features", "store", "figures", "quick")
RECORD = Path("benchmarks/scale.jsonl")
RUNS = Path("runs/scale")
PLOT = Path("docs/images/scale.png")
RESUS = str(Path(sys.executable).with_name("resus"))
MANY, FEW = 3_436_646, 10_000  # features; the paper counts MANY in Taobao
console = Console()


def measure(rows: int, record: Path = RECORD) -> None:
    """All steps at one size: files, log, one epoch of each stage of RESUS-RR, fifteen support sizes."""
    place = RUNS / str(rows)
    files, log, run = (str(place / name) for name in ("files", "log", "run"))
    whole = ("--set", "min_item_count=1", "--set", "user_field=true")
    once = ("--set", "predictor.epochs=1", "--set", "training.epochs=1")
    steps = {
        "generate": (RESUS, "prepare", "planted", "--like", "taobao", "--rows", str(rows), "--out", files),
        "prepare": (RESUS, "prepare", "taobao", "--path", files, "--out", log, *whole),
        "train": (RESUS, "train", log, "--learner", "ridge", "--out", run, *once),
        "evaluate": (RESUS, "evaluate", run, "--draws", "0"),
    }
    for step, command in steps.items():
        if any(line["rows"] == rows and line["step"] == step for line in recorded(record)):
            continue
        made = {"generate": files, "prepare": log, "train": run}.get(step)
        if made:
            shutil.rmtree(made, ignore_errors=True)
        console.print(f"{rows:,} rows: {' '.join(command[1:])}", highlight=False, soft_wrap=True)
        seconds, peak = cost_of(*command, shown=True)
        line: dict[str, Any] = {"rows": rows, "step": step, "seconds": round(seconds, 2), "peak_bytes": peak}
        if step == "prepare":
            made_log = InteractionLog.open(log)
            line |= {"counts": {"users": made_log.n_users, "ids": made_log.features.n_ids}}
        if step == "train":
            history = [json.loads(text) for text in (Path(run) / METRICS_FILE).read_text().splitlines()]
            line |= {stage["stage"]: stage["seconds"] for stage in history}
        append_line(record, json.dumps(line))


def features(log: InteractionLog, steps: int = 300, repeats: int = 3) -> dict[str, Any]:
    """Rows per second of Ψ on the same rows: with as many features as Taobao has, and with `FEW` features.

    If the log has fewer features than Taobao, the embedding table gets unused rows.
    """
    torch.manual_seed(1)
    few = max(1, FEW // len(log.features.fields))
    rows = np.sort(np.random.default_rng(1).permutation(log.n_rows)[: steps * 1024])
    taken = replace(log, ids=log.ids[rows], labels=log.labels[rows], offsets=np.array([0, len(rows)]), truth=None)
    taken = replace(taken, crowd=None, user_ids=log.user_ids[:1], weights=None)
    *others, last = log.features.fields
    unused = tuple(f"unused {n}" for n in range(MANY - log.features.n_ids))
    many = FeatureMap((*others, CategoricalField(last.name, last.values + unused)), log.features.item)
    taken = replace(taken, features=many)
    firsts = np.array(log.features.first_ids)
    folded = (taken.ids - firsts) % few + np.arange(len(firsts)) * few
    fields = tuple(CategoricalField(f.name, tuple(map(str, range(few - 1)))) for f in log.features.fields)
    small = replace(taken, ids=folded.astype(np.int32), features=FeatureMap(fields, log.features.item))
    speeds: dict[str, list[float]] = {"many": [], "few": []}
    for _ in range(repeats):  # alternate, so that a slow phase of the machine affects both
        speeds["many"].append(_rows_per_second(taken, steps))
        speeds["few"].append(_rows_per_second(small, steps))
    found = {name: statistics.median(values) for name, values in speeds.items()}
    return {
        "step": "features",
        "rows": log.n_rows,
        "many_ids": taken.features.n_ids,
        "few_ids": small.features.n_ids,
        "fields": len(fields),
        "many_rows_per_second": round(found["many"]),
        "few_rows_per_second": round(found["few"]),
        "share": round(found["many"] / found["few"], 3),
    }


def _rows_per_second(log: InteractionLog, steps: int) -> float:
    predictor = resolve().predictor.build_predictor(log.features)
    assert isinstance(predictor, NeuralPredictor)
    optimizer = adam_of(predictor, [{"params": list(predictor.parameters()), "lr": 1e-3}], table_rate=1e-3)
    batches = np.random.default_rng(2).permutation(log.n_rows).reshape(steps, -1)
    began = time.perf_counter()
    for number, batch in enumerate(batches):
        if number == steps // 10:
            began = time.perf_counter()  # the first tenth warms up
        optimizer.zero_grad()
        logits = predictor(features_of(log, batch))
        torch.nn.functional.binary_cross_entropy_with_logits(logits, labels_of(log, batch)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return (steps - steps // 10) * batches.shape[1] / (time.perf_counter() - began)


def store(users: int = 5000, events: int = 50) -> dict[str, Any]:
    """Bytes per event in a SQLite store, for events with the item and the placement of Taobao."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        kept = SqliteStore(str(path), capacity=200)
        for user in range(users):
            context = [{"adgroup_id": str(n * 997), "pid": "430548_1007"} for n in range(events)]
            drawn = [Event(f"{user}-{n}", 1.494e9 + n, float(n % 20 == 0), context[n]) for n in range(events)]
            kept.add([(f"user-{user}", event) for event in drawn])
        kept.close()
        size = path.stat().st_size
    return {"step": "store", "rows": users * events, "bytes_per_event": round(size / (users * events), 1)}


def recorded(path: Path = RECORD) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def costs(lines: list[dict[str, Any]]) -> dict[int, dict[str, float]]:
    """Seconds per step after the log is prepared, for every finished size; training is split into its parts."""
    found: dict[int, dict[str, float]] = {}
    for rows in sorted({line["rows"] for line in lines if "seconds" in line}):
        steps = {line["step"]: line for line in lines if line["rows"] == rows and "seconds" in line}
        if {"train", "evaluate"} <= steps.keys():
            train = steps["train"]
            found[rows] = {
                "pretrain": train["predictor"],
                "logits": train["seconds"] - train["predictor"] - train["residuals"],
                "meta-train": train["residuals"],
                "evaluate": steps["evaluate"]["seconds"],
            }
    return found


def show(lines: list[dict[str, Any]]) -> None:
    table = Table("rows", "step", "seconds", "rows/s", "µs per row", "peak GB", box=None)
    for line in lines:
        if "seconds" in line:
            rate, each = line["rows"] / line["seconds"], line["seconds"] / line["rows"] * 1e6
            values = (f"{line['seconds']:.1f}", f"{rate:,.0f}", f"{each:.2f}", f"{line['peak_bytes'] / 1e9:.2f}")
            table.add_row(f"{line['rows']:,}", line["step"], *values)
    console.print(table)
    found = costs(lines)
    for rows, steps in found.items():
        parts = ", ".join(f"{step} {seconds / rows * 1e6:.1f}" for step, seconds in steps.items())
        console.print(f"{rows:,} rows, µs per row: {parts}; together {sum(steps.values()) / rows * 1e6:.1f}")
    if len(found) > 1:
        first, last = min(found), max(found)
        ratio = (sum(found[last].values()) / last) / (sum(found[first].values()) / first)
        console.print(f"cost per row at {last:,} rows over that at {first:,} rows: {ratio:.2f}")
        draw(found)
        console.print(f"drawn in {PLOT}")
    for line in lines:
        if line["step"] == "features":
            many, few = (f"{line[f'{n}_rows_per_second']:,} rows/s with {line[f'{n}_ids']:,}" for n in ("many", "few"))
            console.print(f"Ψ: {many} features, {few}: ratio {line['share']:.2f}")
        if line["step"] == "store":
            console.print(f"SQLite store: {line['bytes_per_event']} bytes per event")


def draw(found: dict[int, dict[str, float]]) -> None:
    """Cost per row against the number of rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    sizes = sorted(found)
    for step in STEPS:
        axes.plot(sizes, [found[rows][step] / rows * 1e6 for rows in sizes], marker="o", label=step)
    together = [sum(found[rows].values()) / rows * 1e6 for rows in sizes]
    axes.plot(sizes, together, marker="o", color="black", linewidth=2, label="together")
    axes.set(xscale="log", xlabel="impressions", ylabel="µs per impression", title="Planted Taobao, two cores")
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside right upper")
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, dpi=130)


def _known_step(word: str) -> str:
    if not word.isdigit() and word not in WORDS:
        raise argparse.ArgumentTypeError(f"unknown '{word}', choose a number of rows, {', '.join(WORDS)}")
    return word


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", type=_known_step, help=f"numbers of rows, {', '.join(WORDS)} [default: all]")
    words = parser.parse_args().what
    if words == ["quick"]:
        record = RUNS / "quick.jsonl"
        record.unlink(missing_ok=True)
        measure(20_000, record)
        log = InteractionLog.open(RUNS / "20000" / "log")
        console.print(recorded(record), features(log, steps=10, repeats=1))
        return
    if words != ["figures"]:
        for rows in [int(word) for word in words if word.isdigit()] or (SIZES if not words else ()):
            measure(rows)
        done = {line["step"] for line in recorded()}
        if words in ([], ["features"]) and "features" not in done:
            append_line(RECORD, json.dumps(features(InteractionLog.open(RUNS / str(max(SIZES)) / "log"))))
        if words in ([], ["store"]) and "store" not in done:
            append_line(RECORD, json.dumps(store()))
    show(recorded())


if __name__ == "__main__":
    main()

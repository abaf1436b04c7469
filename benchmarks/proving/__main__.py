"""RESUS+, its parts and its rivals on real data sets, with default settings.

    python -m benchmarks.proving [DATA ...] [--seeds 5] [--methods resus-plus,din] [--jobs 2] [--training-users 500]

DATA is ml-1m, frappe, goodbooks, anime or douban-book (all five by default), read from the folder in RESUS_DATA, or the
folder of any prepared log. Each finished cell (data set, method, seed, training users) is one line of
runs/proving/cells.jsonl. Only missing cells run, and a killed run resumes. The report, runs/proving/report.md, shows
every cell of the folder.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.planted import read_worlds
from benchmarks.proving.cells import PlannedCell, ProvedCell, forget, missing, plan, read_cells, run_cell
from benchmarks.proving.compare import COMPARISONS, compare_all
from benchmarks.proving.data_sets import DATA_SETS, find_logs
from benchmarks.proving.docs import write_docs
from benchmarks.proving.methods import ROWS
from benchmarks.proving.recorded import restore
from benchmarks.proving.report import DIFFERENCES, as_page, on_terminal, planted_table, tables_of, title_of
from benchmarks.threads import threads_of_each
from resus.baselines.base import find_methods
from resus.cli.console import console, say, warn
from resus.errors import ResusError
from resus.files import write_text
from resus.paper.cells.workers import Failures, run_missing
from resus.paper.rivals import METHODS

OUT = Path("runs/proving")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", metavar="DATA", help=f"{', '.join(DATA_SETS)} or a prepared log")
    parser.add_argument("--seeds", type=_seeds, default=_seeds("5"), help="N for 1 to N, or a list such as 2,4 [5]")
    parser.add_argument("--methods", type=_words, default=ROWS, help="separated by commas [all rows]")
    parser.add_argument("--training-users", type=_positive, metavar="N", help="train on N users [seven tenths of all]")
    parser.add_argument("--jobs", type=_positive, default=1, help="number of cells to run at the same time [1]")
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder for cells and report [{OUT}]")
    parser.add_argument("--forget", action="store_true", help="first delete the finished cells that would run")
    parser.add_argument("--recorded", action="store_true", help="start from the cells that the repository records")
    parser.add_argument("--report-only", action="store_true", help="run nothing, report the finished cells")
    parser.add_argument("--docs", action="store_true", help="also write docs/proving.md, and record the cells")
    options = parser.parse_args()
    try:
        failures = prove(options)
    except ResusError as error:
        warn(str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        warn("stopped; run the same command again to resume")
        sys.exit(130)
    for name, sentence in failures.items():
        warn(f"cell {name} failed: {sentence}")
    sys.exit(1 if failures else 0)


def prove(options: argparse.Namespace) -> Failures:
    """Run what is missing, then report all that is finished."""
    failures: Failures = {}
    if options.recorded:
        say(f"{restore(options.out)} recorded cells")
    if not options.report_only:
        find_methods(options.methods, METHODS)
        planned = plan(
            find_logs(options.data or DATA_SETS),
            folder=options.out,
            methods=options.methods,
            seeds=options.seeds,
            training_users=options.training_users,
            threads=threads_of_each(options.jobs),
        )
        if options.forget:
            forget(options.out, [cell.key for cell in planned])
        failures = run_missing(planned, run_cell, missing, jobs=options.jobs, progress=Progress(planned, options.jobs))
    report(options.out, docs=options.docs)
    return failures


def report(folder: Path, *, docs: bool) -> None:
    cells = read_cells(folder)
    if not cells:
        say(f"{folder} holds no finished cell")
        return
    comparisons, worlds = compare_all(folder, cells), read_worlds()
    lines = "".join(comparison.model_dump_json() + "\n" for comparison in comparisons)
    write_text(folder / COMPARISONS, lines)
    write_text(folder / "report.md", "# The proving ground\n\n" + as_page(cells, comparisons, worlds, whole=True))
    for training_users in dict.fromkeys(cell.training_users for cell in cells):
        console.rule(title_of(training_users))
        own = [cell for cell in cells if cell.training_users == training_users]
        compared = [each for each in comparisons if each.training_users == training_users]
        for table in tables_of(own, compared):
            if not table.name.startswith(DIFFERENCES):  # too wide; it is in the report
                console.print(on_terminal(table))
    if worlds:
        console.print(on_terminal(planted_table(worlds)))
    say(f"report in {folder / 'report.md'}")
    if docs:
        say(f"page in {write_docs(folder, cells, comparisons, worlds)}")


class Progress:
    """One line per finished cell, with an estimate of the time left."""

    def __init__(self, planned: Sequence[PlannedCell], jobs: int) -> None:
        self.planned, self.jobs, self.folder = planned, jobs, planned[0].folder
        self.said = -1

    def __call__(self, task: str, done: int, total: int | None, unit: str = "") -> None:  # noqa: ARG002
        if task != "cells" or done == self.said:
            return
        first, self.said = self.said < 0, done
        finished = read_cells(self.folder)
        left = estimate(finished, missing(self.planned)) / self.jobs
        words = f"{done}/{total} cells" + (f", about {_duration(left)} left" if left else "")
        if finished and not first:
            last = finished[-1]
            where = f"{last.data_set}, {last.method}, seed {last.seed}"
            aucs = " ".join("–" if values.auc is None else f"{values.auc:.4f}" for values in last.stages.values())
            words += f"; {where}: {last.elapsed:.0f} s, AUC {aucs}"
        say(f"{time.strftime('%H:%M:%S')} {words}")


def estimate(finished: Sequence[ProvedCell], left: Sequence[PlannedCell]) -> float:
    """Seconds for the cells that are left: what the same method took on the data set, or else any, or else anywhere."""
    total = 0.0
    for cell in left:
        same = [each for each in finished if each.training_users == cell.training_users] or finished
        near = [each for each in same if each.data_set == cell.data_set] or same
        nearest = [each for each in near if each.method == cell.method] or near
        total += sum(each.elapsed for each in nearest) / len(nearest) if nearest else 0.0
    return total


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(1, minutes)} min"


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 on")
    return int(text)


def _seeds(text: str) -> tuple[int, ...]:
    numbers = [_positive(word) for word in text.split(",") if word or "," not in text]
    return tuple(range(1, numbers[0] + 1)) if "," not in text else tuple(dict.fromkeys(numbers))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


if __name__ == "__main__":
    main()

"""How each metric is titled, written and compared, the same on the terminal and in the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resus.evaluation.results import Results


@dataclass(frozen=True)
class Column:
    """One metric as a reader sees it."""

    metric: str
    title: str
    short_title: tuple[str, str]  # two lines
    form: str
    higher_is_better: bool = True

    def show(self, value: float | None) -> str:
        return "–" if value is None else self.form.format(value)

    def best(self, values: Mapping[str, float | None], rivals: Sequence[str]) -> set[str]:
        """The rivals that nobody beats as far as the shown digits tell; none where there is nobody to beat."""
        shown = {name: value for name in rivals if (value := values[name]) is not None}
        if len(shown) < 2:
            return set()
        top = self.show(max(shown.values()) if self.higher_is_better else min(shown.values()))
        return {name for name, value in shown.items() if self.show(value) == top}


AUC = Column("auc", "AUC", ("", "AUC"), "{:.4f}")
GAUC = Column("gauc", "GAUC", ("", "GAUC"), "{:.4f}")
LOGLOSS = Column("logloss", "Logloss", ("Log-", "loss"), "{:.4f}", higher_is_better=False)
RELA_IMPR = Column("rela_impr", "RelaImpr", ("Rela-", "Impr"), "{:+.1f}%")
CALIBRATION = Column("calibration_error", "Calibration error", ("calib.", "error"), "{:.4f}", higher_is_better=False)
GAP_CLOSED = Column("gap_closed", "Gap closed", ("gap", "closed"), "{:.0%}")


def stage_values(results: Results, stage: str, column: Column) -> dict[str, float | None]:
    """The column's metric of every model in one stage."""
    return {name: getattr(model.stages[stage], column.metric) for name, model in results.models.items()}

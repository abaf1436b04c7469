"""The paper's numbers: some by heart, and all of them against each other."""

import pytest

from resus.errors import ConfigError
from resus.evaluation.metrics import rela_impr
from resus.paper.published import Printed, TableNumber, Times, base_of, paper
from resus.paper.questions import STAGES, chosen_questions
from resus.paper.rivals import METHODS

ROUNDING = 0.00005  # of a printed AUC
# where the printed RelaImpr is not that of the printed AUCs
MISPRINTS = {
    **{
        (3, "taobao", method, "I"): "the AUC's own change in percent: 0.5 was not taken off"
        for method in ("nlba", "jtcn", "melu", "mamo", "meta-embedding", "resus-nn", "resus-rr")
    },
    (5, "ml-1m", "resus-nn-fm", "III"): "over FM with boosting, 0.7521, not FM",
    (5, "ml-1m", "resus-rr-fm", "III"): "over FM with boosting, 0.7521, not FM",
}
ALL = [
    (table, data_set, method, stage)
    for table, data_sets in paper().tables.items()
    for data_set, methods in data_sets.items()
    for method in methods
    for stage in STAGES
]


@pytest.mark.parametrize(
    ("table", "data_set", "method", "stage", "printed"),
    [
        (3, "ml-1m", "resus-rr", "I", Printed(0.3318, 0.7645, 19.3)),
        (3, "frappe", "meta-embedding", "I", Printed(0.3128, 0.8640, 33.3)),
        (3, "taobao", "resus-nn", "III", Printed(0.1488, 0.6335, 99.5)),
        (4, "frappe", "resus-rr-joint", "III", Printed(0.2406, 0.9031, 14.2)),
        (5, "ml-1m", "boosted-wide-deep", "II", Printed(0.3880, 0.7533, 1.0)),
        (5, "ml-1m", "resus-rr-lightgbm", "III", Printed(0.3590, 0.7799, 10.3)),
    ],
)
def test_spot_values(table: TableNumber, data_set: str, method: str, stage: str, printed: Printed) -> None:
    assert paper().printed(data_set, method, stage, table) == printed


def test_times() -> None:
    assert paper().times("ml-1m", "resus-rr") == Times(4, 438, 20, 10)
    assert paper().times("ml-1m", "mamo") == Times(10, 4641, 0, 104)
    assert paper().times("frappe", "mamo") is None


def test_every_row_is_there() -> None:
    rows = {(table, data_set): len(methods) for table, of in paper().tables.items() for data_set, methods in of.items()}
    assert rows == {
        **{(3, data_set): 8 for data_set in ("ml-1m", "frappe", "taobao")},
        **{(4, data_set): 5 for data_set in ("ml-1m", "frappe", "taobao")},
        (5, "ml-1m"): 23,
    }
    assert {method for _, _, method, _ in ALL} | set(paper().timed["ml-1m"]) <= set(METHODS)


@pytest.mark.parametrize(("table", "data_set", "method", "stage"), ALL)
def test_rela_impr_is_that_of_the_aucs(table: TableNumber, data_set: str, method: str, stage: str) -> None:
    printed = paper().printed(data_set, method, stage, table)
    base = paper().printed(data_set, base_of(table, method), stage, table)
    assert printed is not None
    assert base is not None
    lowest = rela_impr(printed.auc - ROUNDING, base.auc + ROUNDING)
    highest = rela_impr(printed.auc + ROUNDING, base.auc - ROUNDING)
    agrees = method == base_of(table, method) or lowest - 0.06 < printed.rela_impr < highest + 0.06
    assert agrees == ((table, data_set, method, stage) not in MISPRINTS)


def test_the_misprints_are_what_their_reasons_say() -> None:
    for table, data_set, method, stage in MISPRINTS:
        printed = paper().printed(data_set, method, stage, 3 if table == 3 else 5)
        base = paper().printed(data_set, "lwa" if table == 3 else "boosted-fm", stage, 3 if table == 3 else 5)
        assert printed is not None
        assert base is not None
        explained = (printed.auc / base.auc - 1) * 100 if table == 3 else rela_impr(printed.auc, base.auc)
        assert explained == pytest.approx(printed.rela_impr, abs=0.06)


def test_a_method_has_one_auc_and_logloss_whatever_the_table() -> None:
    for table, data_set, method, stage in ALL:
        found = paper().tables[table][data_set][method][stage]
        assert paper().value(data_set, method, stage, "auc") == found.auc
        assert paper().value(data_set, method, stage, "logloss") == found.logloss
    assert paper().value("ml-1m", "resus-rr", "I", "gauc") is None
    assert paper().value("ml-1m", "user-bias", "I", "auc") is None


def test_the_base_of_each_table() -> None:
    assert base_of(3, "mamo") == "lwa"
    assert base_of(4, "resus-nn-joint") == "mus"
    names = ["resus-rr", "resus-nn-xdeepfm", "boosted-wide-deep", "fm", "boosted-fm"]
    assert [base_of(5, name) for name in names] == ["deepfm", "xdeepfm", "wide-deep", "fm", "fm"]


def test_all_means_the_five_questions_of_the_paper() -> None:
    assert chosen_questions("all") == ["rq1", "rq2", "rq3", "rq4", "rq5"]
    assert chosen_questions("beyond") == ["beyond"]
    with pytest.raises(ConfigError, match="did you mean 'beyond'"):
        chosen_questions("beyon")

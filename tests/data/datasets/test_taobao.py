import math
from pathlib import Path

import pytest

from resus.data.doctor import diagnose
from resus.data.options import PrepareOptions
from resus.data.prepare import prepare_log
from resus.errors import ConfigError, DownloadError

SAMPLES = """user,time_stamp,adgroup_id,pid,nonclk,clk
581738,1494137644,1,430548_1007,1,0
449818,1494638778,3,430548_1007,0,1
581738,1494137600,3,430539_1007,0,1
914836,1494650879,4,430548_1007,1,0
914836,1494650000,1,430548_1007,1,0
449818,1494638000,4,430548_1007,1,0
"""
ADS = """adgroup_id,cate_id,campaign_id,customer,brand,price
1,9025,1,1,95471,170.0
3,9025,3,3,NULL,0.5
4,6,4,4,7,99999999.0
"""
PROFILE_HEADER = (  # the published one ends in a space
    "userid,cms_segid,cms_group_id,final_gender_code,age_level,pvalue_level,shopping_level,occupation,"
    "new_user_class_level "
)
PROFILES = f"""{PROFILE_HEADER}
581738,0,5,2,5,,3,0,3
449818,0,5,2,5,2,3,1,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "taobao"
    folder.mkdir()
    for name, text in (("raw_sample", SAMPLES), ("ad_feature", ADS), ("user_profile", PROFILES)):
        (folder / f"{name}.csv").write_text(text)
    return folder


def test_three_files_become_one_log(folder: Path, tmp_path: Path) -> None:
    assert diagnose(folder) == diagnose(folder / "raw_sample.csv") == []
    log = prepare_log("taobao", tmp_path / "log", path=folder, options=PrepareOptions(min_item_count=1))
    assert log.user_ids.to_pylist() == ["449818", "581738", "914836"]
    assert log.labels.tolist() == [0, 1, 1, 0, 0, 0]
    assert 1 + len(log.features.fields) == 16
    vocabularies = {field.name: set(field.values) for field in log.features.fields}
    assert vocabularies["brand"] == {"95471", "7"}
    assert vocabularies["price"] == {
        str(math.floor(math.log(max(price, 1)) ** 2)) for price in (170.0, 0.5, 99999999.0)
    }
    assert vocabularies["pvalue_level"] == {"2"}
    assert vocabularies["new_user_class_level"] == {"3"}
    gender = [field.name for field in log.features.fields].index("final_gender_code")
    unknown = log.ids[:, gender] == log.features.first_ids[gender]
    assert unknown.tolist() == [False] * 4 + [True] * 2


def test_what_is_wrong_with_the_files(folder: Path) -> None:
    (folder / "raw_sample.csv").write_text(SAMPLES + ",1494638000,4,430548_1007,1,2\n")
    (folder / "ad_feature.csv").write_text(ADS + "4,6,4,4,7,1.0\n5,6\n")
    (folder / "user_profile.csv").unlink()
    assert {(Path(problem.where).stem, problem.row) for problem in diagnose(folder)} == {
        ("ad_feature", 6),
        ("user_profile", None),
    }
    (folder / "user_profile.csv").write_text(PROFILES)
    assert {(Path(problem.where).stem, problem.row, problem.column) for problem in diagnose(folder)} == {
        ("ad_feature", 6, None),
        ("ad_feature", 5, "adgroup_id"),
        ("raw_sample", 8, "user"),
        ("raw_sample", 8, "clk"),
    }


def test_it_cannot_be_fetched_and_has_no_protocol(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESUS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DownloadError, match=r"needs a login at https://tianchi.*--path"):
        prepare_log("taobao", tmp_path / "log")
    with pytest.raises(ConfigError, match="'negatives' has no effect for 'taobao'"):
        prepare_log("taobao", tmp_path / "log", path=folder, options=PrepareOptions(negatives=5))

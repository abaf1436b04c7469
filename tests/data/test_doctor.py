from pathlib import Path

import pytest
import yaml

from resus.data.doctor import diagnose
from resus.data.schema import TableSchema

EXAMPLE = Path(__file__).parents[2] / "examples" / "schema.yaml"
ROWS = "user_id,product_id,clicked,shown_at,device,price,age,genres\n" + "".join(
    f"u{row % 2},p{row},{row % 2},2024-01-0{row + 1},,{row}.5,{20 + row},a|b\n" for row in range(6)
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(ROWS)
    return path


def test_the_example_schema_fits_the_table_it_describes(table: Path) -> None:
    assert diagnose(table, TableSchema.read(EXAMPLE)) == []


def test_without_a_schema_the_guess_is_one_that_works(table: Path) -> None:
    (problem,) = diagnose(table)
    assert all(name in problem.what for name in ROWS.partition("\n")[0].split(","))
    guess = problem.fix[problem.fix.index("{") : problem.fix.rindex("}") + 1]
    schema = TableSchema.model_validate(yaml.safe_load(guess))
    assert (schema.user, schema.item, schema.label) == ("user_id", "product_id", "clicked")
    assert {name: field.kind for name, field in schema.fields.items()} == {
        "product_id": "categorical",
        "shown_at": "categorical",
        "device": "categorical",
        "price": "numeric",
        "age": "categorical",
        "genres": "multi",
    }
    assert diagnose(table, schema) == []


def test_structure_and_contents_are_diagnosed_together(table: Path) -> None:
    lines = ROWS.splitlines()
    lines[2] = lines[2].replace("2024-01-02", "yesterday")
    lines[4] += ",surplus"
    table.write_bytes("\n".join([*lines, "caf\xe9,p9,1"]).encode("latin-1"))
    found = [(problem.row, problem.column) for problem in diagnose(table, TableSchema.read(EXAMPLE))]
    assert found == [(8, None), (8, None), (5, None), (3, "shown_at")]


def test_a_schema_makes_a_file_with_a_published_name_a_table_of_ones_own(table: Path) -> None:
    own = table.rename(table.with_name("ratings.dat"))
    assert diagnose(own, TableSchema.read(EXAMPLE)) == []
    assert {Path(problem.where).name for problem in diagnose(own)} == {"ratings.dat", "users.dat", "movies.dat"}


@pytest.mark.parametrize("name", ["no.csv", "no.parquet", "no.inter", "no"])
def test_what_is_not_there_is_one_problem(tmp_path: Path, name: str) -> None:
    (problem,) = diagnose(tmp_path / name, TableSchema.read(EXAMPLE))
    assert (problem.where, problem.what) == (str(tmp_path / name), "the file does not exist")
    (problem,) = diagnose(tmp_path)
    assert "no known data set" in problem.what

"""A schema with side tables: what it remembers, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from resus.checking import checked
from resus.config.resolve import resolve
from resus.data.schema import TableSchema
from resus.errors import ConfigError

ROLES = {"user": "who", "item": "what", "label": "click"}
USERS = {"path": "people.csv", "key": "id", "fields": {"age": "numeric"}}
ITEMS = {"path": "items.parquet", "fields": {"genres": {"kind": "multi", "separator": ","}}}


def test_fields_of_side_tables_are_fields_of_the_events() -> None:
    schema = checked(TableSchema, {**ROLES, "fields": {"device": "categorical"}, "users": USERS, "items": ITEMS})
    assert list(schema.fields) == ["what", "device", "age", "genres"]
    assert (schema.of_user, schema.of_item) == (("age",), ("genres",))
    assert schema.event_columns == ["who", "what", "device", "click"]
    assert {name: side.key for name, side in schema.sides.items()} == {"who": "id", "what": "what"}


def test_what_is_stored_reads_back_without_frames() -> None:
    schema = checked(TableSchema, {**ROLES, "users": USERS | {"frame": object()}, "items": ITEMS})
    stored = schema.stored()
    assert TableSchema.model_validate_json(stored.model_dump_json()) == stored
    assert stored.users is not None
    assert (stored.users.frame, stored.users.path) == (None, str(Path("people.csv").absolute()))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"items": "items.csv"}, r"items is 'items.csv': write 'items: \{path: FILE, fields: \{NAME: KIND\}\}'"),
        (
            {"item": {"path": "items.csv"}},
            "item is a table: name a column of the events, and tables under users or items",
        ),
        (
            {"fields": ["year"]},
            r"fields is \['year'\]: name each field with its kind, as in 'fields: \{age: numeric\}'",
        ),
        ({"items": {"path": "items.csv", "fields": None}}, "fields is None: name each field with its kind"),
    ],
)
def test_what_is_easily_confused_is_told_apart(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        checked(TableSchema, ROLES | wrong)


def test_paths_are_relative_to_the_schema_file(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text("{user: u, item: i, label: l, users: {path: x.csv, fields: {age: numeric}}}")
    assert [side.path for side in TableSchema.read(path).sides.values()] == [str(tmp_path / "x.csv")]
    path.write_text("{user: u, item: i, label: l, items: {fields: {age: numeric}}}")
    with pytest.raises(ConfigError, match=r"schema\.yaml: items has no path"):
        TableSchema.read(path)


def test_a_schema_and_a_config_are_not_confused(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("{user: u, item: i, label: l}")
    with pytest.raises(ConfigError, match=r"config file .*file\.yaml is a schema, .*to 'resus prepare'"):
        resolve(file=path)
    path.write_text("{training: {epochs: 3}, learner.kind: ridge}")
    with pytest.raises(
        ConfigError, match=r"schema file .*file\.yaml holds settings such as 'training': .*to 'resus train'"
    ):
        TableSchema.read(path)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"users": {"path": "a", "fields": {}}}, r"'users\.fields' is \{\}"),
        ({"users": {"path": "a", "fields": {"age": "number"}}}, "field 'age': unknown field kind 'number'"),
        ({"users": {"path": "a", "fields": {"what": "multi"}}}, "users: 'what' has another role"),
        ({"users": {"pth": "a", "fields": {"age": "numeric"}}}, r"'users\.pth', did you mean 'users\.path'"),
        ({"users": USERS, "items": USERS}, "items: the field 'age' is declared twice"),
        ({"users": USERS, "fields": {"age": "categorical"}}, "users: the field 'age' is declared twice"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        checked(TableSchema, ROLES | wrong)

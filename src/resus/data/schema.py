"""What a table's columns mean: who, what, when, clicked or not, and the fields a model may look at."""

from pathlib import Path
from typing import Any, Self

import polars as pl
import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from resus.arrays import Integers
from resus.checking import nearest_key, on_one_line, sentence_of
from resus.data.fields import KINDS
from resus.data.fields.base import BadRows, Field, FieldOptions
from resus.errors import ConfigError
from resus.files import read_yaml, reason_of


class FieldSchema(BaseModel):
    """The kind of a field, and the options of that kind, such as `FieldSchema(kind="multi", separator=",")`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str = "categorical"

    @model_validator(mode="before")
    @classmethod
    def _check(cls, value: Any) -> Any:
        """Name the kind, and of its options those that are not the default."""
        if isinstance(value, str):
            value = {"kind": value}
        if not isinstance(value, dict):
            return value
        kind = value.get("kind", "categorical")
        if kind not in KINDS:
            nearest = nearest_key(str(kind), KINDS)
            hint = f", did you mean '{nearest}'?" if nearest else ""
            raise ValueError(f"unknown field kind {kind!r}{hint} (known: {', '.join(KINDS)})")
        options = {key: option for key, option in value.items() if key != "kind"}
        try:
            chosen = KINDS[kind].options.model_validate(options)
        except ValidationError as error:
            raise ValueError(sentence_of(error, KINDS[kind].options)) from None
        return {"kind": kind, **chosen.model_dump(exclude_defaults=True)}

    @property
    def field_class(self) -> type[Field]:
        return KINDS[self.kind]

    def learn(self, name: str, column: pl.Series, *, min_count: int = 1, counts: Integers | None = None) -> Field:
        """The field with what it learns from a column, see `Field.learn`."""
        return self.field_class.learn(name, column, self._options, min_count=min_count, counts=counts)

    def bad_rows(self, column: pl.Series) -> list[BadRows]:
        """What is wrong with a column to learn from, see `Field.bad_rows`."""
        return self.field_class.bad_rows(column, self._options)

    @property
    def _options(self) -> FieldOptions:
        return self.field_class.options.model_validate(self.model_extra)


class TableSchema(BaseModel):
    """The roles of a table's columns; `fields` maps a column to its kind. The item is a field, the user never."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: str
    item: str
    label: str
    time: str | None = None
    label_threshold: float | None = None
    separator: str | None = None
    encoding: str = "utf-8"
    fields: dict[str, FieldSchema] = pydantic.Field(default_factory=dict)

    @field_validator("fields", mode="before")
    @classmethod
    def _name_the_wrong_field(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        fields = {}
        for name, field in value.items():
            try:
                fields[name] = FieldSchema.model_validate(field)
            except ValidationError as error:
                raise ValueError(f"field '{name}': {sentence_of(error, FieldSchema)}") from None
        return fields

    @model_validator(mode="after")
    def _roles_do_not_clash(self) -> Self:
        if self.user in self.fields:
            raise ValueError(f"fields: '{self.user}' is the user id, which a model for new users must not see")
        if self.label in self.fields:
            raise ValueError(f"fields: '{self.label}' is the label, which a model must not see")
        item = self.fields.get(self.item, FieldSchema())
        if not item.field_class.can_name_items:
            known = " or ".join(kind for kind, field in KINDS.items() if field.can_name_items)
            raise ValueError(f"fields: '{self.item}' is the item id and must be {known}, not {item.kind}")
        fields = {self.item: item} | self.fields
        object.__setattr__(self, "fields", fields)
        return self

    @property
    def columns(self) -> list[str]:
        """Every column that the table must have."""
        return list(dict.fromkeys([self.user, *self.fields, *([self.time] if self.time else []), self.label]))

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            value = read_yaml(path)
        except FileNotFoundError:
            raise ConfigError(f"schema file {path} does not exist: check the path") from None
        except OSError as error:
            raise ConfigError(f"schema file {path} cannot be read ({reason_of(error)}): check the path") from None
        except (yaml.YAMLError, ValueError) as error:
            raise ConfigError(f"schema file {path} is not valid YAML: {on_one_line(error)}") from None
        if not isinstance(value, dict):
            raise ConfigError(f"schema file {path} must be a mapping with the keys user, item, label and fields")
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise ConfigError(f"schema file {path}: {sentence_of(error, cls)}") from None

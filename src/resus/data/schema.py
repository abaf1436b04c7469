"""What a table's columns mean: who, what, when, clicked or not, and the fields a model may look at."""

from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from resus.checking import on_one_line, sentence_of
from resus.errors import ConfigError

Kind = Literal["categorical", "numeric", "multi"]


class FieldSchema(BaseModel):
    """One input field. A `multi` field holds several values, in a list or in text with a separator."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind = "categorical"
    separator: str = "|"
    max_values: int = Field(default=8, ge=1)
    center: float | None = None
    scale: float | None = Field(default=None, gt=0)


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
    fields: dict[str, FieldSchema] = Field(default_factory=dict)

    @field_validator("fields", mode="before")
    @classmethod
    def _kind_alone_is_enough(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: {"kind": field} if isinstance(field, str) else field for name, field in value.items()}
        return value

    @model_validator(mode="after")
    def _roles_do_not_clash(self) -> Self:
        if self.user in self.fields:
            raise ValueError(f"fields: '{self.user}' is the user id, which a model for new users must not see")
        if self.label in self.fields:
            raise ValueError(f"fields: '{self.label}' is the label, which a model must not see")
        item = self.fields.get(self.item, FieldSchema())
        if item.kind != "categorical":
            raise ValueError(f"fields: '{self.item}' is the item id and must be categorical, not {item.kind}")
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
            value = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"schema file {path} does not exist: check the path") from None
        except (yaml.YAMLError, ValueError) as error:
            raise ConfigError(f"schema file {path} is not valid YAML: {on_one_line(error)}") from None
        if not isinstance(value, dict):
            raise ConfigError(f"schema file {path} must be a mapping with the keys user, item, label and fields")
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise ConfigError(f"schema file {path}: {sentence_of(error, cls)}") from None

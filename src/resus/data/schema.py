"""What a table's columns mean: who, what, when, clicked or not, and the fields a model may look at."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import polars as pl
import pydantic
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from resus.arrays import Integers
from resus.checking import checked, nearest_key, on_one_line, sentence_of, shortened
from resus.data.fields import KINDS
from resus.data.fields.base import BadRows, Field, FieldOptions
from resus.data.negatives.settings import NegativeSettings
from resus.data.options import BuildOptions, Duplicates, SingleEvents
from resus.errors import ConfigError
from resus.files import read_yaml, reason_of

_SETTINGS = ("learner", "predictor", "encoder", "fusion", "training", "split", "evaluation", "protocol", "seed")


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


def _named_fields(value: Any) -> Any:
    """Fields by name; a ValueError names the field that is wrong."""
    if not isinstance(value, dict):
        raise ValueError(
            f"fields is {shortened(value)}: name each field with its kind, as in 'fields: {{age: numeric}}'"
        )
    fields = {}
    for name, field in value.items():
        try:
            fields[name] = FieldSchema.model_validate(field)
        except ValidationError as error:
            raise ValueError(f"field '{name}': {sentence_of(error, FieldSchema)}") from None
    return fields


Fields = Annotated[dict[str, FieldSchema], BeforeValidator(_named_fields)]


class SideTable(BaseModel):
    """A table with one row per user or per item, and the fields that it adds to their events.

    Its rows are in the file `path` or, in Python, in a `frame`, which is never stored. `key` names its column of ids.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str | None = None
    key: str | None = None  # the name of the user or item column, unless another one is given
    separator: str | None = None
    encoding: str = "utf-8"
    fields: Fields = pydantic.Field(min_length=1)
    frame: Any = pydantic.Field(default=None, exclude=True, repr=False)

    def stored(self) -> Self:
        return self.model_copy(update={"frame": None, "path": str(Path(self.path).absolute()) if self.path else None})

    @property
    def columns(self) -> list[str]:
        """Every column that the side table must have."""
        assert self.key is not None
        return list(dict.fromkeys([self.key, *self.fields]))


class TableSchema(BaseModel):
    """The roles of a table's columns; `fields` maps a column to its kind. The item is a field, the user never.

    `users` and `items` are side tables. Their fields become fields of the events, and are in `fields`, too.
    Without a `label` every row is an event of label 1, and `negatives` must say how many others to draw. `duplicates`
    and `single_events` are the defaults of the options of these names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: str
    item: str
    label: str | None = None
    time: str | None = None
    label_threshold: float | None = None
    separator: str | None = None
    encoding: str = "utf-8"
    negatives: NegativeSettings | None = None
    duplicates: Duplicates | None = None
    single_events: SingleEvents | None = None
    fields: Fields = pydantic.Field(default_factory=dict)
    users: SideTable | None = None
    items: SideTable | None = None

    @model_validator(mode="before")
    @classmethod
    def _tables_and_columns(cls, value: Any) -> Any:
        """Tell the name of a column from a side table, which is easily confused: item and items."""
        roles = value if isinstance(value, dict) else {}
        for role in ("user", "item", "label", "time"):
            if isinstance(roles.get(role), dict):
                raise ValueError(f"{role} is a table: name a column of the events, and tables under users or items")
        for role in ("users", "items"):
            if not isinstance(roles.get(role), dict | SideTable | None):
                raise ValueError(
                    f"{role} is {shortened(roles[role])}: write '{role}: {{path: FILE, fields: {{NAME: KIND}}}}'"
                )
        return value

    @model_validator(mode="after")
    def _sides_join(self) -> Self:
        """Give side tables their default keys, and the events their fields."""
        for role, name in (("users", self.user), ("items", self.item)):
            side: SideTable | None = getattr(self, role)
            if side is None:
                continue
            for field, kind in side.fields.items():
                if field in (self.user, self.item, self.label, self.time):
                    raise ValueError(f"{role}: '{field}' has another role in the events: rename the field")
                if self.fields.get(field, kind) != kind or (role == "items" and field in self.of_user):
                    raise ValueError(f"{role}: the field '{field}' is declared twice: keep one of them")
            object.__setattr__(self, "fields", self.fields | side.fields)
            object.__setattr__(self, role, side.model_copy(update={"key": side.key or name}))
        return self

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
        if self.label is None and self.negatives is None:
            raise ValueError(
                "there is no label: name the column that says whether a row was clicked, or, if every row is a click, "
                "a play or a purchase, write 'negatives: 2' to draw two items per row that the user has not had"
            )
        fields = {self.item: item} | self.fields
        self._check_negatives(fields)
        object.__setattr__(self, "fields", fields)
        return self

    def _check_negatives(self, fields: dict[str, FieldSchema]) -> None:
        if self.negatives is None:
            return
        for key in ("context", "item_fields"):
            for name in getattr(self.negatives, key) or ():
                if name not in fields or name == self.item:
                    raise ValueError(f"negatives: {key} names '{name}', which is not one of the other fields")
                if key == "context" and fields[name].field_class.takes_lists:
                    raise ValueError(f"negatives: context names '{name}', which has several values in a cell")

    @property
    def sides(self) -> dict[str, SideTable]:
        """The side tables by the column of the events that names their rows: the user, the item."""
        both = {self.user: self.users, self.item: self.items}
        return {column: side for column, side in both.items() if side is not None}

    @property
    def of_user(self) -> tuple[str, ...]:
        """The fields that come from the table of users."""
        return tuple(self.users.fields) if self.users else ()

    @property
    def of_item(self) -> tuple[str, ...]:
        """The fields that come from the table of items."""
        return tuple(self.items.fields) if self.items else ()

    @property
    def event_columns(self) -> list[str]:
        """Every column that the table of events must have: all but those of the side tables."""
        return [name for name in self.columns if name not in (*self.of_user, *self.of_item)]

    def stored(self) -> Self:
        """What a log and a model keep: no frames, and paths that hold in any folder."""
        sides = {"users": self.users, "items": self.items}
        kept = {role: side.stored() for role, side in sides.items() if side is not None}
        return self.model_copy(update=kept)

    @property
    def columns(self) -> list[str]:
        """Every column of the events once the side tables are joined."""
        others = [name for name in (self.time, self.label) if name is not None]
        return list(dict.fromkeys([self.user, *self.fields, *others]))

    def build_options(self, defaults: BuildOptions) -> BuildOptions:
        """The defaults of a table, with what the schema says."""
        said = {"duplicates": self.duplicates, "single_events": self.single_events}
        return defaults.model_copy(update={key: value for key, value in said.items() if value is not None})

    def drawing(self, per_event: int | None) -> "Self":
        """The same with another number of negatives per event, if one is given."""
        if per_event is None:
            return self
        negatives = (self.negatives or NegativeSettings()).model_copy(update={"per_event": per_event})
        return self.model_copy(update={"negatives": negatives})

    @classmethod
    def of(cls, schema: "SchemaLike") -> "TableSchema":
        """A schema from its file, a mapping, or as it is."""
        if isinstance(schema, TableSchema):
            return schema
        if isinstance(schema, Mapping):
            return checked(cls, schema)
        if not isinstance(schema, str | Path):
            raise ConfigError(f"the schema is a {type(schema).__name__}: give a path, a mapping or a TableSchema")
        return cls.read(Path(schema))

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
        settings = [key for key in value if str(key).partition(".")[0] in _SETTINGS]
        if settings and not {"user", "item"} & value.keys():
            raise ConfigError(
                f"schema file {path} holds settings such as '{settings[0]}': give it to 'resus train', and "
                "here a file with the keys user, item, label and fields"
            )
        try:
            schema = cls.model_validate(value)
        except ValidationError as error:
            raise ConfigError(f"schema file {path}: {sentence_of(error, cls)}") from None
        return schema._beside(path)

    def _beside(self, path: Path) -> Self:
        """The schema of a file, whose side tables are named relative to it."""
        found = {}
        for role, side in (("users", self.users), ("items", self.items)):
            if side is None:
                continue
            if not side.path:
                raise ConfigError(f"schema file {path}: {role} has no path: name the file that holds its rows")
            found[role] = side.model_copy(update={"path": str(path.parent / side.path)})
        return self.model_copy(update=found)


SchemaLike = TableSchema | Mapping[str, Any] | Path | str

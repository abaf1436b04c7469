"""What a user may choose when a data set or a table becomes a log."""

from collections.abc import Collection, Mapping
from typing import Any, Literal, Self, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from resus.checking import checked
from resus.data.split import Protocol
from resus.errors import ConfigError

Duplicates = Literal["error", "keep", "first", "last"]
SingleEvents = Literal["error", "keep", "drop"]


class TableOptions(TypedDict, total=False):
    """What may be chosen when a table becomes a log, as arguments of a function."""

    label_threshold: float | None
    min_item_count: int | None
    min_count: int | None
    duplicates: Duplicates | None
    single_events: SingleEvents | None
    negatives: int | None
    seed: int


class PrepareArguments(TableOptions, total=False):
    """The same for `resus.prepare`, which also reads published data sets."""

    protocol: Protocol
    user_field: bool


class BuildOptions(BaseModel):
    """Which rows of a table to keep."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_item_count: int = Field(default=1, ge=1, description="drop items with fewer events")
    min_count: int = Field(default=1, ge=1, description="field values in fewer rows count as never seen")
    seed: int = Field(default=0, ge=0, description="seed of the drawn negatives")
    duplicates: Duplicates = Field(
        default="error", description="the same user, item and time twice: refuse, keep both, or keep one"
    )
    single_events: SingleEvents = Field(
        default="error", description="users with one row: refuse, keep or drop; one row leaves nothing to predict"
    )


class PrepareOptions(BaseModel):
    """All options of `prepare`. None means the default of the data set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Protocol = Field(default="paper", description="MovieLens as in the paper, or as in the authors' release")
    label_threshold: float | None = Field(default=None, description="values from here on count as a click")
    negatives: int | None = Field(default=None, ge=1, le=100, description="items drawn per event that have no label 0")
    seed: int = Field(default=0, ge=0, description="seed of the drawn negatives")
    user_field: bool = Field(
        default=False, description="Taobao's user id as a 16th field, as in the paper; it says nothing about new users"
    )
    min_item_count: int | None = Field(default=None, ge=1, description="drop items with fewer events")
    min_count: int | None = Field(default=None, ge=1, description="field values in fewer rows count as never seen")
    duplicates: Duplicates | None = Field(
        default=None, description="the same event twice: refuse, keep both, or keep one"
    )
    single_events: SingleEvents | None = Field(default=None, description="users with one row: refuse, keep or drop")

    @classmethod
    def of(cls, options: "BuildOptions | PrepareOptions | None", chosen: Mapping[str, Any]) -> Self:
        """Options as one object or as arguments; each may be given once."""
        if options is not None and chosen:
            raise ConfigError(
                f"options are given twice, as an object and as {', '.join(chosen)}: leave one of them out"
            )
        return checked(cls, options.model_dump() if options is not None else chosen)

    def refuse_unused(self, used: Collection[str], name: str) -> None:
        """Refuse an option that would change nothing, if `used` are those that the reader of `name` looks at."""
        default = PrepareOptions()
        for key in ("protocol", "label_threshold", "negatives", "user_field"):
            if key not in used and getattr(self, key) != getattr(default, key):
                raise ConfigError(f"'{key}' has no effect for '{name}': leave it out")

    def build_options(self, defaults: BuildOptions) -> BuildOptions:
        """The defaults of a data set, with the user's choices."""
        chosen = self.model_dump(include=set(BuildOptions.model_fields), exclude_none=True)
        return BuildOptions.model_validate(defaults.model_dump() | chosen)

"""What a user may choose when a data set or a table becomes a log."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from resus.data.split import Protocol

Duplicates = Literal["error", "keep", "first", "last"]
SingleEvents = Literal["error", "keep", "drop"]


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

    def build_options(self, defaults: BuildOptions) -> BuildOptions:
        """The defaults of a data set, with the user's choices."""
        chosen = self.model_dump(include=set(BuildOptions.model_fields), exclude_none=True)
        return BuildOptions.model_validate(defaults.model_dump() | chosen)

"""What a user may choose when a data set is prepared; what is not chosen is as the data set's readers define it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from resus.data.build import BuildOptions
from resus.data.split import Protocol


class PrepareOptions(BaseModel):
    """`None` means: as published data sets and tables of one's own have it by default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Protocol = Field(default="paper", description="MovieLens as in the paper, or as in the authors' release")
    label_threshold: float | None = Field(default=None, description="a value from here on counts as a click")
    negatives: int = Field(default=2, ge=1, description="sampled negatives per Frappe log")
    seed: int = Field(default=0, ge=0, description="seed of the sampled negatives")
    user_field: bool = Field(
        default=False,
        description="Taobao's user id as a 16th field, as the paper counts it; off, as a stranger's id says nothing",
    )
    min_item_count: int | None = Field(default=None, ge=1, description="drop items with fewer interactions")
    min_count: int | None = Field(default=None, ge=1, description="rarer field values become out of vocabulary")
    duplicates: Literal["error", "keep", "first", "last"] | None = Field(
        default=None, description="the same event twice: refuse, keep both, or keep one"
    )
    single_events: Literal["error", "keep", "drop"] | None = Field(
        default=None, description="users with one row: refuse, keep or drop"
    )

    def build_options(self, defaults: BuildOptions) -> BuildOptions:
        """The defaults of a data set under the user's choices."""
        chosen = self.model_dump(include=set(BuildOptions.model_fields), exclude_none=True)
        return BuildOptions.model_validate(defaults.model_dump() | chosen)

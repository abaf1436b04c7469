"""How negatives are drawn, as a schema says it, and what a log says about those that were drawn."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_PER_EVENT = 100
_WAYS = {"uniform": "each item equally often", "popularity": "in proportion to events^0.75"}


class NegativeSettings(BaseModel):
    """`negatives: 2` in a schema is short for `negatives: {per_event: 2}`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_event: int = Field(default=2, ge=1, le=MOST_PER_EVENT, description="items drawn for each event")
    by: Literal["uniform", "popularity"] = Field(
        default="uniform", description="each item equally often, or in proportion to its number of events^0.75"
    )
    context: tuple[str, ...] = Field(
        default=(), description="fields of the situation: an item counts as had only with the same values of these"
    )
    item_fields: tuple[str, ...] | None = Field(
        default=None, description="fields that a drawn item brings along; found from the rows if left out"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        return {"per_event": value} if isinstance(value, int) and not isinstance(value, bool) else value


class DrawnNegatives(BaseModel):
    """The negatives of a log: how they were drawn, how many there are, and for how many events."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_event: int = Field(ge=1, le=MOST_PER_EVENT)
    by: Literal["uniform", "popularity"]
    context: tuple[str, ...]
    item_fields: tuple[str, ...]
    seed: int = Field(ge=0)
    events: int
    rows: int

    @property
    def sentence(self) -> str:
        """What every result on the log must say."""
        items = "item" if self.per_event == 1 else "items"
        where = f" with the same {', '.join(self.context)}" if self.context else ""
        return (
            f"negatives were drawn: {self.per_event} {items} per event that the user has not had{where}, "
            f"{_WAYS[self.by]} (seed {self.seed}); {self.rows:,} rows are drawn, for {self.events:,} events"
        )

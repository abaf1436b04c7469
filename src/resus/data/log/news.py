"""What a log holds that a model does not know: users, items and other values."""

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from resus.data.fields.feature_map import FeatureMap
from resus.data.log.known_users import Met
from resus.data.log.log import InteractionLog


class News(BaseModel):
    """Counts of a log's users and values. `new_values` holds, by field, the values that the model does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    users: int
    new_users: int
    tested_users: int  # test users of the model's own log
    validated_users: int
    trained_users: int
    items: int
    new_items: int
    new_values: dict[str, int]

    @classmethod
    def of(cls, log: InteractionLog, features: FeatureMap, met: Met) -> "News":
        """What is new in a log to a model with these features, which has met some of the users."""
        unknown = {
            field.name: len(set(log.features.block(field.name).field.values) - set(field.values))
            for field in features.fields
        }
        new_items = unknown.pop(features.item, 0)
        return cls(
            users=log.n_users,
            new_users=int(met.new.sum()),
            tested_users=int((met.unseen & met.test).sum()),
            validated_users=int((met.validation & ~met.train).sum()),
            trained_users=int(met.train.sum()),
            items=len(log.features.block(features.item).field.values),
            new_items=new_items,
            new_values={name: count for name, count in unknown.items() if count},
        )

    def sentence(self) -> str:
        """Users, items and values, in words."""
        known = [
            (self.tested_users, "were test users of the run"),
            (self.trained_users, "trained it"),
            (self.validated_users, "validated it"),
        ]
        users = [f"{self.new_users:,} of {self.users:,} users are new", *_counted(known)]
        values = [f"{self.new_items:,} of {self.items:,} items are new"]
        if self.new_values:
            values.append("new values: " + ", ".join(f"{name} {count:,}" for name, count in self.new_values.items()))
        return f"{', '.join(users)}; {'; '.join(values)}"


def _counted(parts: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{count:,} {what}" for count, what in parts if count]

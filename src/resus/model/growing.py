"""From the weights of a model to those of one that knows more values."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from resus.data.fields.feature_map import FeatureMap
from resus.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Growth:
    """A feature map before and after it learned new values, see `FeatureMap.grown`."""

    before: FeatureMap
    after: FeatureMap

    @cached_property
    def places(self) -> Tensor:
        """The new id of each old one."""
        return torch.from_numpy(self.before.places_in(self.after))

    @cached_property
    def is_new(self) -> Tensor:
        """Whether an id stands for a new value."""
        new = torch.ones(self.after.n_ids, dtype=torch.bool)
        new[self.places] = False
        return new

    def state(self, old: Mapping[str, Tensor], fresh: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
        """The old weights in the shapes of fresh ones. New values keep their rows of a table of ids."""
        if old.keys() != fresh.keys():
            raise self._refusal(part, "they have other layers")
        return {name: self._grown(value, fresh[name], f"{part}.{name}") for name, value in old.items()}

    def _grown(self, old: Tensor, fresh: Tensor, name: str) -> Tensor:
        if old.shape == fresh.shape:
            return old.clone()
        tables = (self.before.n_ids, *old.shape[1:]), (self.after.n_ids, *old.shape[1:])
        if (tuple(old.shape), tuple(fresh.shape)) != tables:
            raise self._refusal(name, f"it has the shape {list(old.shape)} there and {list(fresh.shape)} here")
        grown = fresh.clone()
        grown[self.places] = old
        return grown

    @staticmethod
    def _refusal(part: str, why: str) -> ConfigError:
        return ConfigError(
            f"the weights of '{part}' do not fit the run that training would start from ({why}): leave out the "
            "settings of kinds and sizes, or train without a warm start"
        )

"""A model as it is served: its parts, how it reads a request, and what came with it in its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from resus.artifact import FACTS, Artifact
from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.values import spelled, text_of
from resus.episodes.tensors import Features
from resus.errors import ArtifactError
from resus.estimator import rebuild
from resus.evaluation.results import Results
from resus.files import sha256_of
from resus.serving.catalogue.catalogue import CATALOGUE, CHOICES, Catalogue
from resus.serving.http.messages import CatalogueItem, FieldAnswer, Stage
from resus.serving.live.strangers import STRANGERS, Stranger, read_strangers
from resus.serving.live.user import LiveUser
from resus.training.run import Trained

RESULTS = "results.json"


class Meaning(NamedTuple):
    """The field of the item, and all fields with their kinds."""

    item: str
    fields: frozenset[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """Never changes; threads share it. Catalogue, test users and results are there if the folder has them.

    `sha256` is that of the artifact's facts, which hold that of the weights.
    """

    config: Config
    features: FeatureMap
    trained: Trained
    sha256: str
    catalogue: Catalogue | None
    strangers: list[Stranger]
    results: Results | None

    @classmethod
    def load(cls, folder: Path) -> "LoadedModel":
        """Read a run or an export; what cannot score is refused, and what changes meanwhile."""
        before = _state(folder)
        try:
            artifact = Artifact.load(folder)
            loaded = cls(
                config=artifact.config,
                features=artifact.features,
                trained=rebuild(artifact),
                sha256=sha256_of(folder / FACTS),
                catalogue=Catalogue.load(folder) if (folder / CATALOGUE).is_file() else None,
                strangers=read_strangers(folder) if (folder / STRANGERS).is_file() else [],
                results=Results.read(folder / RESULTS) if (folder / RESULTS).is_file() else None,
            )
        except OSError as error:
            raise ArtifactError(f"{folder} cannot be read ({(error.strerror or 'no reason given').lower()})") from None
        if _state(folder) != before:
            raise ArtifactError(f"{folder} changed while it was read: load it again")
        loaded._check_scores(folder)
        return loaded

    @property
    def name(self) -> str:
        return self.config.model_name

    @property
    def item(self) -> str:
        """The field that holds the item's id."""
        return self.features.item

    @property
    def score(self) -> str | None:
        """The field that every event and candidate must bring: it is Ψ, and no catalogue knows it."""
        column = self.config.predictor.column
        known = self.catalogue.fields if self.catalogue else ()
        return column if column and column not in known else None

    @property
    def catalogue_size(self) -> int:
        return len(self.catalogue.items) if self.catalogue else 0

    @cached_property
    def field_names(self) -> frozenset[str]:
        return frozenset(field.name for field in self.features.fields)

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> Features:
        """Field values as the model reads them; the catalogue fills in what a row leaves out of an item."""
        rows = [self.with_item(row) for row in rows]
        read = Features.of_arrays(*self.features.encode_rows(rows))
        if self.catalogue is None or not rows:
            return read
        return self.catalogue.fill(rows, read, self._places(read))

    def with_item(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same row, where `item` is the item's id whatever its field is called; a field of that name is itself."""
        if row.get("item") is None or "item" in self.field_names:
            return row
        return {self.item if name == "item" else name: value for name, value in row.items() if name != self.item}

    def check_scores(self, read: Features) -> None:
        """RowError where Ψ is a field of the row, and the row has nothing in it that Ψ can be."""
        if self.config.predictor.kind == "external":
            self.trained.predictor.logits(read)

    def item_of(self, row: Mapping[str, Any]) -> str | None:
        """The item's id as the vocabulary spells it."""
        text = text_of(row.get(self.item), 0, self.item)
        return None if text is None else spelled(text)

    def live_user(self, capacity: int) -> LiveUser:
        """Somebody of whom nothing is known yet."""
        width = int(self.trained.model.encoder.width)  # type: ignore[arg-type]
        return LiveUser(self.trained.predictor, self.trained.model, width=width, capacity=capacity)

    def stage(self, support: int) -> Stage:
        """How cold a user with that many events is."""
        stages = self.config.evaluation.stages
        if not support:
            return "new"
        if support <= max(stages["I"]):
            return "I"
        if support <= max(stages["II"]):
            return "II"
        return "III" if support <= max(stages["III"]) else "warm"

    def fields(self) -> list[FieldAnswer]:
        """What the model reads; a field is the item's where the catalogue fills it in."""
        own = self.catalogue.fields if self.catalogue else (self.item,)
        context = self.catalogue.context if self.catalogue else {}
        return [
            FieldAnswer(
                name=field.name,
                kind=field.kind,
                role="item" if field.name in own else "context",
                values=list(context.get(field.name, field.values[:CHOICES])),
            )
            for field in self.features.fields
        ]

    def search(self, query: str, limit: int) -> list[CatalogueItem]:
        """Items whose id or title holds the query."""
        catalogue = self.catalogue
        if catalogue is None:
            return []
        return [
            CatalogueItem(
                item=catalogue.items[place],
                title=catalogue.titles[place],
                count=catalogue.counts[place],
                mean=catalogue.means[place],
            )
            for place in catalogue.search(query, limit)
        ]

    def title_of(self, item: str) -> str | None:
        place = self.catalogue.places.get(item) if self.catalogue else None
        return None if self.catalogue is None or place is None else self.catalogue.titles[place]

    @property
    def meaning(self) -> "Meaning":
        """What stored events must mean to every model on one store."""
        return Meaning(self.item, frozenset((field.name, field.kind) for field in self.features.fields))

    def check_means(self, wanted: "Meaning") -> None:
        mine = self.meaning
        if mine != wanted:
            changed = ", ".join(sorted({name for name, _ in mine.fields ^ wanted.fields} or {mine.item, wanted.item}))
            raise ArtifactError(
                f"the new model reads other fields than the one in use ({changed}): serve it as a service of its own"
            )

    def _places(self, read: Features) -> Tensor:
        """Where the rows' items stand in the vocabulary, and so in the catalogue; -1 is an unknown one."""
        item = self.features.block(self.item)
        return read.ids[:, item.columns.start].long() - item.first - 1

    def _check_scores(self, folder: Path) -> None:
        try:
            finite = self._scores_are_finite()
        except Exception as error:
            raise ArtifactError(
                f"the model in {folder} cannot score ({type(error).__name__}): export it again, or train again"
            ) from None
        if not finite:
            raise ArtifactError(f"the model in {folder} gives scores that are no numbers: train again")

    def _scores_are_finite(self) -> bool:
        """Of an item by its id and of a row of frequent values, before and after an event."""
        examples = {field.name: field.example() for field in self.features.fields}
        needed = {self.item, *(field.name for field in self.features.fields if field.is_number)}
        probes = self.rows([{name: example for name, example in examples.items() if name in needed}, examples])
        user = self.live_user(1)
        before = user.score(probes)
        user.observe("probe", probes.take(np.array([1])), 1.0, 0.0)
        after = user.score(probes)
        return all(bool(scores.probability.isfinite().all()) for scores in (before, after))


def _state(folder: Path) -> tuple[int, int] | None:
    """Another one as soon as another artifact lies there."""
    try:
        facts = (folder / FACTS).stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns

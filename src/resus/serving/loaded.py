"""A model to serve: its parts, how it reads requests, and what else its folder holds."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from resus.artifact import Artifact, inference
from resus.checked_folder import CheckedFolder
from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.values import spelled, text_of
from resus.data.schema import TableSchema
from resus.errors import ArtifactError, DataError, RowError
from resus.evaluation.results import Results
from resus.model.inference.model import Inference
from resus.model.inference.parts import Rows
from resus.serving.catalogue import CATALOGUE, MAX_CHOICES, Catalogue
from resus.serving.drift import REFERENCE, Reference, largest_of_stages, stage_of
from resus.serving.histories import TEST_USERS, read_histories
from resus.serving.live.user import LiveUser
from resus.serving.messages import CatalogueItem, FieldAnswer, PastEvent, Role, UserHistory
from resus.serving.own_model import INPUTS, OwnModel
from resus.serving.profiles import NO_PROFILE, PROFILES, Profiles, described
from resus.serving.store import Event

RESULTS = "results.json"
COLUMN = "column"  # the kind of what only the user's own model reads
HASH_DIGITS = 12

log = logging.getLogger("resus.serving")


class Meaning(NamedTuple):
    """What stored events mean to a model: the item's field, and all fields with their kinds."""

    item: str
    fields: frozenset[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """Never changes, so threads may share it. Catalogue, profiles, test users and results are optional.

    `sha256` is the hash of the artifact's facts, which hold the hash of the weights.
    """

    config: Config
    features: FeatureMap
    model: Inference
    sha256: str
    catalogue: Catalogue | None
    profiles: Profiles | None
    histories: Sequence[UserHistory]
    results: Results | None
    own: OwnModel | None = None
    label: str | None = None  # who the users are and what a label means, if a table said it
    reference: Reference | None = None

    @classmethod
    def load(cls, folder: Path) -> "LoadedModel":
        """Load a run or an export. Refuse a model that cannot score. Its parts fit together even if the folder is
        replaced meanwhile: all but the results are those that its facts list."""
        opened = CheckedFolder.open(folder)
        artifact = Artifact.of(opened)
        catalogue = Catalogue.load(opened, artifact.features) if CATALOGUE in opened else None
        loaded = cls(
            config=artifact.config,
            features=artifact.features,
            model=inference(artifact),
            sha256=opened.sha256,
            catalogue=catalogue,
            profiles=Profiles.load(opened, artifact.features) if PROFILES in opened else None,
            histories=read_histories(opened) if TEST_USERS in opened else (),
            results=Results.read(folder / RESULTS) if (folder / RESULTS).exists() else None,
            own=OwnModel.load(opened, artifact.features, catalogue) if catalogue and INPUTS in opened else None,
            label=_meaning_of_labels(artifact.log.table),
            reference=Reference.load(opened) if REFERENCE in opened else None,
        )
        loaded._check_that_it_scores(folder)
        return loaded

    @cached_property
    def name(self) -> str:
        return self.config.model_name

    @cached_property
    def version(self) -> str:
        """Its name, and as much of its hash as tells it from others."""
        return f"{self.name}@{self.sha256[:HASH_DIGITS]}"

    @property
    def item(self) -> str:
        """The field that holds the item's id."""
        return self.features.item

    @property
    def score(self) -> str | None:
        """The field in which every event and candidate must bring the score of the shared model, unless the catalogue
        knows it, or the user's own model gives it."""
        column = "" if self.own else self.config.predictor.score_column
        known = self.catalogue.fields if self.catalogue else ()
        return column if column and column not in known else None

    @property
    def catalogue_size(self) -> int:
        return len(self.catalogue.items) - len(self.catalogue.removed) if self.catalogue else 0

    @cached_property
    def field_names(self) -> frozenset[str]:
        """The names that a row may have."""
        names = frozenset(field.name for field in self.features.fields)
        return names if self.own is None else (names - {self.own.score.name}).union(self.own.facts.reads)

    def rows(
        self, rows: Sequence[Mapping[str, Any]], profile: Mapping[str, Any] = NO_PROFILE, *, stored: bool = False
    ) -> Rows:
        """Rows of field values as the model reads them. Of what they leave out, the profile of their user fills in its
        fields, and the catalogue those of known items. `stored` ones may be older than the model."""
        rows = [described(self.with_item(row), profile) for row in rows]
        if self.own is not None and self.catalogue is not None:
            places = [self.catalogue.place_of(row.get(self.item)) for row in rows]
            rows = self.own.scored(rows, places, stored=stored)
        return self._read(rows)

    def _read(self, rows: Sequence[Mapping[str, Any]]) -> Rows:
        """The same for rows that hold all that requests and profiles say."""
        read = Rows(*self.features.encode_rows(rows))
        if self.catalogue is not None and rows:
            read = self.catalogue.fill(rows, read, self.item)
        self.features.refuse_missing(read.ids)
        return read

    def unknown_values(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """By field, the rows with a value that the model does not know."""
        rows = [self.with_item(row) for row in rows]
        return self.features.count_unknown_values(rows, *self.features.encode_rows(rows))

    def profile_of(self, user: str, stored: Mapping[str, Any] = NO_PROFILE) -> Mapping[str, Any]:
        """The fields that describe a user: those that are stored, then those of the export. A stored null hides one;
        to the user's own model it is a missing value."""
        exported = self.profiles.of_user(spelled(user)) if self.profiles else NO_PROFILE
        if self.own is not None:
            exported = {**exported, **self.own.of_user(spelled(user))}
        if not stored:
            return exported
        both = {**exported, **{name: value for name, value in stored.items() if name in self.field_names}}
        of_own_model = self.own.facts.reads if self.own else ()
        return {name: value for name, value in both.items() if value is not None or name in of_own_model}

    def with_item(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same row, with the key `item` renamed to the item's field, unless a field is really called `item`."""
        if row.get("item") is None or "item" in self.field_names:
            return row
        return {self.item if name == "item" else name: value for name, value in row.items() if name != self.item}

    def rows_of(
        self, events: Sequence[Event], profile: Mapping[str, Any] = NO_PROFILE, *, stored: bool = False
    ) -> Rows:
        """The rows of stored or posted events of a user with this profile."""
        rows = self.rows([event.features for event in events], profile, stored=stored)
        try:
            self.check_scores(rows)
        except RowError as bad:
            reason = f"event {events[bad.row].id!r}, field {bad.column!r}: {bad.what}; {bad.fix}"
            raise DataError(f"{reason} (if the event is stored, delete it first)") from None
        return rows

    def check_scores(self, read: Rows) -> None:
        """Raise RowError for the first row that the shared model cannot score."""
        self.model.predictor.check(read)

    def item_of(self, row: Mapping[str, Any]) -> str | None:
        """The item's id as it is written in the vocabulary."""
        text = text_of(row.get(self.item), 0, self.item)
        return None if text is None else spelled(text)

    def live_user(
        self,
        capacity: int,
        events: Sequence[Event] = (),
        profile: Mapping[str, Any] = NO_PROFILE,
        *,
        stored: bool = False,
    ) -> LiveUser:
        """A user with these events, in their order, and this profile."""
        user = LiveUser(self.model, capacity=capacity)
        if events:
            user.start_from(events, self.rows_of(events, profile, stored=stored))
        return user

    def stage(self, support: int) -> str:
        """The cold-start stage of a user with this many events: "new", a stage of the evaluation, or "warm"."""
        return stage_of(support, self._stages)

    @cached_property
    def _stages(self) -> list[tuple[str, int]]:
        return largest_of_stages(self.config)

    def fields(self) -> list[FieldAnswer]:
        """What the model reads. The catalogue fills in the fields of items, the exported profiles those of users."""
        roles: dict[str, Role] = dict.fromkeys(self.profiles.fields if self.profiles else (), "user")
        roles |= dict.fromkeys(self.catalogue.fields if self.catalogue else (self.item,), "item")
        context: Mapping[str, Sequence[str]] = self.catalogue.context if self.catalogue else {}
        columns: list[FieldAnswer] = []
        if self.own is not None:
            facts = self.own.facts
            roles.update(dict.fromkeys(facts.of_user, "user"))
            roles.update(dict.fromkeys(facts.of_item, "item"))
            context = {**context, **facts.values}
            columns = [
                FieldAnswer(name=name, kind=COLUMN, role=roles.get(name, "context"), values=list(context.get(name, ())))
                for name in facts.reads
                if name not in {field.name for field in self.features.fields}
            ]
        fields = [
            FieldAnswer(
                name=field.name,
                kind=field.kind,
                role=roles.get(field.name, "context"),
                values=list(context.get(field.name, field.values[:MAX_CHOICES])),
            )
            for field in self.features.fields
            if field.name in self.field_names
        ]
        return [*fields, *columns]

    def search(self, query: str, limit: int, offset: int = 0) -> list[CatalogueItem]:
        """Items whose id or title contains the query."""
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
            for place in catalogue.search(query, limit, offset)
        ]

    def with_description(self, event: PastEvent) -> PastEvent:
        """The event with the title and the fields of its item."""
        place = self.catalogue.places.get(event.item) if self.catalogue else None
        if self.catalogue is None or place is None:
            return event
        fields = self.catalogue.describe(self.features, place)
        return event.model_copy(update={"title": self.catalogue.titles[place], "fields": fields})

    def readable(self, changes: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        """The changes of items that this model can read; they may have been made for another one."""
        if self._can_read(changes):
            return changes
        readable = {item: change for item, change in changes.items() if self._can_read({item: change})}
        left_out = len(changes) - len(readable)
        log.warning("changes of %d items have values that this model cannot read, so they are left out", left_out)
        return readable

    def _can_read(self, changes: Mapping[str, Mapping[str, Any]]) -> bool:
        fields = {item: change["fields"] for item, change in changes.items()}
        try:
            self.features.encode_rows(list(fields.values()))
            if self.own is not None and self.catalogue is not None:
                self.own.check_items(fields, self.catalogue.places)
        except DataError:
            return False
        return True

    @property
    def meaning(self) -> Meaning:
        return Meaning(self.item, frozenset((field.name, field.kind) for field in self.fields()))

    def check_meaning(self, wanted: Meaning) -> None:
        """Refuse a model that reads the stored events in another way."""
        mine = self.meaning
        if mine != wanted:
            changed = ", ".join(sorted({name for name, _ in mine.fields ^ wanted.fields} or {mine.item, wanted.item}))
            raise ArtifactError(
                f"the new model reads other fields than the one in use ({changed}): serve it with its own store"
            )

    def _check_that_it_scores(self, folder: Path) -> None:
        try:
            finite = self._scores_are_finite()
        except Exception as error:
            raise ArtifactError(
                f"the model in {folder} cannot score ({type(error).__name__}): export it again, or train again"
            ) from None
        if not finite:
            raise ArtifactError(f"the model in {folder} gives scores that are not finite: train again")

    def _scores_are_finite(self) -> bool:
        """Score an item by its id and a row of frequent values, before and after an event."""
        examples = {field.name: field.example() for field in self.features.fields}
        needed = {self.item, *(field.name for field in self.features.fields if field.is_number)}
        rows = [{name: example for name, example in examples.items() if name in needed}, examples]
        if self.own is not None and self.own.facts.example is not None:
            probes = self.rows([{**row, **self.own.facts.example} for row in rows])
        else:
            probes = self._read(rows)
        user = self.live_user(1)
        before = user.score(probes)
        user.observe("probe", probes.take(np.array([1])), 1.0, 0.0)
        after = user.score(probes)
        return all(bool(np.isfinite(scores.probability).all()) for scores in (before, after))


def _meaning_of_labels(table: TableSchema | None) -> str | None:
    if table is None:
        return None
    limit = "" if table.label_threshold is None else f" from {table.label_threshold:g}"
    return f"user {table.user!r}, label {table.label!r}{limit}"

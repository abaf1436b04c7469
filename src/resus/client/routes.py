"""The routes of the service as methods.

Written by scripts/generate_client.py from the OpenAPI description of the service: change that, not this.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeVar

from resus.client.calls import Call, given, path
from resus.client.messages import (
    CatalogueAnswer,
    Changed,
    Deleted,
    Fields,
    Health,
    InlineEvent,
    ModelAnswer,
    PredictAnswer,
    ProfileAnswer,
    RecommendAnswer,
    Reloaded,
    ResultsAnswer,
    UserAnswer,
    UserHistory,
)

Given = TypeVar("Given")


class Routes(Protocol):
    """The routes of a client, which says how to ask."""

    def ask(self, call: Call[Given]) -> Given: ...

    def predict(
        self,
        *,
        explore: Literal["thompson", "ucb"] | None = None,
        seed: int | None = None,
        width: float | None = None,
        draws: int | None = None,
        user: str | int | None = None,
        events: Sequence[InlineEvent] | None = None,
        context: Fields | None = None,
        items: Sequence[str | int] | None = None,
        candidates: Sequence[Fields] | None = None,
        deviation: bool | None = None,
        explain: bool | None = None,
        top: int | None = None,
    ) -> PredictAnswer:
        """Score candidates for a user.

        Candidates to score for a stored `user`, for a user described by inline `events`, or for a user with no events.

        A candidate holds its fields directly; `item` is always the item's id, whatever its field is called. `context`
        holds the fields that all candidates share. With `top`, the answer holds the best candidates, best first.
        Without it, the answer holds all candidates in the order of the request. With `deviation`, it says how sure the
        model is, and with `explain`, why it thinks so; both take time. `explore` ranks by "thompson", a draw from the
        posterior, or "ucb", an upper bound, with `seed`, `width` and `draws`; the answer is then in the order of this
        rule, also without `top`.
        """
        return self.ask(
            Call(
                "POST",
                "/v1/predict",
                PredictAnswer,
                body=given(
                    explore=explore,
                    seed=seed,
                    width=width,
                    draws=draws,
                    user=user,
                    events=events,
                    context=context,
                    items=items,
                    candidates=candidates,
                    deviation=deviation,
                    explain=explain,
                    top=top,
                ),
            )
        )

    def recommend(
        self,
        *,
        explore: Literal["thompson", "ucb"] | None = None,
        seed: int | None = None,
        width: float | None = None,
        draws: int | None = None,
        user: str | int | None = None,
        events: Sequence[InlineEvent] | None = None,
        top: int | None = None,
        offset: int | None = None,
        search: str | None = None,
        describe: bool | None = None,
        exclude_seen: bool | None = None,
        context: Fields | None = None,
        filter: Fields | None = None,
    ) -> RecommendAnswer:
        """Rank the whole catalogue for a user.

        The best items of the catalogue for a stored `user`, for a user described by inline `events`, or for no user.

        `context` holds the fields that describe the situation. `filter` maps fields of the items to the values that are
        wanted: one value, a list of values of which one must hold, or for a number `{"at_least": 1, "at_most": 5}`.
        With `exclude_seen`, items of the user's events are left out. `offset` skips the best items, to go on from an
        earlier answer. `search` shows only items whose id or title contains the text, with their ranks among all items.
        With `describe`, each answer also has its ranks and its fields. `explore` ranks by "thompson", a draw from the
        posterior, or "ucb", an upper bound, with `seed`, `width` and `draws`.

        `top` is 10 unless given. `exclude_seen` is true unless given.
        """
        return self.ask(
            Call(
                "POST",
                "/v1/recommend",
                RecommendAnswer,
                body=given(
                    explore=explore,
                    seed=seed,
                    width=width,
                    draws=draws,
                    user=user,
                    events=events,
                    top=top,
                    offset=offset,
                    search=search,
                    describe=describe,
                    exclude_seen=exclude_seen,
                    context=context,
                    filter=filter,
                ),
            )
        )

    def read_user(self, user: str | int) -> UserAnswer:
        """Read what is stored about a user."""
        return self.ask(Call("GET", path("v1", "users", user), UserAnswer))

    def delete_user(self, user: str | int) -> Deleted:
        """Delete everything that is stored about a user."""
        return self.ask(Call("DELETE", path("v1", "users", user), Deleted))

    def put_profile(self, user: str | int, *, fields: Fields) -> ProfileAnswer:
        """Replace the profile of a user.

        The fields that describe a user. They replace those that are stored; without any, the stored profile is deleted.

        A null hides a value of the exported profile.
        """
        return self.ask(Call("PUT", path("v1", "users", user, "profile"), ProfileAnswer, body=given(fields=fields)))

    def delete_event(self, user: str | int, event: str | int) -> Deleted:
        """Delete one event of a user."""
        return self.ask(Call("DELETE", path("v1", "users", user, "events", event), Deleted))

    def read_model(self) -> ModelAnswer:
        """Describe the loaded model."""
        return self.ask(Call("GET", "/v1/model", ModelAnswer))

    def reload(self) -> Reloaded:
        """Load the artifact again."""
        return self.ask(Call("POST", "/v1/reload", Reloaded, slow=True))

    def read_test_user(self) -> UserHistory:
        """Read what a random test user did."""
        return self.ask(Call("GET", "/v1/test-users/random", UserHistory))

    def read_results(self) -> ResultsAnswer:
        """Read the evaluation of the loaded model."""
        return self.ask(Call("GET", "/v1/results", ResultsAnswer))

    def search_catalogue(
        self, *, query: str | None = None, limit: int | None = None, offset: int | None = None
    ) -> CatalogueAnswer:
        """Find items by id or title, most frequent first.

        `limit` is 20 unless given.
        """
        return self.ask(
            Call("GET", "/v1/catalogue", CatalogueAnswer, query=given(query=query, limit=limit, offset=offset))
        )

    def put_item(self, item: str | int, *, title: str | None = None, fields: Fields | None = None) -> Changed:
        """Add an item, or change its title and fields.

        What is new about an item. Fields that are left out stay as they are; of a new item they are unknown.
        """
        return self.ask(Call("PUT", path("v1", "items", item), Changed, body=given(title=title, fields=fields)))

    def delete_item(self, item: str | int) -> Changed:
        """Take an item out of the catalogue."""
        return self.ask(Call("DELETE", path("v1", "items", item), Changed))

    def healthz(self) -> Health:
        """Check that the process answers."""
        return self.ask(Call("GET", "/healthz", Health))

    def readyz(self) -> Health:
        """Check that the model answers and the store can be written."""
        return self.ask(Call("GET", "/readyz", Health))

    def metrics(self) -> str:
        """Metrics for Prometheus."""
        return self.ask(Call("GET", "/metrics", str))


class AsyncRoutes(Protocol):
    """The routes of an asynchronous client, which says how to ask."""

    async def ask(self, call: Call[Given]) -> Given: ...

    async def predict(
        self,
        *,
        explore: Literal["thompson", "ucb"] | None = None,
        seed: int | None = None,
        width: float | None = None,
        draws: int | None = None,
        user: str | int | None = None,
        events: Sequence[InlineEvent] | None = None,
        context: Fields | None = None,
        items: Sequence[str | int] | None = None,
        candidates: Sequence[Fields] | None = None,
        deviation: bool | None = None,
        explain: bool | None = None,
        top: int | None = None,
    ) -> PredictAnswer:
        """Score candidates for a user.

        Candidates to score for a stored `user`, for a user described by inline `events`, or for a user with no events.

        A candidate holds its fields directly; `item` is always the item's id, whatever its field is called. `context`
        holds the fields that all candidates share. With `top`, the answer holds the best candidates, best first.
        Without it, the answer holds all candidates in the order of the request. With `deviation`, it says how sure the
        model is, and with `explain`, why it thinks so; both take time. `explore` ranks by "thompson", a draw from the
        posterior, or "ucb", an upper bound, with `seed`, `width` and `draws`; the answer is then in the order of this
        rule, also without `top`.
        """
        return await self.ask(
            Call(
                "POST",
                "/v1/predict",
                PredictAnswer,
                body=given(
                    explore=explore,
                    seed=seed,
                    width=width,
                    draws=draws,
                    user=user,
                    events=events,
                    context=context,
                    items=items,
                    candidates=candidates,
                    deviation=deviation,
                    explain=explain,
                    top=top,
                ),
            )
        )

    async def recommend(
        self,
        *,
        explore: Literal["thompson", "ucb"] | None = None,
        seed: int | None = None,
        width: float | None = None,
        draws: int | None = None,
        user: str | int | None = None,
        events: Sequence[InlineEvent] | None = None,
        top: int | None = None,
        offset: int | None = None,
        search: str | None = None,
        describe: bool | None = None,
        exclude_seen: bool | None = None,
        context: Fields | None = None,
        filter: Fields | None = None,
    ) -> RecommendAnswer:
        """Rank the whole catalogue for a user.

        The best items of the catalogue for a stored `user`, for a user described by inline `events`, or for no user.

        `context` holds the fields that describe the situation. `filter` maps fields of the items to the values that are
        wanted: one value, a list of values of which one must hold, or for a number `{"at_least": 1, "at_most": 5}`.
        With `exclude_seen`, items of the user's events are left out. `offset` skips the best items, to go on from an
        earlier answer. `search` shows only items whose id or title contains the text, with their ranks among all items.
        With `describe`, each answer also has its ranks and its fields. `explore` ranks by "thompson", a draw from the
        posterior, or "ucb", an upper bound, with `seed`, `width` and `draws`.

        `top` is 10 unless given. `exclude_seen` is true unless given.
        """
        return await self.ask(
            Call(
                "POST",
                "/v1/recommend",
                RecommendAnswer,
                body=given(
                    explore=explore,
                    seed=seed,
                    width=width,
                    draws=draws,
                    user=user,
                    events=events,
                    top=top,
                    offset=offset,
                    search=search,
                    describe=describe,
                    exclude_seen=exclude_seen,
                    context=context,
                    filter=filter,
                ),
            )
        )

    async def read_user(self, user: str | int) -> UserAnswer:
        """Read what is stored about a user."""
        return await self.ask(Call("GET", path("v1", "users", user), UserAnswer))

    async def delete_user(self, user: str | int) -> Deleted:
        """Delete everything that is stored about a user."""
        return await self.ask(Call("DELETE", path("v1", "users", user), Deleted))

    async def put_profile(self, user: str | int, *, fields: Fields) -> ProfileAnswer:
        """Replace the profile of a user.

        The fields that describe a user. They replace those that are stored; without any, the stored profile is deleted.

        A null hides a value of the exported profile.
        """
        return await self.ask(
            Call("PUT", path("v1", "users", user, "profile"), ProfileAnswer, body=given(fields=fields))
        )

    async def delete_event(self, user: str | int, event: str | int) -> Deleted:
        """Delete one event of a user."""
        return await self.ask(Call("DELETE", path("v1", "users", user, "events", event), Deleted))

    async def read_model(self) -> ModelAnswer:
        """Describe the loaded model."""
        return await self.ask(Call("GET", "/v1/model", ModelAnswer))

    async def reload(self) -> Reloaded:
        """Load the artifact again."""
        return await self.ask(Call("POST", "/v1/reload", Reloaded, slow=True))

    async def read_test_user(self) -> UserHistory:
        """Read what a random test user did."""
        return await self.ask(Call("GET", "/v1/test-users/random", UserHistory))

    async def read_results(self) -> ResultsAnswer:
        """Read the evaluation of the loaded model."""
        return await self.ask(Call("GET", "/v1/results", ResultsAnswer))

    async def search_catalogue(
        self, *, query: str | None = None, limit: int | None = None, offset: int | None = None
    ) -> CatalogueAnswer:
        """Find items by id or title, most frequent first.

        `limit` is 20 unless given.
        """
        return await self.ask(
            Call("GET", "/v1/catalogue", CatalogueAnswer, query=given(query=query, limit=limit, offset=offset))
        )

    async def put_item(self, item: str | int, *, title: str | None = None, fields: Fields | None = None) -> Changed:
        """Add an item, or change its title and fields.

        What is new about an item. Fields that are left out stay as they are; of a new item they are unknown.
        """
        return await self.ask(Call("PUT", path("v1", "items", item), Changed, body=given(title=title, fields=fields)))

    async def delete_item(self, item: str | int) -> Changed:
        """Take an item out of the catalogue."""
        return await self.ask(Call("DELETE", path("v1", "items", item), Changed))

    async def healthz(self) -> Health:
        """Check that the process answers."""
        return await self.ask(Call("GET", "/healthz", Health))

    async def readyz(self) -> Health:
        """Check that the model answers and the store can be written."""
        return await self.ask(Call("GET", "/readyz", Health))

    async def metrics(self) -> str:
        """Metrics for Prometheus."""
        return await self.ask(Call("GET", "/metrics", str))

"""The service over HTTP: its routes, and how a mistake becomes a message of one sentence."""

import asyncio
import contextlib
import logging
import random
import re
import signal
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.telemetry import TelemetryConfig
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException as StarletteHTTPException

from resus.errors import ArtifactError, DataError, ResusError, StorageError
from resus.serving.engine import Engine
from resus.serving.expiry import Expiry
from resus.serving.http.access_log import AccessLog
from resus.serving.http.guard import REQUEST_BYTES, Access, Gate, Guard
from resus.serving.http.hot import AtOnce, HotRoute
from resus.serving.http.log_settings import LogSettings
from resus.serving.http.metrics import MeasuringMiddleware, Requests
from resus.serving.http.model_changes import Models
from resus.serving.http.pages import add_pages
from resus.serving.http.pools import PoolFullError
from resus.serving.http.protocol import AT_ONCE
from resus.serving.http.service import Service, Setup
from resus.serving.items import ItemChange
from resus.serving.limits import MAX_CANDIDATES, MAX_EVENTS, MAX_EXPLAINED, MAX_ID
from resus.serving.lineup import ModelFolders
from resus.serving.messages import (
    Bounds,
    CatalogueAnswer,
    Changed,
    Deleted,
    EventsAnswer,
    EventsRequest,
    ExperimentAnswer,
    Health,
    IdInPath,
    ItemRequest,
    ModelAnswer,
    PredictAnswer,
    PredictRequest,
    ProfileAnswer,
    ProfileRequest,
    RecommendAnswer,
    RecommendRequest,
    Refusal,
    Reloaded,
    ResultsAnswer,
    UserAnswer,
    UserHistory,
)
from resus.serving.messages.mistakes import sentence_of
from resus.serving.store import check_store
from resus.version import __version__

PREDICT = "/v1/predict"
CLOSE_SECONDS = 10
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "The body is not JSON."},
    401: {"model": Refusal, "description": "The token is missing or wrong."},
    403: {"model": Refusal, "description": "The request comes from another host or site."},
    408: {"model": Refusal, "description": "The body did not arrive."},
    413: {"model": Refusal, "description": "The request is too large."},
    422: {"model": Refusal, "description": "The request is not valid for this route."},
    429: {"model": Refusal, "description": "Too many requests at a time."},
    503: {"model": Refusal, "description": "The store cannot be used, or the answer took too long."},
}
UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": Refusal, "description": "Not found."}}
SILENT: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}

ABSOLUTE = re.compile(r"""(?<![\w/.~])(?:~|[A-Za-z]:)?[/\\](?!/)(?:[^\n:;,()'"]*[/\\])?""")  # a path but its last name

log = logging.getLogger("resus.serving")


def build_app(
    engine: Engine,
    folder: Path,
    access: Access,
    *,
    announce: Callable[[], None] = lambda: None,
    logs: LogSettings = LogSettings(),  # noqa: B008  # frozen
    setup: Setup | None = None,
    forget_after: float | None = None,
) -> FastAPI:
    """The application of an engine. A reload reads the `folder`; `announce` tells the other workers about it.

    Events older than `forget_after` seconds are deleted in the background.
    """
    service = Service(engine, folder, setup or Setup(ModelFolders([folder])), announce=announce)
    expiry = None
    if forget_after is not None:
        expiry = Expiry(engine.store, forget_after, count=service.metrics.count_forgotten)
    access_log = AccessLog(logs) if logs.access else None
    gate, requests = Gate(access), Requests(service.metrics, access_log)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, lambda: service.reloads.start(service.changes.reload_on_signal))
            loop.add_signal_handler(signal.SIGUSR1, lambda: service.reloads.start(service.changes.follow))
        await service.reloads.run(service.changes.begin)
        if expiry is not None:
            expiry.start()
        yield {AT_ONCE: at_once}
        if expiry is not None:
            await service.reloads.run(expiry.stop)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await service.probing.run(engine.store.close)
        except TimeoutError:
            log.error("the store could not be closed within %d seconds", CLOSE_SECONDS)
        if access_log is not None:
            access_log.flush()

    app = FastAPI(
        title="resus",
        version=__version__,
        summary="Click probabilities that take a user's latest event into account.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat the host that the client named
        responses=REFUSALS,
        generate_unique_id_function=lambda route: route.name,  # which clients call their methods
        telemetry=SILENT,  # nothing about users leaves the process
    )
    hot = _add_users(app, service)
    at_once = AtOnce(PREDICT, hot, partial(service.predict, at_once=True), gate, requests)
    _add_model(app, service)
    _add_items(app, service)
    _add_operations(app, service)
    add_pages(app)
    _add_refusals(app, service)
    app.add_middleware(MeasuringMiddleware, requests=requests)
    app.add_middleware(Guard, gate=gate)
    app.add_middleware(MeasuringMiddleware, requests=requests)  # again, for requests that the guard refuses
    return app


def _add_users(app: FastAPI, service: Service) -> HotRoute[PredictRequest]:
    """The hot route is that of the scores."""

    @app.post("/v1/events", summary="Store events durably", response_model_exclude_unset=True)
    async def add_events(request: EventsRequest) -> EventsAnswer:
        answer = await service.writing.run(lambda: service.observe(request))
        for result in answer.results:
            service.metrics.events.labels(result.status).inc()
        return answer

    @app.post(PREDICT, response_model=PredictAnswer, summary="Score candidates for a user")
    async def predict(request: PredictRequest, asked: Request) -> Response:
        body, asked.state.version = await service.pool_of(request).run(lambda: service.predict(request))
        return Response(body, media_type="application/json")

    hot = HotRoute.replace(app, PREDICT, PredictRequest, service.predict, service.pool_of)

    @app.post("/v1/recommend", response_model=RecommendAnswer, summary="Rank the whole catalogue for a user")
    async def recommend(request: RecommendRequest, asked: Request) -> Response:
        body, asked.state.version = await service.pool_of(request).run(lambda: service.recommend(request))
        return Response(body, media_type="application/json")

    HotRoute.replace(app, "/v1/recommend", RecommendRequest, service.recommend, service.pool_of)

    @app.get("/v1/users/{user}", responses=UNKNOWN, summary="Read what is stored about a user")
    async def read_user(user: IdInPath) -> UserAnswer:
        answer = await service.reading.run(lambda: service.engine.user(user))
        if answer is None:
            raise HTTPException(404, "this user has no events and no profile: check the id")
        return answer

    @app.put("/v1/users/{user}/profile", summary="Replace the profile of a user")
    async def put_profile(user: IdInPath, request: ProfileRequest) -> ProfileAnswer:
        return await service.writing.run(lambda: service.engine.set_profile(user, request.fields))

    @app.delete("/v1/users/{user}", summary="Delete everything that is stored about a user")
    async def delete_user(user: IdInPath) -> Deleted:
        return Deleted(deleted=await service.writing.run(lambda: service.delete(user)))

    @app.delete("/v1/users/{user}/events/{event}", summary="Delete one event of a user")
    async def delete_event(user: IdInPath, event: IdInPath) -> Deleted:
        return Deleted(deleted=await service.writing.run(lambda: service.engine.forget(user, event)))

    return hot


def _add_model(app: FastAPI, service: Service) -> None:
    @app.get("/v1/model", summary="Describe the loaded model")
    def read_model() -> ModelAnswer:
        engine = service.engine
        loaded, config = engine.loaded, engine.loaded.config
        return ModelAnswer(
            name=loaded.name,
            version=loaded.version,
            predictor=config.predictor_name,
            learner=config.learner.kind,
            protocol=config.protocol,
            item=loaded.item,
            score=loaded.score,
            fields=loaded.fields(),
            support_sizes=config.max_support,
            stages=config.evaluation.stages,
            bounds=Bounds(
                request_bytes=REQUEST_BYTES,
                candidates=MAX_CANDIDATES,
                events=MAX_EVENTS,
                events_per_user=engine.capacity,
                explained=MAX_EXPLAINED,
                id_length=MAX_ID,
            ),
            sha256=loaded.sha256,
            catalogue=loaded.catalogue_size,
            recommends=engine.shelf is not None,
        )

    @app.post(
        "/v1/reload",
        responses={409: {"model": Refusal, "description": "The artifact is bad; the old model stays in use."}},
        summary="Load the artifact again",
    )
    async def reload() -> Reloaded:
        return await changed(service.changes.reload)

    @app.post(
        "/v1/rollback",
        responses={409: {"model": Refusal, "description": "There is no earlier model; nothing changes."}},
        summary="Go back to the model before the last reload",
    )
    async def rollback() -> Reloaded:
        return await changed(service.changes.rollback)

    async def changed(change: Callable[[], Models]) -> Reloaded:
        try:
            first, *others = await service.reloads.run(change)
        except ResusError as error:
            raise HTTPException(409, without_places(str(error))) from None
        service.announce()
        more = {"second": others[0].version} if others else {}
        return Reloaded(name=first.name, version=first.version, sha256=first.sha256, **more)

    @app.get("/v1/test-users/random", responses=UNKNOWN, summary="Read what a random test user did")
    def read_test_user() -> UserHistory:
        loaded = service.engine.loaded
        if not loaded.histories:
            raise HTTPException(404, "this model has no test users: serve the folder that 'resus export' writes")
        history = random.choice(loaded.histories)  # noqa: S311  # not a secret
        return UserHistory(events=[loaded.with_description(event) for event in history.events])

    @app.get("/v1/results", responses=UNKNOWN, summary="Read the evaluation of the loaded model")
    def read_results() -> ResultsAnswer:
        results = service.engine.loaded.results
        if results is None:
            raise HTTPException(404, "this model has no results yet: evaluate it with 'resus evaluate'")
        return ResultsAnswer.of(results)


def _add_items(app: FastAPI, service: Service) -> None:
    @app.get("/v1/catalogue", summary="Find items by id or title, most frequent first")
    async def search_catalogue(
        query: Annotated[str, Query(max_length=MAX_ID)] = "",
        limit: Annotated[int, Query(ge=1, le=MAX_CANDIDATES)] = 20,
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
    ) -> CatalogueAnswer:
        def found() -> CatalogueAnswer:
            loaded = service.engine.current()
            return CatalogueAnswer(items=loaded.search(query, limit, offset), size=loaded.catalogue_size)

        return await service.scoring.run(found)

    @app.put("/v1/items/{item}", summary="Add an item, or change its title and fields")
    async def put_item(item: IdInPath, request: ItemRequest) -> Changed:
        change = ItemChange(item=item, **request.model_dump(exclude_unset=True))
        await service.writing.run(lambda: service.engine.change_item(change))
        return Changed(item=item, status="stored")

    @app.delete("/v1/items/{item}", summary="Take an item out of the catalogue")
    async def delete_item(item: IdInPath) -> Changed:
        await service.writing.run(lambda: service.engine.change_item(ItemChange(item=item, removed=True)))
        return Changed(item=item, status="removed")


def _add_operations(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", summary="Check that the process answers")
    async def healthz() -> Health:
        return Health(status="ok")

    @app.get("/readyz", summary="Check that the model answers and the store can be written")
    async def readyz() -> Health:
        await service.probe(check_store)
        return Health(status="ok")

    @app.get("/metrics", response_class=Response, summary="Metrics for Prometheus")
    async def metrics() -> Response:
        users = None
        with contextlib.suppress(StorageError):
            users = await service.probe(lambda store: store.users())
        text = await service.counting.run(lambda: service.metrics.text(users, service.models(), service.experiment()))
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/experiment", responses=UNKNOWN, summary="Compare two models that are served side by side")
    async def read_experiment() -> ExperimentAnswer:
        answer = await service.counting.run(service.experiment)
        if answer is None:
            raise HTTPException(404, "this service has one model: start it with 'resus serve RUN --shadow RUN2'")
        return answer


def _add_refusals(app: FastAPI, service: Service) -> None:
    @app.exception_handler(RequestValidationError)
    async def not_valid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return _refused(400, "the body is not JSON: check quotes, commas and brackets")
        if first["type"] in ("missing", "model_attributes_type") and first["loc"] == ("body",):
            return _refused(422, "send a JSON object, with the header 'content-type: application/json'")
        return _refused(422, sentence_of({**first, "loc": first["loc"][1:]}))

    @app.exception_handler(StarletteHTTPException)
    async def not_served(request: Request, error: StarletteHTTPException) -> JSONResponse:
        sentences = {
            400: "the body cannot be read as JSON: it may be nested too deeply",
            405: f"this address does not accept {request.method}: see /docs",
        }
        if error.status_code == 404 and error.detail == "Not Found":
            return _refused(404, "there is nothing at this address: see /docs")
        return _refused(error.status_code, sentences.get(error.status_code, error.detail), error.headers)

    @app.exception_handler(ResusError)
    async def not_possible(_: Request, error: ResusError) -> JSONResponse:
        if isinstance(error, DataError | ArtifactError):
            return _refused(422, str(error))
        log.error("%s", error)  # with the path or address, which no answer shows
        if isinstance(error, StorageError):
            service.metrics.store_errors.labels(error.kind).inc()
        public = error.public if isinstance(error, StorageError) else None
        return _refused(503, public or without_places(str(error)), {"retry-after": "1"})

    @app.exception_handler(PoolFullError)
    async def crowded(_: Request, error: PoolFullError) -> JSONResponse:
        return _refused(429, str(error), {"retry-after": "1"})


def without_places(sentence: str) -> str:
    """A sentence for callers: of an absolute path it keeps the last name only. The log has the whole path."""
    return ABSOLUTE.sub("", sentence)


def _refused(status: int, sentence: str, headers: Any = None) -> JSONResponse:
    printable = sentence.encode("utf-8", "replace").decode()
    return JSONResponse(Refusal(error=printable).model_dump(), status, headers)

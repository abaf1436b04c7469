"""The playground in a real Chromium on a real service, whose answers are the oracle of what the page shows."""

import math
import os
import random
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from film_world import GENRES, MARKUP, TITLES, film_log
from planted_models import tiny
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Route, expect, sync_playwright
from service_process import Serving, serving

from resus.evaluation.metrics import METRICS
from resus.evaluation.results import Results
from resus.serving.export import export
from resus.serving.loaded import RESULTS
from resus.training import scales

pytestmark = pytest.mark.integration

LONGER = {"predictor.learning_rate": 1e-2, "predictor.batch_size": 512, "evaluation.max_size": 9}
ENOUGH_STEPS = 30  # for scales that show in a ranking
TOKEN = "open-sesame-open-sesame"

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
SHOWN = """rows => rows.map(row => ({
    item: row.dataset.item,
    rank: row.querySelector(".place").textContent,
    move: row.querySelector(".move").firstChild?.textContent ?? "",
    about: row.querySelector(".about").textContent,
    probability: row.querySelector(".probability").textContent,
    main: row.querySelector("summary").textContent,
    causes: [...row.querySelectorAll(".causes li")].map(cause => cause.textContent),
    because: row.querySelector(".because").textContent,
    bar: row.querySelector(".bar").getAttribute("aria-label"),
}))"""

Visit = Callable[..., Page]
Event = tuple[str, float, Mapping[str, Any]]  # item, label, context


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export without results, and the same export with the results of an evaluation."""
    made = tmp_path_factory.mktemp("playground")
    log = film_log().save(made / "log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scales, "STEPS", ENOUGH_STEPS)
        model = tiny(learner="plus", settings=LONGER).fit(log, folder=made / "run")
    titles = {f"{film}": title for film, title in enumerate(TITLES)}
    export(made / "run", made / "log", made / "unevaluated", titles=titles, onnx=False)
    shutil.copytree(made / "unevaluated", made / "export")
    model.evaluate(log).write(made / "export" / RESULTS)
    return made


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Serving]:
    with serving(folder / "export") as running:
        yield running


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Serving]:
    """Requires a token, and has no results."""
    (folder / "token").write_text(TOKEN)
    with serving(folder / "unevaluated", "--token-file", folder / "token", token=TOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def choices(service: Serving) -> dict[str, list[str]]:
    """The fields that a visitor can choose, with their values; the first value is the default."""
    fields = service.client.get("/v1/model").json()["fields"]
    return {field["name"]: field["values"] for field in fields if field["role"] != "item" and field["values"]}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("Chromium is not installed: run scripts/install-test-programs.sh")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def troubles() -> list[str]:
    """Complaints of the browser. A test that provokes one removes it."""
    return []


@pytest.fixture
def visit(browser: Browser, service: Serving, troubles: list[str]) -> Iterator[Visit]:
    """Opens the page. In every test the page asks no other origin, and the browser does not complain."""
    contexts = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            troubles.append(message.text)

    def opened(
        path: str = "/",
        *,
        of: Serving = service,
        width: int = 1200,
        prepare: Callable[[Page], None] | None = None,
        **more: Any,
    ) -> Page:
        address = f"{of.client.base_url}"

        def check(request: Request) -> None:
            if not request.url.startswith(f"{address}/"):
                troubles.append(f"asked {request.url}")

        context = browser.new_context(viewport={"width": width, "height": 800}, **{"reduced_motion": "reduce"} | more)
        contexts.append(context)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", check)
        if prepare:
            prepare(page)
        page.goto(f"{address}{path}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def shown(page: Page) -> list[dict[str, str]]:
    """The rows after the last answer."""
    expect(page.locator("#ranking > li").first).to_be_visible()
    expect(page.locator("#ranking[aria-busy]")).to_have_count(0)
    rows: list[dict[str, str]] = page.locator("#ranking > li").evaluate_all(SHOWN)
    return rows


def judge(page: Page, name: str) -> None:
    page.locator("#ranking").get_by_role("button", name=name, exact=True).click()


def like_first(page: Page) -> str:
    """Like the first item of the ranking; its title."""
    shown(page)
    title = page.locator("#ranking .title").first.inner_text()
    judge(page, f"Like {title}")
    return title


def signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{abs(value):.2f}"


def percent(share: float) -> str:
    return f"{math.floor(100 * share + 0.5)}\u202f%"


def first_of(choices: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: values[0] for name, values in choices.items()}


def asked(service: Serving, events: Iterable[Event], **question: Any) -> list[Any]:
    """The answers of the service for all items or candidates, in their order; each says how to read its parts."""
    inline = [{"item": item, "label": label, "features": features} for item, label, features in events]
    predicted = service.predict(events=inline, deviation=True, explain=True, **question)
    return [answer | {"parts": predicted.get("parts")} for answer in predicted["answers"]]


def whole_catalogue(service: Serving) -> dict[str, Any]:
    """Item → what the service says of it to everyone."""
    answer = service.client.post("/v1/recommend", json={"top": 100, "describe": True}).json()
    return {one["item"]: one for one in answer["answers"]}


def said_by(cause: Mapping[str, Any], fields: Mapping[str, Any], met: Sequence[tuple[float, Any]], who: str) -> str:
    """How the page must name a cause. `met` are labels and fields of the events."""
    raises, whose = cause["part"] > 0, "your" if who == "you" else "their"
    words = {
        "generosity": f"{who} rate {'generously' if raises else 'strictly'}",
        "this very item": f"{who} {'liked' if raises else 'disliked'} this very item",
        "taste": f"{whose} taste" if raises else f"not {whose} taste",
        "choice of items": f"{'goes with' if raises else 'does not go with'} the items {who} chose",
        "same context": f"{who} {'like' if raises else 'dislike'} items in this situation",
        "number of events": f"{whose} number of events",
    }
    if cause["cause"] in words:
        return words[cause["cause"]]
    name = cause["cause"].removeprefix("same ")
    others = [value for label, its in met if label == raises for value in listed(its.get(name))]
    shared = [value for value in listed(fields.get(name)) if value in others]
    as_liked = f" as {who} {'liked' if raises else 'disliked'}" if name in ("genres", "year") else ""
    return f"same {name}{as_liked}" + (f": {', '.join(shared)}" if shared else "")


def listed(value: Any) -> list[str]:
    return [] if value is None else value if isinstance(value, list) else [f"{value}"]


def row_of(
    answer: Mapping[str, Any], events: Sequence[Event], known: Mapping[str, Any], who: str, context: Mapping[str, Any]
) -> dict[str, Any]:
    """How the page must show one answer of the service, but its rank. `known` holds titles and fields of items."""
    reasons = [(*events[int(reason["event"])], reason["part"]) for reason in answer["because"][:3]]
    said = [
        f"{'liked' if label else 'disliked'} {known[item]['title']} {signed(part)}" for item, label, _, part in reasons
    ]
    for kind in (1, 0) if answer["parts"] == "shares" else ():
        others = [reason["part"] for reason in answer["because"][3:] if events[int(reason["event"])][1] == kind]
        if others:
            word = f"more {'like' if kind else 'dislike'}{'s' * (len(others) > 1)}"
            said.append(f"{len(others)} {word} {signed(sum(others))}")
    about = known[answer["item"]].get("fields", {})
    met = [(label, {**features, **known[item].get("fields", {})}) for item, label, features in events]
    causes = answer.get("causes", [])
    words = [said_by(cause, {**context, **about}, met, who) for cause in causes]
    main = [
        word
        for word, cause in list(zip(words, causes, strict=True))[:2]
        if abs(cause["part"]) >= 0.4 * abs(causes[0]["part"])
    ]
    if not causes and reasons:
        main = [f"{who} {said[0].rpartition(' ')[0]}"]
    sure = "" if answer["deviation"] is None else f", give or take {answer['deviation']:.2f}"
    return {
        "item": answer["item"],
        "about": " · ".join(
            text if re.search("[A-Za-z]", text) else f"{name} {text}"
            for name, text in ((name, ", ".join(listed(value))) for name, value in about.items())
        ),
        "probability": percent(answer["probability"]),
        "main": " · ".join(main),
        "causes": [f"{word} {signed(cause['part'])}" for word, cause in zip(words, causes, strict=True)],
        "because": f"because {who} {', '.join(said)}" if said else "",
        "bar": f"log-odds: everyone {signed(answer['basis'])}, the events {signed(answer['residual'])}{sure}",
    }


def ranked(
    answers: Sequence[Any],
    events: Sequence[Event],
    known: Mapping[str, Any],
    who: str,
    context: Mapping[str, Any] | Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """All answers as rows, the best first, with the places that their events moved them."""
    best = sorted(answers, key=lambda one: -one["basis"] - one["residual"])
    alone = [one["item"] for one in sorted(answers, key=lambda one: -one["basis"])]
    rows = []
    for place, one in enumerate(best):
        climbed = alone.index(one["item"]) - place
        move = f"{'▲' if climbed > 0 else '▼'}{abs(climbed)}" if climbed else ""
        its = context.get(one["item"], context)
        rows.append({**row_of(one, events, known, who, its), "rank": f"{place + 1}", "move": move})
    return rows


def test_the_page_shows_the_answers_of_the_service(
    visit: Visit, service: Serving, choices: dict[str, list[str]]
) -> None:
    page, context = visit(), first_of(choices)
    known = whole_catalogue(service)
    events: dict[str, int] = {}
    draw = random.Random(5)
    page.get_by_label("Also rank what you judged").check()
    for _ in range(8):
        rows = shown(page)
        if draw.random() < 0.25:
            name = draw.choice(list(choices))
            context[name] = draw.choice([value for value in choices[name] if value != context[name]])
            page.get_by_role("combobox", name=name).select_option(context[name])
        else:
            item, label = draw.choice([row["item"] for row in rows[:4]]), draw.randrange(2)
            judge(page, f"{'Like' if label else 'Dislike'} {known[item]['title']}")
            if events.get(item) == label:
                del events[item]  # the same opinion again removes it
            else:
                events[item] = label
        page.wait_for_function(
            "count => document.querySelector('#stage').textContent.startsWith(count + ' event')", arg=len(events)
        )
        done = [(*event, context) for event in events.items()]
        answers = asked(service, done, context=context, items=list(known))
        expected = ranked(answers, done, known, "you", context)
        assert shown(page) == expected[:20]
        expect(page.locator("#legend-parts")).to_have_text(re.compile("share of the coloured bar$" if events else "^$"))
    assert len(events) > 2
    said = " ".join(cause for row in expected for cause in row["causes"])
    assert "you liked this very item" in said or "you disliked this very item" in said
    assert re.search("same genres as you (dis)?liked: ", said)

    seen: list[str] = [row["item"] for row in shown(page)]
    for rest in ("21–40 of 43", "41–43 of 43"):
        page.get_by_role("button", name="Lower ranks").click()
        expect(page.locator("#range")).to_have_text(rest)
        seen += [row["item"] for row in shown(page)]
    assert seen == [row["item"] for row in expected], "the whole catalogue, page by page"
    page.get_by_label("Also rank what you judged").uncheck()
    expect(page.locator("#range")).to_have_text(f"1–20 of {43 - len(events)}")
    assert not events.keys() & {row["item"] for row in shown(page)}
    page.get_by_label("Find an item").fill("SHOESTRING")
    expect(page.locator("#ranking > li")).to_have_count(6)
    wanted = [row for row in expected if "Shoestring" in known[row["item"]]["title"]]
    assert shown(page) == wanted, "with their ranks among all films"


def top_genres(page: Page) -> dict[str, int]:
    """How many of the first ten rows have each genre."""
    rows = [row["about"] for row in shown(page)[:10]]
    return {genre: sum(genre in row for row in rows) for genre in GENRES}


def test_three_likes_fill_the_top_with_their_genre(visit: Visit) -> None:
    genre = "Science fiction"
    page = visit()
    before = top_genres(page)
    for count, title in enumerate(("Rockets by Night", "Rockets in a Week", "Rockets from the North"), start=1):
        page.get_by_label("Find an item").fill(title)
        expect(page.locator("#ranking > li")).to_have_count(1)
        judge(page, f"Like {title}")
        expect(page.locator("#stage")).to_contain_text(f"{count} event")
    page.get_by_label("Find an item").fill("")
    expect(page.locator("#ranking > li")).to_have_count(20)
    after = top_genres(page)
    assert before[genre] <= 3, before
    assert after[genre] >= before[genre] + 4, (before, after)
    assert after[genre] > max(after[other] for other in GENRES if other != genre)
    for row in shown(page)[:3]:
        assert f"same genres as you liked: {genre}" in row["main"]
    told = page.locator("#mix li").evaluate_all("many => many.map(one => [one.dataset.value, +one.dataset.count])")
    assert dict(told).items() <= after.items()
    assert told[0] == [genre, after[genre]]
    expect(page.locator("#mix li").first).to_contain_text(f"▲{after[genre] - before[genre]}")


def test_a_like_moves_the_ranking_undo_and_reset_bring_it_back(visit: Visit) -> None:
    page = visit()
    fresh = shown(page)
    title = like_first(page)
    expect(page.locator("#stage")).to_have_text("1 event · cold-start stage I")
    once = shown(page)
    expect(page.locator("#events .title")).to_have_text(title)
    assert title not in page.locator("#ranking .title").all_inner_texts()
    assert [row["item"] for row in once] != [row["item"] for row in fresh]
    judge(page, f"Dislike {page.locator('#ranking .title').last.inner_text()}")
    expect(page.locator("#stage")).to_contain_text("2 events")
    assert shown(page) != once
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#stage")).to_contain_text("1 event ")
    assert shown(page) == once
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#stage")).to_contain_text("0 events")
    assert shown(page) == fresh
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#stage")).to_contain_text("1 event ")
    assert shown(page) == once


def test_everything_can_be_done_from_the_keyboard(visit: Visit) -> None:
    page = visit()
    shown(page)

    def tab_to(name: str, *, back: bool = False) -> None:
        for _ in range(100):
            page.keyboard.press("Shift+Tab" if back else "Tab")
            *names, outline = page.evaluate(  # in one call: the page may redraw its lists between two calls
                """() => {
                    const node = document.activeElement;
                    return [node.ariaLabel, node.innerText, node.id, node.name, getComputedStyle(node).outlineStyle];
                }"""
            )
            if name in names:
                assert outline != "none", "the focus is seen"
                return
        pytest.fail(f"no way to {name}")

    tab_to("age")
    tab_to("search")
    page.keyboard.type("shoestring")
    expect(page.locator("#ranking > li")).to_have_count(6)
    tab_to("Like Detectives on a Shoestring")
    page.keyboard.press("Enter")
    expect(page.locator("#events li")).to_have_count(1)
    expect(page.locator("#announced")).to_contain_text("Ranking updated: 1 event")
    expect(page.get_by_role("button", name="Like Detectives on a Shoestring", exact=True)).to_be_focused()
    tab_to("Forget Detectives on a Shoestring", back=True)
    page.keyboard.press("Space")
    expect(page.locator("#events li")).to_have_count(0)
    expect(page.get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#events li")).to_have_count(1)
    tab_to("search", back=True)
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    expect(page.locator("#ranking > li")).to_have_count(20)
    first = page.locator("#ranking > li").first
    why = first.locator("summary")
    tab_to(why.inner_text())
    page.keyboard.press("Enter")
    expect(first.locator(".because")).to_be_visible()
    title = first.locator(".title").inner_text()
    tab_to(f"Dislike {title}")
    page.keyboard.press("Enter")
    expect(page.locator("#announced")).to_contain_text("Ranking updated: 2 events")
    expect(page.locator("#ranking > li").first.get_by_role("button").first).to_be_focused()
    tab_to("later")
    page.keyboard.press("Enter")
    expect(page.locator("#range")).to_have_text("21–40 of 41")
    expect(page.locator("#later")).to_be_focused()
    tab_to("Reset", back=True)
    page.keyboard.press("Enter")
    expect(page.locator("#events li")).to_have_count(0)
    tab_to("Start from a random test user", back=True)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Another test user")).to_be_focused()
    tab_to("shown", back=True)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#replayed li")).to_have_count(2)
    tab_to("Back to you")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Start from a random test user")).to_be_focused()


def test_a_test_user_is_compared_with_what_they_did_next(visit: Visit, service: Serving) -> None:
    page = visit()
    with page.expect_response("**/v1/test-users/random") as response:
        page.get_by_role("button", name="Start from a random test user").click()
    events = response.value.json()["events"]
    held = min(20, len(events) // 2)
    known = events[: min(30, len(events) - held)]
    following = events[len(known) :][:held]
    really: dict[str, int] = {}
    for event in following:
        really[event["item"]] = max(int(event["label"]), really.get(event["item"], 0))
    expect(page.locator("#stage")).to_contain_text("0 events")
    contexts = [event["context"] for event in following]
    alike = {name: v if all(one[name] == v for one in contexts) else "varies" for name, v in contexts[0].items()}
    told = page.locator("#test-user-context :is(dt, dd)").all_text_contents()
    assert told == [word for pair in alike.items() for word in pair]
    page.get_by_label("Events known").fill(f"{len(known)}")
    expect(page.locator("#stage")).to_contain_text(f"{len(known)} events")
    expect(page.locator("#replayed li")).to_have_count(len(known))

    done = [(event["item"], event["label"], event["context"]) for event in known]
    titles = {event["item"]: event for event in events}
    met = {event["item"]: {**event["context"], "film": event["item"]} for event in following}
    rows = shown(page)
    assert rows == ranked(asked(service, done, candidates=list(met.values())), done, titles, "they", met)
    order = [row["item"] for row in rows]
    marks = page.locator("#ranking .truth").all_inner_texts()
    assert marks == ["liked next" if really[item] else "disliked next" for item in order]
    likes = sum(really.values())
    hits = sum(really[item] for item in order[:likes])
    right = [
        one < other for one, item in enumerate(order) for other, rest in enumerate(order) if really[item] > really[rest]
    ]
    items = "item" if likes == 1 else "items"
    expect(page.locator("#compared")).to_contain_text(f"{hits} of the {likes} {items} liked next are in the first")
    if right:
        expect(page.locator("#compared")).to_contain_text(f"{percent(sum(right) / len(right))} of liked-disliked pairs")

    page.get_by_role("button", name="Back to you").click()
    expect(page.locator("#compared")).to_be_hidden()
    expect(page.locator("#stage")).to_contain_text("0 events")


def test_play_shows_one_event_after_another(visit: Visit) -> None:
    page = visit()
    page.clock.install()
    page.get_by_role("button", name="Start from a random test user").click()
    page.get_by_role("button", name="Play").click()
    for count in (1, 2, 3):
        page.clock.run_for(900)
        expect(page.locator("#replayed li")).to_have_count(count)
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(5000)
    expect(page.locator("#replayed li")).to_have_count(3)


@pytest.mark.parametrize("width", [320, 768])
@pytest.mark.parametrize("path", ["/", "/curves"])
def test_a_phone_never_scrolls_sideways(visit: Visit, width: int, path: str) -> None:
    page = visit(path, width=width)

    def fits() -> bool:
        return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))

    if path == "/":
        like_first(page)
        expect(page.locator("#stage")).to_contain_text("1 event ")
        assert fits()
        page.locator("#ranking summary").first.click()
        assert fits()
        page.get_by_text("Replay a test user").click()
        page.get_by_role("button", name="Start from a random test user").click()
        expect(page.locator(".truth").first).to_be_visible()
    else:
        expect(page.locator("svg .curve").first).to_be_visible()
        page.get_by_text("GAUC as a table").click()
    assert fits()


def test_on_a_phone_the_ranking_is_next_to_what_was_liked(visit: Visit) -> None:
    page = visit(width=390)
    height = page.evaluate("innerHeight")

    def box(place: str) -> tuple[float, float]:
        found = page.locator(place).first.bounding_box()
        assert found is not None
        return found["y"], found["y"] + found["height"]

    for count in (1, 2, 3):
        like_first(page)
        expect(page.locator("#stage")).to_contain_text(f"{count} event")
    shown(page)
    page.evaluate("scrollTo(0, 0)")
    liked, first = box("#events li"), box("#ranking > li")
    assert liked[0] >= 0
    assert first[1] <= height, "a like and the first row are in sight together"
    page.locator("#ranking > li").last.scroll_into_view_if_needed()
    assert 0 <= box("#events li")[0] < 60, "what was liked stays in sight along the whole ranking"
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#events li")).to_have_count(2)


def test_a_like_at_the_end_of_the_list_leaves_its_end_in_sight(visit: Visit) -> None:
    page = visit(width=390)
    end = "document.querySelector('#ranking').getBoundingClientRect().bottom"
    for count in (1, 2, 3):
        shown(page)
        button = page.locator("#ranking > li").last.locator(".like")
        button.scroll_into_view_if_needed()
        before, place = page.evaluate(end), button.bounding_box()
        assert place is not None
        page.mouse.click(place["x"] + 5, place["y"] + 5)  # Playwright's own click may scroll
        expect(page.locator("#stage")).to_contain_text(f"{count} event")
        shown(page)
        assert abs(page.evaluate(end) - before) < 150, "whatever the rows above have grown"


def test_a_refusal_is_said_and_can_be_tried_again(visit: Visit, troubles: list[str]) -> None:
    page = visit()
    fresh = shown(page)
    page.route(
        "**/v1/recommend", lambda route: route.fulfill(status=503, json={"error": "the model is being changed."})
    )
    like_first(page)
    expect(page.get_by_role("alert")).to_contain_text("The server answered 503: the model is being changed.")
    assert shown(page) == fresh, "the last good ranking stays"
    page.unroute("**/v1/recommend")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#stage")).to_contain_text("1 event ")
    assert len(troubles) == 1
    assert "503" in troubles.pop()


@pytest.mark.parametrize("path", ["/", "/curves"])
def test_a_server_that_is_gone_leaves_no_blank_page(visit: Visit, troubles: list[str], path: str) -> None:
    page = visit(path, prepare=lambda page: page.route("**/v1/*", lambda route: route.abort()))
    expect(page.get_by_role("alert")).to_contain_text("The server did not answer")
    assert troubles
    troubles.clear()


def give_token(page: Page) -> None:
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Use it").click()


def test_a_server_that_demands_a_token_gets_it(visit: Visit, guarded: Serving, troubles: list[str]) -> None:
    page = visit(of=guarded)
    give_token(page)
    assert len(shown(page)) == 20
    assert len(troubles) == 1
    assert "401" in troubles.pop()


def test_a_model_without_a_catalogue_says_so(visit: Visit, service: Serving) -> None:
    model = service.client.get("/v1/model").json() | {"catalogue": 0, "recommends": False}
    page = visit(prepare=lambda page: page.route("**/v1/model", lambda route: route.fulfill(json=model)))
    expect(page.get_by_text("This model has no catalogue")).to_be_visible()


def test_a_model_that_needs_a_score_replays_test_users(visit: Visit, scored_export: Path, tmp_path: Path) -> None:
    with serving(scored_export, "--store", tmp_path / "events") as scored:
        page = visit(of=scored)
        expect(page.locator(".lead")).to_contain_text("This model needs “model_score” with each candidate")
        assert shown(page)
        for hidden in ("#who", "#yours", "#tools", "#pager", "#leave"):
            expect(page.locator(hidden)).to_be_hidden()
        page.locator("#shown").press("End")
        expect(page.locator("#stage")).to_have_text(re.compile("^[1-9]"))
        assert any(row["because"] for row in shown(page))
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_model_that_knows_no_causes_names_events(visit: Visit, exported: Path, tmp_path: Path) -> None:
    with serving(exported, "--store", tmp_path / "events") as ridge:
        page = visit(of=ridge)
        for count in (1, 2):
            title = like_first(page)
            expect(page.locator("#stage")).to_contain_text(f"{count} event")
        rows = shown(page)
        assert all(row["main"].startswith("you liked item ") and not row["causes"] for row in rows)
        assert any(row["main"] == f"you liked {title}" for row in rows)
        expect(page.locator("#legend-parts")).to_have_text(re.compile("would lose without it$"))


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(visit: Visit) -> None:
    page = visit()
    shown(page)
    held: list[Route] = []
    page.route("**/v1/recommend", lambda route: held.append(route))
    first, second = page.locator("#ranking .title").all_inner_texts()[:2]
    judge(page, f"Like {first}")
    judge(page, f"Like {second}")
    page.wait_for_function("document.querySelectorAll('#events li').length === 2")
    while len(held) < 2:
        page.wait_for_timeout(20)
    held[1].continue_()
    expect(page.locator("#stage")).to_contain_text("2 events")
    newest = shown(page)
    held[0].continue_()
    page.unroute("**/v1/recommend")
    page.get_by_label("Find an item").fill("lovers")
    expect(page.locator("#ranking > li")).to_have_count(7)
    page.get_by_label("Find an item").fill("")
    expect(page.locator("#ranking > li")).to_have_count(20)
    assert shown(page) == newest


def test_a_title_is_text_whatever_it_holds(visit: Visit) -> None:
    page = visit()
    page.get_by_label("Find an item").fill(MARKUP)
    expect(page.locator("#ranking > li")).to_have_count(1)
    judge(page, f"Like {MARKUP}")
    for place in ("#events .title", "#ranking .title", "#ranking .reason"):
        expect(page.locator(place, has_text=MARKUP).first).to_have_text(MARKUP)


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_rows_slide_unless_the_visitor_wants_calm(visit: Visit, motion: str) -> None:
    def count_slides(page: Page) -> None:
        page.add_init_script(
            "window.slides = 0; const animate = Element.prototype.animate;"
            "Element.prototype.animate = function (...values) { window.slides++; return animate.apply(this, values) }"
        )

    page = visit(reduced_motion=motion, prepare=count_slides)
    like_first(page)
    expect(page.locator("#stage")).to_contain_text("1 event ")
    assert (page.evaluate("window.slides") > 0) == (motion == "no-preference")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_it_stands_on(visit: Visit, scheme: str) -> None:
    """WCAG AA: 4.5 to 1."""
    page = visit("/curves", color_scheme=scheme)
    names = ["page", "card", "band", "bad", "ink", "muted", "up", "down", "accent", *(f"line-{n}" for n in range(6))]
    colours = page.evaluate(
        "names => names.map(name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim())",
        names,
    )
    light = dict(zip(names, map(_luminance, colours), strict=True))
    for ground in ("page", "card", "band", "bad"):
        for ink in ["ink", "muted"] + (["up", "down", "accent"] if ground == "page" else []):
            assert _contrast(light[ink], light[ground]) >= 4.5, (ink, ground)
    for line in range(6):
        assert _contrast(light[f"line-{line}"], light["card"]) >= 4.5, line


def _luminance(colour: str) -> float:
    assert re.fullmatch("#[0-9a-f]{6}", colour)
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_curves_draw_and_list_every_result(visit: Visit, folder: Path) -> None:
    results, page = Results.read(folder / "export" / RESULTS), visit("/curves")
    expect(page.locator(".chart svg")).to_have_count(len(METRICS))
    for name, metric in METRICS.items():
        chart = page.locator(f"section[aria-labelledby={name}]")
        expect(chart.locator("h2")).to_have_text(metric.title)
        for model, measured in results.models.items():
            points = chart.locator(f"[data-model='{model}'] polyline").get_attribute("points")
            heights = [float(point.split(",")[1]) for point in str(points).split()]
            values = [measured.sizes[size].metrics[name] for size in results.sizes]
            by_value = [height for _, height in sorted(zip(values, heights, strict=True))]
            assert by_value == pytest.approx(sorted(heights, reverse=True))
        rows = chart.locator("tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
        assert rows == [
            [f"{size}", *(metric.show(model.sizes[size].metrics[name]) for model in results.models.values())]
            for size in results.sizes
        ]


def test_an_artifact_without_results_says_so(visit: Visit, guarded: Serving, troubles: list[str]) -> None:
    page = visit("/curves", of=guarded)
    give_token(page)
    expect(page.get_by_role("alert")).to_contain_text("The server answered 404: this model has no results yet")
    assert [re.findall(r"\b4\d\d\b", trouble) for trouble in troubles] == [["401"], ["404"]]
    troubles.clear()

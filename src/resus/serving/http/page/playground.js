import { counted, element, grouped } from "./elements.js";
import { fieldsOf, remember, titleOf } from "./items.js";
import { TOP, fieldToCount, mixOf, showMix } from "./mix.js";
import { Ranking, percent } from "./ranking.js";
import { Replay, opinion, showAgreement } from "./replay.js";
import { ask, attempt, latest } from "./server.js";

const PARTS = {
  shares: "a number after an event: its share of the coloured bar",
  "leave-one-out": "a number after an event: what the score would lose without it",
};
const PAGE = 20; // items at a time
const WIDE = matchMedia("(min-width: 56.01rem)");

const at = (id) => document.getElementById(id);
const ranking = new Ranking(at("ranking"), judge);
const replay = new Replay(update);

let model;
let context = {};
let events = []; // what the visitor did, the oldest first: {item, label}
let past = []; // earlier values of `events`, for undo
let offset = 0; // of the page of the ranking that is shown
let everyone = { key: null, top: [] }; // the top of the ranking without events, in a context

async function start() {
  model = await ask("/v1/model");
  at("model").textContent = `${model.name} · ${counted(model.catalogue, "item")}`;
  at("empty").hidden = model.catalogue > 0;
  if (!model.catalogue) return;
  at("replay").open = WIDE.matches;
  if (!model.recommends) return replayOnly();
  showFields();
  showMode();
  at("play").hidden = false;
  update();
}

/** For a model that needs a number with each candidate, which no visitor has but every event of the log. */
function replayOnly() {
  at("invitation").textContent =
    `This model needs ${model.score ? `“${model.score}”` : "a score"} with each candidate and cannot be played with by item ` +
    "alone, so you can replay real test users, whose scores are known.";
  at("replay").open = true;
  showMode();
  at("play").hidden = false;
  attempt(at("test-user-problem"), drawTestUser);
}

function showFields() {
  const choosable = model.fields.filter((field) => field.role !== "item" && field.values.length);
  context = Object.fromEntries(choosable.map((field) => [field.name, field.values[0]]));
  at("who").open = WIDE.matches;
  at("who").classList.toggle("nothing", !choosable.length);
  at("fields").replaceChildren(
    ...choosable.map((field) =>
      element("label", {}, field.name,
        element("select", { name: field.name, onchange: (event) => {
          context = { ...context, [field.name]: field.values[event.target.selectedIndex] };
          update();
        } }, ...field.values.map((value) => element("option", {}, `${value}`))),
      ),
    ),
  );
}

/** The visitor's opinion of an item; the same one again takes it back. */
function judge(item, label) {
  const known = events.find((event) => event.item === item);
  if (!known) change([...events, { item, label }]);
  else if (known.label === label) change(events.filter((event) => event !== known));
  else change(events.map((event) => (event === known ? { item, label } : event)));
}

function change(next) {
  past.push(events);
  events = next;
  update();
}

function update() {
  showEvents();
  attempt(at("problem"), refresh);
}

const refresh = latest(async (signal) => {
  at("ranking").setAttribute("aria-busy", "true");
  try {
    await (replay.user ? refreshReplay(signal) : refreshOwn(signal));
  } finally {
    if (!signal.aborted) at("ranking").removeAttribute("aria-busy");
  }
});

/** The visitor's ranking of the whole catalogue, with the reasons of the page that is shown. */
async function refreshOwn(signal) {
  const search = at("search").value.trim();
  const asked = { events: inline(events.map((event) => ({ ...event, context }))), context };
  const seen = at("show-judged").checked || search !== ""; // who searches for an item wants to find it
  const ranked = await ask("/v1/recommend", {
    body: { ...asked, top: PAGE, offset, search, exclude_seen: !seen, describe: true }, signal,
  });
  const items = remember(ranked.answers);
  const top = await topOf(ranked, { search, seen }, signal);
  let explained = { answers: [], support: ranked.support };
  if (items.length) {
    explained = await ask("/v1/predict", { body: { ...asked, items, deviation: true, explain: true }, signal });
  }
  const places = ranked.answers.map(({ rank, rank_without_events: without }) => ({ rank, climbed: without - rank }));
  const entries = entriesOf(asked, explained).map((entry, place) => ({ ...entry, ...places[place] }));
  ranking.show(entries);
  at("compared").hidden = true;
  showMix(at("mix"), fieldToCount(model), top);
  showPager(ranked, search);
  showState(explained, entries);
}

/** What fills the top, next to what fills everyone's; nothing if the top is not shown. */
async function topOf(ranked, { search, seen }, signal) {
  const name = fieldToCount(model);
  if (name === undefined || search || offset) return [];
  const key = JSON.stringify(context);
  if (everyone.key !== key) {
    const answer = events.length || seen
      ? await ask("/v1/recommend", { body: { context, top: TOP, describe: true }, signal })
      : ranked;
    everyone = { key, top: answer.answers.slice(0, TOP).map(({ fields }) => fields) };
  }
  return mixOf(name, ranked.answers.slice(0, TOP).map(({ fields }) => fields), everyone.top);
}

async function refreshReplay(signal) {
  const { next, rows } = replay.user;
  const asked = { events: inline(replay.events), candidates: [...rows.values()] };
  const explained = await ask("/v1/predict", { body: { ...asked, deviation: true, explain: true }, signal });
  const without = explained.answers.toSorted((one, other) => other.basis - one.basis);
  const entries = entriesOf(asked, explained).map((entry) => ({ ...entry, truth: next.get(entry.item) }));
  entries.sort((one, other) => score(other) - score(one));
  entries.forEach((entry, place) => {
    entry.rank = place + 1;
    entry.climbed = without.findIndex(({ item }) => item === entry.item) - place;
  });
  at("compared").hidden = false;
  ranking.show(entries, { picks: showAgreement(at("compared"), entries, score) });
  showState(explained, entries);
}

/** Events as a request carries them; nothing is stored. */
function inline(done) {
  return done.map(({ item, label, context: features }, place) => ({
    id: `e${place}`, time: place, label, item, features,
  }));
}

/** What the page shows of each answer. */
function entriesOf(asked, answered) {
  const done = new Map(asked.events.map((event) => [event.id, event]));
  const opinions = new Map(asked.events.map((event) => [event.item, event.label]));
  const met = asked.events.map(({ item, label, features }) => ({ label, fields: { ...features, ...fieldsOf(item) } }));
  return answered.answers.map((answer, place) => ({
    ...answer,
    title: titleOf(answer.item),
    fields: fieldsOf(answer.item),
    whole: { ...asked.context, ...asked.candidates?.[place], ...fieldsOf(answer.item) },
    met,
    label: opinions.get(answer.item) ?? null,
    truth: null,
    causes: answer.causes ?? [],
    shares: answered.parts === "shares",
    reasons: answer.because.map(({ event, part }) => {
      const { item, label } = done.get(event);
      return { title: titleOf(item), label, part };
    }),
  }));
}

const score = (entry) => entry.basis + entry.residual;

function showState(answered, entries) {
  const known = `${counted(answered.support, "event")} · ${stageOf(answered.support)}`;
  at("stage").textContent = known;
  at("legend-whisker").hidden = entries.every((entry) => entry.deviation === null);
  at("legend-parts").textContent = PARTS[answered.parts] ?? "";
  const first = entries[0];
  at("announced").textContent = `Ranking updated: ${known}. ` +
    (first ? `Rank ${grouped(first.rank)} is ${first.title}, ${percent(first.probability)}.` : "Nothing is shown.");
}

function showPager(ranked, search) {
  const size = search ? ranked.found : ranked.ranked;
  const last = offset + ranked.answers.length;
  at("nothing-found").textContent = size ? "" : `Nothing in the catalogue matches “${search}”.`;
  at("pager").hidden = size <= PAGE && !offset;
  at("range").textContent = `${grouped(offset + 1)}–${grouped(last)} of ${grouped(size)}`;
  at("earlier").setAttribute("aria-disabled", !offset);
  at("later").setAttribute("aria-disabled", last >= size);
}

function turn(step) {
  return (click) => {
    if (click.currentTarget.ariaDisabled === "true") return;
    offset = Math.max(0, offset + step);
    update();
    at("ranking").scrollIntoView();
  };
}
at("earlier").onclick = turn(-PAGE);
at("later").onclick = turn(PAGE);

function stageOf(size) {
  if (!size) return "everyone’s answer";
  const stage = Object.entries(model.stages).find(([, sizes]) => size <= Math.max(...sizes));
  return stage ? `cold-start stage ${stage[0]}` : "warm";
}

function showEvents() {
  at("events").replaceChildren(
    ...events.toReversed().map(({ item, label }) =>
      element("li", {}, ...opinion(item, label),
        element("button", {
          type: "button", className: "remove", "aria-label": `Forget ${titleOf(item)}`,
          onclick: () => {
            change(events.filter((event) => event.item !== item));
            at("undo").focus();
          },
        }, "×"),
      ),
    ),
  );
  at("events").scrollLeft = 0;
  at("no-events").hidden = events.length > 0;
  at("undo").setAttribute("aria-disabled", !past.length);
  at("reset").setAttribute("aria-disabled", !events.length);
}

at("undo").onclick = () => {
  if (!past.length) return;
  events = past.pop();
  update();
};
at("reset").onclick = () => {
  if (events.length) change([]);
};
at("search").oninput = at("show-judged").onchange = () => {
  offset = 0;
  update();
};

async function drawTestUser() {
  await replay.draw(model.item);
  ranking.clear();
  showMode();
  replay.show(0);
}

function showMode() {
  const replaying = replay.user !== null;
  const visiting = !replaying && model.recommends;
  for (const id of ["yours", "tools", "pager"]) at(id).hidden = !visiting;
  at("who").hidden = !visiting || at("who").classList.contains("nothing");
  at("test-user").hidden = at("step").hidden = !replaying;
  at("leave").hidden = visiting || !model.recommends;
  at("test-user-idea").hidden = replaying;
  if (!visiting) at("mix").hidden = true;
  at("nothing-found").textContent = "";
  at("draw-test-user").textContent = replaying ? "Another test user" : "Start from a random test user";
  at("ranking-title").textContent = replaying ? "Ranking of what they met next" : "Ranking";
}

at("draw-test-user").onclick = () => attempt(at("test-user-problem"), drawTestUser);
at("leave").onclick = () => {
  replay.leave();
  ranking.clear();
  showMode();
  update();
  at("draw-test-user").focus();
};

attempt(at("problem"), start);

import { counted, element } from "./elements.js";
import { Ranking, agreement, judgeButton, percent, press, thumb } from "./ranking.js";
import { ask, attempt, latest } from "./server.js";

const PARTS = {
  shares: "a number after an event: its share of the coloured bar",
  "leave-one-out": "a number after an event: what the score would lose without it",
};
const CANDIDATES = 20;
const POOL = 200; // popular items from which other candidates are drawn
const FOUND = 6;
const REPLAYED = 30; // events of a test user that can be shown before the ranking is compared
const STEP_MS = 900;

const at = (id) => document.getElementById(id);
const titles = new Map();
const ranking = new Ranking(at("ranking"), judge);

let model;
let pool = [];
let candidates = [];
let context = {};
let events = []; // what the visitor did, the oldest first: {item, label}
let past = []; // earlier values of `events`, for undo
let testUser = null; // the replayed test user: {known, next: item → label, rows: item → candidate, shown}
let player = null;

async function start() {
  model = await ask("/v1/model");
  pool = remember((await ask(`/v1/catalogue?query=&limit=${POOL}`)).items);
  at("model").textContent = `${model.name} · ${counted(model.catalogue, "item")}`;
  at("empty").hidden = pool.length > 0;
  if (!pool.length) return;
  if (model.score) return replayOnly();
  candidates = pool.slice(0, CANDIDATES);
  at("draw-items").hidden = pool.length <= CANDIDATES;
  showFields();
  at("play").hidden = false;
  update();
}

/** For a model that needs a number with each candidate, which no visitor has but every event of the log. */
function replayOnly() {
  at("invitation").textContent =
    `This model needs “${model.score}” with each candidate and cannot be played with by item alone, ` +
    "so you can replay real test users, whose scores are known.";
  showMode();
  at("play").hidden = false;
  attempt(at("test-user-problem"), drawTestUser);
}

function remember(items) {
  for (const { item, title } of items) titles.set(item, title ?? `item ${item}`);
  return items.map(({ item }) => item);
}

function showFields() {
  const choosable = model.fields.filter((field) => field.role !== "item" && field.values.length);
  context = Object.fromEntries(choosable.map((field) => [field.name, field.values[0]]));
  at("who").hidden = !choosable.length;
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
  const asked = testUser ? testUsersQuestion() : visitorsQuestion();
  const truths = testUser?.next;
  try {
    showRanking(asked, await ask("/v1/predict", { body: { ...asked, deviation: true, explain: true }, signal }), truths);
  } finally {
    if (!signal.aborted) at("ranking").removeAttribute("aria-busy");
  }
});

function visitorsQuestion() {
  return { events: inline(events.map((event) => ({ ...event, context }))), context, items: candidates };
}

function testUsersQuestion() {
  const { known, shown, rows } = testUser;
  return { events: inline(known.slice(0, shown)), candidates: [...rows.values()] };
}

/** Events as a request carries them; nothing is stored. */
function inline(done) {
  return done.map(({ item, label, context: features }, place) => ({
    id: `e${place}`, time: place, label, item, features,
  }));
}

function showRanking(asked, answered, truths) {
  const done = new Map(asked.events.map((event) => [event.id, event]));
  const opinions = new Map(asked.events.map((event) => [event.item, event.label]));
  const entries = answered.answers.map((answer) => ({
    ...answer,
    title: titles.get(answer.item),
    label: opinions.get(answer.item) ?? null,
    truth: truths?.get(answer.item) ?? null,
    causes: answer.causes ?? [],
    shares: answered.parts === "shares",
    reasons: answer.because.map(({ event, part }) => {
      const { item, label } = done.get(event);
      return { title: titles.get(item), label, part };
    }),
  }));
  entries.sort((one, other) => score(other) - score(one));
  const now = truths ? agreement(entries, score) : null;
  ranking.show(entries, { picks: now?.picks });
  at("compared").hidden = !now;
  if (now) showAgreement(now, agreement(entries, (entry) => entry.basis));
  const known = `${counted(answered.support, "event")} · ${stageOf(answered.support)}`;
  at("stage").textContent = known;
  at("legend-whisker").hidden = entries.every((entry) => entry.deviation === null);
  at("legend-parts").textContent = PARTS[answered.parts] ?? "";
  at("announced").textContent =
    `Ranking updated: ${known}. First is ${entries[0].title}, ${percent(entries[0].probability)}.`;
}

const score = (entry) => entry.basis + entry.residual;

function showAgreement(now, before) {
  const line = (value, name, without) => element("p", {},
    element("b", {}, `${value}`), ` ${name} `,
    element("span", { className: "note" }, `(${without} without events)`),
  );
  const { picks } = now;
  const lines = [line(now.hits, `of the ${counted(picks, "item")} liked next are in the first ${picks}`, before.hits)];
  if (now.pairs !== null) {
    lines.push(line(percent(now.pairs), "of liked-disliked pairs in the right order", percent(before.pairs)));
  }
  at("compared").replaceChildren(...lines);
}

function stageOf(size) {
  if (!size) return "everyone’s answer";
  const stage = Object.entries(model.stages).find(([, sizes]) => size <= Math.max(...sizes));
  return stage ? `cold-start stage ${stage[0]}` : "warm";
}

function opinion(item, label) {
  return [
    thumb(label),
    element("span", { className: "unseen" }, label ? "Liked" : "Disliked"),
    element("span", { className: "title" }, titles.get(item)),
  ];
}

function showEvents() {
  at("events").replaceChildren(
    ...events.toReversed().map(({ item, label }) =>
      element("li", {}, ...opinion(item, label),
        element("button", {
          type: "button", className: "remove", "aria-label": `Forget ${titles.get(item)}`,
          onclick: () => {
            change(events.filter((event) => event.item !== item));
            at("undo").focus();
          },
        }, "×"),
      ),
    ),
  );
  at("no-events").hidden = events.length > 0;
  at("undo").setAttribute("aria-disabled", !past.length);
  at("reset").setAttribute("aria-disabled", !events.length);
  for (const row of at("found").children) pressFound(row);
}

at("undo").onclick = () => {
  if (!past.length) return;
  events = past.pop();
  update();
};
at("reset").onclick = () => {
  if (events.length) change([]);
};
at("draw-items").onclick = () => {
  const left = pool.filter((item) => !candidates.includes(item));
  candidates = [];
  while (candidates.length < CANDIDATES && left.length) {
    candidates.push(...left.splice(Math.floor(Math.random() * left.length), 1));
  }
  update();
};

const search = latest(async (signal, query) => {
  const address = `/v1/catalogue?query=${encodeURIComponent(query)}&limit=${FOUND}`;
  const items = query ? (await ask(address, { signal })).items : [];
  at("nothing-found").textContent = query && !items.length ? `Nothing in the catalogue matches “${query}”.` : "";
  at("found").replaceChildren(
    ...remember(items).map((item) => {
      const row = element("li", { "data-item": item },
        element("span", { className: "title" }, titles.get(item)),
        judgeButton(1, () => judge(item, 1)),
        judgeButton(0, () => judge(item, 0)),
      );
      pressFound(row);
      return row;
    }),
  );
});
at("search").oninput = () => attempt(at("search-problem"), () => search(at("search").value.trim()));

function pressFound(row) {
  const item = row.dataset.item;
  const label = events.find((event) => event.item === item)?.label;
  const [like, dislike] = row.querySelectorAll("button");
  press(like, label === 1, `Like ${titles.get(item)}`);
  press(dislike, label === 0, `Dislike ${titles.get(item)}`);
}

async function drawTestUser() {
  pause();
  const met = (await ask("/v1/test-users/random")).events;
  remember(met);
  const held = Math.min(CANDIDATES, Math.floor(met.length / 2));
  const known = met.slice(0, Math.min(REPLAYED, met.length - held));
  const following = met.slice(known.length, known.length + held);
  const next = new Map();
  for (const { item, label } of following) next.set(item, Math.max(label, next.get(item) ?? 0));
  const rows = new Map(following.map(({ item, context: met }) => [item, { ...met, [model.item]: item }]));
  testUser = { known, next, rows, shown: 0 };
  at("shown").max = known.length;
  at("test-user-context").replaceChildren(
    ...Object.keys(following[0].context).map((name) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, valueIn(following, name))),
    ),
  );
  ranking.clear();
  showMode();
  showShown(0);
}

/** What a field of the context was in all of these events. */
function valueIn(done, name) {
  const values = new Set(done.map((event) => `${event.context[name] ?? "–"}`));
  return values.size === 1 ? [...values][0] : "varies";
}

function showMode() {
  const visiting = testUser === null && !model.score;
  at("visitor").hidden = !visiting;
  at("test-user").hidden = at("step").hidden = testUser === null;
  at("leave").hidden = visiting || model.score !== null;
  at("test-user-idea").hidden = testUser !== null;
  at("draw-items").hidden = !visiting || pool.length <= CANDIDATES;
  at("draw-test-user").textContent = testUser ? "Another test user" : "Start from a random test user";
  at("ranking-title").textContent = testUser ? "Ranking of what they met next" : "Ranking";
}

function showShown(shown) {
  testUser.shown = shown;
  at("shown").value = shown;
  at("shown-count").textContent = `${shown} of ${testUser.known.length}`;
  at("replayed").replaceChildren(
    ...testUser.known.slice(0, shown).toReversed().map(({ item, label }) => element("li", {}, ...opinion(item, label))),
  );
  update();
}

function pause() {
  clearInterval(player);
  player = null;
  at("step").textContent = "Play";
}

function play() {
  if (testUser.shown === testUser.known.length) showShown(0);
  player = setInterval(() => {
    showShown(testUser.shown + 1);
    if (testUser.shown === testUser.known.length) pause();
  }, STEP_MS);
  at("step").textContent = "Pause";
}

at("shown").oninput = () => {
  pause();
  showShown(at("shown").valueAsNumber);
};
at("step").onclick = () => (player ? pause() : play());
at("draw-test-user").onclick = () => attempt(at("test-user-problem"), drawTestUser);
at("leave").onclick = () => {
  pause();
  testUser = null;
  ranking.clear();
  showMode();
  update();
  at("draw-test-user").focus();
};

attempt(at("problem"), start);

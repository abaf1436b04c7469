import { counted, element } from "./elements.js";
import { remember, titleOf } from "./items.js";
import { percent, thumb } from "./ranking.js";
import { ask } from "./server.js";

const HELD = 20; // events that the ranking is compared with
const REPLAYED = 30; // events that can be shown before it
const STEP_MS = 900;

const at = (id) => document.getElementById(id);

/** A real test user, replayed event by event, and compared with what the user did next. */
export class Replay {
  constructor(changed) {
    this.changed = changed; // called after each step
    this.user = null; // {known, next: item → label, rows: item → candidate, shown}
    this.player = null;
    at("shown").oninput = () => {
      this.pause();
      this.show(at("shown").valueAsNumber);
    };
    at("step").onclick = () => (this.player ? this.pause() : this.play());
  }

  async draw(itemField) {
    this.pause();
    const met = (await ask("/v1/test-users/random")).events;
    remember(met);
    const held = Math.min(HELD, Math.floor(met.length / 2));
    const known = met.slice(0, Math.min(REPLAYED, met.length - held));
    const following = met.slice(known.length, known.length + held);
    const next = new Map();
    for (const { item, label } of following) next.set(item, Math.max(label, next.get(item) ?? 0));
    const rows = new Map(following.map(({ item, context }) => [item, { ...context, [itemField]: item }]));
    this.user = { known, next, rows, shown: 0 };
    at("shown").max = known.length;
    at("test-user-context").replaceChildren(
      ...Object.keys(following[0].context).map((name) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, valueIn(following, name))),
      ),
    );
  }

  get events() {
    return this.user.known.slice(0, this.user.shown);
  }

  show(shown) {
    this.user.shown = shown;
    at("shown").value = shown;
    at("shown-count").textContent = `${shown} of ${this.user.known.length}`;
    at("replayed").replaceChildren(
      ...this.events.toReversed().map(({ item, label }) => element("li", {}, ...opinion(item, label))),
    );
    this.changed();
  }

  pause() {
    clearInterval(this.player);
    this.player = null;
    at("step").textContent = "Play";
  }

  play() {
    if (this.user.shown === this.user.known.length) this.show(0);
    this.player = setInterval(() => {
      this.show(this.user.shown + 1);
      if (this.user.shown === this.user.known.length) this.pause();
    }, STEP_MS);
    at("step").textContent = "Pause";
  }

  leave() {
    this.pause();
    this.user = null;
  }
}

/** What a user thinks of an item, for a list. */
export function opinion(item, label) {
  return [
    thumb(label),
    element("span", { className: "unseen" }, label ? "Liked" : "Disliked"),
    element("span", { className: "title" }, titleOf(item)),
  ];
}

/** How much better the ranking agrees with what happened next than the ranking without events. */
export function showAgreement(place, entries, score) {
  const now = agreement(entries, score);
  const before = agreement(entries, (entry) => entry.basis);
  const line = (value, name, without) => element("p", {},
    element("b", {}, `${value}`), ` ${name} `,
    element("span", { className: "note" }, `(${without} without events)`),
  );
  const { picks } = now;
  const lines = [line(now.hits, `of the ${counted(picks, "item")} liked next are in the first ${picks}`, before.hits)];
  if (now.pairs !== null) {
    lines.push(line(percent(now.pairs), "of liked-disliked pairs in the right order", percent(before.pairs)));
  }
  place.replaceChildren(...lines);
  return picks;
}

/** Likes among the first picks, and pairs in the right order. */
function agreement(entries, scoreOf) {
  const ranked = [...entries].sort((one, other) => scoreOf(other) - scoreOf(one));
  const liked = ranked.filter((entry) => entry.truth === 1);
  const rest = ranked.filter((entry) => entry.truth === 0);
  const right = liked.flatMap((one) => rest.map((other) => (Math.sign(scoreOf(one) - scoreOf(other)) + 1) / 2));
  return {
    picks: liked.length,
    hits: ranked.slice(0, liked.length).filter((entry) => entry.truth === 1).length,
    pairs: right.length ? right.reduce((sum, value) => sum + value, 0) / right.length : null,
  };
}

/** What a field of the context was in all of these events. */
function valueIn(done, name) {
  const values = new Set(done.map((event) => `${event.context[name] ?? "–"}`));
  return values.size === 1 ? [...values][0] : "varies";
}

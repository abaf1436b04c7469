import { counted, drawn, element, grouped, signed } from "./elements.js";
import { described } from "./items.js";
import { inWords } from "./reasons.js";

const MAIN = 2; // causes that are said before the row is opened
const MINOR = 0.4; // a cause this much smaller than the largest one is not a main one
const REASONS = 3; // events that are named
const EDGE = 2; // per cent of the drawing on each side
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

/** The ranked list. Rows are kept by item, so a row that moves is seen to move and keeps the keyboard's focus. */
export class Ranking {
  constructor(list, judge) {
    this.list = list;
    this.judge = judge;
    this.rows = new Map();
  }

  /**
   * `entries`, the best first: item, rank, places climbed by the events, title, fields, probability, basis, residual,
   * deviation, causes, reasons, label, truth, and whether the parts of the reasons are `shares` of the residual.
   */
  show(entries, { picks = null } = {}) {
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    const focusedPlace = [...this.rows.values()].findIndex(({ node }) => node.contains(focused));
    const tops = new Map([...this.rows].map(([item, row]) => [item, row.node.offsetTop]));
    const range = rangeOf(entries);
    const rows = new Map();
    entries.forEach((entry, place) => {
      const row = this.rows.get(entry.item) ?? newRow(entry.item, this.judge);
      fill(row, entry, range);
      row.node.classList.toggle("last-pick", picks !== null && place + 1 === picks && picks < entries.length);
      rows.set(entry.item, row);
    });
    for (const [item, row] of this.rows) if (!rows.has(item)) row.node.remove();
    this.rows = rows;
    this.list.append(...[...rows.values()].map((row) => row.node)); // never empty: a short page would scroll up
    this.focusAgain(focused, focusedPlace);
    if (tops.size && !CALM.matches) {
      for (const [item, row] of rows) slide(row.node, tops.has(item) ? tops.get(item) - row.node.offsetTop : null);
    }
  }

  /** On the same button; if its row is gone, on the like of the row that took its place. */
  focusAgain(focused, place) {
    if (!focused) return;
    const left = [...this.rows.values()][Math.min(place, this.rows.size - 1)];
    const next = focused.isConnected ? focused : (left?.parts.like.isConnected && left.parts.like) || this.list;
    next.focus({ preventScroll: true });
  }

  clear() {
    this.rows = new Map();
    this.list.replaceChildren();
  }
}

/** From where it was; a row that was not there (null) fades in. */
function slide(node, distance) {
  if (distance === 0) return;
  const from = distance === null ? { opacity: 0 } : { transform: `translateY(${distance}px)` };
  node.animate([from, { opacity: 1, transform: "none" }], {
    duration: 420,
    easing: "cubic-bezier(.2, .7, .2, 1)",
  });
}

function newRow(item, judge) {
  const parts = {
    rank: element("span", { className: "place" }),
    move: element("span", { className: "move" }),
    title: element("span", { className: "title" }),
    fields: element("span", { className: "about" }),
    why: element("details", { className: "why" }),
    main: element("summary"),
    causes: element("ul", { className: "causes" }),
    because: element("p", { className: "because" }),
    bar: newBar(),
    probability: element("span", { className: "probability" }),
    acts: element("span", { className: "acts" }),
    like: judgeButton(1, () => judge(item, 1)),
    dislike: judgeButton(0, () => judge(item, 0)),
    truth: element("span", { className: "truth" }),
  };
  parts.why.append(parts.main, parts.causes, parts.because);
  const node = element("li", { className: "row", "data-item": item },
    element("span", { className: "rank" }, parts.rank, parts.move),
    element("div", { className: "what" }, parts.title, parts.fields, parts.why),
    parts.bar.svg,
    parts.probability,
    parts.acts,
  );
  return { node, parts };
}

function fill({ node, parts }, entry, range) {
  const who = entry.truth === null ? "you" : "they";
  parts.rank.textContent = grouped(entry.rank);
  showMove(parts.move, entry);
  parts.title.textContent = entry.title;
  parts.fields.textContent = described(entry.fields);
  parts.why.hidden = !entry.reasons.length && !entry.causes.length;
  parts.main.textContent = mainReason(entry, who);
  parts.causes.replaceChildren(...entry.causes.map((cause) =>
    element("li", {}, `${inWords(cause, entry, who)} `, weight(cause.part))));
  parts.because.replaceChildren(...because(entry.reasons, entry.shares, who));
  parts.probability.textContent = percent(entry.probability);
  fillBar(parts.bar, entry, range);
  node.classList.toggle("judged", entry.label !== null);
  if (entry.truth === null) {
    press(parts.like, entry.label === 1, `Like ${entry.title}`);
    press(parts.dislike, entry.label === 0, `Dislike ${entry.title}`);
    if (!parts.like.isConnected) parts.acts.replaceChildren(parts.like, parts.dislike);
  } else {
    parts.truth.className = `truth ${entry.truth ? "yes" : "no"}`;
    parts.truth.textContent = entry.truth ? "liked next" : "disliked next";
    if (!parts.truth.isConnected) parts.acts.replaceChildren(parts.truth);
  }
}

/** How far the events moved an item. */
function showMove(place, { rank, climbed }) {
  place.className = `move ${climbed > 0 ? "up" : "down"}`;
  place.replaceChildren();
  if (!climbed) return;
  place.title = `rank ${grouped(rank + climbed)} without events`;
  place.append(
    element("span", { "aria-hidden": "true" }, `${climbed > 0 ? "▲" : "▼"}${grouped(Math.abs(climbed))}`),
    element("span", { className: "unseen" }, ` ${place.title}`),
  );
}

/** The largest causes in words; of a model that knows none, the event that moved the score most. */
function mainReason(entry, who) {
  const [largest] = entry.causes;
  if (largest) {
    const main = entry.causes.slice(0, MAIN).filter(({ part }) => Math.abs(part) >= MINOR * Math.abs(largest.part));
    return main.map((cause) => inWords(cause, entry, who)).join(" · ");
  }
  const [event] = entry.reasons;
  return event ? `${who} ${event.label ? "liked" : "disliked"} ${event.title}` : "";
}

/** The first reasons one by one. If parts are shares of the bar, the other likes and the other dislikes are summed. */
function because(reasons, shares, who) {
  const said = reasons.slice(0, REASONS).flatMap(({ title, label, part }, place) => [
    `${place ? ", " : `because ${who} `}${label ? "liked" : "disliked"} `,
    element("span", { className: "reason" }, title),
    " ",
    weight(part),
  ]);
  if (!shares) return said;
  const others = [1, 0].map((label) => reasons.slice(REASONS).filter((reason) => reason.label === label));
  const summed = others.filter((alike) => alike.length).flatMap((alike) => [
    `, ${counted(alike.length, alike[0].label ? "more like" : "more dislike")} `,
    weight(sumOf(alike)),
  ]);
  return [...said, ...summed];
}

const sumOf = (entries) => entries.reduce((sum, { part }) => sum + part, 0);

const weight = (part) => element("b", { className: part < 0 ? "down" : "up" }, signed(part));

export function percent(probability) {
  return `${Math.round(100 * probability)}\u202f%`;
}

/** A button that says what you think of an item. */
export function judgeButton(label, onclick) {
  return element("button", { type: "button", className: `judge ${label ? "like" : "dislike"}`, onclick }, thumb(label));
}

export function press(button, pressed, name) {
  button.setAttribute("aria-pressed", pressed);
  button.setAttribute("aria-label", name);
  button.title = name;
}

/** A thumb up or down. */
export function thumb(label) {
  const hand = "M6 7 9 1.5c1.5 0 2 1.1 1.7 2.5L10.2 6h3.3c1.1 0 1.7 1 1.4 2l-1.3 4.8c-.2.7-.8 1.2-1.6 1.2H6z";
  return drawn("svg", { class: label ? "thumb" : "thumb turned", viewBox: "0 0 16 16", "aria-hidden": "true" },
    drawn("rect", { x: 1.2, y: 7, width: 3.2, height: 7, rx: 0.6 }),
    drawn("path", { d: hand }),
  );
}

/** The log-odds that are drawn, from where to where; whiskers may widen them, but not squeeze the bars to nothing. */
function rangeOf(entries) {
  const ends = entries.flatMap((entry) => [entry.basis, entry.basis + entry.residual]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const room = Math.max(0.5, high - low) / 4;
  const whiskers = entries.flatMap(({ basis, residual, deviation }) => [-1, 1].map((side) => basis + residual + side * deviation));
  return [Math.max(low - room, Math.min(low, ...whiskers)), Math.min(high + room, Math.max(high, ...whiskers))];
}

function newBar() {
  const part = (name, y, height) => drawn("rect", { class: name, y, height });
  const bar = {
    basis: part("basis", 5, 14),
    residual: part("residual", 8, 8),
    whisker: part("whisker", 11.25, 1.5),
    low: part("whisker", 8, 8),
    high: part("whisker", 8, 8),
  };
  bar.zero = drawn("line", { class: "zero", y1: 0, y2: 24 });
  const over = [bar.residual, bar.whisker, bar.low, bar.high];
  bar.svg = drawn("svg", { class: "bar", role: "img", height: 24 }, bar.basis, bar.zero, ...over);
  return bar;
}

function fillBar(bar, { basis, residual, deviation }, [low, high]) {
  const at = (value) => EDGE + ((100 - 2 * EDGE) * (Math.max(low, Math.min(high, value)) - low)) / (high - low);
  for (const end of ["x1", "x2"]) bar.zero.setAttribute(end, `${at(0)}%`);
  const stretch = (rect, from, to) => {
    rect.setAttribute("x", `${Math.min(at(from), at(to))}%`);
    rect.setAttribute("width", `${Math.abs(at(from) - at(to))}%`);
  };
  const total = basis + residual;
  stretch(bar.basis, 0, basis);
  stretch(bar.residual, basis, total);
  bar.residual.setAttribute("class", `residual ${residual < 0 ? "down" : "up"}`);
  const spread = deviation ?? 0;
  stretch(bar.whisker, total - spread, total + spread);
  for (const [cap, end] of [[bar.low, total - spread], [bar.high, total + spread]]) {
    cap.setAttribute("x", `${at(end)}%`);
    cap.setAttribute("width", spread && low <= end && end <= high ? 1.5 : 0);
  }
  const sure = deviation === null ? "" : `, give or take ${deviation.toFixed(2)}`;
  bar.svg.setAttribute("aria-label", `log-odds: everyone ${signed(basis)}, the events ${signed(residual)}${sure}`);
}

import { counted, drawn, element, signed } from "./elements.js";

const CAUSES = 3; // said one by one
const REASONS = 2; // said one by one
const SPAN = 46; // per cent of the drawing on each side of zero
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

/** The ranked list. Rows are kept by item, so a row that moves is seen to move and keeps the keyboard's focus. */
export class Ranking {
  constructor(list, judge) {
    this.list = list;
    this.judge = judge;
    this.rows = new Map();
  }

  /**
   * `entries`, the best first: item, title, probability, basis, residual, deviation, causes, reasons, label, truth, and
   * whether the parts of the reasons are `shares` of the residual.
   */
  show(entries, { picks = null } = {}) {
    const focused = document.activeElement;
    const before = new Map([...this.rows].map(([item, row]) => [item, { rank: row.rank, top: row.node.offsetTop }]));
    const comparable = entries.length === before.size && entries.every((entry) => before.has(entry.item));
    const limit = limitOf(entries);
    const rows = new Map();
    entries.forEach((entry, place) => {
      const row = this.rows.get(entry.item) ?? newRow(entry.item, this.judge);
      row.rank = place + 1;
      fill(row, entry, limit, comparable ? before.get(entry.item).rank - row.rank : 0);
      row.node.classList.toggle("last-pick", picks !== null && place + 1 === picks && picks < entries.length);
      rows.set(entry.item, row);
    });
    for (const [item, row] of this.rows) if (!rows.has(item)) row.node.remove();
    this.rows = rows;
    this.list.append(...[...rows.values()].map((row) => row.node)); // never empty: a short page would scroll up
    if (this.list.contains(focused)) focused.focus({ preventScroll: true });
    if (comparable && !CALM.matches) {
      for (const [item, row] of rows) slide(row.node, before.get(item).top - row.node.offsetTop);
    }
  }

  clear() {
    this.rows = new Map();
    this.list.replaceChildren();
  }
}

function slide(node, distance) {
  if (!distance) return;
  node.animate([{ transform: `translateY(${distance}px)` }, { transform: "none" }], {
    duration: 420,
    easing: "cubic-bezier(.2, .7, .2, 1)",
  });
}

function newRow(item, judge) {
  const parts = {
    rank: element("span", { className: "place" }),
    move: element("span", { className: "move" }),
    title: element("span", { className: "title" }),
    causes: element("span", { className: "because causes" }),
    because: element("span", { className: "because" }),
    bar: newBar(),
    probability: element("span", { className: "probability" }),
    acts: element("span", { className: "acts" }),
    like: judgeButton(1, () => judge(item, 1)),
    dislike: judgeButton(0, () => judge(item, 0)),
    truth: element("span", { className: "truth" }),
  };
  const node = element("li", { className: "row", "data-item": item },
    element("span", { className: "rank" }, parts.rank, parts.move),
    element("span", { className: "what" }, parts.title, parts.causes, parts.because),
    parts.bar.svg,
    parts.probability,
    parts.acts,
  );
  return { node, parts, rank: 0 };
}

function fill({ node, parts, rank }, entry, limit, climbed) {
  parts.rank.textContent = rank;
  parts.move.className = `move ${climbed > 0 ? "up" : "down"}`;
  parts.move.textContent = climbed ? `${climbed > 0 ? "▲" : "▼"}${Math.abs(climbed)}` : "";
  parts.title.textContent = entry.title;
  parts.causes.replaceChildren(...caused(entry.causes));
  parts.because.replaceChildren(...because(entry.reasons, entry.shares, entry.truth === null ? "you" : "they"));
  parts.probability.textContent = percent(entry.probability);
  fillBar(parts.bar, entry, limit);
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

/** The largest causes one by one and the others in one sum, so that what is read adds up to the bar. */
function caused(causes) {
  const said = causes.slice(0, CAUSES).flatMap(({ cause, part }, place) => [place ? ", " : "", `${cause} `, weight(part)]);
  const others = causes.slice(CAUSES);
  return others.length ? [...said, ", other causes ", weight(sumOf(others))] : said;
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

/** The largest log-odds drawn; a whisker may widen it, but not squeeze the bars to nothing. */
function limitOf(entries) {
  const reach = Math.max(0.5, ...entries.flatMap((entry) => [entry.basis, entry.basis + entry.residual].map(Math.abs)));
  const whiskers = entries.map((entry) => Math.abs(entry.basis + entry.residual) + (entry.deviation ?? 0));
  return Math.max(reach, Math.min(1.5 * reach, Math.max(...whiskers)));
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
  const zero = drawn("line", { class: "zero", x1: "50%", x2: "50%", y1: 0, y2: 24 });
  const over = [bar.residual, bar.whisker, bar.low, bar.high];
  bar.svg = drawn("svg", { class: "bar", role: "img", height: 24 }, bar.basis, zero, ...over);
  return bar;
}

function fillBar(bar, { basis, residual, deviation }, limit) {
  const at = (value) => 50 + (SPAN * Math.max(-limit * 1.06, Math.min(limit * 1.06, value))) / limit;
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
    cap.setAttribute("width", spread && Math.abs(end) <= limit * 1.06 ? 1.5 : 0);
  }
  const sure = deviation === null ? "" : `, give or take ${deviation.toFixed(2)}`;
  bar.svg.setAttribute("aria-label", `log-odds: everyone ${signed(basis)}, the events ${signed(residual)}${sure}`);
}

/** How well a ranking agrees with what really happened: likes among the first picks, and pairs in the right order. */
export function agreement(entries, scoreOf) {
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

import { drawn, element } from "./elements.js";
import { ask, attempt } from "./server.js";

const HEIGHT = 300;
const EDGE = { top: 24, bottom: 36, left: 48 };
const LETTER = 8.4; // about a label's width per letter
const LABEL_GAP = 15;
const COLOURS = 6;

async function start() {
  const results = await ask("/v1/results");
  const { log, part, protocol, seed } = results;
  at("log").textContent = `${log.name} · ${part} users · protocol ${protocol} · seed ${seed}`;
  at("charts").replaceChildren(...results.metrics.map((metric) => section(results, metric)));
}

const at = (id) => document.getElementById(id);

function section(results, metric) {
  const curves = curvesOf(results, metric);
  const figure = element("figure", { className: "chart" });
  const draw = () => figure.replaceChildren(chart(results, metric, curves, figure.clientWidth));
  new ResizeObserver(draw).observe(figure);
  const name = `${metric.title} as a table`;
  return element("section", { className: "card", "aria-labelledby": metric.name },
    element("h2", { id: metric.name }, metric.title),
    element("p", { className: "note" }, `${metric.title}: ${metric.meaning}; ${metric.direction}.`),
    figure,
    element("details", {},
      element("summary", {}, name),
      element("div", { className: "wide", role: "region", tabIndex: 0, "aria-label": name }, table(results, metric)),
    ),
  );
}

/** A line per model that has the metric; points without a query are left out. */
function curvesOf(results, metric) {
  const bounds = [results.oracle, results.crowd];
  let coloured = 0;
  return Object.entries(results.models)
    .map(([name, { sizes }]) => ({
      name,
      kind: name === results.base ? "base" : bounds.includes(name) ? "bound" : `line-${coloured++ % COLOURS}`,
      points: results.sizes.map((size) => [size, sizes[size]?.[metric.name]]).filter(([, value]) => value != null),
    }))
    .filter(({ points }) => points.length);
}

function chart(results, metric, curves, width) {
  const values = curves.flatMap(({ points }) => points.map(([, value]) => value));
  const marks = ticks(Math.min(...values), Math.max(...values));
  const [low, high] = [marks[0], marks.at(-1)];
  const [first, last] = [results.sizes[0], results.sizes.at(-1)];
  const longest = Math.max(...curves.map(({ name }) => name.length));
  const right = width - Math.min(0.45 * width, 16 + LETTER * longest);
  const bottom = HEIGHT - EDGE.bottom;
  const x = (size) => EDGE.left + ((size - first) / (last - first || 1)) * (right - EDGE.left);
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - EDGE.top);
  const text = (words, place) => drawn("text", place, words);
  const middle = (words, x, y) => text(words, { class: "tick", x, y, "text-anchor": "middle" });
  const ends = curves.map(({ points }) => y(points.at(-1)[1]));
  const places = apart(ends);
  return drawn("svg", { width, height: HEIGHT, role: "img", "aria-label": summary(metric, curves) },
    ...bands(results, x, right).map(({ name, from, to, shaded }) => drawn("g", {},
      drawn("rect", {
        class: shaded ? "band shaded" : "band",
        x: from, y: EDGE.top, width: Math.max(0, to - from), height: bottom - EDGE.top,
      }),
      middle(to - from > 60 ? `stage ${name}` : name, (from + to) / 2, EDGE.top - 8),
    )),
    ...marks.map((value) => drawn("g", {},
      drawn("line", { class: "grid", x1: EDGE.left, x2: right, y1: y(value), y2: y(value) }),
      text(value.toFixed(digits(marks)), { class: "tick", x: EDGE.left - 8, y: y(value) + 4, "text-anchor": "end" }),
    )),
    ...sizeMarks(results.sizes, right - EDGE.left).map((size) => middle(size, x(size), bottom + 16)),
    middle("events known", (EDGE.left + right) / 2, HEIGHT - 4),
    ...curves.map(({ name, kind, points }, place) => drawn("g", { class: `curve ${kind}`, "data-model": name },
      drawn("polyline", { points: points.map(([size, value]) => `${x(size)},${y(value)}`).join(" ") }),
      drawn("circle", { cx: x(points.at(-1)[0]), cy: ends[place], r: 3 }),
      text(name, { x: right + 10, y: places[place] + 4 }),
    )),
  );
}

function bands(results, x, right) {
  return Object.entries(results.stages).map(([name, sizes], place, all) => ({
    name,
    from: x(Math.min(...sizes)),
    to: place + 1 < all.length ? x(Math.min(...all[place + 1][1])) : Math.min(right, x(Math.max(...sizes))),
    shaded: place % 2 === 0,
  }));
}

function summary({ title, shown }, curves) {
  const said = curves.map(({ name, points }) => {
    const [[from], [to]] = [points[0], points.at(-1)];
    return `${name} from ${shown[name][from]} at ${from} to ${shown[name][to]} at ${to}`;
  });
  return `${title} against events known: ${said.join("; ")}. The table below has every value.`;
}

/** Round values around a range, about five of them. */
function ticks(low, high) {
  const rough = Math.max(high - low, 1e-3) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, place) => (first + place) * step);
}

function digits(marks) {
  return Math.max(0, -Math.floor(Math.log10(marks[1] - marks[0]) + 1e-9));
}

/** As many sizes as have room, the first and the last among them. */
function sizeMarks(sizes, width) {
  const every = Math.max(1, Math.ceil(sizes.length / Math.max(2, width / 44)));
  const last = sizes.length - 1;
  return sizes.filter((_, place) => place === last || (place % every === 0 && last - place >= every));
}

/** Labels pushed apart just enough to be read, each near the end of its line. */
function apart(ends) {
  const order = ends.map((_, place) => place).sort((one, other) => ends[one] - ends[other]);
  const groups = [];
  for (const place of order) {
    groups.push({ members: [place], centre: ends[place] });
    while (groups.length > 1 && overlap(groups.at(-2), groups.at(-1))) {
      const [upper, lower] = groups.splice(-2);
      const members = [...upper.members, ...lower.members];
      groups.push({ members, centre: members.reduce((sum, member) => sum + ends[member], 0) / members.length });
    }
  }
  const places = [];
  for (const { members, centre } of groups) {
    members.forEach((member, rank) => (places[member] = centre + (rank - (members.length - 1) / 2) * LABEL_GAP));
  }
  return places;
}

function overlap(upper, lower) {
  return lower.centre - upper.centre < ((upper.members.length + lower.members.length) / 2) * LABEL_GAP;
}

function table(results, { title, shown }) {
  const models = Object.keys(results.models);
  return element("table", {},
    element("caption", {}, `${title} by number of events known`),
    element("thead", {},
      element("tr", {}, ...["events", ...models].map((head) => element("th", { scope: "col" }, head))),
    ),
    element("tbody", {}, ...results.sizes.map((size) => element("tr", {},
      element("th", { scope: "row" }, `${size}`),
      ...models.map((model) => element("td", {}, shown[model][size] ?? "–")),
    ))),
  );
}

attempt(at("problem"), start);

import { element } from "./elements.js";
import { valuesOf } from "./items.js";

export const TOP = 10;
const SAID = 5; // values that are counted

/** The field by which the first items are counted: with several values per item if there is one, else with the fewest. */
export function fieldToCount(model) {
  const several = (field) => Number(field.kind !== "multi");
  return model.fields
    .filter((field) => field.role === "item" && field.name !== model.item && field.kind !== "numeric")
    .sort((one, other) => several(one) - several(other) || one.values.length - other.values.length)[0]?.name;
}

/** What fills the top of the ranking now, next to the top without any event. Each is a list of the items' fields. */
export function mixOf(name, now, before) {
  const counts = (items) => {
    const found = new Map();
    for (const fields of items) for (const value of valuesOf(fields[name])) found.set(value, (found.get(value) ?? 0) + 1);
    return found;
  };
  const [present, past] = [counts(now), counts(before)];
  const gain = (value) => (present.get(value) ?? 0) - (past.get(value) ?? 0);
  return [...new Set([...present.keys(), ...past.keys()])]
    .map((value) => ({ value, count: present.get(value) ?? 0, gain: gain(value) }))
    .sort((one, other) => other.count - one.count || other.gain - one.gain)
    .slice(0, SAID);
}

export function showMix(place, name, mix) {
  place.hidden = !mix.length;
  if (!mix.length) return;
  place.replaceChildren(
    element("p", {}, `${name} in the top ${TOP}`),
    element("ul", {}, ...mix.map(({ value, count, gain }) =>
      element("li", { "data-value": value, "data-count": count },
        `${value} `, element("b", {}, `${count}`),
        ...(gain ? [
          element("span", { className: gain > 0 ? "up" : "down", "aria-hidden": "true" }, gain > 0 ? ` ▲${gain}` : ` ▼${-gain}`),
          element("span", { className: "unseen" }, `, ${count - gain} without your events`),
        ] : []),
      ))),
  );
}

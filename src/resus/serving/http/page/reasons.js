import { valuesOf } from "./items.js";

const NAMED = 3; // values of a field that are named

/**
 * A cause as a person would say it. `who` is "you" or "they". The entry holds the `fields` of its item, the `whole` row
 * with those of the situation, and in `met` the labels and fields of the events that count.
 */
export function inWords({ cause, part }, { fields, whole, met }, who) {
  const raises = part > 0;
  const whose = who === "you" ? "your" : "their";
  switch (cause) {
    case "generosity":
      return `${who} rate ${raises ? "generously" : "strictly"}`;
    case "this very item":
      return `${who} ${raises ? "liked" : "disliked"} this very item`;
    case "taste":
      return raises ? `${whose} taste` : `not ${whose} taste`;
    case "choice of items":
      return `${raises ? "goes with" : "does not go with"} the items ${who} chose`;
    case "same context":
      return `${who} ${raises ? "like" : "dislike"} items in this situation`;
    case "number of events":
      return `${whose} number of events`;
  }
  const name = cause.match(/^same (.+)$/s)?.[1];
  if (name === undefined) return cause;
  const opinion = met.filter(({ label }) => label === Number(raises));
  const shared = sharedValues(whole[name], name, opinion);
  const values = (shared.length > NAMED ? [...shared.slice(0, NAMED), "…"] : shared).join(", ");
  const said = name in fields ? `same ${name} as ${who} ${raises ? "liked" : "disliked"}` : `same ${name}`;
  return values ? `${said}: ${values}` : said;
}

/** Those values of the candidate that some of the events have, too. */
function sharedValues(value, name, met) {
  const others = new Set(met.flatMap(({ fields }) => valuesOf(fields[name])));
  return valuesOf(value).filter((one) => others.has(one));
}

const known = new Map(); // item → {title, fields}

/** Keep what an answer says of items; their ids, in the same order. */
export function remember(answers) {
  for (const { item, title, fields } of answers) {
    known.set(item, { title: title ?? `item ${item}`, fields: fields ?? known.get(item)?.fields ?? {} });
  }
  return answers.map(({ item }) => item);
}

export const titleOf = (item) => known.get(item)?.title ?? `item ${item}`;

export const fieldsOf = (item) => known.get(item)?.fields ?? {};

/** The value of a field as a list of texts: a film has several genres, and one year. */
export function valuesOf(value) {
  if (value === null || value === undefined) return [];
  return (Array.isArray(value) ? value : [value]).filter((one) => one !== null).map((one) => `${one}`);
}

/** The fields of an item in words; a bare number needs the name of its field. */
export function described(fields) {
  return Object.entries(fields).map(([name, value]) => {
    const text = valuesOf(value).join(", ");
    return /\p{L}/u.test(text) ? text : `${name} ${text}`;
  }).join(" · ");
}

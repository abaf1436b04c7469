/** An HTML element: what it knows as a property is set as one, the rest (`aria-…`, `data-…`) as attributes. */
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** An SVG element. */
export function drawn(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A number with its sign and a true minus. */
export function signed(value) {
  return (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);
}

export function counted(count, noun) {
  return `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A whole number with its thousands apart. */
export function grouped(count) {
  return count.toLocaleString("en");
}

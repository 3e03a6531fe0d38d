// Elements are made here, and texts enter them as texts: names and reasons come from outside.

import { t } from "./texts.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** An HTML element. `text` is its text, `onclick` a listener, all others attributes. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same of SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Roles of readers; each may do what those before it may. */
const ROLES = ["view", "operate", "edit"];

/** Whether the reader may do what needs a role. All is shown until the engine has named the role; it refuses what is not allowed. */
export const may = (role) => ROLES.indexOf(document.body.dataset.role ?? "edit") >= ROLES.indexOf(role);

export const byId = (id) => document.getElementById(id);

/** Sets a text where it is another one: what is selected stays selected. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A table: `columns` are `[heading, meaning, class]`, which are translated; cells are texts or elements. */
export function table(columns, rows) {
  const head = columns.map(([text, title, words]) =>
    el("th", { text: t(text), title: title && t(title), scope: "col", class: words ? "words" : undefined }));
  const cell = (value, column) => {
    const attributes = { class: columns[column][2] || undefined };
    return value instanceof Node ? el("td", attributes, value) : el("td", { ...attributes, text: value });
  };
  const body = rows.map((row) => el("tr", {}, ...row.map(cell)));
  return el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
}

/** Puts a table in the place of the one before, where it differs. */
export function replaceTable(place, columns, rows) {
  const next = table(columns, rows);
  if (!place.firstChild || !place.firstChild.isEqualNode(next)) place.replaceChildren(next);
}

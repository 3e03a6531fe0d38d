// Texts of the page in the language of its reader. The English text is the key.

import { DE } from "./de.js";

const KEY = "weir-language";
/** Languages by their code: their own name, and their texts by the English ones. */
const LANGUAGES = { en: { name: "English", texts: {} }, de: { name: "Deutsch", texts: DE } };

function chosen() {
  let stored = null;
  try { stored = localStorage.getItem(KEY); } catch { /* The browser keeps nothing: its own language is used. */ }
  const wanted = [stored, ...navigator.languages.map((tag) => tag.split("-")[0])];
  return wanted.find((code) => Object.hasOwn(LANGUAGES, code)) ?? "en";
}

/** Code of the language of the page, such as `de`. */
export const language = chosen();

/** Locale of dates and numbers: that of the browser if it is of this language. */
export const locale = navigator.languages.find((tag) => tag.split("-")[0] === language) ?? language;

/** A text in the language of the page; `{name}` stands for `values.name`. A missing text stays English. */
export function t(text, values = {}) {
  const texts = LANGUAGES[language].texts;
  const found = Object.hasOwn(texts, text) ? texts[text] : text;
  return found.replace(/\{(\w+)\}/g, (place, name) => (Object.hasOwn(values, name) ? String(values[name]) : place));
}

/** Texts as sentences, each with its full stop; empty ones are left out. */
export const sentences = (...parts) => parts.filter(Boolean).map((part) => (/[.?!]$/.test(part) ? part : `${part}.`)).join(" ");

/** Choices of a control: `[code, name]`. */
export const languages = () => Object.entries(LANGUAGES).map(([code, { name }]) => [code, name]);

/** Keeps the choice and loads the page again, where it stands. */
export function setLanguage(code) {
  try { localStorage.setItem(KEY, code); } catch { return; }
  location.reload();
}

const ATTRIBUTES = ["title", "aria-label", "placeholder", "alt"];

/** Translates the texts that `index.html` has under an element. */
export function translate(root) {
  document.documentElement.lang = language;
  if (language === "en") return;
  const nodes = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const { data } = nodes.currentNode;
    const text = data.trim().replace(/\s+/g, " ");
    if (text) nodes.currentNode.data = data.replace(data.trim(), () => t(text));
  }
  for (const name of ATTRIBUTES) {
    for (const node of root.querySelectorAll(`[${name}]`)) node.setAttribute(name, t(node.getAttribute(name)));
  }
}

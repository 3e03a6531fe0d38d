// Part Text of the view Edit: the graph file as text, with line numbers, problems at their lines, keys to choose from, and a search.

import { graphSchema } from "./api.js";
import { el, setText } from "./dom.js";
import { t } from "./texts.js";

/** Keys that are offered at a time. */
const MAX_KEYS = 14;

/** Tables of the schema by the names of their section in the text. */
const SECTIONS = {
  cameras: "camera", sources: "source", models: "model", modules: "module", transforms: "transform", sinks: "sink",
  devices: "device", workers: "worker", defaults: "defaults", app: "app", policy: "policy",
};
/** Tables within a camera that are lists of named tables. */
const PARTS = ["zones", "lines", "rules"];

/** The names of a header: `[sinks."a.b"]` is `["sinks", "a.b"]`. */
const names = (header) => [...header.matchAll(/"([^"]*)"|'([^']*)'|([\w-]+)/g)].map(([, a, b, c]) => a ?? b ?? c);

/** Keys that the section around a place may have, by the schema: `[[name, meaning]]`. */
export function keysAt(schema, text, at) {
  const lines = text.slice(0, at).split("\n");
  const from = lines.findLastIndex((line) => /^\s*\[[^\[]/.test(line));
  if (from < 0) return [];
  const path = names(lines[from].split("#")[0]);
  const rest = text.slice(lines.slice(0, from + 1).join("\n").length + 1);
  const end = rest.search(/^\s*\[/m);
  const body = end < 0 ? rest : rest.slice(0, end);
  const resolve = (node) => (node?.$ref ? schema.definitions?.[node.$ref.split("/").at(-1)] : node);
  let table = schema.definitions?.[SECTIONS[path[0]]];
  if (path[0] === "cameras" && path.length > 2 && PARTS.includes(path[2])) {
    const parts = resolve(table?.properties?.[path[2]]?.additionalProperties);
    table = path.length > 3 ? (parts?.anyOf ?? [parts]).map(resolve).find((one) => one?.properties) : undefined;
  }
  if (table?.oneOf) {
    const kind = /^\s*(?:type|operator)\s*=\s*["']([^"']+)["']/m.exec(body)?.[1];
    const variants = table.oneOf.map(resolve);
    const is = ({ properties }) => [properties?.type?.const, properties?.operator?.const].includes(kind);
    table = variants.find(is) ?? { properties: Object.assign({}, ...variants.map(({ properties }) => properties)) };
  }
  const there = new Set([...body.matchAll(/^\s*([\w-]+)\s*[=.]/gm)].map(([, key]) => key));
  return Object.entries(table?.properties ?? {}).filter(([key]) => !there.has(key)).map(([key, { description = "" }]) => [key, description]);
}

export class TextPane {
  #schema = null;
  #findings = [];
  #lines = 0;

  constructor(host) {
    this.host = host;
    this.area = el("textarea", {
      id: "edit-text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-label": t("Text of the graph file"),
      oninput: () => { host.type(this.area.value); this.#number(); this.#offer(); },
      onscroll: () => { this.gutter.scrollTop = this.area.scrollTop; },
    });
    this.gutter = el("div", { class: "edit-gutter", "aria-hidden": "true" });
    this.find = el("input", { type: "search", placeholder: t("Find"), "aria-label": t("Find in the text"), onkeydown: (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.#search(event.shiftKey);
    } });
    this.keys = el("div", { class: "edit-keys", role: "group", "aria-label": t("Keys that fit here") });
    this.root = el("div", { class: "edit-text-pane" },
      el("div", { class: "edit-tools" }, this.find,
        el("button", { type: "button", text: t("Find previous"), onclick: () => this.#search(true) }),
        el("button", { type: "button", text: t("Find next"), onclick: () => this.#search(false) }),
        el("span", { class: "hint", text: t("Ctrl+Space goes to the keys that fit here.") })),
      el("div", { class: "edit-editor" }, this.gutter, this.area), this.keys);
    for (const event of ["keyup", "click", "focus"]) this.area.addEventListener(event, () => this.#offer());
    this.area.addEventListener("keydown", (event) => this.#onKey(event));
    this.keys.addEventListener("keydown", (event) => { if (event.key === "Escape") this.area.focus(); });
  }

  async shown() {
    this.#number();
    if (this.#schema) return;
    try {
      this.#schema = await graphSchema();
      this.#offer();
    } catch { /* No keys are offered. */ }
  }

  update(_, text, findings) {
    this.#findings = findings;
    if (this.area.value !== text) {
      const { selectionStart, selectionEnd, scrollTop } = this.area;
      this.area.value = text;
      this.area.setSelectionRange(selectionStart, selectionEnd);
      this.area.scrollTop = scrollTop;
    }
    this.#number();
  }

  /** Selects a line, counted from 1. */
  goto(line) {
    const lines = this.area.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
    this.#select(start, start + (lines[line - 1]?.length ?? 0));
  }

  #select(start, end) {
    this.area.focus();
    this.area.setSelectionRange(start, end);
    const line = this.area.value.slice(0, start).split("\n").length;
    const height = this.area.scrollHeight / Math.max(1, this.area.value.split("\n").length);
    this.area.scrollTop = Math.max(0, line * height - this.area.clientHeight / 2);
  }

  #number() {
    const count = this.area.value.split("\n").length;
    const marks = new Map(this.#findings.filter(({ line }) => line > 0).map((finding) => [finding.line, finding]).reverse());
    const key = `${count} ${[...marks].map(([line, { severity }]) => `${line}${severity}`)}`;
    if (key === this.#lines) return;
    this.#lines = key;
    this.gutter.replaceChildren(...Array.from({ length: count }, (_, index) => {
      const found = marks.get(index + 1);
      return el("span", { class: found?.severity, title: found?.message, text: String(index + 1) });
    }));
    this.gutter.scrollTop = this.area.scrollTop;
  }

  #search(backwards) {
    const wanted = this.find.value.toLowerCase();
    if (!wanted) return;
    const text = this.area.value.toLowerCase();
    const { selectionStart, selectionEnd } = this.area;
    const before = selectionStart > 0 ? text.lastIndexOf(wanted, selectionStart - 1) : -1;
    const next = backwards ? before : text.indexOf(wanted, selectionEnd);
    const at = next >= 0 ? next : backwards ? text.lastIndexOf(wanted) : text.indexOf(wanted);
    if (at < 0) return this.host.app.say(t("Not found: {text}", { text: this.find.value }));
    this.#select(at, at + wanted.length);
  }

  #onKey(event) {
    if (event.ctrlKey && event.key === " ") {
      event.preventDefault();
      this.#offer();
      this.keys.querySelector("button")?.focus();
    } else if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f") {
      event.preventDefault();
      this.find.focus();
    }
  }

  /** Offers the keys of the section that begin with the word before the cursor. */
  #offer() {
    if (!this.#schema) return;
    const at = this.area.selectionStart;
    const line = this.area.value.slice(0, at).split("\n").at(-1);
    const begun = /^\s*([\w-]*)$/.exec(line);
    const all = begun ? keysAt(this.#schema, this.area.value, at).filter(([key]) => key.startsWith(begun[1]) && key !== begun[1]) : [];
    const buttons = all.slice(0, MAX_KEYS).map(([key, about]) => el("button", {
      type: "button", class: "small", title: about, text: key, onclick: () => this.#insert(at - begun[1].length, at, `${key} = `),
    }));
    const about = all.length === 1 ? el("span", { class: "hint", text: all[0][1] }) : "";
    this.keys.replaceChildren(...buttons, about);
    if (!buttons.length) setText(this.keys, "");
  }

  #insert(start, end, text) {
    this.area.setRangeText(text, start, end, "end");
    this.host.type(this.area.value);
    this.#number();
    this.area.focus();
  }
}

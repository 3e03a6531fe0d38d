// Filters of incidents and of the search: a form, whose values are parameters of the address.

import { el } from "./dom.js";
import { t } from "./texts.js";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const PERIODS = { hour: HOUR_MS, day: DAY_MS, week: 7 * DAY_MS };
/** Parameters that are filters of the engine: the name in the address, and that of the API. */
const NAMED = { camera: "stream", class: "class", zone: "zone", rule: "rule", text: "text", seen: "seen", pinned: "pinned" };
/** Time without a key after which a text is looked for. */
const TYPED_MS = 400;

/** The range of time that parameters name, or the usual one; `null` for all. */
export function range(params, now, usual = "day") {
  const last = params.get("last") ?? usual;
  const [from, to] = [Date.parse(params.get("from")), Date.parse(params.get("to"))];
  if (from < to) return { from, to, isPast: true };
  if (last === "all") return null;
  return { from: now - (PERIODS[last] ?? DAY_MS), to: now, isPast: false };
}

/** The query of a list by the parameters of the address; `named` has their names in the API, and `usual` is the period without one. */
export function query(params, now, named = NAMED, usual = "day") {
  const asked = {};
  for (const [name, of] of Object.entries(named)) {
    if (params.get(name)) asked[of] = params.get(name);
  }
  const times = range(params, now, usual);
  if (times) asked.from = Math.floor(times.from);
  // The clock of the engine says when now is.
  if (times?.isPast) asked.to = Math.ceil(times.to);
  return asked;
}

/** Choices of names, with the text that stands for all of them. */
const CHOICES = {
  camera: () => t("All cameras"),
  class: () => t("All classes"),
  zone: () => t("All zones"),
  rule: () => t("All rules"),
};

/** The day of a time, as a field of type date has it. */
function localDay(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, "0")}-${String(at.getDate()).padStart(2, "0")}`;
}

export class Filters {
  #params = new URLSearchParams();
  #typed = 0;

  /**
   * `changed(params)` is called where a reader chooses. `choices` are names that may be chosen, `usual` is the period without one,
   * `flags` those of incidents; `placeholder` and `label` are words for the text, which is first where it is what is asked for.
   */
  constructor(changed, {
    choices = Object.keys(CHOICES), usual = "day", flags = true, isTextFirst = false,
    placeholder = t("Plate, name, number"), label = t("Find in plates, names and attributes"),
  } = {}) {
    [this.changed, this.usual] = [changed, usual];
    this.choices = Object.fromEntries(choices.map((name) => [name, this.#choice(name, CHOICES[name]())]));
    this.period = el("select", { "aria-label": t("Time"), onchange: () => this.#set({ last: this.period.value, from: "", to: "" }) },
      ...[["hour", t("Last hour")], ["day", t("Last 24 hours")], ["week", t("Last 7 days")], ["all", t("Any time")]].map(([value, text]) => el("option", { value, text })),
      this.chosen = el("option", { value: "", text: t("Chosen time"), hidden: "" }));
    this.date = el("input", { type: "date", "aria-label": t("Day"), onchange: () => this.#setDay() });
    this.text = el("input", {
      type: "search", placeholder, "aria-label": label, maxlength: 100,
      oninput: () => { clearTimeout(this.#typed); this.#typed = setTimeout(() => this.#set({ text: this.text.value.trim() }), TYPED_MS); },
    });
    const flag = (name, text, on) => {
      const button = el("button", { type: "button", text, "aria-pressed": "false", onclick: () => this.#set({ [name]: button.ariaPressed === "true" ? "" : on }) });
      return button;
    };
    this.flags = flags ? { seen: flag("seen", t("Unseen"), "false"), pinned: flag("pinned", t("Pinned"), "true") } : {};
    this.reset = el("button", { type: "button", text: t("Clear filters"), onclick: () => this.changed(new URLSearchParams()) });
    const times = [...Object.values(this.choices), this.period, this.date];
    this.root = el("div", { class: "incident-filters", role: "search", "aria-label": t("Filters") },
      ...(isTextFirst ? [this.text, ...times] : [...times, this.text]), ...Object.values(this.flags), this.reset);
  }

  #choice(name, all) {
    return el("select", { "aria-label": all, onchange: (event) => this.#set({ [name]: event.target.value }) }, el("option", { value: "", text: all }));
  }

  /** Changes parameters; empty ones are left out, and an incident that is open closes. */
  #set(values) {
    const params = new URLSearchParams(this.#params);
    params.delete("id");
    for (const [name, value] of Object.entries(values)) {
      if (value) params.set(name, value);
      else params.delete(name);
    }
    if (params.get("last") === this.usual) params.delete("last");
    this.changed(params);
  }

  #setDay() {
    const from = new Date(`${this.date.value}T00:00`);
    if (Number.isNaN(from.getTime())) return;
    const to = new Date(from);
    to.setDate(to.getDate() + 1);
    this.setRange(from.getTime(), to.getTime());
  }

  /** Chooses a range of time, in milliseconds. */
  setRange(from, to) {
    this.#set({ last: "", from: new Date(from).toISOString(), to: new Date(to).toISOString() });
  }

  /** Shows the parameters of the address. */
  show(params) {
    this.#params = params;
    for (const [name, select] of Object.entries(this.choices)) this.#select(select, params.get(name) ?? "");
    const times = range(params, Date.now(), this.usual);
    this.chosen.hidden = !times?.isPast;
    this.period.value = times?.isPast ? "" : params.get("last") ?? this.usual;
    this.date.value = times?.isPast ? localDay(times.from) : "";
    if (document.activeElement !== this.text) this.text.value = params.get("text") ?? "";
    for (const [name, on] of [["seen", "false"], ["pinned", "true"]]) {
      if (this.flags[name]) this.flags[name].ariaPressed = String(params.get(name) === on);
    }
    this.reset.hidden = ![...params.keys()].some((name) => name !== "id");
  }

  #select(select, value) {
    if (![...select.options].some((option) => option.value === value)) select.append(el("option", { value, text: value }));
    select.value = value;
  }

  /** Offers the names that incidents have. */
  offer({ streams, classes, zones, rules }) {
    const offered = { camera: streams, class: classes, zone: zones, rule: rules };
    for (const [name, select] of Object.entries(this.choices)) {
      const names = offered[name] ?? [];
      const known = new Set([...select.options].map((option) => option.value));
      select.append(...names.filter((name) => !known.has(name)).map((name) => el("option", { value: name, text: name })));
      // A graph without zones needs no choice of them.
      select.hidden = select.options.length === 1;
    }
  }
}

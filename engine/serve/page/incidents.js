// The view Incidents: what happened, by filters, in groups and over time.

import { changeIncident, incident as askIncident, incidents as askIncidents } from "./api.js";
import { el, may, setText } from "./dom.js";
import { IncidentDialog } from "./incident_dialog.js";
import { Filters, query, range } from "./incident_filters.js";
import { Row } from "./incident_row.js";
import { BINS, Strip } from "./incident_strip.js";
import { groups } from "./incident_words.js";
import { locale, t } from "./texts.js";

/** Incidents of a request, groups that fill a page, and requests for one page of a busy rule. */
const LIMIT = 200;
const PAGE_GROUPS = 24;
const MAX_REQUESTS = 5;
/** Incidents that are listed; older ones are found by their time. */
const MAX_LISTED = 3000;
/** A clip is complete some time after its incident is over, and time goes on: the list is asked for again. */
const REFRESH_MS = 15_000;

export class Incidents {
  #params = new URLSearchParams();
  #listed = new Map();
  #rows = new Map();
  #next = null;
  #asked = null;
  #version = 0;
  #number = 0;
  #at = 0;

  constructor(root, app) {
    [this.root, this.app] = [root, app];
    this.filters = new Filters((params) => this.#go(params));
    this.strip = new Strip((from, to) => this.filters.setRange(from, to), (id) => this.#open(id));
    this.dialog = new IncidentDialog({
      pin: (incident) => this.#pin(incident),
      move: (direction) => this.#move(direction),
      closed: () => this.#closed(),
      say: (text) => app.say(text),
    });
    this.count = el("span", { class: "count", role: "status" });
    this.kept = el("p", { class: "hint", hidden: "" });
    this.list = el("ol", { class: "incident-list", "aria-label": t("Incidents") });
    this.empty = el("p", { class: "nothing", hidden: "" });
    this.more = el("button", { type: "button", text: t("Older incidents"), hidden: "", onclick: () => this.#load(true) });
    root.append(
      el("div", { class: "title" }, el("h2", { text: t("Incidents") }), this.count),
      this.filters.root, this.strip.root, this.kept, this.list, this.empty, el("div", { class: "more" }, this.more), this.dialog.root);
    this.list.addEventListener("keydown", (event) => this.#onKey(event));
  }

  show(params) {
    this.#params = params;
    this.filters.show(params);
    const filter = new URLSearchParams(params);
    filter.delete("id");
    if (this.#asked !== String(filter)) {
      this.#asked = String(filter);
      this.#load(false);
    } else {
      this.#refreshIfDue();
    }
    const id = params.get("id");
    if (id && this.dialog.id !== id) this.#showIncident(id);
    else if (!id && this.dialog.root.open) this.dialog.root.close();
  }

  hide() {
    if (this.dialog.root.open) this.dialog.root.close();
  }

  update(state) {
    if (state.incidents !== this.#version) this.#at = 0;
    this.#version = state.incidents;
    this.dialog.hasRecordings = state.sinks.some(({ type }) => type === "archive");
    this.dialog.hasSearch = state.sinks.some(({ type }) => type === "search");
    if (!this.root.hidden) this.#refreshIfDue();
  }

  #refreshIfDue() {
    const isPast = range(this.#params, Date.now())?.isPast;
    if (this.#at === 0 || (!isPast && performance.now() - this.#at > REFRESH_MS)) this.#load(false, true);
  }

  #go(params) {
    const text = String(params);
    this.app.go(text ? `incidents?${text}` : "incidents");
  }

  #open(id) {
    const params = new URLSearchParams(this.#params);
    params.set("id", id);
    this.#go(params);
  }

  #closed() {
    if (this.root.hidden || !this.#params.has("id")) return;
    const id = this.#params.get("id");
    const params = new URLSearchParams(this.#params);
    params.delete("id");
    this.#go(params);
    this.list.querySelector(`[data-id="${CSS.escape(id)}"]`)?.focus();
  }

  /** Asks for incidents: the newest, or with `isOlder` those that follow; with `isRefresh` those listed stay. */
  async #load(isOlder, isRefresh = false) {
    const number = ++this.#number;
    const now = Date.now();
    this.#at = performance.now();
    const asked = { ...query(this.#params, now), limit: LIMIT };
    let before = isOlder ? this.#next : null;
    if (!isOlder && asked.from !== undefined) asked.bins = BINS;
    const before_groups = isOlder ? this.#rows.size : 0;
    try {
      for (let requests = 0; requests < MAX_REQUESTS; requests++) {
        const list = await askIncidents(before ? { ...asked, before } : asked);
        if (number !== this.#number) return;
        const isFirst = !isOlder && requests === 0;
        const overlaps = list.incidents.some(({ id }) => this.#listed.has(id));
        if (isFirst && (!isRefresh || !overlaps)) this.#listed.clear();
        for (const incident of list.incidents) this.#listed.set(incident.id, incident);
        const keepsNext = isFirst && isRefresh && overlaps;
        if (!keepsNext) this.#next = list.next ?? null;
        if (isFirst) this.#showList(list, range(this.#params, now));
        this.#draw();
        before = list.next;
        delete asked.bins;
        if (keepsNext || !before || this.#rows.size >= before_groups + PAGE_GROUPS) break;
      }
    } catch (error) {
      if (number !== this.#number) return;
      if (!this.#listed.size) {
        this.empty.hidden = false;
        setText(this.empty, error.message);
      }
    }
  }

  /** Shows what concerns the list as a whole. */
  #showList({ bins, to_ms, names, kept, incidents }, times) {
    this.filters.offer(names);
    this.strip.show(bins, { ...times, to: to_ms });
    const all = bins?.reduce((sum, { count }) => sum + count, 0);
    setText(this.count, all === undefined ? "" : t(all === 1 ? "1 incident" : "{count} incidents", { count: all.toLocaleString(locale) }));
    this.kept.hidden = !kept.why;
    setText(this.kept, t(kept.in === "none" ? "Incidents are kept until the engine ends: {why}." : "Incidents cannot be stored now: {why}.", { why: kept.why ?? "" }));
    this.empty.hidden = incidents.length > 0;
    const isFiltered = String(this.#params) !== "";
    setText(this.empty, isFiltered ? t("No incident meets these filters.") : t("No incident in the last 24 hours. Rules of the graph, such as lines and zones, report incidents."));
  }

  #draw() {
    const incidents = [...this.#listed.values()].sort((one, other) => other.began_ms - one.began_ms);
    for (const { id } of incidents.splice(MAX_LISTED)) this.#listed.delete(id);
    const all = groups(incidents);
    const shown = new Set(all.map((group) => group.at(-1).id));
    for (const [id, row] of this.#rows) {
      if (shown.has(id)) continue;
      row.root.remove();
      this.#rows.delete(id);
    }
    all.forEach((group, index) => {
      const id = group.at(-1).id;
      let row = this.#rows.get(id);
      if (!row) this.#rows.set(id, row = new Row((id) => this.#open(id)));
      row.update(group);
      if (this.list.children[index] !== row.root) this.list.insertBefore(row.root, this.list.children[index] ?? null);
    });
    this.more.hidden = !this.#next || this.#listed.size >= MAX_LISTED;
  }

  async #showIncident(id) {
    try {
      const incident = await askIncident(id);
      if (this.#params.get("id") !== id || this.root.hidden) return;
      this.dialog.show(incident);
      // A reader who may not mark incidents, or whose role is not known yet, sees them all the same.
      if (!incident.seen && may("operate")) await this.#mark(id, { seen: true }).catch(() => {});
    } catch (error) {
      this.app.say(error.message);
    }
  }

  async #mark(id, change) {
    const incident = await changeIncident(id, change);
    if (this.#listed.has(id)) {
      this.#listed.set(id, { ...this.#listed.get(id), ...incident });
      this.#draw();
    }
    if (this.dialog.id === id) this.dialog.show(incident);
  }

  async #pin({ id, pinned }) {
    // The key is there for all, the button is not.
    if (!may("operate")) return;
    try {
      await this.#mark(id, { pinned: !pinned });
      this.app.say(pinned ? t("The pin was taken off.") : t("The incident is pinned: it and its clip are kept."));
    } catch (error) {
      this.app.say(error.message);
    }
  }

  /** Opens the next incident in the list; -1 is the newer one. */
  #move(direction) {
    const ids = [...this.#listed.values()].sort((one, other) => other.began_ms - one.began_ms).map(({ id }) => id);
    const id = ids[ids.indexOf(this.dialog.id) + direction];
    if (id !== undefined) this.#open(id);
  }

  #onKey(event) {
    const card = event.target.closest("[data-id]");
    if (!card || event.ctrlKey || event.metaKey || event.altKey) return;
    const incident = this.#listed.get(card.dataset.id);
    if (event.key === "p" && incident) this.#pin(incident);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const cards = [...this.list.querySelectorAll("[data-id]")].filter((other) => other.offsetParent);
      cards[cards.indexOf(card) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    } else return;
    event.preventDefault();
  }
}

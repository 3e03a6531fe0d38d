// What each slot was busy with over the last seconds, and what shares and links are booked for, as a strip a lane.

import { timeline as askTimeline } from "./api.js";
import { byId, el, setText, svg } from "./dom.js";
import { ms, percent } from "./format.js";
import { t } from "./texts.js";

/** Between two questions, in milliseconds. */
const ASK_MS = 1000;
/** Seconds from now that bookings are shown for. */
const AHEAD_S = 1;
/** Strips on the page. */
const MAX_LANES = 24;
/** Modules beyond these have the colour of another one. */
const COLORS = 8;

const KINDS = { slot: "Batches that ran on it", share: "Batches that are booked on it", link: "Transfers that are booked on it" };

export class TimelineView {
  #inSight = false;
  #asked = 0;

  constructor() {
    this.legend = el("div", { class: "legend" });
    this.lanes = el("div", { class: "lanes" });
    this.more = el("p", { class: "hint" });
    this.axis = el("p", { class: "axis lane-axis" }, el("span"), el("span", { text: t("now") }));
    byId("timeline").append(this.legend, this.lanes, this.axis, this.more);
    new IntersectionObserver(([entry]) => { this.#inSight = entry.isIntersecting; }).observe(byId("timeline-section"));
  }

  /** Asks while it is in sight. */
  async update() {
    const now = performance.now();
    if (!this.#inSight || now - this.#asked < ASK_MS - 100) return;
    this.#asked = now;
    try {
      this.#show(await askTimeline());
    } catch { /* Asked again with the next state. */ }
  }

  #show({ seconds, modules, lanes }) {
    const hasAhead = lanes.some(({ kind }) => kind !== "slot");
    const names = modules.map((name, index) => ({ name, index })).sort((a, b) => (a.name < b.name ? -1 : 1));
    const color = new Map(names.map(({ index }, place) => [index, `lane-${place % COLORS}`]));
    const square = (index) => svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { class: color.get(index), width: 10, height: 10 }));
    this.legend.replaceChildren(...names.map(({ name, index }) => el("span", {}, square(index), name)));
    const ahead = hasAhead ? AHEAD_S : 0;
    this.lanes.replaceChildren(...lanes.slice(0, MAX_LANES).map((lane) => this.#lane(lane, modules, color, seconds, ahead)));
    setText(this.axis.firstChild, t("{seconds} s ago", { seconds }));
    setText(this.axis.lastChild, hasAhead ? t("in {seconds} s", { seconds: AHEAD_S }) : t("now"));
    const left = lanes.length - MAX_LANES;
    setText(this.more, !lanes.length ? t("No batch has run in the last seconds.") : left > 0 ? t("{count} more are not shown.", { count: left }) : "");
  }

  #lane({ kind, name, spans }, modules, color, seconds, ahead) {
    const width = 100 * (seconds + ahead);
    const rects = spans.map(([module, from, takes, items]) => {
      const x = Math.max(0, 100 * (from + seconds));
      const end = Math.min(width, 100 * (from + takes + seconds));
      return svg("rect", { class: color.get(module), x: x.toFixed(1), width: Math.max(0.3, end - x).toFixed(1), height: 14 },
        svg("title", { text: t("{module}: {items} items, {time}", { module: modules[module], items, time: ms(1000 * takes) }) }));
    });
    const marks = ahead ? [svg("path", { class: "now", d: `M${100 * seconds} 0V14` })] : [];
    const busy = spans.reduce((sum, [, from, takes]) => sum + Math.max(0, Math.min(0, from + takes) - Math.max(-seconds, from)), 0);
    const share = percent(Math.min(1, busy / seconds));
    const strip = svg("svg", { viewBox: `0 0 ${width} 14`, preserveAspectRatio: "none", role: "img", "aria-label": t("{name}: {share} of the last {seconds} s", { name, share, seconds }) },
      svg("rect", { class: "track", width, height: 14 }), ...rects, ...marks);
    return el("div", { class: "lane", title: t(KINDS[kind]) }, el("span", { class: "lane-name", text: name }), strip, el("span", { class: "lane-share", text: share }));
  }
}

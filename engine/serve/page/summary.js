// Figures of all cameras together.

import { byId, el, setText } from "./dom.js";
import { count, ms, percent, rate } from "./format.js";
import { perSecond } from "./history.js";
import { t } from "./texts.js";

const FIGURES = [
  ["goodput", "Goodput", "frames/s", "Frames per second that were delivered within their latency objective, over the last ten seconds; beside it, since the start, as a share of the goodput that ideal use of the processor would allow"],
  ["arrived", "Arrived", "frames/s", "Frames per second that arrived from all cameras, over the last ten seconds"],
  ["dropRate", "Drop rate", "", "Frames that were dropped or late, of those that arrived, over the last ten seconds"],
  ["latency", "p95 latency", "", "From arrival to delivery: 95 of 100 frames took less, since the start"],
  ["flight", "In flight", "frames", "Frames in the graph now"],
  ["wasted", "Wasted time", "", "Device time spent on frames that were not delivered, of all device time, since the start"],
];

/** Share of dropped and late frames from which on the page warns. */
export const OVERLOAD = 0.2;

/** Frames that were dropped or late of those that were to be looked at; `null` without any. */
export function dropShare(grown) {
  const wanted = grown ? grown.arrived - (grown.still ?? 0) : 0;
  return wanted > 0 ? Math.min(1, (grown.dropped + grown.late) / wanted) : null;
}

export class Summary {
  #parts = {};

  constructor() {
    for (const [key, label, unit, title] of FIGURES) {
      const [value, note] = [el("span", { class: "value" }), el("span", { class: "note" })];
      this.#parts[key] = { value, note };
      byId("summary").append(el("div", { title: t(title) }, el("dt", { text: t(label) }),
        el("dd", {}, value, el("span", { class: "unit", text: t(unit) }), note)));
    }
  }

  #set(key, value, note = "", tone = "") {
    const part = this.#parts[key];
    setText(part.value, value);
    setText(part.note, note);
    part.value.className = `value ${tone}`;
  }

  update(state, history) {
    const { report } = state;
    const grown = history.all();
    const lost = dropShare(grown);
    const done = report.requests.delivered + report.requests.late;
    const p95 = done ? report.latency_ms.p95 : null;
    const { efficiency } = report;
    const bound = efficiency ? t("{share} of the best", { share: percent(efficiency.of_bound) }) : "";
    this.#set("goodput", rate(perSecond(grown, "delivered")), efficiency?.dropping_s > 0 ? bound : "");
    this.#set("arrived", rate(perSecond(grown, "arrived")));
    this.#set("dropRate", percent(lost), "", lost > OVERLOAD ? "warn" : "");
    this.#set("latency", ms(p95), t("of {limit}", { limit: ms(state.slo_ms) }), p95 > state.slo_ms ? "bad" : "");
    this.#set("flight", count(report.requests.in_flight));
    this.#set("wasted", percent(report.invalid_rate));
  }
}

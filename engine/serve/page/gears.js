// Which gear of the plan was in force when, over the last two minutes, and how long each was since the start.

import { byId, el, setText, svg } from "./dom.js";
import { duration, percent } from "./format.js";
import { COURSE_S } from "./history.js";
import { t } from "./texts.js";

/** Lightness of a gear: the one for the lowest load is the faintest. */
const shade = (gear, count) => (count < 2 ? 1 : 0.3 + (0.7 * gear) / (count - 1));

export class Gears {
  constructor() {
    this.text = el("p");
    this.strip = svg("svg", { class: "strip", viewBox: `0 0 ${COURSE_S} 14`, preserveAspectRatio: "none", role: "img" });
    this.list = el("ul", { class: "legend" });
    byId("gears").append(this.text, this.strip, el("p", { class: "axis" }, el("span", { text: t("2 min ago") }), el("span", { text: t("now") })), this.list);
  }

  update(state, history) {
    const { gears } = state.report;
    byId("gears-section").hidden = !gears;
    if (!gears) return;
    const { seconds_by_gear: seconds, plan, shifts, accuracy_expected: accuracy } = gears;
    const spans = history.gears();
    const now = spans.at(-1)?.gear;
    const expected = accuracy === undefined ? "" : ` · ${t("expected accuracy {accuracy} since the start", { accuracy: percent(accuracy) })}`;
    setText(this.text, `${t("Gear {gear} of {all} · plan {plan} · {shifts} shifts since the start", {
      gear: now === undefined ? "–" : now + 1, all: seconds.length, plan, shifts,
    })}${expected}`);
    const rects = spans.map(({ from, to, gear }) => svg("rect", {
      class: "exec", x: (COURSE_S - from).toFixed(2), width: Math.max(0, from - to).toFixed(2), height: 14,
      "fill-opacity": shade(gear, seconds.length),
    }, svg("title", { text: t("gear {gear}", { gear: gear + 1 }) })));
    this.strip.replaceChildren(svg("rect", { class: "track", width: COURSE_S, height: 14 }), ...rects);
    this.strip.setAttribute("aria-label", now === undefined ? t("no gear yet") : t("gear {gear} is in force", { gear: now + 1 }));
    const all = seconds.reduce((sum, seconds) => sum + seconds, 0);
    const items = seconds.map((seconds, gear) => {
      const square = svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" },
        svg("rect", { class: "exec", width: 10, height: 10, "fill-opacity": shade(gear, gears.seconds_by_gear.length) }));
      return el("li", {}, square, t("gear {gear}: {time}, {share}", { gear: gear + 1, time: duration(seconds), share: percent(all > 0 ? seconds / all : 0) }));
    });
    this.list.replaceChildren(...items);
  }
}

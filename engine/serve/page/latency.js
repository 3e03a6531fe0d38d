// Where time goes in each module: one bar, of waiting for a batch, waiting with it, and running.

import { byId, el, setText, svg } from "./dom.js";
import { ms } from "./format.js";
import { ratio } from "./history.js";
import { t } from "./texts.js";

const PARTS = [
  ["queue", "Queue", "From entering the mailbox to joining a batch"],
  ["wait", "Batch wait", "From joining a batch to its start"],
  ["exec", "Execution", "The batch on its slot"],
];

/** A round number of milliseconds, not below `value`. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

class Bar {
  constructor(name) {
    this.values = el("span");
    this.parts = PARTS.map(([key, , title]) => svg("rect", { class: key, y: 0, height: 14 }, svg("title", { text: t(title) })));
    const track = svg("rect", { class: "track", width: 100, height: 14 });
    this.svg = svg("svg", { viewBox: "0 0 100 14", preserveAspectRatio: "none", role: "img" }, track, ...this.parts);
    this.root = el("div", {}, el("div", { class: "bar-head" }, el("strong", { text: name }), this.values), this.svg);
  }

  update(times, scale) {
    let x = 0;
    times.forEach((time, index) => {
      const width = (100 * (time ?? 0)) / scale;
      this.parts[index].setAttribute("x", x.toFixed(3));
      this.parts[index].setAttribute("width", width.toFixed(3));
      x += width;
    });
    const text = PARTS.map(([, label], index) => `${t(label)} ${ms(times[index])}`).join(" · ");
    setText(this.values, text);
    this.svg.setAttribute("aria-label", text);
  }
}

export class Latency {
  #bars = new Map();

  constructor() {
    const square = (key) => svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { class: key, width: 10, height: 10 }));
    const legend = PARTS.map(([key, label, title]) => el("span", { title: t(title) }, square(key), t(label)));
    this.scale = el("span");
    this.place = el("div", { class: "bars" });
    byId("latency").append(el("div", { class: "legend" }, ...legend, this.scale), this.place);
  }

  update(state, history) {
    const rows = state.modules.map(({ name }) => {
      const grown = history.module(name);
      const time = (part, by) => { const mean = ratio(grown, part, by); return mean === null ? null : 1000 * mean; };
      return [name, [time("queue_s", "requests"), time("batch_wait_s", "requests"), time("exec_s", "ended")]];
    });
    const sums = rows.map(([, times]) => times.reduce((sum, time) => sum + (time ?? 0), 0));
    const scale = roundUp(Math.max(1, ...sums));
    setText(this.scale, t("full width: {time}", { time: ms(scale) }));
    const names = new Set(rows.map(([name]) => name));
    for (const [name, bar] of this.#bars) {
      if (names.has(name)) continue;
      bar.root.remove();
      this.#bars.delete(name);
    }
    for (const [name, times] of rows) {
      if (!this.#bars.has(name)) {
        this.#bars.set(name, new Bar(name));
        this.place.append(this.#bars.get(name).root);
      }
      this.#bars.get(name).update(times, scale);
    }
  }
}

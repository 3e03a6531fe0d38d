// Frames of one camera that were not delivered of late: where, why, and what each would have needed and had.

import { streamDrops } from "./api.js";
import { byId, el, replaceTable, svg } from "./dom.js";
import { count, ms } from "./format.js";
import { locale, t } from "./texts.js";

/** Rows on the page. */
const MAX_SHOWN = 30;
/** Between two questions, in milliseconds. */
const ASK_MS = 2000;

const COLUMNS = [
  ["Frame", "Its number in its stream, and when it arrived, by the clock of this engine", "words"],
  ["Reason", "The reason for the drop, with the same name as in reports and metrics, and the module that dropped it, or the source", "words"],
  ["Needed, and had", "Estimates at the time of the drop: waiting, execution and everything after it; the mark is the time left until the deadline", "words wide"],
];

const PARTS = [["wait", "queue", "waiting"], ["execution", "exec", "execution"], ["downstream", "wait", "after it"]];

const time = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });

/** Their numbers: several that nothing else tells apart are one row. */
const frames = ({ frame, last_frame: last, count: all }) => (all > 1 ? `${frame} – ${last} (${count(all)})` : String(frame));

const twoLines = (text, below) => el("span", { text }, el("small", { text: below }));

/** What a frame would have needed as a bar, with a mark at what it had. */
function shortfall({ needed_ms: needed, remaining_ms: had }) {
  if (!needed) return el("span", { class: "unit", text: "–" });
  const sum = PARTS.reduce((sum, [key]) => sum + needed[key], 0);
  const scale = 100 / Math.max(sum, had, 0.1);
  let x = 0;
  const rects = PARTS.map(([key, style]) => {
    const width = needed[key] * scale;
    x += width;
    return svg("rect", { class: style, x: (x - width).toFixed(2), y: 2, width: width.toFixed(2), height: 6 });
  });
  const mark = svg("path", { class: "limit", d: `M${Math.min(99, Math.max(1, had * scale)).toFixed(2)} 0V10` });
  const parts = PARTS.filter(([key]) => needed[key] > 0).map(([key, , label]) => `${ms(needed[key])} ${t(label)}`).join(", ");
  const text = t("needed {needed} ({parts}), had {had}", { needed: ms(sum), parts, had: ms(had) });
  const bar = svg("svg", { class: "shortfall", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, ...rects, mark);
  return el("div", { title: text }, bar, el("small", { text }));
}

export class DroppedFrames {
  #inSight = false;
  #asked = 0;
  #names = "";

  constructor() {
    this.select = byId("dropped-of");
    new IntersectionObserver(([entry]) => { this.#inSight = entry.isIntersecting; }).observe(byId("dropped-section"));
    this.select.addEventListener("change", () => { this.#asked = 0; this.#ask(); });
  }

  /** Asks while it is in sight. */
  update(state) {
    const streams = state.streams.filter(({ requests }) => requests.dropped + requests.late > 0);
    byId("dropped-section").hidden = streams.length === 0;
    const names = JSON.stringify(streams.map(({ name }) => name));
    if (names !== this.#names) {
      this.#names = names;
      const chosen = this.select.value;
      this.select.replaceChildren(...streams.map(({ name }) => el("option", { text: name, value: name })));
      if (streams.some(({ name }) => name === chosen)) this.select.value = chosen;
    }
    if (this.#inSight && streams.length) this.#ask();
  }

  async #ask() {
    const [now, name] = [performance.now(), this.select.value];
    if (!name || now - this.#asked < ASK_MS) return;
    this.#asked = now;
    try {
      const drops = await streamDrops(name);
      if (name === this.select.value) this.#show(drops);
    } catch { /* Asked again with a state to come. */ }
  }

  #show(drops) {
    if (!drops.length) {
      byId("dropped").replaceChildren(el("p", { class: "nothing", text: t("No recent drops.") }));
      return;
    }
    replaceTable(byId("dropped"), COLUMNS, drops.slice(0, MAX_SHOWN).map((drop) => [
      twoLines(frames(drop), time.format(drop.time_ms)), twoLines(drop.reason, drop.module), shortfall(drop),
    ]));
  }
}

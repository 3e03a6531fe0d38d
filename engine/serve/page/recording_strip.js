// The timeline of one camera: what was recorded, its incidents, the marked range, and the time that is shown.

import { el, setText, svg } from "./dom.js";
import { locale, t } from "./texts.js";

const WIDTH = 1000;
const HEIGHT = 30;
const clock = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });

export const shownTime = (at) => clock.format(at);

/** Times below the timelines, from the begin of the window to its end. */
export function axis() {
  const labels = [0, 0.25, 0.5, 0.75, 1].map(() => el("span"));
  const format = new Intl.DateTimeFormat(locale, { weekday: "short", hour: "numeric", minute: "2-digit" });
  return {
    root: el("div", { class: "recording-axis", "aria-hidden": "true" }, ...labels),
    draw: (from, to) => labels.forEach((label, index) => setText(label, format.format(from + (index / 4) * (to - from)))),
  };
}

export class Strip {
  /** `seek(at)` is called for a chosen time, `choose(name, isOn)` where the camera is shown or no longer. */
  constructor(name, { seek, choose }) {
    this.name = name;
    this.check = el("input", { type: "checkbox", onchange: () => choose(name, this.check.checked) });
    this.drawn = svg("g");
    this.cursor = svg("path", { class: "cursor" });
    this.bar = svg("svg", { class: "bar", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" }, this.drawn, this.cursor);
    this.slider = el("div", {
      class: "recording-slider", role: "slider", tabindex: "0", "aria-label": t("Time of {name}", { name }),
      onkeydown: (event) => this.#onKey(event, seek),
    }, this.bar);
    this.note = el("span", { class: "note" });
    const label = el("label", { class: "camera" }, this.check, el("span", { text: name, dir: "auto" }));
    this.root = el("div", { class: "recording-strip" }, label, this.slider, this.note);
    this.#onPointer(seek);
  }

  #onPointer(seek) {
    const sought = (event) => {
      const { left, width } = this.slider.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - left) / width));
      seek(this.from + share * (this.to - this.from));
    };
    this.slider.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.slider.setPointerCapture(event.pointerId);
      sought(event);
    });
    this.slider.addEventListener("pointermove", (event) => {
      if (this.slider.hasPointerCapture(event.pointerId)) sought(event);
    });
  }

  #onKey(event, seek) {
    const step = (this.to - this.from) / 100;
    const targets = {
      ArrowLeft: this.at - step, ArrowDown: this.at - step, ArrowRight: this.at + step, ArrowUp: this.at + step,
      PageUp: this.at + 10 * step, PageDown: this.at - 10 * step, Home: this.from, End: this.to,
    };
    if (!(event.key in targets)) return;
    event.preventDefault();
    event.stopPropagation();
    seek(targets[event.key]);
  }

  #x(at) {
    return ((at - this.from) / (this.to - this.from)) * WIDTH;
  }

  #rect(from, to, attributes) {
    const [left, right] = [Math.max(0, this.#x(from)), Math.min(WIDTH, this.#x(to))];
    if (right <= 0 || left >= WIDTH) return [];
    return [svg("rect", { x: left.toFixed(2), width: Math.max(1, right - left).toFixed(2), ...attributes })];
  }

  /** Shows a window of time: segments that touch are one bar. */
  draw({ from, to, segments, incidents, marks, ticks, isOn, note }) {
    [this.from, this.to] = [from, to];
    this.check.checked = isOn;
    setText(this.note, note);
    const bars = [];
    for (const { from_ms, to_ms } of segments) {
      const last = bars.at(-1);
      if (last && from_ms - last.to < 3000) last.to = Math.max(last.to, to_ms);
      else bars.push({ from: from_ms, to: to_ms });
    }
    const nodes = bars.flatMap((bar) => this.#rect(bar.from, bar.to, { class: "recorded", y: 8, height: 14 }));
    if (marks) nodes.push(...this.#rect(marks[0], marks[1], { class: "marked", y: 2, height: HEIGHT - 4 }));
    nodes.push(...ticks.map((at) => svg("path", { class: "tick", d: `M${this.#x(at).toFixed(2)} ${HEIGHT - 6}v6` })));
    for (const { began_ms, time_ms, transform, class: name } of incidents) {
      const [rect] = this.#rect(began_ms, Math.max(time_ms, began_ms + (to - from) / 500), { class: "incident-mark", y: 0, height: 8 });
      if (!rect) continue;
      rect.append(svg("title"));
      rect.lastChild.textContent = `${transform}${name ? `: ${name}` : ""} – ${shownTime(began_ms)}`;
      nodes.push(rect);
    }
    this.drawn.replaceChildren(...nodes);
  }

  /** Shows the time of the clock. */
  point(at) {
    this.at = at;
    this.cursor.setAttribute("d", `M${this.#x(at).toFixed(2)} 0v${HEIGHT}`);
    this.slider.setAttribute("aria-valuemin", Math.round(this.from / 1000));
    this.slider.setAttribute("aria-valuemax", Math.round(this.to / 1000));
    this.slider.setAttribute("aria-valuenow", Math.round(at / 1000));
    this.slider.setAttribute("aria-valuetext", shownTime(at));
  }
}

// Incidents over time: bars by their number, with pictures above.

import { incidentPictureAddress } from "./api.js";
import { el, setText, svg } from "./dom.js";
import { shortTime } from "./incident_words.js";
import { locale, t } from "./texts.js";

/** Bars of a strip, and pictures above them where there is room: one for each so many bars. */
export const BINS = 96;
const PER_PICTURE = 8;
const HEIGHT = 32;

export class Strip {
  #bins = [];
  #range = null;

  /** `zoom(from, to)` is called for a range that a reader chooses, `open(id)` for a picture. */
  constructor(zoom, open) {
    [this.zoom, this.open] = [zoom, open];
    this.pictures = el("div", { class: "strip-pictures" });
    this.bars = svg("svg", { class: "strip-bars", viewBox: `0 0 ${BINS} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.bars.addEventListener("click", (event) => this.#onClick(event));
    this.axis = el("div", { class: "strip-axis", "aria-hidden": "true" }, ...[0, 1, 2, 3, 4].map(() => el("span")));
    this.root = el("div", { class: "incident-strip panel" },
      el("div", { class: "strip-row" },
        el("button", { type: "button", text: "‹", title: t("Earlier"), "aria-label": t("Earlier"), onclick: () => this.#shift(-1) }),
        el("div", { class: "strip-body" }, this.pictures, this.bars, this.axis),
        this.later = el("button", { type: "button", text: "›", title: t("Later"), "aria-label": t("Later"), onclick: () => this.#shift(1) })));
  }

  #shift(direction) {
    const { from, to } = this.#range;
    const by = direction * (to - from);
    this.zoom(from + by, to + by);
  }

  /** Zooms to the part of the strip around a click. */
  #onClick(event) {
    const { left, width } = this.bars.getBoundingClientRect();
    const { from, to } = this.#range;
    const slot = (to - from) / (BINS / PER_PICTURE);
    const at = Math.floor(((event.clientX - left) / width) * (BINS / PER_PICTURE));
    if (slot >= 60_000) this.zoom(from + at * slot, from + (at + 1) * slot);
  }

  show(bins, range) {
    this.root.hidden = !bins;
    if (!bins) return;
    [this.#bins, this.#range] = [bins, range];
    const most = Math.max(1, ...bins.map(({ count }) => count));
    const all = bins.reduce((sum, { count }) => sum + count, 0);
    this.bars.replaceChildren(...bins.flatMap(({ count }, index) => {
      if (!count) return [];
      const height = Math.max(2, (HEIGHT * count) / most);
      return [svg("rect", { x: index + 0.1, y: HEIGHT - height, width: 0.8, height }, svg("title", { text: `${shortTime(this.#time(index))}: ${count}` }))];
    }));
    this.bars.setAttribute("aria-label", t("{count} incidents from {from} to {to}", { count: all.toLocaleString(locale), from: shortTime(range.from), to: shortTime(range.to) }));
    this.later.disabled = range.to > Date.now() - 60_000;
    const labels = [...this.axis.children];
    labels.forEach((label, index) => setText(label, this.#label((index * BINS) / (labels.length - 1))));
    this.#showPictures();
  }

  #time(bin) {
    const { from, to } = this.#range;
    return from + (bin / BINS) * (to - from);
  }

  #label(bin) {
    const { from, to } = this.#range;
    const options = to - from > 2 * 86_400_000 ? { weekday: "short", day: "numeric" } : { hour: "numeric", minute: "2-digit" };
    return new Intl.DateTimeFormat(locale, options).format(this.#time(bin));
  }

  /** The newest picture of each part of the strip. */
  #showPictures() {
    const slots = Array.from({ length: BINS / PER_PICTURE }, (_, slot) => {
      const bins = this.#bins.slice(slot * PER_PICTURE, (slot + 1) * PER_PICTURE);
      return bins.map(({ picture }) => picture).findLast((id) => id !== undefined);
    });
    this.pictures.hidden = slots.every((id) => id === undefined);
    slots.forEach((id, slot) => {
      const known = this.pictures.children[slot];
      if (known && (known.dataset.id ?? "") === (id ?? "")) return;
      const label = t("Incident at {time}", { time: shortTime(this.#time(slot * PER_PICTURE)) });
      const next = id === undefined ? el("span") : el("button", { type: "button", class: "strip-picture", "data-id": id, "aria-label": label, onclick: () => this.open(id) },
        el("img", { src: incidentPictureAddress(id), alt: "", loading: "lazy" }));
      if (known) known.replaceWith(next);
      else this.pictures.append(next);
    });
  }
}

// Cameras as tiles.

import { byId, el, setText } from "./dom.js";
import { duration, ms, percent, rate } from "./format.js";
import { perSecond } from "./history.js";
import { shareBar, sparkline } from "./charts.js";

const STATES = {
  connecting: "The source is being opened, or its first frame has not arrived yet.",
  live: "Frames arrive.",
  stalled: "Connected, but no picture could be decoded; the source is being reopened.",
  waiting: "The connection was lost or could not be opened; retrying.",
  gone: "The source has ended. The camera stays listed until it is removed.",
  paused: "The source is closed until the camera is resumed.",
  removing: "Frames in flight are finished; then the camera is removed.",
};

const FIGURES = [
  ["arrived", "Arrived", "Frames per second that arrived from the camera, over the last ten seconds"],
  ["late", "Late", "Frames per second that were delivered after their deadline"],
  ["dropped", "Dropped", "Frames per second that were dropped before they were delivered"],
  ["latency", "p95 latency", "From arrival to delivery: 95 of 100 frames took less, since the start"],
];

/** Of the frames that ended. */
function deliveredShare(grown) {
  const ended = grown ? grown.delivered + grown.late + grown.dropped : 0;
  return ended > 0 ? grown.delivered / ended : null;
}

class Tile {
  constructor(stream, view, actions) {
    const { name, source } = stream;
    this.state = el("span", { class: "state" });
    this.reason = el("p", { class: "reason" });
    this.goodput = el("span", { class: "value" });
    this.share = el("span", { class: "unit" });
    this.course = sparkline(`Goodput of ${name} over the last two minutes`);
    this.bar = shareBar();
    this.figures = Object.fromEntries(FIGURES.map(([key]) => [key, el("dd")]));
    this.pause = el("button", { class: "small", type: "button", onclick: () => actions.toggle(this.name, this.isPaused) });
    this.larger = el("button", { class: "small", type: "button", text: "Enlarge", "aria-label": `Enlarge ${name}`, onclick: () => this.#enlarge() });
    const remove = el("button", {
      class: "small", type: "button", text: "Remove", "aria-label": `Remove ${name}`, onclick: () => actions.remove(this.name),
    });
    const figures = FIGURES.map(([key, text, title]) => el("div", { title }, el("dt", { text }), this.figures[key]));
    this.root = el("article", { class: "tile panel", "aria-label": name },
      el("div", { class: "tile-head" }, el("h3", { text: name, title: name }), this.state),
      view,
      this.reason,
      el("div", { class: "main-figure", title: "Frames per second that were delivered within their objective, over the last ten seconds" },
        el("div", {}, this.goodput, " ", this.share), this.course.root),
      this.bar.root,
      el("dl", { class: "figures" }, ...figures),
      el("p", { class: "source", text: source, title: source }),
      el("div", { class: "tile-foot" }, this.pause, this.larger, remove));
    this.name = name;
  }

  /** As wide as the page, or as the others are. */
  #enlarge() {
    const isLarge = this.root.classList.toggle("large");
    setText(this.larger, isLarge ? "Shrink" : "Enlarge");
    this.larger.setAttribute("aria-label", `${isLarge ? "Shrink" : "Enlarge"} ${this.name}`);
  }

  update(stream, report, history) {
    const { name, id, state, reason, for_s } = stream;
    this.name = name;
    this.isPaused = state === "paused";
    this.root.dataset.state = this.state.dataset.state = state;
    setText(this.state, `${state} ${duration(for_s)}`);
    this.state.title = STATES[state] ?? "";
    const why = reason ?? (state === "gone" ? STATES.gone : "");
    this.reason.hidden = !why;
    setText(this.reason, why);
    setText(this.pause, this.isPaused ? "Resume" : "Pause");
    this.pause.setAttribute("aria-label", `${this.isPaused ? "Resume" : "Pause"} ${name}`);
    this.pause.disabled = state === "gone" || state === "removing";
    const grown = history.stream(id);
    setText(this.goodput, rate(perSecond(grown, "delivered")));
    setText(this.share, `frames/s goodput, ${percent(deliveredShare(grown))}`);
    this.course.update(history.course((sample) => sample.streams.get(id)?.delivered));
    this.bar.update(grown);
    for (const key of ["arrived", "late", "dropped"]) setText(this.figures[key], `${rate(perSecond(grown, key))}/s`);
    const done = stream.requests.delivered + stream.requests.late;
    setText(this.figures.latency, done ? ms(report?.latency_ms.p95 ?? null) : "–");
  }
}

export class Tiles {
  #tiles = new Map();

  /** `actions` are `toggle(name, isPaused)` and `remove(name)`; `views` have the live video. */
  constructor(views, actions) {
    this.views = views;
    this.actions = actions;
  }

  update(state, history) {
    const place = byId("tiles");
    const ids = new Set(state.streams.map((stream) => stream.id));
    for (const [id, tile] of this.#tiles) {
      if (ids.has(id)) continue;
      tile.root.remove();
      this.views.remove(id);
      this.#tiles.delete(id);
    }
    for (const stream of state.streams) {
      let tile = this.#tiles.get(stream.id);
      if (!tile) {
        tile = new Tile(stream, this.views.add(stream.id, stream.name), this.actions);
        this.#tiles.set(stream.id, tile);
        place.append(tile.root);
      }
      tile.update(stream, state.report.streams[stream.name], history);
    }
    this.views.update(state);
    const live = state.streams.filter((stream) => stream.state === "live").length;
    setText(byId("streams-count"), state.streams.length ? `${live} of ${state.streams.length} live` : "");
    byId("no-streams").hidden = state.streams.length > 0;
  }
}

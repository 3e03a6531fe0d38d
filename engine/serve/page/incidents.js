// Incidents of late, the newest first, each with its best picture.

import { clip as askClip, incidents as askIncidents, picture as askPicture } from "./api.js";
import { byId, el, setText } from "./dom.js";
import { count } from "./format.js";

/** Cards on the page, all of them and before more are asked for: what comes below should not be pages away. */
const MAX_SHOWN = 24;
const FEW = 8;
/** A clip is complete some time after its incident is over: how often it is looked for, and for how long. */
const CLIP_MS = 3000;
const NEW_MS = 180_000;
/** Pictures that are asked for side by side. */
const MAX_ASKED = 4;

const time = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

/** `dwell_s: 12.34` as a person writes it. */
function value(name, value) {
  const units = { _s: " s", _kmh: " km/h", _ms: " ms", _px: " px" };
  const end = Object.keys(units).find((end) => name.endsWith(end)) ?? "";
  const label = name.slice(0, name.length - end.length).replaceAll("_", " ");
  const number = typeof value === "number" ? Number(value.toFixed(Math.abs(value) < 1 ? 2 : 1)) : value;
  return `${label} ${number}${units[end] ?? ""}`;
}

class Card {
  constructor(incident) {
    this.image = el("img", { alt: "", hidden: "" });
    this.title = el("strong");
    this.lines = [el("span"), el("span"), el("span")];
    this.root = el("li", { class: "incident panel" }, el("div", { class: "shot" }, this.image),
      el("div", {}, this.title, ...this.lines));
    this.play = el("button", { class: "small", type: "button", text: "Play clip", hidden: "", onclick: () => playClip(this.id, this.title.textContent) });
    this.root.lastChild.append(this.play);
    this.id = incident.id;
  }

  update(incident) {
    this.play.hidden = !incident.has_clip;
    this.play.setAttribute("aria-label", `Play the clip of ${incident.id}`);
    const { stream, transform, type, phase, class: name, began_ms, zones, values, attributes, is_over, time_ms } = incident;
    setText(this.title, `${transform}${name ? `: ${name}` : ""}`);
    const lasted = (time_ms - began_ms) / 1000;
    const spans = [
      `${stream} · ${type} · ${is_over ? "over" : phase === "began" ? "began" : "goes on"}`,
      `${time.format(began_ms)}${lasted >= 0.1 ? ` · ${lasted.toFixed(1)} s` : ""}`,
      [...zones, ...Object.entries(values).map((entry) => value(...entry)), ...Object.values(attributes)].join(" · "),
    ];
    spans.forEach((text, index) => setText(this.lines[index], text));
    this.image.alt = `Best picture of ${name ?? "it"} at ${stream}`;
    // A better one may come until it is over.
    this.wanted = incident.has_picture ? `${phase} ${time_ms}` : null;
  }

  async show() {
    const wanted = this.wanted;
    this.shown = wanted;
    try {
      const url = URL.createObjectURL(await askPicture(this.id));
      this.release();
      this.url = url;
      this.image.src = url;
      this.image.hidden = false;
    } catch { /* It has been left out since. */ }
  }

  release() {
    if (this.url) URL.revokeObjectURL(this.url);
  }
}

/** Plays what the camera sent around an incident. */
async function playClip(id, title) {
  const [dialog, video, error] = [byId("clip-dialog"), byId("clip-video"), byId("clip-error")];
  setText(byId("clip-title"), title);
  error.hidden = true;
  dialog.showModal();
  try {
    const url = URL.createObjectURL(await askClip(id));
    dialog.addEventListener("close", () => { video.removeAttribute("src"); video.load(); URL.revokeObjectURL(url); }, { once: true });
    video.src = url;
  } catch (refused) {
    error.hidden = false;
    setText(error, refused.message);
  }
}

export class Incidents {
  #cards = new Map();
  #version = 0;
  #isAsking = false;
  /** Whether clips of incidents that are over may still come, and when they were last asked for. */
  #lacksClips = false;
  #asked = 0;
  #showsAll = false;

  constructor() {
    byId("incidents-more").addEventListener("click", () => {
      this.#showsAll = !this.#showsAll;
      this.#fold();
    });
  }

  /** Asks for them where the state says that there is something new. */
  async update(state) {
    const isDue = this.#lacksClips && performance.now() - this.#asked >= CLIP_MS;
    if ((state.incidents === this.#version && !isDue) || this.#isAsking) return;
    this.#isAsking = true;
    try {
      const list = await askIncidents();
      this.#version = state.incidents;
      this.#asked = performance.now();
      this.#show(list);
      const isNew = ({ is_over, has_clip, time_ms }) => is_over && !has_clip && Date.now() - time_ms < NEW_MS;
      this.#lacksClips = state.sinks.some((sink) => sink.type === "clips") && list.incidents.slice(0, MAX_SHOWN).some(isNew);
      await this.#showPictures();
    } catch { /* Asked again with the next state. */ } finally {
      this.#isAsking = false;
    }
  }

  #show({ count: all, incidents }) {
    byId("incidents").hidden = all === 0;
    setText(byId("incidents-count"), `${count(all)} since the start`);
    const shown = incidents.slice(0, MAX_SHOWN);
    const ids = new Set(shown.map((incident) => incident.id));
    for (const [id, card] of this.#cards) {
      if (ids.has(id)) continue;
      card.release();
      card.root.remove();
      this.#cards.delete(id);
    }
    shown.forEach((incident, index) => {
      let card = this.#cards.get(incident.id);
      if (!card) this.#cards.set(incident.id, card = new Card(incident));
      card.update(incident);
      const place = byId("incident-list");
      if (place.children[index] !== card.root) place.insertBefore(card.root, place.children[index] ?? null);
    });
    this.#fold();
  }

  /** Hides all cards but a few, where not all are asked for. */
  #fold() {
    const cards = [...byId("incident-list").children];
    cards.forEach((card, index) => { card.hidden = !this.#showsAll && index >= FEW; });
    const more = byId("incidents-more");
    more.hidden = cards.length <= FEW;
    more.setAttribute("aria-expanded", String(this.#showsAll));
    setText(more, this.#showsAll ? `Show ${FEW}` : `Show ${cards.length}`);
  }

  async #showPictures() {
    const waiting = [...this.#cards.values()].filter((card) => card.wanted && card.wanted !== card.shown);
    while (waiting.length) await Promise.all(waiting.splice(0, MAX_ASKED).map((card) => card.show()));
  }
}

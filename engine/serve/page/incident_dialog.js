// One incident: its picture, its clip with the moment marked, times, values and attributes.

import { clip as askClip, incidentPictureAddress } from "./api.js";
import { el, setText, svg } from "./dom.js";
import { number } from "./format.js";
import { cameraTime, fullTime, lasted, phase, title, value } from "./incident_words.js";
import { likeAddress, recordingAddress } from "./search_words.js";
import { t } from "./texts.js";

/** Seconds before the moment that a clip is played from. */
const BEFORE_S = 2;

export class IncidentDialog {
  #shown = null;
  #address = null;

  /** `actions` are `pin(incident)`, `move(direction)` to the next one in the list, `closed()` and `say(text)`. */
  constructor(actions) {
    this.actions = actions;
    this.title = el("h2", { id: "incident-title", dir: "auto" });
    this.image = el("img", { class: "incident-picture", onerror: () => { this.image.hidden = true; } });
    this.video = el("video", { controls: "", muted: "", playsinline: "", "aria-label": t("Clip of the incident"), hidden: "" });
    this.video.muted = true;
    this.video.addEventListener("loadedmetadata", () => this.#onLoaded());
    this.marker = svg("svg", { class: "moment-bar", viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true", hidden: "" });
    this.moment = el("button", { type: "button", text: t("Go to the moment"), hidden: "", onclick: () => this.#seek() });
    this.play = el("button", { type: "button", class: "primary", text: t("Play clip"), onclick: () => this.#play() });
    this.error = el("p", { class: "error", role: "alert", hidden: "" });
    this.facts = el("dl", { class: "facts" });
    this.pin = el("button", { class: "for-operate", type: "button", "aria-pressed": "false", title: t("A pinned incident and its clip are kept (p)"), text: t("Pin"), onclick: () => this.#pin() });
    this.link = el("input", { readonly: "", "aria-label": t("Link to this incident"), hidden: "", onfocus: (event) => event.target.select() });
    this.recording = el("a", { class: "button", text: t("Recording") });
    this.alike = el("a", { class: "button", text: t("Looks like this") });
    const move = (text, direction, hint) => el("button", { type: "button", text, title: hint, "aria-label": hint, onclick: () => actions.move(direction) });
    this.root = el("dialog", { class: "wide incident-dialog", "aria-labelledby": "incident-title" },
      el("div", { class: "dialog-head" }, this.title, move("‹", -1, t("Newer incident (←)")), move("›", 1, t("Older incident (→)")),
        el("button", { type: "button", text: t("Close"), onclick: () => this.root.close() })),
      el("div", { class: "incident-body" },
        el("div", { class: "incident-media" }, this.image, this.video, this.marker, this.error,
          el("div", { class: "buttons" }, this.play, this.moment, this.recording, this.alike)),
        el("div", {}, this.facts, el("div", { class: "buttons" }, this.pin, el("button", { type: "button", text: t("Copy link"), onclick: () => this.#copy() })), this.link)));
    this.root.addEventListener("close", () => { this.#stop(); this.#shown = null; actions.closed(); });
    this.root.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** Whether cameras are recorded, so that a recording of the time may be there. */
  set hasRecordings(has) {
    this.recording.hidden = !has;
  }

  /** Whether the graph keeps objects that can be compared by their looks. */
  hasSearch = false;

  get id() {
    return this.#shown?.id ?? null;
  }

  #onKey(event) {
    if (event.target.closest("input, video") || event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = { ArrowLeft: () => this.actions.move(-1), ArrowRight: () => this.actions.move(1), p: () => this.#pin() };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  }

  /** Shows an incident as `GET /api/incidents/ID` answers it. */
  show(incident) {
    const isOther = this.#shown?.id !== incident.id;
    this.#shown = incident;
    if (isOther) {
      this.#stop();
      this.error.hidden = this.link.hidden = true;
    }
    setText(this.title, `${title(incident)} – ${incident.stream}`);
    this.image.hidden = !incident.has_picture || !this.video.hidden;
    const picture = incident.has_picture ? `${incidentPictureAddress(incident.id)}?${incident.time_ms}` : "";
    if (picture && this.image.getAttribute("src") !== picture) this.image.src = picture;
    this.image.alt = t("Best picture of {name}", { name: incident.class ?? incident.transform });
    this.play.hidden = !incident.has_clip || !this.video.hidden;
    this.pin.ariaPressed = String(incident.pinned);
    setText(this.pin, incident.pinned ? t("Pinned") : t("Pin"));
    this.recording.href = recordingAddress(incident.stream, incident.began_ms);
    this.alike.href = likeAddress(incident.id);
    this.alike.hidden = !this.hasSearch || incident.track === undefined;
    this.#showFacts(incident);
    if (!this.root.open) this.root.showModal();
  }

  #showFacts(incident) {
    const { stream, transform, type, track, zones, values, attributes, descriptions, began_ms, time_ms, time_zone, score } = incident;
    const there = cameraTime(began_ms, time_zone);
    const facts = [
      [t("Description"), Object.values(descriptions ?? {}).join(" ")],
      [t("Began"), fullTime(began_ms)],
      [t("At the camera"), there && `${there} (${time_zone})`],
      [t("Until"), time_ms > began_ms ? `${fullTime(time_ms)} (${lasted(incident) || phase(incident)})` : ""],
      [t("State"), incident.is_over ? "" : phase(incident)],
      [t("Camera"), stream],
      [t("Rule"), `${transform} (${type})`],
      [t("Zones"), zones.join(", ")],
      ...Object.entries(attributes),
      ...Object.entries(values).map((entry) => value(...entry)),
      [t("Track"), track === undefined ? "" : String(track)],
      [t("Confidence"), score > 0 ? number(score, 2) : ""],
    ];
    this.facts.replaceChildren(...facts.filter(([, text]) => text)
      .flatMap(([name, text]) => [el("dt", { text: name }), el("dd", { text, dir: "auto" })]));
  }

  async #play() {
    const { id } = this.#shown;
    this.play.hidden = true;
    try {
      const address = URL.createObjectURL(await askClip(id));
      if (this.#shown?.id !== id) {
        URL.revokeObjectURL(address);
        return;
      }
      this.#address = address;
      this.video.src = address;
      this.video.hidden = false;
      this.image.hidden = true;
      this.video.focus();
    } catch (error) {
      this.play.hidden = false;
      this.error.hidden = false;
      setText(this.error, error.message);
    }
  }

  /** Where in the clip the incident began and ended, in seconds; `null` where that is not known. */
  #span() {
    const { began_ms, time_ms, clip_start_ms } = this.#shown ?? {};
    const { duration } = this.video;
    if (clip_start_ms === undefined || !Number.isFinite(duration)) return null;
    const at = (ms) => Math.min(duration, Math.max(0, (ms - clip_start_ms) / 1000));
    return { from: at(began_ms), to: at(time_ms), duration };
  }

  #onLoaded() {
    const span = this.#span();
    this.#showMoment(Boolean(span));
    if (span) {
      const x = (seconds) => (1000 * seconds) / span.duration;
      const width = Math.max(6, x(span.to) - x(span.from));
      this.marker.replaceChildren(svg("rect", { class: "track", width: 1000, height: 10 }),
        svg("rect", { class: "moment", x: Math.min(1000 - width, x(span.from)).toFixed(1), width: width.toFixed(1), height: 10 }));
      this.video.currentTime = Math.max(0, span.from - BEFORE_S);
    }
    this.video.play().catch(() => { /* The reader starts it. */ });
  }

  #showMoment(isKnown) {
    this.moment.hidden = !isKnown;
    this.marker.toggleAttribute("hidden", !isKnown);
  }

  #seek() {
    const span = this.#span();
    if (!span) return;
    this.video.currentTime = span.from;
    this.video.play().catch(() => { /* The reader starts it. */ });
  }

  #stop() {
    this.video.hidden = true;
    this.#showMoment(false);
    this.video.removeAttribute("src");
    this.video.load();
    if (this.#address) URL.revokeObjectURL(this.#address);
    this.#address = null;
  }

  #pin() {
    if (this.#shown) this.actions.pin(this.#shown);
  }

  async #copy() {
    this.link.value = location.href;
    try {
      await navigator.clipboard.writeText(location.href);
      this.actions.say(t("The link was copied."));
    } catch {
      // Without HTTPS browsers do not let pages copy.
      this.link.hidden = false;
      this.link.focus();
    }
  }
}

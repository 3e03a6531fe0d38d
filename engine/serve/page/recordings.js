// View Recordings: archives of cameras on timelines, played in step, and exported.

import { archives as askArchives, exportAddress } from "./api.js";
import { causeText } from "./causes.js";
import { el, setText } from "./dom.js";
import { controls } from "./recording_controls.js";
import { RecordingPlayer } from "./recording_player.js";
import { recorded } from "./recording_range.js";
import { Strip, axis, shownTime } from "./recording_strip.js";
import { t } from "./texts.js";

/** Cameras that are shown at a time, steps of the clock, and how often what is recorded now is asked for. */
const MAX_SHOWN = 4;
const STEP_MS = 100;
const FRESH_MS = 15_000;
/** Time of an incident that is shown before it begins. */
const BEFORE_MS = 3000;
const SPANS = { minutes: 600_000, hour: 3_600_000, quarter: 6 * 3_600_000, day: 86_400_000 };

export class Recordings {
  #cameras = new Map();
  #at = Date.now();
  #span = SPANS.hour;
  #from = 0;
  #rate = 1;
  #plays = false;
  #isLoud = false;
  #marks = null;
  #timer = 0;
  #asked = 0;
  #wanted = null;

  constructor(root, app) {
    [this.root, this.app] = [root, app];
    this.controls = controls({
      play: () => this.#play(!this.#plays),
      step: (count) => this.#stepFrame(count),
      incident: (direction) => this.#jump(direction),
      rate: (rate) => { this.#rate = rate; },
      sound: () => { this.#isLoud = !this.#isLoud; this.#draw(); },
      span: (name) => { this.#span = SPANS[name]; this.#center(); },
      shift: (direction) => this.#seek(this.#at + direction * this.#span, true),
      seek: (at) => this.#seek(at, true),
      mark: (end) => this.#mark(end),
      export: () => this.#export(),
    });
    this.videos = el("div", { class: "recording-videos" });
    this.strips = el("div", { class: "recording-strips" });
    this.axis = axis();
    this.timelines = el("div", { class: "panel" }, this.strips, this.axis.root);
    this.empty = el("p", { class: "nothing", hidden: "" });
    root.append(el("h2", { class: "unseen", text: t("Recordings") }), this.empty, this.videos, this.controls.root, this.timelines);
    root.addEventListener("keydown", (event) => this.#onKey(event));
  }

  async show(params) {
    const at = Date.parse(params.get("at") ?? "");
    this.#wanted = params.get("camera");
    if (!Number.isNaN(at)) this.#at = at;
    await this.#askCameras(Number.isNaN(at));
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.#tick(), STEP_MS);
  }

  hide() {
    clearInterval(this.#timer);
    this.#timer = 0;
    this.#play(false);
    for (const camera of this.#cameras.values()) camera.player?.stop();
  }

  update() {
    if (this.#timer && performance.now() - this.#asked > FRESH_MS) this.#askRange();
  }

  /** Asks for the cameras, and chooses one, with `isLatest` shortly before the end of its recording. */
  async #askCameras(isLatest) {
    let list = [];
    try {
      list = (await askArchives()).cameras;
      setText(this.empty, t("Nothing is recorded. A sink of type archive in the graph records what cameras send."));
    } catch (error) {
      setText(this.empty, error.message);
    }
    const names = new Set(list.map(({ stream }) => stream));
    for (const [name, camera] of this.#cameras) {
      if (!names.has(name)) this.#remove(name, camera);
    }
    for (const camera of list) {
      if (!this.#cameras.has(camera.stream)) this.#add(camera);
    }
    for (const node of [this.videos, this.controls.root, this.timelines]) node.hidden = list.length === 0;
    this.empty.hidden = list.length > 0;
    const first = list.find(({ stream, withheld }) => !withheld && (!this.#wanted || stream === this.#wanted)) ?? list.find(({ withheld }) => !withheld);
    if (first && (this.#wanted || !this.#shown().length)) {
      for (const camera of this.#shown()) this.#choose(camera.name, false);
      this.#choose(first.stream, true);
      if (isLatest) this.#at = Math.max(first.from_ms, first.to_ms - 60_000);
    }
    this.#center();
  }

  #add({ stream: name, withheld, cause }) {
    const strip = new Strip(name, { seek: (at) => this.#seek(at), choose: (...choice) => this.#choose(...choice) });
    const camera = { name, strip, segments: [], hasSound: false, incidents: [], player: null, note: withheld ? t("Not shown: {reason}.", { reason: causeText(cause) ?? withheld }) : "" };
    strip.check.disabled = Boolean(withheld);
    this.#cameras.set(name, camera);
    this.strips.append(strip.root);
  }

  #remove(name, camera) {
    this.#choose(name, false);
    camera.strip.root.remove();
    this.#cameras.delete(name);
  }

  #shown() {
    return [...this.#cameras.values()].filter((camera) => camera.player);
  }

  #choose(name, isOn) {
    const camera = this.#cameras.get(name);
    if (isOn && !camera.player) {
      if (this.#shown().length >= MAX_SHOWN) {
        camera.strip.check.checked = false;
        this.app.say(t("At most {count} cameras are shown at a time.", { count: MAX_SHOWN }));
        return;
      }
      const video = el("video", { muted: "", playsinline: "", "aria-label": t("Recording of {name}", { name }) });
      video.muted = true;
      camera.words = el("p", { class: "words" });
      camera.view = el("figure", { class: "recording-view" }, el("div", { class: "recording-screen" }, video, camera.words), el("figcaption", { text: name, dir: "auto" }));
      camera.player = new RecordingPlayer(name, video, (reason) => this.app.say(reason));
      this.videos.append(camera.view);
    } else if (!isOn && camera.player) {
      camera.player.stop();
      camera.view.remove();
      camera.player = null;
    }
    this.videos.dataset.count = this.#shown().length;
    this.#draw();
  }

  /** Puts the clock into the middle of the window. */
  #center() {
    this.#from = this.#at - this.#span / 2;
    this.#askRange();
  }

  async #askRange() {
    this.#asked = performance.now();
    const [from, to] = [this.#from, this.#from + this.#span];
    const isCurrent = () => from === this.#from && to === this.#from + this.#span;
    await Promise.all([...this.#cameras.values()].filter(({ strip }) => !strip.check.disabled).map(async (camera) => {
      const found = await recorded(camera.name, from, to);
      if (isCurrent()) Object.assign(camera, found);
    }));
    if (isCurrent()) this.#draw();
  }

  #draw() {
    const [from, to] = [this.#from, this.#from + this.#span];
    const unit = this.#span / (this.#span === SPANS.day ? 24 : 12);
    const ticks = [];
    for (let at = Math.ceil(from / unit) * unit; at < to; at += unit) ticks.push(at);
    for (const { strip, segments, incidents, player, note } of this.#cameras.values()) {
      strip.draw({ from, to, segments, incidents, marks: this.#marks, ticks, isOn: Boolean(player), note });
      strip.point(this.#at);
    }
    this.axis.draw(from, to);
    this.#showControls();
  }

  /** The sound is that of the first camera. */
  #showControls() {
    const shown = this.#shown();
    shown.forEach(({ player }, index) => { player.video.muted = !this.#isLoud || index > 0; });
    const hasSound = shown[0]?.hasSound ?? false;
    this.controls.show({ at: this.#at, plays: this.#plays, marks: this.#marks, hasSound, isLoud: this.#isLoud });
  }

  /** Moves the clock; one that leaves the window moves the window. */
  #seek(at, centers = false) {
    this.#at = Math.min(Math.max(0, at), Date.now());
    const share = (this.#at - this.#from) / this.#span;
    if (centers || share < 0 || share > 1) this.#center();
    const camera = this.#shown()[0]?.name;
    const params = new URLSearchParams({ ...(camera ? { camera } : {}), at: new Date(this.#at).toISOString() });
    if (this.#timer) window.history.replaceState(null, "", `#recordings?${params}`);
    this.#draw();
  }

  #play(plays) {
    this.#plays = plays;
    this.ticked = performance.now();
    this.#draw();
  }

  /** One step of the clock: it waits for pictures, and jumps over time that no camera has. */
  #tick() {
    const now = performance.now();
    const passed = Math.min(1000, now - (this.ticked ?? now));
    this.ticked = now;
    const shown = this.#shown();
    const states = shown.map((camera) => {
      const state = camera.player.follow(this.#at, camera.segments, this.#rate, this.#plays);
      const words = camera.player.refused || (state === "gap" ? t("No recording at this time") : "");
      setText(camera.words, words);
      return state;
    });
    if (this.#plays && shown.length && !states.includes("wait")) {
      if (states.includes("ready")) this.#at += passed * this.#rate;
      else this.#skip(shown);
      if (this.#at > this.#from + this.#span) this.#center();
    }
    for (const { strip } of this.#cameras.values()) strip.point(this.#at);
    this.#showControls();
  }

  #skip(shown) {
    const isPlayed = ({ player }) => !player.refused;
    const starts = shown.filter(isPlayed).flatMap(({ segments }) => segments.map(({ from_ms }) => from_ms));
    const next = starts.filter((start) => start > this.#at).sort((one, other) => one - other)[0];
    if (next !== undefined) this.#at = next;
    else this.#play(false);
  }

  #stepFrame(count) {
    this.#play(false);
    const [first] = this.#shown();
    const current = first?.segments.find(({ from_ms, to_ms }) => from_ms <= this.#at && this.#at < to_ms);
    this.#seek(this.#at + count * (current?.frame_ms ?? 40));
  }

  #jump(direction) {
    const times = this.#shown().flatMap(({ incidents }) => incidents.map(({ began_ms }) => began_ms - BEFORE_MS));
    const beyond = times.filter((time) => direction * (time - this.#at) > 500).sort((one, other) => direction * (one - other));
    if (beyond.length) this.#seek(beyond[0]);
    else this.app.say(t("There is no further incident in the time that is shown."));
  }

  #mark(end) {
    const [from, to] = this.#marks ?? [this.#at, this.#at];
    this.#marks = end === "from" ? [this.#at, Math.max(to, this.#at)] : [Math.min(from, this.#at), this.#at];
    this.#draw();
  }

  async #export() {
    const [from, to] = this.#marks ?? [];
    if (!(from < to)) {
      this.app.say(t("Mark the begin and the end of a range first."));
      return;
    }
    for (const { name } of this.#shown()) {
      try {
        const link = el("a", { href: await exportAddress(name, from, to), download: "" });
        document.body.append(link);
        link.click();
        link.remove();
        this.app.say(t("{name}: {from} to {to} is being saved.", { name, from: shownTime(from), to: shownTime(to) }));
      } catch (error) {
        this.app.say(error.message);
      }
    }
  }

  #onKey(event) {
    const isTyping = event.target.closest("input:not([type=checkbox]), select, a") || event.ctrlKey || event.metaKey || event.altKey;
    const isButton = event.target.closest("button, input");
    const keys = {
      " ": () => this.#play(!this.#plays), ",": () => this.#stepFrame(-1), ".": () => this.#stepFrame(1),
      p: () => this.#jump(-1), n: () => this.#jump(1), i: () => this.#mark("from"), o: () => this.#mark("to"),
      ArrowLeft: () => this.#seek(this.#at - 5000), ArrowRight: () => this.#seek(this.#at + 5000),
    };
    if (isTyping || !Object.hasOwn(keys, event.key) || (event.key === " " && isButton)) return;
    event.preventDefault();
    keys[event.key]();
  }
}

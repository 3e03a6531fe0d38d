// Live video of one camera in its tile: fragments of MP4, or pictures where the browser does not play it, and what was found in
// frames.

import { el, setText } from "./dom.js";
import { Overlay } from "./overlay.js";
import { Player } from "./player.js";

const AGAIN_MS = 2000;

export class LiveView {
  #isOpen = false;
  #timer = 0;
  #origin = 0;
  /** Why it has pictures rather than video, if it has. */
  #refused = "";
  #pictures = false;
  #hasPicture = false;

  constructor(name, socket) {
    this.name = name;
    this.socket = socket;
    this.video = el("video", { muted: "", playsinline: "", "aria-label": `Live video of ${name}`, tabindex: "-1" });
    this.video.muted = true;
    const canvas = el("canvas", { "aria-hidden": "true" });
    this.note = el("p", { class: "view-note" });
    this.root = el("div", { class: "view" }, this.video, canvas, this.note);
    this.overlay = new Overlay(canvas, this.video);
    this.player = new Player(this.video, 0.7, (reason) => this.fail(reason));
    this.video.addEventListener("playing", () => { if (!this.#refused) setText(this.note, ""); });
  }

  get isOpen() {
    return this.#isOpen || this.#timer !== 0;
  }

  /** Plays `delay` seconds behind the camera. */
  open(delay) {
    this.player.delay = delay;
    if (this.isOpen) return;
    this.#isOpen = true;
    // One that had no video before has its reason until there is one.
    if (!this.#refused) this.#say("Waiting for a key frame", true);
    this.socket.watch(this.name, this, this.#pictures);
  }

  close() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (this.#isOpen) this.socket.leave(this.name);
    this.#isOpen = false;
    this.player.stop();
    this.overlay.clear();
    this.#hasPicture = false;
  }

  /** It is not to be open, since the camera is in that state or the tile is out of sight. */
  showWhyNot(state) {
    if (state !== "live") this.#say(`No live video: the camera is ${state}.`, false);
    else if (!this.#refused) this.#say("", true);
  }

  /** Without a picture to come it takes no room for one. */
  #say(text, hasPicture) {
    setText(this.note, text);
    this.root.classList.toggle("without", !hasPicture);
  }

  /** A message as an object, or bytes. */
  receive(message) {
    if (message instanceof ArrayBuffer) {
      if (this.#refused) this.#showPicture(message);
      else this.player.append(message);
    } else if (message.type === "frame") {
      this.overlay.add((message.pts_ms - this.#origin) / 1000, message);
    } else if (message.type === "video") {
      this.#begin(message);
    } else if (message.type === "refused") {
      this.player.stop();
      this.overlay.clear();
      this.#refused = message.reason;
      this.#hasPicture = false;
      this.#say(`No live video: ${message.reason}.`, false);
    }
  }

  #begin({ mime, origin_ms: origin }) {
    this.#origin = origin;
    this.overlay.clear();
    this.#refused = "";
    this.root.classList.remove("without");
    if (this.player.begin(mime)) return;
    this.#pictures = true;
    this.socket.watch(this.name, this, true);
  }

  async #showPicture(bytes) {
    const picture = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" })).catch(() => null);
    if (!picture || !this.#refused || !this.#isOpen) return;
    if (!this.#hasPicture) {
      this.#hasPicture = true;
      this.#say(`Pictures at intervals: ${this.#refused}.`, true);
    }
    this.overlay.showPicture(picture);
  }

  /** Says why there is none, and tries again after a while. */
  fail(reason) {
    const wasRefused = this.#refused;
    this.close();
    if (!wasRefused) setText(this.note, reason);
    this.#timer = setTimeout(() => { this.#timer = 0; this.open(this.player.delay); }, AGAIN_MS);
  }
}

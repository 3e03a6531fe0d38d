// Live video of one camera in its tile: over a WebSocket come fragments of MP4, and what was found in frames.

import { token } from "./api.js";
import { el, setText } from "./dom.js";
import { Overlay } from "./overlay.js";
import { Player } from "./player.js";

const AGAIN_MS = 2000;

export class LiveView {
  #socket = null;
  #timer = 0;
  #origin = 0;

  constructor(name) {
    this.name = name;
    this.video = el("video", { muted: "", playsinline: "", "aria-label": `Live video of ${name}`, tabindex: "-1" });
    this.video.muted = true;
    const canvas = el("canvas", { "aria-hidden": "true" });
    this.note = el("p", { class: "view-note" });
    this.root = el("div", { class: "view" }, this.video, canvas, this.note);
    this.overlay = new Overlay(canvas, this.video);
    this.player = new Player(this.video, 0.7, (reason) => this.#fail(reason));
    this.video.addEventListener("playing", () => setText(this.note, ""));
  }

  get isOpen() {
    return this.#socket !== null || this.#timer !== 0;
  }

  /** Plays `delay` seconds behind the camera. */
  open(delay) {
    this.player.delay = delay;
    if (this.isOpen) return;
    // One that had no video before has its reason until there is one.
    if (!this.isRefused) this.#say("Waiting for a key frame", true);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/streams/${encodeURIComponent(this.name)}/live`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { if (token()) socket.send(JSON.stringify({ token: token() })); };
    socket.onmessage = ({ data }) => { if (socket === this.#socket) this.#receive(data); };
    socket.onclose = ({ reason }) => { if (socket === this.#socket) this.#fail(reason || "Live video was cut off."); };
    this.#socket = socket;
  }

  close() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.player.stop();
    this.overlay.clear();
  }

  /** It is not to be open, since the camera is in that state or the tile is out of sight. */
  showWhyNot(state) {
    if (state !== "live") this.#say(`No live video: the camera is ${state}.`, false);
    else if (!this.isRefused) this.#say("", true);
  }

  /** Without a picture to come it takes no room for one. */
  #say(text, hasPicture) {
    setText(this.note, text);
    this.root.classList.toggle("without", !hasPicture);
  }

  #receive(data) {
    if (typeof data !== "string") {
      this.player.append(data);
      return;
    }
    const message = JSON.parse(data);
    if (message.type === "frame") {
      this.overlay.add((message.pts_ms - this.#origin) / 1000, message.objects);
    } else if (message.type === "video") {
      this.#origin = message.origin_ms;
      this.overlay.clear();
      this.isRefused = false;
      this.root.classList.remove("without");
      this.player.begin(message.mime);
    } else if (message.type === "refused") {
      this.player.stop();
      this.isRefused = true;
      this.#say(`No live video: ${message.reason}.`, false);
    }
  }

  /** Says why, and tries again after a while. */
  #fail(reason) {
    this.close();
    setText(this.note, reason);
    this.#timer = setTimeout(() => { this.#timer = 0; this.open(this.player.delay); }, AGAIN_MS);
  }
}

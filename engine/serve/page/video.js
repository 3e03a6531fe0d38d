// Live video of one camera in its tile: fragments of MP4, or pictures where the browser does not play it, and what was found in
// frames.

import { causeText } from "./causes.js";
import { el, setText } from "./dom.js";
import { duration } from "./format.js";
import { Overlay } from "./overlay.js";
import { Player } from "./player.js";
import { moment } from "./status.js";
import { sentences, t } from "./texts.js";

const AGAIN_MS = 2000;
/** Age of a picture in place of video from which on its time is shown, in milliseconds. */
const STALE_MS = 5000;
/** Least delay of video with sound, in seconds: pictures wait for the sound of their time. */
const SOUND_DELAY_S = 1;

export class CameraVideo {
  #isOpen = false;
  #timer = 0;
  #origin = 0;
  /** Why it has pictures rather than video, if it has. */
  #refused = "";
  #pictures = false;
  #hasPicture = false;
  /** The same as the code of the engine, if it has one. */
  #code = undefined;
  /** Time of the shown picture, and that of the next one where the engine names it, in milliseconds since 1970. */
  #pictureMs = 0;
  #nextMs = null;
  #isOutside = false;
  #text = "";
  /** Pictures that came and were shown: they are decoded at the same time, and none may follow a newer one. */
  #came = 0;
  #shown = 0;
  #wantsSound = false;
  /** Whether the camera sends sound that the browser plays. */
  hasSound = false;
  #refusesSound = false;

  constructor(name, socket) {
    this.name = name;
    this.socket = socket;
    this.video = el("video", { muted: "", playsinline: "", "aria-label": t("Live video of {name}", { name }), tabindex: "-1" });
    this.video.muted = true;
    const canvas = el("canvas", { "aria-hidden": "true" });
    this.note = el("p", { class: "view-note" });
    this.remark = el("p", { class: "view-remark", role: "status" });
    this.rest = el("p", { class: "view-rest", dir: "auto" });
    this.root = el("div", { class: "view" }, this.video, canvas, this.rest, this.remark, this.note);
    this.overlay = new Overlay(canvas, this.video);
    this.player = new Player(this.video, 0.7, (reason) => this.fail(reason));
    this.video.addEventListener("playing", () => { if (!this.#refused) this.#say("", true); });
    // The browser may refuse sound that no click asked for.
    this.video.addEventListener("volumechange", () => { if (this.video.muted && this.#wantsSound) this.setSound(false); });
  }

  get isLoud() {
    return this.#wantsSound && this.hasSound;
  }

  /** Plays the sound of the camera, or none. */
  setSound(isWanted) {
    if (this.#wantsSound === isWanted) return;
    this.#wantsSound = isWanted;
    this.video.muted = !isWanted;
    if (this.#isOpen) this.#ask();
  }

  #ask() {
    this.socket.watch(this.name, this, this.#pictures ? "pictures" : this.#wantsSound ? "sound" : "watch");
  }

  get isOpen() {
    return this.#isOpen || this.#timer !== 0;
  }

  /** Plays `delay` seconds behind the camera. */
  open(delay) {
    this.player.delay = this.#wantsSound ? Math.max(SOUND_DELAY_S, delay) : delay;
    if (this.isOpen) return;
    this.#isOpen = true;
    // One that had no video before has its reason until there is one.
    if (!this.#refused) this.#say(t("Waiting for a key frame"), true);
    this.#ask();
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

  /** The text in place of a picture, if there is one: the camera sends none, or its video is switched off. */
  showInstead(text) {
    setText(this.rest, text);
    this.root.classList.toggle("resting", text !== "");
  }

  /** Says on the picture that it has not changed although frames arrive, or that it is not analysed at this time. */
  showRemark({ frozen_s: seconds, outside_schedule: isOutside }) {
    const frozen = t("The picture has not changed at all for {time}, although the camera sends frames. Restart the camera.", { time: duration(seconds ?? 0) });
    const outside = isOutside ? sentences(t("Not analysed now: outside its schedule."), this.#nextPicture()) : "";
    setText(this.remark, seconds ? frozen : outside);
    this.remark.classList.toggle("quiet", !seconds);
    this.#isOutside = Boolean(isOutside);
    this.#showNote();
  }

  /** When pictures in place of video come outside the schedule. */
  #nextPicture() {
    if (!this.#isOpen || !this.#refused || this.#code === "view-private") return "";
    return this.#code === "view-masked" ? t("Pictures come again within its schedule.") : t("A picture comes about every ten seconds.");
  }

  /** Shows the note, after the time of a picture that is not new. */
  #showNote() {
    const isPicture = this.#isOpen && this.#refused && this.#hasPicture;
    const isOld = isPicture && (this.#isOutside || Date.now() - this.#pictureMs > STALE_MS);
    setText(this.note, sentences(isOld ? t("The picture is of {time}.", { time: moment(this.#pictureMs) }) : "", this.#text));
  }

  /** A note below the picture; in its place if none is to come. */
  #say(text, hasPicture) {
    this.#text = text;
    this.#showNote();
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
    } else if (message.type === "idle") {
      this.#nextMs = message.time_ms;
    } else if (message.type === "refused") {
      this.player.stop();
      this.overlay.clear();
      this.#refused = causeText(message.cause) ?? message.reason;
      this.#code = message.cause?.code;
      this.hasSound = false;
      this.#hasPicture = false;
      this.#say(t("No live video: {reason}.", { reason: this.#refused }), false);
    }
  }

  #begin({ mime, origin_ms: origin, sound }) {
    this.#origin = origin;
    this.overlay.clear();
    this.#refused = "";
    this.root.classList.remove("without");
    this.hasSound = ["on", "off"].includes(sound) && !this.#refusesSound;
    if (this.player.begin(mime)) return;
    if (sound === "on") {
      // Without its sound it may play.
      [this.hasSound, this.#refusesSound] = [false, true];
      this.setSound(false);
      return;
    }
    this.#pictures = true;
    this.#ask();
  }

  /** Shows a picture, and asks for the next one: as many come as the connection carries. */
  async #showPicture(bytes) {
    const [number, idleMs] = [++this.#came, this.#nextMs];
    // Nothing was found in a picture that is not analysed.
    const [at, time] = idleMs === null ? [this.overlay.newest, Date.now()] : [-Infinity, idleMs];
    this.#nextMs = null;
    const picture = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" })).catch(() => null);
    if (!this.#isOpen) return;
    this.socket.next(this.name);
    if (!picture || !this.#refused || number < this.#shown) return;
    this.#shown = number;
    this.#pictureMs = time;
    if (!this.#hasPicture) {
      this.#hasPicture = true;
      this.#say(t("Pictures instead of video: {reason}.", { reason: this.#refused }), true);
    }
    this.overlay.showPicture(picture, at);
  }

  /** Says why there is none, and tries again after a while. */
  fail(reason) {
    const wasRefused = this.#refused;
    // A browser may name a codec as supported, and not play it on this machine.
    if (this.video.error && !this.video.getVideoPlaybackQuality().totalVideoFrames) this.#pictures = true;
    this.close();
    if (!wasRefused) this.#text = reason;
    this.#showNote();
    this.#timer = setTimeout(() => { this.#timer = 0; this.open(this.player.delay); }, AGAIN_MS);
  }
}

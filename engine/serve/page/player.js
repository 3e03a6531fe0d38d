// Fragments of MP4 as they come, played a little behind the newest one: what was found in a frame is known by then.

import { t } from "./texts.js";

/** Bytes that may wait for the browser; more means that it does not play. */
const MAX_WAITING = 16 << 20;
/** Seconds of video that are kept behind what is shown. */
const KEPT_S = 10;
/** Fragments and milliseconds without another picture on the screen after which the browser counts as stuck. */
const STUCK_FRAGMENTS = 50;
const STUCK_MS = 8000;

export class Player {
  #source = null;
  #buffer = null;
  #waiting = [];
  #bytes = 0;
  /** Pictures that the browser has shown, the time of the last of them, and fragments since. */
  #shown = 0;
  #shownAt = 0;
  #unseen = 0;

  /** `delay` is how many seconds behind the newest picture it plays; `failed(reason)` is called where it cannot go on. */
  constructor(video, delay, failed) {
    this.video = video;
    this.delay = delay;
    this.failed = failed;
  }

  /** Other video begins; `false` where the browser does not play it. */
  begin(mime) {
    this.stop();
    if (!window.MediaSource?.isTypeSupported(mime)) return false;
    const source = new MediaSource();
    this.#source = source;
    const url = URL.createObjectURL(source);
    source.addEventListener("sourceopen", () => {
      URL.revokeObjectURL(url);
      if (source !== this.#source) return;
      this.#buffer = source.addSourceBuffer(mime);
      this.#buffer.addEventListener("updateend", () => this.#go());
      this.#go();
    }, { once: true });
    this.video.src = url;
    [this.#shown, this.#shownAt, this.#unseen] = [0, performance.now(), 0];
    return true;
  }

  append(bytes) {
    if (!this.#source) return;
    this.#waiting.push(bytes);
    this.#bytes += bytes.byteLength;
    if (this.#isStuck()) this.failed(t("The picture stood still and is loaded anew."));
    else if (this.#bytes > MAX_WAITING) this.failed(t("The browser is too slow for this video."));
    else this.#go();
  }

  /** Whether fragments arrive, and the browser shows no further picture. A hidden page need not show any. */
  #isStuck() {
    const shown = this.video.getVideoPlaybackQuality().totalVideoFrames;
    this.#unseen += 1;
    if (shown !== this.#shown || document.hidden) {
      [this.#shown, this.#shownAt, this.#unseen] = [shown, performance.now(), 0];
    }
    return this.#unseen > STUCK_FRAGMENTS && performance.now() - this.#shownAt > STUCK_MS;
  }

  stop() {
    this.#source = this.#buffer = null;
    this.#waiting = [];
    this.#bytes = 0;
    this.video.removeAttribute("src");
    this.video.load();
  }

  /** Gives the browser what waits, or takes from it what is over. */
  #go() {
    const buffer = this.#buffer;
    if (!buffer || buffer.updating || this.#source.readyState !== "open") return;
    this.#steer();
    const { buffered } = buffer;
    if (buffered.length && buffered.start(0) < this.video.currentTime - 2 * KEPT_S) {
      buffer.remove(0, this.video.currentTime - KEPT_S);
      return;
    }
    const next = this.#waiting.shift();
    if (!next) return;
    this.#bytes -= next.byteLength;
    try {
      buffer.appendBuffer(next);
    } catch (error) {
      this.failed(t("The browser does not take this video: {error}.", { error: error.name }));
    }
  }

  #steer() {
    const { buffered } = this.#buffer;
    if (!buffered.length) return;
    const [start, end] = [buffered.start(buffered.length - 1), buffered.end(buffered.length - 1)];
    const behind = end - this.video.currentTime;
    if (this.video.currentTime < start || behind < 0 || behind > this.delay + 2) {
      this.video.currentTime = Math.max(start, end - this.delay);
    }
    const change = this.video.muted ? 0.06 : 0.03;
    this.video.playbackRate = behind > this.delay + 0.25 ? 1 + change : behind < this.delay - 0.25 ? 1 - change : 1;
    if (!this.video.paused) return;
    this.video.play().catch((error) => {
      // Hidden: asked again with the next fragment. Sound that was not clicked for is not played at all.
      if (error.name === "NotAllowedError") this.video.muted = true;
    });
  }
}

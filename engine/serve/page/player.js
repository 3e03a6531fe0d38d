// Fragments of MP4 as they come, played a little behind the newest one: what was found in a frame is known by then.

/** Bytes that may wait for the browser; more means that it does not play. */
const MAX_WAITING = 16 << 20;
/** Seconds of video that are kept behind what is shown. */
const KEPT_S = 10;

export class Player {
  #source = null;
  #buffer = null;
  #waiting = [];
  #bytes = 0;

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
    return true;
  }

  append(bytes) {
    if (!this.#source) return;
    this.#waiting.push(bytes);
    this.#bytes += bytes.byteLength;
    if (this.#bytes > MAX_WAITING) this.failed("The browser is too slow for its video.");
    else this.#go();
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
      this.failed(`The browser does not take its video: ${error.name}.`);
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
    this.video.playbackRate = behind > this.delay + 0.25 ? 1.06 : behind < this.delay - 0.25 ? 0.94 : 1;
    if (this.video.paused) this.video.play().catch(() => { /* It is hidden: asked again with the next fragment. */ });
  }
}

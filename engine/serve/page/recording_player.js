// Video of one camera out of its archive: segments are appended to a MediaSource one after the other, and the picture follows a
// clock that all cameras share.

import { segment as askSegment } from "./api.js";
import { t } from "./texts.js";

/** Seconds of media that are loaded before they are shown, at normal speed, and that are kept behind. */
const AHEAD_S = 12;
const BEHIND_S = 30;
/** Time between two segments that is no gap: their names have the time at which packets arrived. */
const JITTER_MS = 3000;
/** Difference to the clock from which on the picture jumps, and how long a loader waits for room. */
const JUMP_S = 0.4;
const ROOM_MS = 150;

const until = (target, event) => new Promise((done) => { target.addEventListener(event, done, { once: true }); });

export class RecordingPlayer {
  #source = null;
  #buffer = null;
  #loading = null;
  /** Bytes that were appended, by the id of the segment. */
  #loaded = new Map();
  #origin = 0;
  #type = "";

  /** `video` shows the camera; `failed(reason)` says why it cannot. */
  constructor(stream, video, failed) {
    this.stream = stream;
    this.video = video;
    this.failed = failed;
    this.refused = "";
  }

  /** Shows the picture at a time of the day. `segments` are those around it. Gives `gap`, `next` shortly before a
   * segment, `wait` while it loads, or `ready`. */
  follow(at, segments, rate, plays) {
    const current = segments.find(({ from_ms, to_ms }) => from_ms <= at && at < to_ms);
    const isNear = segments.some(({ from_ms }) => from_ms > at && from_ms < at + JITTER_MS);
    this.video.hidden = (!current && !isNear) || Boolean(this.refused);
    if (!current) {
      this.video.pause();
      return isNear ? "next" : "gap";
    }
    this.rate = rate;
    if (current.type !== this.#type || !this.#source) this.#begin(current);
    if (this.refused) return "gap";
    const target = (at - this.#origin) / 1000;
    if (!this.#has(target) && this.#loading?.from > at) this.#begin(current);
    if (!this.#has(target) && !this.#loading && this.#isTaken(current)) this.#begin(current);
    this.#load(segments, at);
    this.#steer(target, rate, plays);
    return this.#has(target) && this.video.readyState >= 2 ? "ready" : "wait";
  }

  stop() {
    this.#loading?.abort.abort();
    this.#loading = this.#source = this.#buffer = null;
    this.#loaded.clear();
    this.#type = "";
    this.video.removeAttribute("src");
    this.video.load();
  }

  /** Other video begins with a segment. */
  #begin(first) {
    this.stop();
    this.#origin = first.from_ms;
    this.#type = first.type;
    this.refused = "";
    if (!window.MediaSource?.isTypeSupported(first.type)) {
      const codec = first.type.split('"')[1] ?? first.type;
      this.refused = t("This browser does not play {codec}. Export the range to play it elsewhere.", { codec });
      this.failed(this.refused);
      return;
    }
    const source = new MediaSource();
    this.#source = source;
    const url = URL.createObjectURL(source);
    source.addEventListener("sourceopen", () => {
      URL.revokeObjectURL(url);
      if (source === this.#source) this.#buffer = source.addSourceBuffer(first.type);
    }, { once: true });
    this.video.src = url;
  }

  #has(time) {
    const buffered = this.#buffer?.buffered ?? [];
    for (let index = 0; index < buffered.length; index += 1) {
      if (buffered.start(index) <= time + 0.1 && time < buffered.end(index)) return true;
    }
    return false;
  }

  #isTaken(segment) {
    return (this.#loaded.get(segment.id) ?? 0) >= segment.bytes;
  }

  /** Loads what comes next, one segment at a time. */
  #load(segments, at) {
    if (!this.#buffer || this.#loading) return;
    const horizon = at + 1000 * AHEAD_S * Math.max(1, this.rate);
    const next = segments.find((segment) =>
      segment.to_ms > at && segment.from_ms < horizon && segment.type === this.#type && !this.#isTaken(segment));
    if (!next) return;
    const loading = { from: next.from_ms, abort: new AbortController() };
    this.#loading = loading;
    this.#append(next, loading)
      .catch((error) => {
        // Not asked for again until it is sought.
        this.#loaded.set(next.id, next.bytes);
        if (error.name !== "AbortError" && this.#loading === loading) this.failed(error.message);
      })
      .finally(() => { if (this.#loading === loading) this.#loading = null; });
  }

  async #append(segment, loading) {
    const buffer = this.#buffer;
    const begin = this.#loaded.get(segment.id) ?? 0;
    const response = await askSegment(this.stream, segment.id, begin, loading.abort.signal);
    const reader = response.body.getReader();
    let bytes = begin;
    const offset = (segment.from_ms - this.#origin) / 1000;
    for (let first = true; ; first = false) {
      const { done, value } = await reader.read();
      if (done) break;
      await this.#room(buffer, loading);
      if (first && begin === 0) {
        buffer.abort();
        buffer.timestampOffset = offset;
      }
      buffer.appendBuffer(value);
      await until(buffer, "updateend");
      bytes += value.byteLength;
      this.#loaded.set(segment.id, bytes);
    }
    this.#loaded.set(segment.id, Math.max(bytes, segment.unfinished ? 0 : segment.bytes));
  }

  /** Waits until there is room for more, and removes what is long over. */
  async #room(buffer, loading) {
    for (;;) {
      if (this.#loading !== loading || buffer !== this.#buffer) throw new DOMException("other video began", "AbortError");
      const { currentTime } = this.video;
      const { buffered } = buffer;
      if (buffered.length && buffered.start(0) < currentTime - 2 * BEHIND_S) {
        buffer.remove(0, currentTime - BEHIND_S);
        await until(buffer, "updateend");
      }
      const end = buffered.length ? buffered.end(buffered.length - 1) : 0;
      if (end - currentTime < AHEAD_S * Math.max(1, this.rate)) return;
      await new Promise((done) => { setTimeout(done, ROOM_MS); });
    }
  }

  #steer(target, rate, plays) {
    const { video } = this;
    if (!this.#has(target) || video.seeking) return;
    const behind = target - video.currentTime;
    if (!plays) {
      video.pause();
      if (Math.abs(behind) > 0.004) video.currentTime = target;
      return;
    }
    if (Math.abs(behind) > JUMP_S * Math.max(1, rate)) video.currentTime = target;
    video.playbackRate = Math.min(16, Math.max(0.0625, rate * (1 + Math.max(-0.1, Math.min(0.1, behind / 2)))));
    if (video.paused) video.play().catch(() => { /* Asked again with the next step of the clock. */ });
  }
}

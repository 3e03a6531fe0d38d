// What was found, drawn over the video at the time of its frame, or over a picture.

import { drawObject, drawShape, drawTrails, fontOf, nameShape } from "./drawing.js";

/** Frames whose objects are kept, and for how long they are shown where frames after them were dropped. */
const KEPT = 150;
const SHOWN_S = 0.6;

/** Drawings that are shown, on all cameras alike: objects with their trails, and zones and lines. */
export const drawn = { boxes: true, zones: true };

export class Overlay {
  #frames = [];
  #shapes = [];

  constructor(canvas, video) {
    this.canvas = canvas;
    this.video = video;
    this.next();
  }

  clear() {
    this.#frames = [];
    this.#shapes = [];
    this.canvas.getContext("2d").clearRect(0, 0, this.canvas.width, this.canvas.height);
  }

  /** `at` is the time of the frame in the video, in seconds. */
  add(at, { objects, shapes }) {
    this.#frames.push({ at, objects, shapes: shapes ?? [] });
    if (this.#frames.length > KEPT) this.#frames.shift();
  }

  /** Draws with each picture of the video that is shown. */
  next() {
    this.video.requestVideoFrameCallback?.((_, { mediaTime }) => {
      this.#draw(mediaTime);
      this.next();
    });
  }

  /** Time of the newest frame whose objects are known. */
  get newest() {
    return this.#frames.at(-1)?.at ?? 0;
  }

  /** A picture with the objects of the frame at that time. */
  showPicture(picture, at) {
    this.#draw(at, picture);
    picture.close();
  }

  /** How wide and high the canvas is, and where on it the picture is, which is as large as fits. */
  #place(source) {
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const pixels = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) [this.canvas.width, this.canvas.height] = pixels;
    const fit = Math.min(width / source.width, height / source.height);
    const [w, h] = [source.width * fit, source.height * fit];
    return { scale, width, height, x: (width - w) / 2, y: (height - h) / 2, w, h };
  }

  #draw(time, picture) {
    const source = picture ?? { width: this.video.videoWidth, height: this.video.videoHeight };
    if (!source.width) return;
    const place = this.#place(source);
    const context = this.canvas.getContext("2d");
    context.setTransform(place.scale, 0, 0, place.scale, 0, 0);
    context.clearRect(0, 0, place.width, place.height);
    if (picture) context.drawImage(picture, place.x, place.y, place.w, place.h);
    const last = this.#frames.findLastIndex(({ at }) => at <= time + 0.02);
    const frame = this.#frames[last];
    // Zones and lines stay where they are; what they count is that of the last frame.
    if (frame) this.#shapes = frame.shapes;
    context.font = fontOf(place);
    context.textBaseline = "bottom";
    const shapes = drawn.zones ? this.#shapes : [];
    for (const shape of shapes) drawShape(context, place, shape);
    if (drawn.boxes && frame && time - frame.at <= SHOWN_S) {
      drawTrails(context, place, this.#frames.slice(0, last + 1), frame);
      for (const object of frame.objects) drawObject(context, place, object);
    }
    // Above all else: they are few, and of the whole camera.
    const taken = [];
    for (const shape of shapes) nameShape(context, place, shape, taken);
  }
}

// What was found, drawn over the video at the time of its frame.

/** Frames whose objects are kept, and for how long they are shown where frames after them were dropped. */
const KEPT = 150;
const SHOWN_S = 0.6;

const LINE = "#7cc0ff";
const GROUND = "rgb(0 0 0 / 70%)";

export class Overlay {
  #frames = [];

  constructor(canvas, video) {
    this.canvas = canvas;
    this.video = video;
    this.next();
  }

  clear() {
    this.#frames = [];
  }

  /** `at` is the time of the frame in the video, in seconds. */
  add(at, objects) {
    this.#frames.push({ at, objects });
    if (this.#frames.length > KEPT) this.#frames.shift();
  }

  /** Draws with each picture that is shown. */
  next() {
    this.video.requestVideoFrameCallback?.((_, { mediaTime }) => {
      this.#draw(mediaTime);
      this.next();
    });
  }

  #draw(time) {
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const pixels = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) [this.canvas.width, this.canvas.height] = pixels;
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const frame = this.#frames.findLast(({ at }) => at <= time + 0.02);
    if (!frame || time - frame.at > SHOWN_S || !this.video.videoWidth) return;
    // The video is as large as fits.
    const fit = Math.min(width / this.video.videoWidth, height / this.video.videoHeight);
    const [w, h] = [this.video.videoWidth * fit, this.video.videoHeight * fit];
    const place = { x: (width - w) / 2, y: (height - h) / 2, w, h };
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "bottom";
    for (const object of frame.objects) drawObject(context, place, object);
  }
}

function drawObject(context, place, { box, class: name, track, words, parent }) {
  const [x0, y0, x1, y1] = [place.x + box[0] * place.w, place.y + box[1] * place.h, place.x + box[2] * place.w, place.y + box[3] * place.h];
  context.lineWidth = 2.5;
  context.strokeStyle = GROUND;
  context.strokeRect(x0, y0, x1 - x0, y1 - y0);
  context.lineWidth = 1;
  context.strokeStyle = LINE;
  context.strokeRect(x0, y0, x1 - x0, y1 - y0);
  // A number within the run is short enough to read; the class of what is found within another object is clear from it.
  const number = track === undefined ? "" : ` ${track % 2 ** 20}`;
  const text = parent === undefined || words ? `${parent === undefined ? `${name}${number} ` : ""}${words ?? ""}`.trim() : "";
  // A name that is wider than what it names hides more than it says.
  if (!text || (!words && x1 - x0 < context.measureText(name).width)) return;
  const width = context.measureText(text).width + 6;
  const top = Math.max(place.y + 13, y0);
  context.fillStyle = GROUND;
  context.fillRect(x0 - 1, top - 13, width, 13);
  context.fillStyle = "#ffffff";
  context.fillText(text, x0 + 2, top - 1);
}

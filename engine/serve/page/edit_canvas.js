// Shapes on a picture, drawn and moved by mouse, touch and keyboard. Points are parts of the picture.

import { el, svg } from "./dom.js";
import { KINDS } from "./edit_shapes.js";
import { t } from "./texts.js";

const WIDTH = 1000;
/** Steps of the arrow keys in parts of the picture, without and with Shift. */
const [STEP, LARGE_STEP] = [0.005, 0.05];
/** Time without a key after which moved points are handed on. */
const KEY_MS = 300;

const round = (value) => Math.round(Math.min(1, Math.max(0, value)) * 1000) / 1000;
const percent = ([x, y]) => `${(x * 100).toFixed(1)} %, ${(y * 100).toFixed(1)} %`;

/** Shapes in the middle of the picture, by their number of points: the start of a drawing by keyboard. */
const STANDARD = {
  2: [[0.3, 0.6], [0.7, 0.6]],
  4: [[0.35, 0.4], [0.65, 0.4], [0.65, 0.8], [0.35, 0.8]],
};

export class EditCanvas {
  #shapes = [];
  #selected = -1;
  /** Points of the shape that is drawn; `null` while none is. */
  #drawn = null;
  #kind = null;
  #height = 562.5;
  #drag = null;
  #timer = 0;

  /** `host` has `onSelect(index)`, `onMove(index, points)`, `onDrawn(kind, points)` and `onDrawing(isDrawing)`. */
  constructor(host) {
    this.host = host;
    this.image = el("img", { alt: "", hidden: "" });
    this.layer = svg("svg", { class: "edit-layer", tabindex: "0", role: "application", "aria-label": t("Drawing on the picture") });
    this.root = el("div", { class: "edit-canvas" }, this.image, this.layer);
    this.image.addEventListener("load", () => {
      this.image.hidden = false;
      this.#height = (WIDTH * this.image.naturalHeight) / Math.max(1, this.image.naturalWidth);
      this.root.style.setProperty("--aspect", `${this.image.naturalWidth} / ${this.image.naturalHeight}`);
      this.#render();
    });
    // Corners and names have the same size on all screens.
    new ResizeObserver(() => {
      const { clientWidth } = this.root;
      if (clientWidth > 0) this.layer.style.setProperty("--unit", String(WIDTH / clientWidth));
    }).observe(this.root);
    this.layer.addEventListener("pointerdown", (event) => this.#onDown(event));
    this.layer.addEventListener("pointermove", (event) => this.#onPointer(event));
    for (const end of ["pointerup", "pointercancel"]) this.layer.addEventListener(end, () => this.#onUp());
    this.layer.addEventListener("dblclick", () => { if (this.#drawn) this.finish(); });
    this.layer.addEventListener("keydown", (event) => this.#onKey(event));
    this.#render();
  }

  setShapes(shapes, selected) {
    if (this.#drag || this.#timer) return;
    this.#shapes = shapes.map((shape) => ({ ...shape, points: shape.points.map((point) => [...point]) }));
    this.#selected = selected;
    this.#render();
  }

  begin(kind) {
    [this.#kind, this.#drawn, this.#selected] = [kind, [], -1];
    this.host.onDrawing(true);
    this.layer.focus();
    this.#render();
  }

  cancel() {
    if (!this.#drawn) return;
    this.#drawn = null;
    this.host.onDrawing(false);
    this.#render();
  }

  /** Ends a shape; one without points is put into the middle. */
  finish() {
    const { min, max } = KINDS[this.#kind];
    // A double click adds its place twice.
    let points = this.#drawn.filter((point, index, all) => index === 0 || point.some((value, axis) => value !== all[index - 1][axis]));
    if (points.length === 0) points = STANDARD[max === 2 ? 2 : 4];
    if (points.length < min) return;
    this.#drawn = null;
    this.host.onDrawing(false);
    this.host.onDrawn(this.#kind, points.slice(0, max));
  }

  #at({ clientX, clientY }) {
    const { left, top, width, height } = this.layer.getBoundingClientRect();
    return [round((clientX - left) / width), round((clientY - top) / height)];
  }

  #onDown(event) {
    if (event.button !== 0) return;
    const point = this.#at(event);
    if (this.#drawn) {
      event.preventDefault();
      this.layer.focus();
      const { min, max } = KINDS[this.#kind];
      const isFirst = event.target.dataset.drawn === "0" && this.#drawn.length >= min;
      if (!isFirst) this.#drawn.push(point);
      if (isFirst || this.#drawn.length === max) this.finish();
      else this.#render();
      return;
    }
    const { shape, corner, edge } = event.target.dataset;
    if (shape === undefined) return this.#select(-1);
    this.#select(Number(shape));
    const { points } = this.#shapes[this.#selected];
    let index = corner === undefined ? null : Number(corner);
    if (edge !== undefined) {
      index = Number(edge) + 1;
      points.splice(index, 0, point);
    }
    this.#drag = { index, from: point, before: points.map((each) => [...each]), isMoved: edge !== undefined };
    this.layer.setPointerCapture(event.pointerId);
    event.preventDefault();
    this.#render();
    if (index !== null) this.#focusCorner(index);
  }

  #onPointer(event) {
    if (!this.#drag) return;
    const [x, y] = this.#at(event);
    const { index, from, before } = this.#drag;
    const shape = this.#shapes[this.#selected];
    if (index !== null) shape.points[index] = [x, y];
    else {
      const by = [x - from[0], y - from[1]].map((value, axis) => {
        const all = before.map((point) => point[axis]);
        return Math.min(1 - Math.max(...all), Math.max(-Math.min(...all), value));
      });
      shape.points = before.map((point) => point.map((value, axis) => round(value + by[axis])));
    }
    this.#drag.isMoved ||= x !== from[0] || y !== from[1];
    this.#render();
  }

  #onUp() {
    const drag = this.#drag;
    this.#drag = null;
    if (drag?.isMoved) this.host.onMove(this.#selected, this.#shapes[this.#selected].points);
  }

  #select(index) {
    if (index === this.#selected) return;
    this.#selected = index;
    this.host.onSelect(index);
    this.#render();
  }

  #focusCorner(index) {
    this.layer.querySelector(`[data-corner="${index}"]`)?.focus();
  }

  #onKey(event) {
    if (this.#drawn) {
      if (event.key === "Enter") this.finish();
      else if (event.key === "Escape") this.cancel();
      else if (event.key === "Backspace") { this.#drawn.pop(); this.#render(); } else return;
      event.preventDefault();
      return;
    }
    const corner = event.target.dataset?.corner;
    if (corner === undefined) return;
    const shape = this.#shapes[this.#selected];
    const index = Number(corner);
    const step = event.shiftKey ? LARGE_STEP : STEP;
    const by = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    const { min } = KINDS[shape.kind] ?? { min: shape.points.length };
    if (by) shape.points[index] = shape.points[index].map((value, axis) => round(value + by[axis]));
    else if (["Delete", "Backspace"].includes(event.key) && shape.points.length > min) shape.points.splice(index, 1);
    else return;
    event.preventDefault();
    this.#render();
    this.#focusCorner(Math.min(index, shape.points.length - 1));
    clearTimeout(this.#timer);
    const selected = this.#selected;
    this.#timer = setTimeout(() => { this.#timer = 0; this.host.onMove(selected, shape.points); }, KEY_MS);
  }

  #render() {
    this.layer.setAttribute("viewBox", `0 0 ${WIDTH} ${this.#height}`);
    const place = ([x, y]) => [x * WIDTH, y * this.#height];
    const list = (points) => points.map((point) => place(point).map((value) => value.toFixed(1)).join(",")).join(" ");
    const nodes = this.#shapes.flatMap((shape, index) => {
      const isSelected = index === this.#selected;
      const attributes = { points: list(shape.points), "data-shape": index, class: `shape ${shape.kind}${isSelected ? " selected" : ""}` };
      const [x, y] = place(shape.points.reduce((best, point) => (point[1] < best[1] ? point : best)));
      return [svg(shape.closed ? "polygon" : "polyline", attributes),
        svg("text", { x: x.toFixed(1), y: Math.max(28, y - 12).toFixed(1), "data-shape": index, class: "shape-name", text: shape.name }),
        ...(isSelected ? this.#handles(shape, index, place) : [])];
    });
    if (this.#drawn?.length) {
      nodes.push(svg("polyline", { points: list(this.#drawn), class: `shape drawn ${this.#kind}` }));
      this.#drawn.forEach((point, index) => {
        const [cx, cy] = place(point);
        nodes.push(svg("circle", { cx, cy, class: "corner", "data-drawn": index }));
      });
    }
    const focused = this.layer.contains(document.activeElement) ? document.activeElement.dataset.corner : undefined;
    this.layer.replaceChildren(...nodes);
    this.layer.classList.toggle("drawing", this.#drawn !== null);
    if (focused !== undefined) this.#focusCorner(focused);
  }

  /** Corners of a shape, and the middles of its edges, which become corners. */
  #handles({ name, kind, points, closed }, shape, place) {
    const { max } = KINDS[kind] ?? { max: points.length };
    const edges = points.length < max ? points.slice(0, closed ? undefined : -1) : [];
    const middles = edges.map((point, index) => {
      const next = points[(index + 1) % points.length];
      const [cx, cy] = place([(point[0] + next[0]) / 2, (point[1] + next[1]) / 2]);
      return svg("circle", { cx, cy, class: "middle", "data-shape": shape, "data-edge": index });
    });
    const corners = points.map((point, index) => {
      const [cx, cy] = place(point);
      const label = t("Point {number} of {name}: {place}", { number: index + 1, name, place: percent(point) });
      return svg("circle", { cx, cy, class: "corner", tabindex: "0", role: "button", "aria-label": label, "data-shape": shape, "data-corner": index });
    });
    return [...middles, ...corners];
  }
}

// Part Draw of the view Edit: the picture of a camera with its zones, lines, masks and ground points.

import { streamPicture } from "./api.js";
import { el, setText } from "./dom.js";
import { EditCanvas } from "./edit_canvas.js";
import { added, cameraNames, cameraPath, freeName, moved, removed, ruled, shapesOf, sinksOf, withKey, words } from "./edit_shapes.js";
import { fromFile, toFile } from "./edit_variables.js";
import { t } from "./texts.js";

const field = (text, input) => el("label", {}, el("span", { text }), input);

export class DrawPane {
  #running = [];
  /** Names of the cameras that are live; `null` before the first state of the engine. */
  #live = null;
  /** Whether the camera was live when it was asked for a picture; `undefined` where that is not known yet. */
  #wasLive;
  #hasFailed = false;
  #shapes = [];
  #selected = -1;
  #camera = "";
  #graph = {};
  #url = null;

  constructor(host) {
    this.host = host;
    this.canvas = new EditCanvas({
      onSelect: (index) => this.#select(index),
      onMove: (index, points) => this.#change(moved(this.#shapes[index], points)),
      onDrawn: (kind, points) => this.#add(kind, points),
      onDrawing: (isDrawing) => this.#showHint(isDrawing),
    });
    this.names = {
      zone: t("Zone"), line: t("Line"), ignore: t("Ignore objects here"), only: t("Objects only here"), speed: t("Ground points"),
    };
    this.select = el("select", { id: "edit-camera", "aria-label": t("Camera"), onchange: () => this.#open(this.select.value) });
    this.again = el("button", { type: "button", text: t("New picture"), onclick: () => this.#takePicture() });
    this.kinds = Object.entries(this.names).map(([kind, text]) => el("button", {
      type: "button", text, "data-kind": kind, onclick: () => this.canvas.begin(kind),
    }));
    this.done = el("button", { type: "button", class: "primary", text: t("Finish the shape"), hidden: "", onclick: () => this.canvas.finish() });
    this.cancel = el("button", { type: "button", text: t("Cancel"), hidden: "", onclick: () => this.canvas.cancel() });
    this.hint = el("p", { class: "hint", role: "status" });
    this.list = el("ul", { class: "edit-shapes", "aria-label": t("Shapes of the camera") });
    this.form = el("div", { class: "edit-form" });
    this.root = el("div", { class: "edit-draw" },
      el("div", { class: "edit-tools" }, this.select, this.again, el("span", { class: "edit-gap" }), ...this.kinds, this.done, this.cancel),
      this.hint,
      el("div", { class: "edit-columns" }, this.canvas.root, el("div", { class: "panel edit-side" }, this.list, this.form)));
    this.#showHint(false);
  }

  /** Streams of the engine. A camera that was asked for a picture too early is asked again once it is live. */
  setStreams(streams) {
    const names = streams.map(({ name }) => name);
    this.#live = new Set(streams.filter(({ state }) => state === "live").map(({ name }) => name));
    this.#wasLive ??= this.#live.has(this.#camera);
    if (names.join("\n") !== this.#running.join("\n")) {
      this.#running = names;
      this.#showCameras();
    }
    if (this.#hasFailed && !this.#wasLive && this.#live.has(this.#camera)) this.#takePicture();
  }

  want(name) {
    this.wanted = name;
    this.#showCameras();
  }

  shown() {
    if (!this.isOpen) {
      this.isOpen = true;
      this.#takePicture();
    }
  }

  hidden() {
    this.isOpen = false;
    this.canvas.cancel();
  }

  update(graph) {
    this.#graph = graph;
    this.#showCameras();
    this.#showShapes();
  }

  #showCameras() {
    const names = [...new Set([...cameraNames(this.#graph), ...this.#running])];
    if (names.join("\n") !== [...this.select.options].map(({ value }) => value).join("\n")) {
      this.select.replaceChildren(...names.map((name) => el("option", { value: name, text: name })));
      this.select.value = this.#camera;
    }
    const next = names.includes(this.wanted) ? this.wanted : names.includes(this.#camera) ? this.#camera : names[0] ?? "";
    if (next !== this.#camera) this.#open(next);
  }

  #open(name) {
    this.wanted = undefined;
    [this.#camera, this.#selected] = [name, -1];
    this.select.value = name;
    this.canvas.cancel();
    this.#showShapes();
    this.#takePicture();
  }

  async #takePicture() {
    const name = this.#camera;
    if (!name || !this.isOpen) return;
    [this.#wasLive, this.#hasFailed] = [this.#live?.has(name), false];
    this.again.disabled = true;
    try {
      const picture = await streamPicture(name);
      if (name !== this.#camera) return;
      if (this.#url) URL.revokeObjectURL(this.#url);
      this.#url = URL.createObjectURL(picture);
      this.canvas.image.src = this.#url;
      this.canvas.image.alt = t("Picture of {name}", { name });
      this.#trouble = "";
    } catch (error) {
      if (name !== this.#camera) return;
      this.#hasFailed = true;
      this.canvas.image.hidden = true;
      this.#trouble = t("No picture: {reason}", { reason: error.message });
    } finally {
      this.again.disabled = false;
      this.#showHint(!this.done.hidden);
    }
  }

  #trouble = "";

  #showHint(isDrawing) {
    for (const button of this.kinds) button.hidden = isDrawing;
    for (const button of [this.done, this.cancel]) button.hidden = !isDrawing;
    const isMissing = this.#camera && !cameraPath(this.#graph, this.#camera);
    this.canvas.root.parentNode.hidden = !this.#camera;
    this.select.hidden = this.again.hidden = !this.#camera;
    setText(this.hint, !this.#camera ? t("There is no camera to draw on yet. The part Add adds one.") : isDrawing
      ? t("Click the corners on the picture. Enter or a double click ends the shape, Escape cancels. Enter without corners puts a shape into the middle, whose points move by arrow keys.")
      : isMissing ? t("The graph file has no table of this camera, so nothing can be drawn for it.")
        : this.#trouble || t("Drag points and shapes, or move points by arrow keys. Delete removes a point."));
    for (const button of this.kinds) button.disabled = !this.#camera || isMissing;
  }

  #showShapes() {
    this.#shapes = shapesOf(this.#graph, this.#camera);
    const names = this.#shapes.map(({ kind, name }, index) => el("li", {}, el("button", {
      type: "button", class: `shape-button ${kind}`, "aria-pressed": String(index === this.#selected), text: `${name} · ${this.names[kind] ?? kind}`,
      onclick: () => this.#select(index === this.#selected ? -1 : index),
    })));
    if (this.#selected >= this.#shapes.length) this.#selected = -1;
    this.list.replaceChildren(...names);
    this.canvas.setShapes(this.#shapes, this.#selected);
    this.#showForm();
    this.#showHint(!this.done.hidden);
  }

  #select(index) {
    this.#selected = index;
    this.#showShapes();
  }

  #change(edits) {
    return this.host.edit(edits);
  }

  async #add(kind, points) {
    const name = freeName(this.#graph, this.#camera, kind);
    if (!await this.#change(added(this.#graph, this.#camera, kind, name, points))) return;
    const last = (shape) => shape.name === name || (shape.kind === kind && ["ignore", "only"].includes(kind));
    this.#select(this.#shapes.findLastIndex(last));
  }

  #showForm() {
    const shape = this.#shapes[this.#selected];
    const key = JSON.stringify([this.#camera, this.#selected, shape?.path, shape?.value, sinksOf(this.#graph)]);
    if (key === this.formKey) return;
    this.formKey = key;
    if (!shape) {
      this.form.replaceChildren(el("p", { class: "hint", text: t("Choose a shape, or draw one.") }));
      return;
    }
    const parts = [el("h3", { text: shape.name })];
    if (shape.isShared) parts.push(el("p", { class: "hint", text: t("Other cameras have this shape, too.") }));
    if (shape.index === undefined) parts.push(this.#name(shape), this.#classes(shape));
    if (shape.kind === "speed") parts.push(...this.#ground(shape));
    parts.push(el("div", { class: "buttons" }, el("button", {
      type: "button", class: "danger", text: t("Remove"), "aria-label": t("Remove {name}", { name: shape.name }),
      onclick: () => { this.#selected = -1; this.#change(removed(shape)); },
    })));
    if (shape.kind === "zone") parts.push(this.#rule(shape));
    this.form.replaceChildren(...parts);
  }

  #name(shape) {
    const rename = async ({ target }) => {
      const name = target.value.trim();
      if (!name || name === shape.name) return;
      const path = [...shape.path.slice(0, -1), name];
      if (this.#shapes.some((other) => other.path.join("\n") === path.join("\n"))) {
        target.value = shape.name;
        this.host.app.say(t("The name {name} is taken.", { name }));
        return;
      }
      await this.#change([{ path, value: shape.value }, { path: shape.path, value: null }]);
      this.#select(this.#shapes.findIndex((other) => other.name === name));
    };
    return field(t("Name"), el("input", { id: "edit-name", value: shape.name, maxlength: "64", autocomplete: "off", onchange: rename }));
  }

  #classes(shape) {
    const before = Array.isArray(shape.value.classes) ? shape.value.classes.map(String).map(fromFile).join(", ") : "";
    const change = ({ target }) => {
      const classes = words(target.value);
      this.#change(withKey(shape, "classes", classes.length ? classes : null));
    };
    return field(t("Classes of objects"), el("input", { value: before, placeholder: t("all"), autocomplete: "off", onchange: change }));
  }

  /** Sides of the rectangle on the ground whose corners the four points are. */
  #ground(shape) {
    const ground = Array.isArray(shape.value.ground) ? shape.value.ground.flat().filter(Number.isFinite) : [];
    const largest = (axis) => Math.max(0, ...ground.filter((_, index) => index % 2 === axis));
    const [width, length] = [0, 1].map((axis) => el("input", { type: "number", min: "0.1", step: "any", value: largest(axis) }));
    const change = () => {
      const [w, l] = [Number(width.value), Number(length.value)];
      if (w > 0 && l > 0) this.#change(withKey(shape, "ground", [[0, l], [w, l], [w, 0], [0, 0]]));
    };
    for (const input of [width, length]) input.addEventListener("change", change);
    return [el("p", { class: "hint", text: t("The points are corners of a rectangle on the ground: far left, far right, near right, near left.") }),
      field(t("Width in metres"), width), field(t("Length in metres"), length)];
  }

  #rule(zone) {
    const name = el("input", { required: "", maxlength: "64", value: `${zone.name}-alarm`, autocomplete: "off" });
    const classes = el("input", { placeholder: t("all"), value: "person", autocomplete: "off" });
    const after = el("input", { placeholder: "2s", value: "2s", autocomplete: "off" });
    const hours = el("input", { placeholder: "22:00-06:00", autocomplete: "off" });
    const sinks = sinksOf(this.#graph).map((sink) => el("input", { type: "checkbox", value: sink }));
    const submit = (event) => {
      event.preventDefault();
      const keys = { classes: words(classes.value), after: toFile(after.value.trim()), hours: toFile(hours.value.trim()) };
      const chosen = sinks.filter((input) => input.checked).map((input) => input.value);
      this.#change(ruled(this.#graph, this.#camera, zone, name.value.trim(), keys, chosen));
    };
    return el("details", { class: "edit-rule" }, el("summary", { text: t("Add a rule for this zone") }),
      el("form", { onsubmit: submit }, field(t("Name of the rule"), name), field(t("Classes of objects"), classes),
        field(t("Time in the zone"), after), field(t("Hours"), hours),
        ...sinks.map((input) => el("label", { class: "check" }, input, el("span", { text: t("Send to {name}", { name: input.value }) }))),
        el("div", { class: "buttons" }, el("button", { class: "primary", text: t("Add the rule") }))));
  }
}

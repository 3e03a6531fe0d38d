// The view Live: pictures of the cameras, and whether something is wrong.

import { el, setText } from "./dom.js";
import { percent } from "./format.js";
import { arrange, perPage, SIZES } from "./grid.js";
import { icon } from "./icons.js";
import { Groups } from "./live_groups.js";
import { drawn } from "./overlay.js";
import { troubles } from "./status.js";
import { dropShare, OVERLOAD } from "./summary.js";
import { t } from "./texts.js";
import { Tile } from "./tile.js";
import { Videos } from "./videos.js";

const KEY = "weir-live";
/** Height of the head of a tile and gap between tiles, in pixels, as `live.css` has them. */
const [HEAD, GAP] = [30, 8];
/** From so many cameras on they are found by a part of their name. */
const MANY = 10;

const DEFAULTS = { size: 0, video: true, boxes: true, zones: true, group: "" };

function stored() {
  try { return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY)) }; } catch { return { ...DEFAULTS }; }
}

export class Live {
  #tiles = new Map();
  #choice = stored();
  #page = 0;
  /** Name of the camera that is shown alone, if one is. */
  #single = null;
  #state = null;
  #focused = null;

  constructor(root, app) {
    this.root = root;
    this.app = app;
    this.videos = new Videos();
    this.actions = {
      enlarge: (name) => app.go(this.#single === name ? "live" : `live?camera=${encodeURIComponent(name)}`),
      sound: (name) => this.#switchSound(name), toggle: app.toggle, remove: app.removeCamera, go: app.go,
    };
    this.groups = new Groups((name) => {
      this.#page = 0;
      this.#choose("group", name);
      app.go(name ? `live?group=${encodeURIComponent(name)}` : "live");
    });
    this.grid = el("div", { class: "grid" });
    this.empty = el("div", { class: "live-empty", hidden: "" }, el("p", { text: t("There is no camera yet.") }),
      el("button", { type: "button", class: "primary for-edit", text: t("Add camera"), onclick: () => app.addCamera() }),
      el("a", { class: "for-edit", href: "#edit?pane=add", text: t("Find cameras") }));
    root.append(el("h2", { class: "unseen", text: t("Live") }), this.#bar(), this.list, this.grid, this.empty);
    this.#apply();
    this.grid.addEventListener("keydown", (event) => this.#onKey(event));
    document.addEventListener("keydown", (event) => this.#onEscape(event));
    this.grid.addEventListener("focusin", ({ target }) => this.#rove(target.closest(".tile")));
    this.resized = new ResizeObserver(() => this.#layout());
    for (const part of [document.documentElement, root, this.bar, this.list]) this.resized.observe(part);
    document.addEventListener("fullscreenchange", () => this.#layout());
  }

  #bar() {
    this.line = el("p", { class: "live-line", role: "status" });
    this.load = el("a", { class: "live-load", href: "#engine", hidden: "" });
    this.why = el("button", {
      type: "button", class: "small", "aria-controls": "live-troubles", "aria-expanded": "false", hidden: "",
      onclick: () => { this.list.hidden = !this.list.hidden; this.#showTroubles(); },
    });
    this.list = el("ul", { class: "panel live-troubles", id: "live-troubles", hidden: "" });
    this.find = el("input", {
      type: "search", class: "live-find", placeholder: t("Find a camera"), "aria-label": t("Find a camera"), hidden: "",
      oninput: () => { this.#page = 0; this.#arrange(); },
    });
    this.position = el("span", { class: "count" });
    this.pager = el("div", { class: "pager", hidden: "" },
      el("button", { type: "button", class: "icon-button", "aria-label": t("Previous cameras"), onclick: () => this.#turn(-1) }, icon("previous")),
      this.position,
      el("button", { type: "button", class: "icon-button", "aria-label": t("Next cameras"), onclick: () => this.#turn(1) }, icon("next")));
    const names = SIZES.map((size) => (size ? String(size) : t("Automatic")));
    this.size = el("select", { "aria-label": t("Pictures per page"), title: t("Pictures per page"), onchange: () => {
      this.#page = 0;
      this.#choose("size", Number(this.size.value));
    } }, ...SIZES.map((size, index) => el("option", { value: String(size), text: names[index] })));
    const toggle = (key, text, title) => el("button", {
      type: "button", class: "small toggle", id: `live-${key}`, text, title, onclick: () => this.#choose(key, !this.#choice[key]),
    });
    this.switches = {
      video: toggle("video", t("Video"), t("Live video of the cameras in sight")),
      boxes: toggle("boxes", t("Boxes"), t("Objects that were found, with their names and trails")),
      zones: toggle("zones", t("Zones"), t("Zones and lines, with their counts")),
    };
    const full = el("button", {
      type: "button", class: "icon-button live-full", "aria-label": t("Full screen of all cameras"), title: t("Full screen"),
      onclick: () => this.grid.requestFullscreen(),
    }, icon("full"));
    full.hidden = !document.fullscreenEnabled;
    const add = el("button", { type: "button", id: "add", class: "primary small for-edit", text: t("Add camera"), onclick: () => this.app.addCamera() });
    this.controls = el("div", { class: "live-controls" }, this.find, this.groups.select, this.pager, this.size, ...Object.values(this.switches), full, add);
    this.bar = el("div", { class: "live-bar" }, this.line, this.why, this.load, this.controls);
    return this.bar;
  }

  /** Keeps a choice for the next visit. */
  #choose(key, value) {
    this.#choice[key] = value;
    try { localStorage.setItem(KEY, JSON.stringify(this.#choice)); } catch { /* Kept for this page only. */ }
    this.#apply();
  }

  #apply() {
    if (!SIZES.includes(this.#choice.size)) this.#choice.size = 0;
    this.size.value = String(this.#choice.size);
    for (const [key, button] of Object.entries(this.switches)) button.setAttribute("aria-pressed", String(this.#choice[key]));
    this.videos.isOn = this.#choice.video;
    [drawn.boxes, drawn.zones] = [this.#choice.boxes, this.#choice.zones];
    this.groups.chosen = this.#choice.group;
    if (!this.#state) return;
    this.update(this.#state);
    this.#arrange();
  }

  show(params) {
    this.#single = params.get("camera");
    const group = params.get("group") ?? this.#choice.group;
    if (group !== this.#choice.group) this.#choose("group", group);
    this.#arrange();
    this.#showAddress();
  }

  /** The group that the browser kept is a part of the address, which may be shared. */
  #showAddress() {
    if (!this.root.hidden && this.groups.shown && ["", "#live"].includes(location.hash)) {
      window.history.replaceState(null, "", `#live?group=${encodeURIComponent(this.groups.shown)}`);
    }
  }

  hide() {
    if (this.#state) this.videos.update(this.#state);
  }

  update(state) {
    this.#state = state;
    const before = this.groups.shown;
    this.groups.update(state.streams);
    const ids = new Set(state.streams.map((stream) => stream.id));
    let isChanged = before !== this.groups.shown;
    for (const [id, tile] of this.#tiles) {
      if (ids.has(id)) continue;
      tile.close();
      this.videos.remove(id);
      this.#tiles.delete(id);
      isChanged = true;
    }
    for (const stream of state.streams) {
      let tile = this.#tiles.get(stream.id);
      if (!tile) {
        tile = new Tile(stream, this.videos.add(stream.id, stream.name), this.actions);
        this.#tiles.set(stream.id, tile);
        this.grid.append(tile.root);
        isChanged = true;
      }
      const isInGroup = this.groups.has(stream);
      isChanged ||= tile.isInGroup !== isInGroup;
      tile.isInGroup = isInGroup;
      tile.update(stream, this.#choice.video);
    }
    if (isChanged) this.#arrange();
    this.videos.update(state);
    this.#showLine();
    this.#showAddress();
  }

  #showLine() {
    const { streams } = this.#state;
    const { text, tone } = this.groups.summarize();
    setText(this.line, text);
    this.bar.dataset.tone = tone;
    this.why.hidden = !tone;
    const share = dropShare(this.app.history.all());
    this.load.hidden = !(share > OVERLOAD);
    if (!this.load.hidden) setText(this.load, t("Overloaded: {share} of the pictures are not analysed in time", { share: percent(share) }));
    if (!tone) this.list.hidden = true;
    this.#showTroubles();
    this.empty.hidden = streams.length > 0;
    this.controls.hidden = streams.length === 0;
    this.grid.hidden = streams.length === 0;
    this.find.hidden = streams.length < MANY;
  }

  /** Lost cameras by reason; drawn again only where something is different, since a link in it may have the focus. */
  #showTroubles() {
    const isOpen = !this.list.hidden;
    setText(this.why, isOpen ? t("Hide") : t("Show which and why"));
    this.why.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen) return;
    const items = troubles(this.#state.streams).map(({ reason, remedy, detail, cameras }) => {
      const links = cameras.map(({ name, since }) => el("li", {},
        el("a", { href: `#live?camera=${encodeURIComponent(name)}`, dir: "auto", text: name }), ` ${t("since {time}", { time: since })}`));
      return el("li", {}, el("strong", { dir: "auto", text: reason }), el("span", { text: remedy }),
        ...(detail ? [el("span", { class: "hint", lang: "en", dir: "auto", text: detail })] : []), el("ul", {}, ...links));
    });
    const next = el("ul", {}, ...items);
    if (next.textContent !== this.list.textContent) this.list.replaceChildren(...next.children);
  }

  #found() {
    const part = this.find.value.trim().toLocaleLowerCase();
    const tiles = [...this.#tiles.values()].filter(({ isInGroup }) => isInGroup);
    return part && !this.find.hidden ? tiles.filter(({ name }) => name.toLocaleLowerCase().includes(part)) : tiles;
  }

  /** Sound of one camera, or of none. */
  #switchSound(name) {
    for (const tile of this.#tiles.values()) {
      tile.video.setSound(tile.name === name && !tile.video.isLoud);
      tile.showSound();
    }
  }

  #turn(by) {
    this.#page += by;
    this.#arrange();
  }

  /** Shows the tiles of the page, or the one that is enlarged. */
  #arrange() {
    const found = this.#found();
    const single = [...this.#tiles.values()].find(({ name }) => name === this.#single);
    const length = perPage(this.#choice.size);
    const pages = Math.max(1, Math.ceil(found.length / length));
    // From the last page on to the first.
    this.#page = (this.#page + pages) % pages;
    const from = this.#page * length;
    const shown = new Set(single ? [single] : found.slice(from, from + length));
    for (const tile of this.#tiles.values()) {
      tile.root.hidden = !shown.has(tile);
      tile.showLarge(tile === single);
    }
    this.pager.hidden = Boolean(single) || pages === 1;
    setText(this.position, t("{from} to {to} of {all}", { from: from + 1, to: Math.min(from + length, found.length), all: found.length }));
    const first = shown.values().next().value?.root;
    if (!this.#focused || this.#focused.hidden || !this.#focused.isConnected) this.#rove(first);
    this.#layout();
  }

  /** Sizes of the tiles, so that they fill the screen and no picture is cut off. */
  #layout() {
    const count = [...this.#tiles.values()].filter(({ root }) => !root.hidden).length;
    if (!count || this.root.hidden) return;
    const isFull = document.fullscreenElement === this.grid;
    const above = this.grid.getBoundingClientRect().top + window.scrollY;
    const below = parseFloat(getComputedStyle(this.root).paddingBottom);
    const height = isFull ? window.innerHeight - 2 * GAP : window.innerHeight - above - below;
    const width = this.grid.clientWidth - (isFull ? 2 * GAP : 0);
    // A choice of pictures per page keeps their size on a last page with fewer.
    const chosen = this.#single === null && this.#choice.size ? Math.min(this.#choice.size, this.#found().length) : count;
    const { columns, row } = arrange(Math.max(count, chosen), width, height, HEAD, GAP);
    this.grid.style.setProperty("--columns", String(columns));
    this.grid.style.setProperty("--row", row === null ? "auto" : `${Math.floor(row)}px`);
    this.grid.classList.toggle("scrolls", row === null);
  }

  /** The one tile that Tab reaches; arrow keys go to the others. */
  #rove(tile) {
    if (!tile) return;
    this.#focused?.setAttribute("tabindex", "-1");
    tile.setAttribute("tabindex", "0");
    this.#focused = tile;
  }

  /** Back to all cameras; a full screen, a dialog and a menu take the key themselves. */
  #onEscape({ key, target }) {
    if (key !== "Escape" || this.root.hidden || this.#single === null) return;
    if (!document.fullscreenElement && !target.closest("dialog, .menu[open]")) this.app.go("live");
  }

  #onKey(event) {
    const { key, target } = event;
    if (!target.classList.contains("tile")) return;
    if (key === "Enter") this.actions.enlarge(target.ariaLabel);
    const columns = Number(this.grid.style.getPropertyValue("--columns"));
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[key];
    if (!by) return;
    event.preventDefault();
    const shown = [...this.grid.children].filter((tile) => !tile.hidden);
    const next = shown.indexOf(target) + by;
    if (shown[next]) shown[next].focus();
    else if (Math.abs(by) === 1 && !this.pager.hidden) {
      this.#turn(by);
      const tiles = [...this.grid.children].filter((tile) => !tile.hidden);
      tiles.at(by > 0 ? 0 : -1).focus();
    }
  }
}

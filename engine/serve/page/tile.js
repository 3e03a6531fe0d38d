// One camera in the grid: its name, its picture, and a menu.

import { el, setText } from "./dom.js";
import { icon, showSound } from "./icons.js";
import { explain, isLost, stateWord } from "./status.js";
import { t } from "./texts.js";

export class Tile {
  /** `actions` are `enlarge(name)`, `sound(name)`, `toggle(name, isPaused)`, `remove(name)` and `go(hash)`. */
  constructor({ name, source }, video, actions) {
    this.name = name;
    this.video = video;
    this.actions = actions;
    this.state = el("span", { class: "state" });
    this.sound = el("button", { class: "icon-button", type: "button", hidden: "", "aria-label": t("Sound of {name}", { name }), onclick: () => actions.sound(name) });
    this.larger = el("button", { class: "icon-button", type: "button", onclick: () => actions.enlarge(name) });
    this.root = el("article", { class: "tile", "aria-label": name, tabindex: "-1" },
      el("div", { class: "tile-head" },
        el("h3", { text: name, title: `${name}\n${source}`, dir: "auto" }), this.state, this.sound, this.larger, this.#menu()),
      video.root);
    video.root.addEventListener("dblclick", () => actions.enlarge(name));
    this.showLarge(false);
  }

  #menu() {
    const { name, actions } = this;
    const item = (text, label, onclick, role) => el("button", {
      type: "button", text, "aria-label": label, class: role,
      onclick: () => { this.menu.open = false; this.menu.firstChild.focus(); onclick(); },
    });
    const query = `camera=${encodeURIComponent(name)}`;
    this.pause = item("", "", () => actions.toggle(name, this.isPaused), "for-operate");
    this.full = item(t("Full screen"), t("Full screen of {name}", { name }), () => this.root.requestFullscreen());
    this.menu = el("details", { class: "menu" },
      el("summary", { class: "icon-button", "aria-label": t("Menu of {name}", { name }), title: t("Menu") }, icon("menu")),
      el("div", { class: "menu-items" },
        this.full,
        item(t("Incidents of this camera"), t("Incidents of {name}", { name }), () => actions.go(`incidents?${query}`)),
        item(t("Recordings of this camera"), t("Recordings of {name}", { name }), () => actions.go(`recordings?${query}`)),
        this.pause,
        item(t("Remove"), t("Remove {name}", { name }), () => actions.remove(name), "for-edit")));
    this.full.hidden = !document.fullscreenEnabled;
    this.menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.menu.open) return;
      this.menu.open = false;
      this.menu.firstChild.focus();
      event.stopPropagation();
    });
    // It closes where the focus or a click leaves it.
    this.menu.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget && !this.menu.contains(relatedTarget)) this.menu.open = false;
    });
    document.addEventListener("pointerdown", this.closeMenu = ({ target }) => {
      if (!this.menu.contains(target)) this.menu.open = false;
    });
    return this.menu;
  }

  /** Names the button by its effect: the camera alone, or among the others again. */
  showLarge(isLarge) {
    const label = t(isLarge ? "Shrink {name}" : "Enlarge {name}", { name: this.name });
    this.root.classList.toggle("large", isLarge);
    this.larger.replaceChildren(icon(isLarge ? "shrink" : "enlarge"));
    this.larger.setAttribute("aria-label", label);
    this.larger.title = t(isLarge ? "Shrink" : "Enlarge");
  }

  /** Shows the switch for the sound if the camera sends some. */
  showSound() {
    const { isLoud, hasSound } = this.video;
    this.sound.hidden = !hasSound;
    this.sound.title = t(isLoud ? "Sound off" : "Sound on");
    showSound(this.sound, isLoud);
  }

  update(stream, hasVideo) {
    const { name } = this;
    this.isPaused = stream.state === "paused";
    this.root.dataset.state = this.state.dataset.state = isLost(stream) ? "lost" : stream.state;
    setText(this.state, stateWord(stream));
    setText(this.pause, this.isPaused ? t("Resume") : t("Pause"));
    this.pause.setAttribute("aria-label", t(this.isPaused ? "Resume {name}" : "Pause {name}", { name }));
    this.pause.disabled = ["gone", "removing"].includes(stream.state);
    this.showSound();
    this.video.showRemark(stream);
    this.video.showInstead(explain(stream) || (hasVideo ? "" : t("Video is switched off.")));
  }

  close() {
    document.removeEventListener("pointerdown", this.closeMenu);
    this.root.remove();
  }
}

// Groups of cameras in the view Live: which one is shown, and how many of its cameras are live.

import { el, setText } from "./dom.js";
import { summarize } from "./status.js";
import { t } from "./texts.js";

const isLive = ({ state }) => state === "live";

export class Groups {
  #streams = [];
  /** The group that is shown since the last update; empty if it is that of no camera. */
  shown = "";

  /** `choose(name)` is called where a reader chooses a group; an empty name is all cameras. */
  constructor(choose) {
    this.all = el("option", { value: "" });
    this.select = el("select", {
      class: "live-group", "aria-label": t("Group of cameras"), title: t("Group of cameras"), hidden: "", onchange: () => choose(this.select.value),
    }, this.all);
    this.chosen = "";
  }

  has({ groups = [] }) {
    return !this.shown || groups.includes(this.shown);
  }

  update(streams) {
    this.#streams = streams;
    this.shown = streams.some(({ groups = [] }) => groups.includes(this.chosen)) ? this.chosen : "";
    const names = [...new Set(streams.flatMap(({ groups = [] }) => groups))].sort((one, other) => one.localeCompare(other));
    const options = [...this.select.options].slice(1);
    if (names.join("\n") !== options.map(({ value }) => value).join("\n")) {
      this.select.replaceChildren(this.all, ...names.map((value) => el("option", { value })));
    }
    setText(this.all, t("All cameras: {live} of {all} live", { live: streams.filter(isLive).length, all: streams.length }));
    for (const option of [...this.select.options].slice(1)) {
      const members = streams.filter(({ groups = [] }) => groups.includes(option.value));
      setText(option, t("{name}: {live} of {all} live", { name: option.value, live: members.filter(isLive).length, all: members.length }));
    }
    this.select.hidden = names.length === 0;
    this.select.value = this.shown;
  }

  /** One sentence on the cameras of the group, and another one if something is wrong with others. */
  summarize() {
    const own = summarize(this.#streams.filter((stream) => this.has(stream)));
    if (!this.shown) return own;
    const others = summarize(this.#streams.filter((stream) => !this.has(stream)));
    const rest = others.tone ? ` ${t("Other cameras: {text}", { text: others.text })}` : "";
    return { text: `${this.shown}: ${own.text}${rest}`, tone: own.tone || (others.tone && "warn") };
  }
}

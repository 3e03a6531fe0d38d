// Which tiles show live video: those in sight, where that is switched on.

import { byId, setText } from "./dom.js";
import { LiveView } from "./live.js";
import { LiveSocket } from "./socket.js";

const KEY = "weir-video";
/** Videos that a page plays at a time. */
const MAX_OPEN = 16;

export class Views {
  #views = new Map();
  #inSight = new Set();
  #socket = new LiveSocket();
  #isOn = localStorage.getItem(KEY) !== "off";

  constructor() {
    this.observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.#inSight.add(target);
        else this.#inSight.delete(target);
      }
    });
    byId("video").addEventListener("click", () => {
      this.#isOn = !this.#isOn;
      localStorage.setItem(KEY, this.#isOn ? "on" : "off");
      this.#showChoice();
    });
    this.#showChoice();
  }

  #showChoice() {
    setText(byId("video"), `Video: ${this.#isOn ? "on" : "off"}`);
    byId("video").setAttribute("aria-pressed", this.#isOn);
  }

  /** The view of a stream, to be put into its tile. */
  add(id, name) {
    const view = new LiveView(name, this.#socket);
    this.#views.set(id, view);
    this.observer.observe(view.root);
    return view.root;
  }

  remove(id) {
    const view = this.#views.get(id);
    this.observer.unobserve(view.root);
    this.#inSight.delete(view.root);
    view.close();
    this.#views.delete(id);
  }

  /** Opens and closes them as the streams are. */
  update(state) {
    const streams = new Map(state.streams.map((stream) => [stream.id, stream]));
    let open = 0;
    for (const [id, view] of this.#views) {
      const stream = streams.get(id);
      // What was found is known at the end of the objective.
      const delay = Math.min(2, ((stream?.slo_ms ?? state.slo_ms) + 250) / 1000);
      view.root.hidden = !this.#isOn;
      const wanted = this.#isOn && !document.hidden && stream?.state === "live" && this.#inSight.has(view.root) && open < MAX_OPEN;
      if (wanted) {
        open += 1;
        view.open(delay);
      } else {
        if (view.isOpen) view.close();
        view.showWhyNot(stream?.state ?? "removed");
      }
    }
  }
}

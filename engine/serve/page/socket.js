// The one WebSocket over which all live views of the page get their messages. A text says which camera those after it are of.

import { causeText } from "./causes.js";
import { t } from "./texts.js";

const AGAIN_MS = 2000;

export class LiveSocket {
  #views = new Map();
  #socket = null;
  #timer = 0;
  #current = null;

  /**
   * Messages of the camera of that name go to `view.receive`, and `view.fail(reason)` is called where there are none. `kind` is
   * `watch` for its video, `sound` for that with its sound, or `pictures`.
   */
  watch(name, view, kind) {
    this.#views.set(name, { view, kind });
    if (this.#socket?.readyState === WebSocket.OPEN) this.#ask(name, kind);
    else if (!this.#socket && !this.#timer) this.#open();
  }

  leave(name) {
    if (!this.#views.delete(name)) return;
    if (!this.#views.size) this.#close();
    else if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ leave: name }));
  }

  /** The camera's newest picture was shown: the next one may come. */
  next(name) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ next: name }));
  }

  #ask(name, kind) {
    // What still comes of the same camera is of what was asked for before.
    this.#socket.send(JSON.stringify({ [kind]: name }));
  }

  #open() {
    const address = new URL("api/live", document.baseURI);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      for (const [name, { kind }] of this.#views) this.#ask(name, kind);
    };
    socket.onmessage = ({ data }) => { if (socket === this.#socket) this.#receive(data); };
    socket.onclose = ({ reason }) => { if (socket === this.#socket) this.#lost(reason || t("Live video was cut off.")); };
    this.#socket = socket;
  }

  #close() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const socket = this.#socket;
    this.#socket = this.#current = null;
    socket?.close();
  }

  #receive(data) {
    const message = typeof data === "string" ? JSON.parse(data) : data;
    if (message.type === "stream") this.#current = message.stream;
    else if (message.type === "closed") this.#views.get(message.stream)?.view.fail(causeText(message.cause) ?? t("No live video: {reason}.", message));
    else this.#views.get(this.#current)?.view.receive(message);
  }

  /** Says why to all, and tries again after a while. */
  #lost(reason) {
    this.#close();
    for (const { view } of [...this.#views.values()]) view.fail(reason);
    this.#timer = setTimeout(() => { this.#timer = 0; if (this.#views.size) this.#open(); }, AGAIN_MS);
  }
}

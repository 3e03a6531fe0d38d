// Live video of the cameras in sight, if it is switched on.

import { LiveSocket } from "./socket.js";
import { CameraVideo } from "./video.js";

/** Videos that a page plays at a time. */
const MAX_OPEN = 16;

export class Videos {
  #videos = new Map();
  #inSight = new Set();
  #socket = new LiveSocket();
  isOn = true;

  constructor() {
    this.observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.#inSight.add(target);
        else this.#inSight.delete(target);
      }
    });
  }

  /** The video of a stream, whose `root` belongs into its tile. */
  add(id, name) {
    const video = new CameraVideo(name, this.#socket);
    this.#videos.set(id, video);
    this.observer.observe(video.root);
    return video;
  }

  remove(id) {
    const video = this.#videos.get(id);
    this.observer.unobserve(video.root);
    this.#inSight.delete(video.root);
    video.close();
    this.#videos.delete(id);
  }

  /** Opens and closes videos by the states of their streams. */
  update(state) {
    const streams = new Map(state.streams.map((stream) => [stream.id, stream]));
    let open = 0;
    for (const [id, video] of this.#videos) {
      const stream = streams.get(id);
      // Findings of a frame are known at the end of the objective.
      const delay = Math.min(2, ((stream?.slo_ms ?? state.slo_ms) + 250) / 1000);
      const isWanted = this.isOn && !document.hidden && stream?.state === "live" && this.#inSight.has(video.root) && open < MAX_OPEN;
      if (isWanted) {
        open += 1;
        video.open(delay);
      } else if (video.isOpen) {
        video.close();
      }
    }
  }
}

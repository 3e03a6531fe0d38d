// The view Engine: figures of the run, for those who tune it.

import { byId, setText } from "./dom.js";
import { Cameras } from "./cameras.js";
import { DroppedFrames } from "./dropped.js";
import { updateFleet } from "./fleet.js";
import { duration } from "./format.js";
import { Gears } from "./gears.js";
import { GraphView } from "./graph.js";
import { addHelp } from "./help.js";
import { Latency } from "./latency.js";
import { updateDrops, updateModules, updateSinks } from "./modules.js";
import { Summary } from "./summary.js";
import { t } from "./texts.js";
import { TimelineView } from "./timeline.js";

export class Engine {
  #state = null;

  constructor(root, app) {
    this.root = root;
    this.history = app.history;
    addHelp();
    this.parts = [new Summary(), new Cameras(), new GraphView(), new Latency(), new Gears()];
    this.dropped = new DroppedFrames();
    this.timeline = new TimelineView();
  }

  show() {
    if (this.#state) this.update(this.#state);
  }

  hide() {}

  /** Draws only what is seen: the view has the newest state at hand for when it becomes visible. */
  update(state) {
    this.#state = state;
    if (this.root.hidden) return;
    setText(byId("run-line"), runLine(state));
    updateFleet(state);
    for (const part of this.parts) part.update(state, this.history);
    updateModules(state, this.history);
    updateDrops(state, this.history);
    updateSinks(state, this.history);
    this.dropped.update(state);
    this.timeline.update();
  }
}

/** The run in a line: its age, objective, policy and reloads. */
function runLine(state) {
  const { run } = state.report;
  const age = { age: duration(run.duration_s) };
  const parts = [
    state.stopping ? t("stopping, after {age}", age) : t("running for {age}", age),
    t("objective {slo} ms", { slo: state.slo_ms }),
    t("policy {policy}", { policy: run.preset }),
  ];
  const { reloads } = state.graph;
  if (reloads) parts.push(reloads === 1 ? t("graph reloaded once") : t("graph reloaded {count} times", { count: reloads }));
  return parts.join(" · ");
}

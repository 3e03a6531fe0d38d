// The page: asks for the state once a second, and shows it.

import { pauseStream, resumeStream, state as askState, token } from "./api.js";
import { Dialogs } from "./dialogs.js";
import { byId, setText } from "./dom.js";
import { DroppedFrames } from "./dropped.js";
import { updateFleet } from "./fleet.js";
import { duration } from "./format.js";
import { Gears } from "./gears.js";
import { GraphView } from "./graph.js";
import { addHelp } from "./help.js";
import { History } from "./history.js";
import { Incidents } from "./incidents.js";
import { Latency } from "./latency.js";
import { updateDrops, updateModules, updateSinks } from "./modules.js";
import { Summary } from "./summary.js";
import { Tiles } from "./tiles.js";
import { TimelineView } from "./timeline.js";
import { Views } from "./views.js";

const POLL_MS = 1000;
const SAID_MS = 4000;

const history = new History();
const [summary, graph, latency, incidents] = [new Summary(), new GraphView(), new Latency(), new Incidents()];
const [gears, dropped, timeline] = [new Gears(), new DroppedFrames(), new TimelineView()];
const dialogs = new Dialogs((text) => { say(text); poll(); });
const tiles = new Tiles(new Views(), { toggle, remove: (name) => dialogs.remove(name) });

let shown = null;
let timer = 0;
let polls = 0;

/** Says something for a while, also to screen readers. */
function say(text) {
  setText(byId("said"), text);
  setTimeout(() => { if (byId("said").textContent === text) setText(byId("said"), ""); }, SAID_MS);
}

function warn(text) {
  byId("banner").hidden = !text;
  setText(byId("banner"), text);
}

async function toggle(name, isPaused) {
  try {
    await (isPaused ? resumeStream(name) : pauseStream(name));
    say(`${isPaused ? "Resumed" : "Paused"} ${name}.`);
  } catch (error) {
    say(error.message);
  }
  poll();
}

function show(state) {
  shown = state;
  history.add(state);
  const { name, reloads, problems } = state.graph;
  setText(byId("graph-name"), name);
  document.title = `${name} – Weir`;
  const preset = state.report.run.preset;
  const reloaded = reloads ? ` · graph reloaded ${reloads === 1 ? "once" : `${reloads} times`}` : "";
  setText(byId("engine"), `${state.stopping ? "stopping" : "running"} for ${duration(state.report.run.duration_s)} · objective ${state.slo_ms} ms · policy ${preset}${reloaded}`);
  const wrong = problems.map(({ line, message }) => `The graph file was refused: ${line ? `line ${line}: ` : ""}${message}`);
  warn([...wrong, ...(state.warnings ?? [])].join(" "));
  summary.update(state, history);
  updateFleet(state);
  tiles.update(state, history);
  incidents.update(state);
  graph.update(state, history);
  updateModules(state, history);
  latency.update(state, history);
  gears.update(state, history);
  updateDrops(state, history);
  dropped.update(state);
  timeline.update();
  updateSinks(state, history);
}

/** Shows the state now; the newest of several polls goes on. */
async function poll() {
  clearTimeout(timer);
  const number = ++polls;
  let wait = POLL_MS;
  try {
    const state = await askState();
    if (number !== polls) return;
    document.body.classList.remove("lost");
    byId("tiles").classList.remove("stale");
    show(state);
  } catch (error) {
    if (number !== polls) return;
    if (error.status === 401) {
      dialogs.token(token() ? error.message : undefined);
      return;
    }
    byId("tiles").classList.add("stale");
    warn(shown ? `${error.message} The page shows the last known state and keeps trying.` : error.message);
    wait = 2 * POLL_MS;
  }
  if (!document.hidden) timer = setTimeout(poll, wait);
}

addHelp();
byId("add").addEventListener("click", () => {
  const own = new Set(shown?.modules.map((module) => module.name));
  const inputs = (shown ? [...shown.modules, ...shown.sinks] : []).flatMap((node) => node.inputs);
  dialogs.add([...new Set(inputs)].filter((name) => !own.has(name)));
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
poll();

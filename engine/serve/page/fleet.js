// Engines that share the streams of the graph, where this one is in a fleet.

import { byId, el, replaceTable, setText } from "./dom.js";
import { count, percent, rate } from "./format.js";
import { t } from "./texts.js";

const ENGINES = [
  ["Engine", "Its name in the file of the fleet; the one that serves this page is marked", "words"],
  ["State", "Whether this engine sees it", "words"],
  ["Cameras", "Cameras that it has frames of"],
  ["Capacity, frames/s", "Frames a second that it can serve in time"],
  ["Load", "Frames a second that its cameras bring, of its capacity"],
  ["Missed", "Part of its frames that it did not serve in time"],
  ["Devices", "What its models run on, with the slots there", "words"],
];

export function updateFleet({ fleet }) {
  byId("fleet-section").hidden = !fleet;
  if (!fleet) return;
  const { engines, streams, node } = fleet;
  const unseen = streams.filter((stream) => !stream.engines.length).length;
  const up = engines.filter((engine) => engine.up).length;
  setText(byId("fleet-count"), t("{fleet}: {up} of {engines} engines, {seen} of {cameras} cameras", {
    fleet: fleet.fleet, up, engines: engines.length, seen: streams.length - unseen, cameras: streams.length,
  }));
  replaceTable(byId("fleet"), ENGINES, engines.map((engine) => [
    engine.name === node ? el("strong", { text: engine.name }) : engine.name,
    el("span", { class: engine.up ? "" : "bad", text: engine.up ? t("up") : t("not seen") }),
    count(engine.streams),
    rate(engine.capacity ?? null),
    el("span", { class: engine.load > 1 ? "bad" : "", text: percent(engine.load ?? null) }),
    percent(engine.missed ?? null),
    Object.entries(engine.devices ?? {}).map(([device, slots]) => `${device} × ${slots}`).join(", ") || "–",
  ]));
}

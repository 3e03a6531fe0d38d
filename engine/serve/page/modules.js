// Modules and outputs as tables, and why frames were dropped.

import { outputTrouble } from "./causes.js";
import { byId, el, replaceTable } from "./dom.js";
import { count, number, percent, rate } from "./format.js";
import { perSecond, ratio } from "./history.js";
import { t } from "./texts.js";

const MODULES = [
  ["Module", "Its name in the graph", "words"],
  ["Load", "Items that arrive, of those that it can do; above 100 % frames must be dropped"],
  ["Inside", "Requests in it now: waiting, in a batch that forms, or on a slot"],
  ["Items/s", "Items a second that ran; an item is a frame or a crop of it"],
  ["Batch", "Mean items of a batch"],
  ["Busy", "Device time of its batches, of the time of its slots"],
  ["Useful", "Device time spent on frames that were delivered in time, of all that it spent"],
  ["Dropped/s", "Requests a second that it dropped"],
];

/** The load of a module; `null` where it is not known yet. */
export function load(module) {
  return module.throughput > 0 ? module.input_rate / module.throughput : null;
}

export function updateModules(state, history) {
  if (!state.modules.length) {
    byId("modules").replaceChildren(el("p", { class: "nothing", text: t("The graph has no modules.") }));
    return;
  }
  const rows = state.modules.map((module) => {
    const grown = history.module(module.name);
    const wasted = ratio(grown, "wasted_s", "busy_s");
    const busy = grown && module.slots > 0 ? grown.exec_s / (grown.seconds * module.slots) : null;
    const [share, batch] = [load(module), ratio(grown, "items", "batches")];
    const loadText = el("span", { class: share > 1 ? "bad" : "", text: percent(share) });
    return [
      module.name, loadText, count(module.requests), rate(perSecond(grown, "items")),
      batch === null ? "–" : number(batch, 1), percent(busy === null ? null : Math.min(1, busy)),
      percent(wasted === null ? null : Math.max(0, 1 - wasted)), rate(perSecond(grown, "dropped")),
    ];
  });
  replaceTable(byId("modules"), MODULES, rows);
}

const REASONS = {
  infeasible: "It would have missed its deadline, so no more time was spent on it.",
  "over-budget": "It took more than its share of the latency objective.",
  shed: "Admission control: more arrives than can be done.",
  "stream-full": "Its camera had as many frames in flight as it may have.",
  "memory-full": "Decoded frames filled their memory.",
  "not-decoded": "More of the camera arrives than can be used, so it was not decoded.",
  failed: "Its batch failed on the device.",
  stopped: "The engine ended, or its camera was removed, while it was in flight.",
};

const DROPS = [
  ["Module", "The module that dropped it, or the source", "words"],
  ["Reason", "The reason for the drop, with the same name as in reports and metrics", "words wrap"],
  ["Now, frames/s", "Dropped a second, over the last ten seconds"],
  ["Since start", "Frames dropped since the start"],
];

export function updateDrops(state, history) {
  const { drops } = state.report;
  if (!drops.length) {
    byId("drops").replaceChildren(el("p", { class: "nothing", text: t("No frame was dropped.") }));
    return;
  }
  const rows = drops.map((drop) => ({ drop, now: perSecond(history.drop(drop), "count") }));
  rows.sort((a, b) => (b.now ?? 0) - (a.now ?? 0) || b.drop.count - a.drop.count);
  replaceTable(byId("drops"), DROPS, rows.map(({ drop, now }) => [
    drop.module, el("span", { text: drop.reason }, el("small", { text: t(REASONS[drop.reason] ?? "") })), rate(now), count(drop.count),
  ]));
}

const SINKS = [
  ["Output", "Its name in the graph", "words wrap"],
  ["Written/s", "Deliveries a second that it wrote"],
  ["Written", "Deliveries written since the start"],
  ["Skipped", "Deliveries left out because it was slow"],
  ["Lost", "Deliveries lost to an error"],
];

export function updateSinks(state, history) {
  if (!state.sinks.length) {
    byId("sinks").replaceChildren(el("p", { class: "nothing", text: t("The graph has no outputs.") }));
    return;
  }
  const rows = state.sinks.map(({ name, type }) => {
    const report = state.report.sinks[name] ?? { written: 0, skipped: 0, lost: 0 };
    const label = el("span", { text: `${name} ` }, el("span", { class: "unit", text: type }));
    const trouble = report.error ?? report.outage;
    if (trouble) label.append(el("small", { class: "bad", dir: "auto", text: outputTrouble(state, name) ?? trouble }));
    const lost = el("span", { class: report.lost ? "bad" : "", text: count(report.lost) });
    return [label, rate(perSecond(history.sink(name), "written")), count(report.written), count(report.skipped), lost];
  });
  replaceTable(byId("sinks"), SINKS, rows);
}

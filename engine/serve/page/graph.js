// The graph as a drawing: cameras, modules with their load, outputs, from left to right.

import { byId, setText, svg } from "./dom.js";
import { count, percent, rate } from "./format.js";
import { perSecond } from "./history.js";
import { load } from "./modules.js";
import { t } from "./texts.js";

const BOX = { width: 172, height: 62 };
const GAP = { x: 48, y: 14 };
const MAX_NAME = 22;

const shorten = (name) => (name.length > MAX_NAME ? `${name.slice(0, MAX_NAME - 1)}…` : name);

/** Sources that enter the same modules and outputs are one box; streams that no source of the graph is are added to one. */
function groups(state) {
  const own = new Set(state.modules.map((module) => module.name));
  const targets = new Map();
  for (const node of [...state.modules, ...state.sinks]) {
    for (const input of node.inputs) {
      if (!own.has(input)) targets.set(input, [...(targets.get(input) ?? []), node.name]);
    }
  }
  const grouped = new Map();
  for (const [source, names] of targets) {
    const id = JSON.stringify(names);
    grouped.set(id, { names: [...(grouped.get(id)?.names ?? []), source], targets: names });
  }
  const found = [...grouped.values()];
  const added = state.streams.map((stream) => stream.name).filter((name) => !targets.has(name));
  if (added.length && found.length) found[0].names.push(...added);
  return found;
}

/** Boxes in columns, and the edges between them. */
function layout(state) {
  const nodes = [];
  const columns = new Map();
  const sources = groups(state);
  const entered = new Map();
  sources.forEach((group, index) => {
    const id = `sources ${index}`;
    nodes.push({ id, kind: "sources", column: 0, group, inputs: [] });
    group.targets.forEach((target) => entered.set(target, [...(entered.get(target) ?? []), id]));
  });
  const inputs = (node) => [
    ...(entered.get(node.name) ?? []), ...node.inputs.filter((name) => columns.has(name)).map((name) => `module ${name}`),
  ];
  for (const module of state.modules) {
    const column = 1 + Math.max(0, ...module.inputs.map((name) => columns.get(name) ?? 0));
    columns.set(module.name, column);
    nodes.push({ id: `module ${module.name}`, kind: "module", column, name: module.name, inputs: inputs(module) });
  }
  const last = 1 + Math.max(0, ...columns.values());
  for (const sink of state.sinks) {
    nodes.push({ id: `sink ${sink.name}`, kind: "sink", column: last, name: sink.name, inputs: inputs(sink) });
  }
  const heights = new Map();
  for (const node of nodes) heights.set(node.column, (heights.get(node.column) ?? 0) + 1);
  const tallest = Math.max(1, ...heights.values());
  const placed = new Map();
  for (const node of nodes) {
    const row = placed.get(node.column) ?? 0;
    placed.set(node.column, row + 1);
    const offset = ((tallest - heights.get(node.column)) * (BOX.height + GAP.y)) / 2;
    node.x = 1 + node.column * (BOX.width + GAP.x);
    node.y = 1 + offset + row * (BOX.height + GAP.y);
  }
  const width = 2 + Math.max(0, ...nodes.map((node) => node.x + BOX.width));
  return { nodes, width, height: 2 + tallest * (BOX.height + GAP.y) - GAP.y };
}

function edge(from, to) {
  const [x1, y1] = [from.x + BOX.width, from.y + BOX.height / 2];
  const [x2, y2] = [to.x, to.y + BOX.height / 2];
  const middle = (x1 + x2) / 2;
  return svg("path", { class: "edge", d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
}

function box(node) {
  const text = (y, cls) => svg("text", { x: node.x + 10, y: node.y + y, class: cls });
  node.title = svg("title");
  node.lines = [text(19, "name"), text(36, "faint"), text(51, "faint")];
  node.load = svg("rect", { class: "load", x: node.x + 1, y: node.y + BOX.height - 4, width: 0, height: 3 });
  const { width, height } = BOX;
  const frame = svg("rect", { class: "box", x: node.x, y: node.y, width, height, rx: 4 });
  return svg("g", {}, node.title, frame, ...node.lines, ...(node.kind === "module" ? [node.load] : []));
}

export class GraphView {
  #key = "";
  #nodes = [];

  update(state, history) {
    const shape = [state.modules, state.sinks].map((nodes) => nodes.map(({ name, inputs }) => [name, inputs]));
    const key = JSON.stringify([shape, state.streams.map((stream) => stream.name)]);
    if (key !== this.#key) {
      this.#key = key;
      this.#draw(state);
    }
    for (const node of this.#nodes) this.#fill(node, state, history);
  }

  #draw(state) {
    const { nodes, width, height } = layout(state);
    const byName = new Map(nodes.map((node) => [node.id, node]));
    const edges = nodes.flatMap((node) => node.inputs.map((input) => edge(byName.get(input), node)));
    const label = t("Cameras, modules and outputs; the same figures are in the table of modules");
    const root = svg("svg", { class: "flow", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    root.append(...edges, ...nodes.map(box));
    byId("graph").replaceChildren(root);
    this.#nodes = nodes;
  }

  #fill(node, state, history) {
    const [name, first, second] = this.#texts(node, state, history);
    setText(node.title, name);
    [shorten(name), first, second].forEach((text, index) => setText(node.lines[index], text));
  }

  #texts(node, state, history) {
    if (node.kind === "sources") return this.#sources(node.group, state, history);
    if (node.kind === "sink") {
      const report = state.report.sinks[node.name];
      const type = state.sinks.find((sink) => sink.name === node.name)?.type ?? "";
      return [node.name, type, t("{rate} written/s · {lost} lost", {
        rate: rate(perSecond(history.sink(node.name), "written")), lost: count(report?.lost ?? 0),
      })];
    }
    const module = state.modules.find((module) => module.name === node.name);
    const grown = history.module(node.name);
    const share = load(module);
    node.load.setAttribute("width", (Math.min(1, share ?? 0) * (BOX.width - 2)).toFixed(1));
    node.load.setAttribute("class", `load ${share > 1 ? "over" : share > 0.9 ? "full" : ""}`);
    node.lines[1].setAttribute("class", share > 1 ? "alert" : "faint");
    return [
      node.name, t("load {share} · {count} inside", { share: percent(share), count: count(module.requests) }),
      t("{items} items/s · {drops} drops/s", { items: rate(perSecond(grown, "items")), drops: rate(perSecond(grown, "dropped")) }),
    ];
  }

  #sources(group, state, history) {
    const streams = state.streams.filter((stream) => group.names.includes(stream.name));
    const arrived = streams.map((stream) => perSecond(history.stream(stream.id), "arrived"));
    const known = arrived.filter((rate) => rate !== null);
    const sum = known.length ? known.reduce((a, b) => a + b, 0) : null;
    const live = streams.filter((stream) => stream.state === "live").length;
    const name = streams.length === 1 ? streams[0].name : t("{count} cameras", { count: streams.length });
    return [name, t("{live} of {all} live", { live, all: streams.length }), t("{rate} frames/s", { rate: rate(sum) })];
  }
}

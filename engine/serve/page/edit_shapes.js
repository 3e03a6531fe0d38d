// Shapes of a camera in the tables of a graph: zones, lines, masks and ground points, and the edits that change them.

import { toFile } from "./edit_variables.js";

/** Kinds of shapes: whether they are closed, and how many points they have at least and at most. */
export const KINDS = {
  zone: { closed: true, min: 3, max: 64 },
  line: { closed: false, min: 2, max: 2 },
  ignore: { closed: true, min: 3, max: 64 },
  only: { closed: true, min: 3, max: 64 },
  speed: { closed: true, min: 4, max: 4 },
};

const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isPoint = (value) => Array.isArray(value) && value.length === 2 && value.every((number) => typeof number === "number");
const arePoints = (value) => Array.isArray(value) && value.length > 0 && value.every(isPoint);
const table = (value) => (isTable(value) ? value : {});

/** The table of a camera: `["cameras" or "sources", NAME]`; `null` where the file has none. */
export function cameraPath(graph, name) {
  const found = ["cameras", "sources"].find((kind) => isTable(table(graph[kind])[name]));
  return found ? [found, name] : null;
}

/** Names of the cameras of a graph: templates and queues of jobs have no picture. */
export const cameraNames = (graph) => [...Object.keys(table(graph.cameras)),
  ...Object.entries(table(graph.sources)).filter(([, keys]) => !table(keys).template && !table(keys).queue).map(([name]) => name)];

const matches = (pattern, name) =>
  new RegExp(`^${pattern.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*")}$`).test(name);

/** A zone, a line or a transform with points; `value` is its table, or its points alone. */
function shape(kind, name, path, value, isShared = false) {
  const points = isTable(value) ? value.points : value;
  if (!arePoints(points) || value.units === "pixels") return null;
  return { kind, name, path, value, points, isShared, closed: KINDS[kind]?.closed ?? points.length > 2 };
}

/** Polygons of a mask: a polygon, or a list of them. */
const polygons = (value) => (arePoints(value) ? [value] : Array.isArray(value) ? value.filter(arePoints) : []);

/** All shapes of a camera that can be drawn. */
export function shapesOf(graph, camera) {
  const path = cameraPath(graph, camera);
  if (!path) return [];
  const own = graph[path[0]][camera];
  const found = [];
  for (const [part, kind] of [["zones", "zone"], ["lines", "line"]]) {
    for (const [name, value] of Object.entries(table(own[part]))) found.push(shape(kind, name, [...path, part, name], value));
  }
  for (const [name, value] of Object.entries(table(own.transforms))) {
    found.push(shape(value.type, name, [...path, "transforms", name], value));
  }
  for (const [name, value] of Object.entries(table(graph.transforms))) {
    const streams = isTable(value) ? value.streams : null;
    if (!isTable(value) || (streams && !streams.some((pattern) => matches(pattern, camera)))) continue;
    found.push(shape(value.type, name, ["transforms", name], value, !streams || streams.length > 1 || streams[0].includes("*")));
  }
  for (const kind of ["ignore", "only"]) {
    polygons(own[kind]).forEach((points, index) => {
      found.push({ kind, name: `${kind} ${index + 1}`, path: [...path, kind], index, value: own[kind], points, closed: true });
    });
  }
  return found.filter(Boolean);
}

/** Names of the trackers of a graph. */
const trackers = (graph) => Object.entries(table(graph.modules)).filter(([, { operator }]) => operator === "track").map(([name]) => name);

/** Classes as the graph file has them, of words between commas. */
export const words = (text) => text.split(",").map((word) => toFile(word.trim())).filter(Boolean);

/** The edit that gives a shape other points. */
export function moved({ path, value, index }, points) {
  if (index !== undefined) {
    const list = polygons(value).map((old, at) => (at === index ? points : old));
    return [{ path, value: arePoints(value) ? points : list }];
  }
  return [isTable(value) ? { path: [...path, "points"], value: points } : { path, value: points }];
}

/** The edit that adds a shape to a camera. */
export function added(graph, camera, kind, name, points) {
  const path = cameraPath(graph, camera);
  if (kind === "ignore" || kind === "only") {
    const list = [...polygons(graph[path[0]][camera][kind]), points];
    return [{ path: [...path, kind], value: list.length === 1 ? points : list }];
  }
  const ground = { ground: [[0, 10], [5, 10], [5, 0], [0, 0]] };
  if (path[0] === "cameras") {
    if (kind === "speed") return [{ path: [...path, "transforms", name], value: { type: kind, points, ...ground } }];
    return [{ path: [...path, `${kind}s`, name], value: points }];
  }
  const value = { type: kind, inputs: trackers(graph).slice(0, 1), streams: [camera], points };
  return [{ path: ["transforms", name], value: kind === "speed" ? { ...value, ...ground } : value }];
}

/** The edit that removes a shape. */
export function removed({ path, value, index }) {
  if (index === undefined) return [{ path, value: null }];
  const list = polygons(value).filter((_, at) => at !== index);
  return [{ path, value: list.length === 0 ? null : list.length === 1 ? list[0] : list }];
}

/** The edit that gives a zone, a line or a transform a key, or takes it away (`null`). */
export function withKey({ path, value, points }, key, content) {
  if (isTable(value)) return [{ path: [...path, key], value: content }];
  return content === null ? [] : [{ path, value: { points, [key]: content } }];
}

/** The name of a part of a camera as sinks and rules outside of its table write it. */
export const fullName = (path) => (path[0] === "cameras" ? `${path[1]}.${path.at(-1)}` : path.at(-1));

/** The edits that add a rule for a zone, and send its incidents to sinks. */
export function ruled(graph, camera, zone, name, { classes, after, hours }, sinks) {
  const keys = {};
  if (classes.length) keys.classes = classes;
  if (after) keys.after = after;
  if (hours) keys.hours = hours;
  const isOwn = zone.path[0] === "cameras";
  const path = isOwn ? ["cameras", camera, "rules", name] : ["transforms", name];
  const value = isOwn ? { zones: [zone.name], ...keys } : { type: "rule", inputs: [zone.name], streams: [camera], ...keys };
  const connected = sinks.map((sink) => ({
    path: ["sinks", sink, "inputs"], value: [...(graph.sinks[sink].inputs ?? []), fullName(path)],
  }));
  return [{ path, value }, ...connected];
}

/** Sinks of a graph that do not take everything. */
export const sinksOf = (graph) =>
  Object.entries(table(graph.sinks)).filter(([, { inputs }]) => Array.isArray(inputs) && !inputs.includes("*")).map(([name]) => name);

/** A name that is not taken, such as `zone-2`. */
export function freeName(graph, camera, kind) {
  const taken = new Set(shapesOf(graph, camera).map(({ name }) => name));
  for (const name of Object.keys(table(graph.transforms))) taken.add(name);
  for (let number = 1; ; number++) {
    const name = `${kind}-${number}`;
    if (!taken.has(name)) return name;
  }
}

// Requests to the engine that served the page, and to no other. Addresses are relative: a reverse proxy may serve the page below a
// path. The token is sent once, for a session: the browser keeps its cookie, which scripts cannot read.

import { causeText } from "./causes.js";
import { t } from "./texts.js";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Asks, and gives the answer; an [ApiError] where it is refused, with what to do about it. */
async function send(method, path, body, token, { range, signal } = {}) {
  const headers = {};
  if (range) headers.Range = range;
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method, headers, cache: "no-store", credentials: "same-origin", redirect: "error" };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, { ...options, signal: signal ?? AbortSignal.timeout(35_000) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, t("The engine does not answer."));
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  const known = causeText(answer);
  if (known) throw new ApiError(response.status, known);
  const what = answer.error ?? t("The engine answered {status}.", { status: response.status });
  throw new ApiError(response.status, answer.hint ? `${what} – ${answer.hint}` : what);
}

const ask = async (...request) => (await send(...request)).json();

const stream = (name) => `api/streams/${encodeURIComponent(name)}`;

/** Opens a session with a token; with `keep` it lasts when the browser is closed. */
export const signIn = (token, keep) => ask("POST", "api/session", { keep }, token);
export const signOut = () => ask("DELETE", "api/session");
/** Name and role of the reader, and by which means the engine knows them. */
export const session = () => ask("GET", "api/session");
export const state = () => ask("GET", "api/state");
export const addStream = (keys) => ask("POST", "api/streams", keys);
/** Devices of the network of the engine, or one of them by its `address`, with the addresses of their streams. */
export const discover = (asked) => ask("POST", "api/discover", asked);
export const removeStream = (name) => ask("DELETE", stream(name));
export const pauseStream = (name) => ask("POST", `${stream(name)}/pause`);
export const resumeStream = (name) => ask("POST", `${stream(name)}/resume`);
export const timeline = () => ask("GET", "api/timeline");
export const streamDrops = (name) => ask("GET", `${stream(name)}/drops`);
const incidentPath = (id) => `api/incidents/${encodeURIComponent(id)}`;
/** Incidents by filters of the engine, and one of them. */
export const incidents = (query) => ask("GET", `api/incidents?${new URLSearchParams(query)}`);
export const incident = (id) => ask("GET", incidentPath(id));
/** Marks an incident as `seen` or `pinned`. */
export const changeIncident = (id, change) => ask("PATCH", incidentPath(id), change);
export const incidentPictureAddress = (id) => `${incidentPath(id)}/picture`;
const tracks = "api/search";
/** Objects by words, by their looks or the newest ones, with what the engine can search. */
export const search = (query) => ask("GET", `${tracks}?${new URLSearchParams(query)}`);
export const trackPictureAddress = (id) => `${tracks}/${encodeURIComponent(id)}/picture`;
const archive = (name) => `api/archive/${encodeURIComponent(name)}`;
export const archives = () => ask("GET", "api/archive");
/** Segments and gaps of a camera between two times in milliseconds. */
export const segments = (name, from, to) => ask("GET", `${archive(name)}?from=${Math.floor(from)}&to=${Math.ceil(to)}`);
/** The file of a segment from a byte on, as a response whose body is still to be read. */
export const segment = (name, id, begin, signal) =>
  send("GET", `${archive(name)}/segments/${encodeURIComponent(id)}`, undefined, undefined, { range: begin ? `bytes=${begin}-` : undefined, signal });
/** Address of a range as one MP4, once the engine would send it. */
export async function exportAddress(name, from, to) {
  const address = `${archive(name)}/export?from=${Math.floor(from)}&to=${Math.ceil(to)}`;
  const stop = new AbortController();
  await send("GET", address, undefined, undefined, { signal: stop.signal });
  stop.abort();
  return address;
}
/** Incidents of a camera between two times in milliseconds. */
export const incidentsOf = (name, from, to) =>
  incidents({ stream: name, from: Math.floor(from), to: Math.ceil(to), limit: 500 });
export const clip = async (id) => (await send("GET", `${incidentPath(id)}/clip`)).blob();
export const streamPicture = async (name) => (await send("GET", `${stream(name)}/picture`)).blob();
/** Text, version and state of the graph file. */
export const graphFile = () => ask("GET", "api/graph/file");
/** Checks a text after edits of single keys. */
export const checkGraph = (text, edits) => ask("POST", "api/graph/check", { text, edits });
export const saveGraph = (text, version) => ask("PUT", "api/graph/file", { text, version });
export const undoGraph = (version) => ask("POST", "api/graph/file/undo", { version });
export const graphSchema = () => ask("GET", "api/graph/schema");

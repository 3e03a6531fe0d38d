// Requests to the engine that served the page, and to no other. Addresses are relative: a reverse proxy may serve the page below a
// path. The token is kept in this tab alone.

// Another engine may be below another path of the same host.
const KEY = `weir-token ${new URL(".", document.baseURI).pathname}`;

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function setToken(token) {
  sessionStorage.setItem(KEY, token);
}

export function token() {
  return sessionStorage.getItem(KEY);
}

/** Asks, and gives the answer; an [ApiError] where it is refused, with what to do about it. */
async function send(method, path, body) {
  const headers = {};
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method, headers, cache: "no-store", credentials: "omit", redirect: "error" };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, { ...options, signal: AbortSignal.timeout(35_000) });
  } catch {
    throw new ApiError(0, "The engine does not answer.");
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  const what = answer.error ?? `The engine answered ${response.status}.`;
  throw new ApiError(response.status, answer.hint ? `${what} – ${answer.hint}` : what);
}

const ask = async (...request) => (await send(...request)).json();

const stream = (name) => `api/streams/${encodeURIComponent(name)}`;

export const state = () => ask("GET", "api/state");
export const addStream = (keys) => ask("POST", "api/streams", keys);
export const removeStream = (name) => ask("DELETE", stream(name));
export const pauseStream = (name) => ask("POST", `${stream(name)}/pause`);
export const resumeStream = (name) => ask("POST", `${stream(name)}/resume`);
export const timeline = () => ask("GET", "api/timeline");
export const streamDrops = (name) => ask("GET", `${stream(name)}/drops`);
export const incidents = () => ask("GET", "api/incidents");
export const clip = async (id) => (await send("GET", `api/incidents/${encodeURIComponent(id)}/clip`)).blob();
export const picture = async (id) => (await send("GET", `api/incidents/${encodeURIComponent(id)}/picture`)).blob();

// The page: asks for the state once a second, and hands it to the views, one of which is visible.

import { pauseStream, resumeStream, state as askState } from "./api.js";
import { warnings } from "./causes.js";
import { Dialogs } from "./dialogs.js";
import { byId, el, setText } from "./dom.js";
import { Edit } from "./edit.js";
import { Engine } from "./engine.js";
import { History } from "./history.js";
import { Incidents } from "./incidents.js";
import { Live } from "./live.js";
import { Recordings } from "./recordings.js";
import { Search } from "./search.js";
import { language, languages, sentences, setLanguage, t, translate } from "./texts.js";

const POLL_MS = 1000;
const SAID_MS = 4000;
const VIEWS = { live: Live, incidents: Incidents, recordings: Recordings, search: Search, edit: Edit, engine: Engine };

translate(document.body);

let shown = null;
let timer = 0;
let polls = 0;
let current = null;

/** Says something for a while, also to screen readers. */
function say(text) {
  setText(byId("said"), text);
  setTimeout(() => { if (byId("said").textContent === text) setText(byId("said"), ""); }, SAID_MS);
}

/** Changes a camera, reports the outcome, and shows the state that follows. */
async function toggle(name, isPaused) {
  try {
    await (isPaused ? resumeStream(name) : pauseStream(name));
    say(t(isPaused ? "Resumed {name}." : "Paused {name}.", { name }));
  } catch (error) {
    say(error.message);
  }
  poll();
}

/** Opens the form for a camera, which may enter the graph like one of its sources. */
function addCamera() {
  const own = new Set(shown?.modules.map((module) => module.name));
  const inputs = (shown ? [...shown.modules, ...shown.sinks] : []).flatMap((node) => node.inputs);
  dialogs.add([...new Set(inputs)].filter((name) => !own.has(name)));
}

const dialogs = new Dialogs((text) => { say(text); poll(); });
/** Services of the page for its views. `history` has the states of the last minutes, `refresh()` asks for the state at once. */
const app = {
  say,
  go: (hash) => { location.hash = hash; },
  history: new History(),
  refresh: () => poll(),
  toggle,
  addCamera,
  removeCamera: (name) => dialogs.remove(name),
};
const views = Object.entries(VIEWS).map(([name, View]) => {
  const root = byId(`view-${name}`);
  return { name, root, view: new View(root, app) };
});

/** Warns of something; with `isFile` of the graph file, to which a link leads. */
function warn(text, isFile = false) {
  const banner = byId("banner");
  banner.hidden = !text;
  if (banner.dataset.text === text) return;
  banner.dataset.text = text;
  const link = isFile ? [" ", el("a", { class: "for-edit", href: "#edit?pane=text", text: t("Edit the file") })] : [];
  banner.replaceChildren(text, ...link);
}

/** Shows the view that the hash names, such as `#incidents?camera=door`. An unknown name is the view Live. */
function route() {
  const [name, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const next = views.find((view) => view.name === name) ?? views[0];
  for (const { root, view } of views) {
    const isLeft = !root.hidden && root !== next.root;
    root.hidden = root !== next.root;
    if (isLeft) view.hide?.();
  }
  if (current && current !== next) window.scrollTo(0, 0);
  current = next;
  document.body.dataset.view = next.name;
  for (const link of byId("views").children) {
    if (link.hash === `#${next.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  next.view.show?.(new URLSearchParams(query));
}

function show(state) {
  shown = state;
  app.history.add(state);
  const { name, problems } = state.graph;
  setText(byId("graph-name"), name);
  document.title = `${name} – Weir`;
  const wrong = problems.map(({ line, message }) => (line
    ? t("The graph file was refused: line {line}: {message}", { line, message })
    : t("The graph file was refused: {message}", { message })));
  if (wrong.length) wrong.push(t("The graph before it stays in force."));
  warn(sentences(...wrong, ...warnings(state)), wrong.length > 0);
  // A view that fails leaves the others as they are.
  for (const { view } of views) {
    try { view.update(state); } catch (error) { console.error(error); }
  }
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
    show(state);
  } catch (error) {
    if (number !== polls) return;
    if (error.status === 401) {
      dialogs.token();
      return;
    }
    document.body.classList.add("lost");
    warn(shown ? `${error.message} ${t("The page shows the last known state and keeps trying.")}` : error.message);
    wait = 2 * POLL_MS;
  }
  if (!document.hidden) timer = setTimeout(poll, wait);
}

byId("language").append(...languages().map(([value, text]) => el("option", { value, text, lang: value })));
byId("language").value = language;
byId("language").addEventListener("change", () => setLanguage(byId("language").value));
byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
window.addEventListener("hashchange", route);
// The key `/` searches from anywhere, unless it is typed into something.
document.addEventListener("keydown", (event) => {
  const { key, target, ctrlKey, metaKey, altKey } = event;
  if (key !== "/" || ctrlKey || metaKey || altKey || target.closest("input, select, textarea, dialog, [contenteditable]")) return;
  event.preventDefault();
  if (current.name === "search") current.view.focus();
  else {
    // The view is shown first.
    window.addEventListener("hashchange", () => current.view.focus?.(), { once: true });
    app.go("search");
  }
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
route();
poll();

// What is asked of a person: a camera to add, whether to remove one, the token.

import { addStream, removeStream, session, signIn, signOut } from "./api.js";
import { byId, el } from "./dom.js";
import { toFile } from "./edit_variables.js";
import { t } from "./texts.js";

function showError(id, message) {
  byId(id).hidden = !message;
  byId(id).textContent = message ?? "";
}

/** Carries out what a form asks for; it stays open where that is refused, and says why. */
function onSubmit(name, carryOut, done) {
  const [dialog, form] = [byId(`${name}-dialog`), byId(`${name}-form`)];
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button:not([type=button])");
    button.disabled = true;
    try {
      const said = await carryOut(form);
      dialog.close();
      done(said);
    } catch (error) {
      showError(`${name}-error`, error.message);
    } finally {
      button.disabled = false;
    }
  });
  form.querySelector("[data-close]")?.addEventListener("click", () => dialog.close());
}

/** The keys of a stream as the form has them; those left empty are at their defaults. */
function keys(form) {
  const data = new FormData(form);
  const stream = {};
  for (const key of ["name", "uri", "like", "group", "slo"]) {
    const value = data.get(key).trim();
    // Variables are substituted in all texts but the name.
    if (value) stream[key] = key === "name" ? value : toFile(value);
  }
  for (const key of ["weight", "reserve"]) {
    if (data.get(key)) stream[key] = Number(data.get(key));
  }
  if (data.has("loop")) stream.loop = true;
  return stream;
}

/** Says why a change does not outlast the engine, where that is so. */
const untilRestart = (kept) => (kept?.in === "none" ? ` ${t("This holds until the engine restarts: {reason}.", { reason: kept.why })}` : "");

/** Shows what the client may do: controls that its role does not allow are left out by the stylesheet. */
async function showClient() {
  try {
    const { by, role } = await session();
    byId("sign-out").hidden = by !== "session";
    document.body.dataset.role = role;
  } catch { /* The token is asked for. */ }
}

export class Dialogs {
  #removed = "";

  /** `done(text)` is called after each change with what was done. */
  constructor(done) {
    onSubmit("add", async (form) => {
      const stream = keys(form);
      const { kept } = await addStream(stream);
      return t("Added {name}.", stream) + untilRestart(kept);
    }, done);
    onSubmit("remove", async () => {
      const { kept } = await removeStream(this.#removed);
      return t("Removed {name}.", { name: this.#removed }) + untilRestart(kept);
    }, done);
    onSubmit("token", async (form) => {
      const data = new FormData(form);
      // A wrong token is no beginning of the next one.
      form.elements.token.value = "";
      await signIn(data.get("token").trim(), data.has("keep"));
      await showClient();
      return "";
    }, done);
    byId("sign-out").addEventListener("click", async () => { await signOut().catch(() => {}); location.reload(); });
    showClient();
    // Without a token there is nothing behind it.
    byId("token-dialog").addEventListener("cancel", (event) => event.preventDefault());
  }

  /** `sources` are the names that a stream may enter like. */
  add(sources) {
    const [form, select] = [byId("add-form"), byId("add-form").elements.like];
    form.reset();
    select.replaceChildren(select.options[0], ...sources.map((name) => el("option", { text: name, value: name })));
    showError("add-error");
    byId("add-dialog").showModal();
  }

  remove(name) {
    this.#removed = name;
    byId("remove-name").textContent = name;
    showError("remove-error");
    byId("remove-dialog").showModal();
  }

  token() {
    const dialog = byId("token-dialog");
    if (dialog.open) return;
    byId("token-form").reset();
    showError("token-error");
    dialog.showModal();
  }
}

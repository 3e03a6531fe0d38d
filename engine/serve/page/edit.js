// View Edit: the graph file, drawn on pictures of cameras, as text, or by forms. All parts change one text, which is checked by the
// engine while it changes and saved as a whole.

import { checkGraph, graphFile, saveGraph, undoGraph } from "./api.js";
import { el, may, setText } from "./dom.js";
import { changedLines, showChanges } from "./edit_diff.js";
import { DrawPane } from "./edit_draw.js";
import { FormsPane } from "./edit_forms.js";
import { TextPane } from "./edit_text.js";
import { t } from "./texts.js";

/** Time without a change after which a text is checked. */
const CHECK_MS = 400;

export class Edit {
  /** The file as it was read; `null` before. */
  #file = null;
  #text = "";
  /** Tables of the text as the engine parsed them last. */
  #document = {};
  #findings = [];
  #isValid = false;
  #isChecked = false;
  #timer = 0;
  #number = 0;
  /** Requests one after the other: each begins with the text that the one before left. */
  #queue = Promise.resolve();

  constructor(root, app) {
    this.root = root;
    this.app = app;
    const host = {
      app,
      edit: (edits) => this.edit(edits),
      type: (text) => this.#type(text),
      document: () => this.#document,
      text: () => this.#text,
    };
    this.panes = { draw: new DrawPane(host), text: new TextPane(host), add: new FormsPane(host) };
    root.append(el("h2", { class: "unseen", text: t("Edit") }), this.#bar(), this.note, this.stale,
      ...Object.values(this.panes).map((pane) => pane.root), this.problems, this.#changes());
    window.addEventListener("beforeunload", (event) => { if (this.#isDirty) event.preventDefault(); });
    this.#choose("draw");
  }

  get #isDirty() {
    return this.#file !== null && this.#text !== this.#file.text;
  }

  #bar() {
    const names = { draw: t("Draw"), text: t("Text"), add: t("Add") };
    this.tabs = Object.entries(names).map(([name, text]) => el("button", {
      type: "button", text, class: name === "text" ? undefined : "for-edit", "data-pane": name, onclick: () => this.#choose(name),
    }));
    this.status = el("p", { class: "edit-status", role: "status" });
    this.undo = el("button", { type: "button", disabled: "", id: "edit-undo", text: t("Undo last save"), onclick: () => this.#undo() });
    this.discard = el("button", { type: "button", disabled: "", id: "edit-discard", text: t("Discard"), onclick: () => this.#discard() });
    this.save = el("button", { type: "button", disabled: "", id: "edit-save", class: "primary", text: t("Save"), onclick: () => this.#save() });
    this.note = el("p", { class: "panel edit-note", hidden: "" });
    this.stale = el("p", { class: "panel edit-note error", role: "alert", hidden: "" });
    this.problems = el("ul", { class: "panel edit-problems", id: "edit-problems", tabindex: "0", "aria-label": t("Problems"), hidden: "" });
    return el("div", { class: "edit-bar" }, el("div", { class: "edit-tabs", role: "group", "aria-label": t("Kinds of editing") }, ...this.tabs),
      this.status, el("div", { class: "edit-actions for-edit" }, this.undo, this.discard, this.save));
  }

  #changes() {
    this.diff = el("pre", { class: "edit-diff", id: "edit-diff", tabindex: "0", "aria-label": t("Changes of the file") });
    this.changes = el("details", { class: "panel edit-changes", open: "", hidden: "" }, el("summary", { text: t("Changes of the file") }), this.diff);
    return this.changes;
  }

  #choose(name) {
    this.pane = name;
    for (const tab of this.tabs) tab.setAttribute("aria-pressed", String(tab.dataset.pane === name));
    for (const [key, pane] of Object.entries(this.panes)) pane.root.hidden = key !== name;
    this.panes[name].shown?.();
  }

  show(params) {
    if (params.has("pane") && this.panes[params.get("pane")]) this.#choose(params.get("pane"));
    if (params.has("camera")) {
      this.#choose("draw");
      this.panes.draw.want(params.get("camera"));
    }
    this.isShown = true;
    if (!this.#isDirty) this.#load();
    this.panes.draw.shown();
  }

  hide() {
    this.isShown = false;
    this.panes.draw.hidden();
  }

  update(state) {
    // A picture is asked for only where it is seen.
    if (!this.root.hidden) this.panes.draw.setStreams(state.streams);
    // A reader who may not edit reads the text.
    const isEditor = may("edit");
    this.panes.text.area.readOnly = !isEditor;
    if (!isEditor && this.pane !== "text") this.#choose("text");
  }

  /** Reads the file anew; what was not saved is lost. */
  async #load() {
    try {
      this.#file = await graphFile();
      this.#text = this.#file.text;
      this.stale.hidden = true;
      await this.#check([]);
    } catch (error) {
      this.note.hidden = false;
      setText(this.note, error.message);
    }
  }

  /** Checks the text, after edits of single keys: `{ path, value }`, where `null` removes. Gives whether they were made. */
  #check(edits) {
    const run = async () => {
      clearTimeout(this.#timer);
      const [number, text] = [++this.#number, this.#text];
      try {
        const answer = await checkGraph(text, edits);
        // The text has changed meanwhile, and is checked again.
        if (edits.length === 0 && text !== this.#text) return false;
        this.#text = answer.text;
        if (answer.document) this.#document = answer.document;
        [this.#findings, this.#isValid, this.#isChecked] = [answer.diagnostics, answer.is_valid, number === this.#number];
        this.stale.hidden = true;
        this.#show();
        return true;
      } catch (error) {
        this.stale.hidden = false;
        setText(this.stale, error.message);
        this.#show();
        return false;
      }
    };
    this.#queue = this.#queue.then(run, run);
    return this.#queue;
  }

  /** Changes keys of the text, and all that shows it. */
  edit(edits) {
    return this.#check(edits);
  }

  /** Another text by hand; it is checked when its author pauses. */
  #type(text) {
    this.#text = text;
    this.#isChecked = false;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check([]), CHECK_MS);
    this.#showBar();
  }

  #show() {
    for (const pane of Object.values(this.panes)) pane.update?.(this.#document, this.#text, this.#findings);
    const items = this.#findings.map(({ severity, line, message, hint }) => el("li", { class: severity },
      line ? el("button", { type: "button", class: "small", text: t("Line {line}", { line }), onclick: () => this.#goto(line) }) : "",
      el("span", { text: hint ? `${message} – ${hint}` : message })));
    this.problems.replaceChildren(...items);
    this.problems.hidden = items.length === 0;
    this.#showBar();
  }

  #showBar() {
    const { writable = false, can_undo: canUndo = false, why } = this.#file ?? {};
    const lines = this.#isDirty ? changedLines(this.#file.text, this.#text) : [];
    const isOpen = this.#isDirty && lines.length > 0;
    this.changes.hidden = !isOpen;
    if (isOpen) showChanges(this.diff, lines);
    const errors = this.#findings.filter(({ severity }) => severity === "error").length;
    const problems = errors === 1 ? t("1 problem") : t("{count} problems", { count: errors });
    setText(this.status, this.#file === null ? "" : errors ? problems : this.#isDirty ? t("Not saved yet") : t("As in the file"));
    this.status.dataset.tone = errors ? "bad" : this.#isDirty ? "warn" : "";
    this.note.hidden = this.#file === null || writable;
    if (this.#file !== null) setText(this.note, t("The file cannot be saved: {why}", { why: why ?? "" }));
    this.save.disabled = !(this.#isDirty && this.#isValid && this.#isChecked && writable);
    this.discard.disabled = !this.#isDirty;
    this.undo.disabled = this.#isDirty || !canUndo;
  }

  #goto(line) {
    this.#choose("text");
    this.panes.text.goto(line);
  }

  async #discard() {
    await this.#load();
    this.app.say(t("The text is that of the file again."));
  }

  /** Carries out a save or an undo, and reads the file that it made. */
  async #carryOut(request, said) {
    for (const button of [this.save, this.undo, this.discard]) button.disabled = true;
    try {
      await request();
      await this.#load();
      this.app.say(said);
      this.app.refresh();
    } catch (error) {
      this.stale.hidden = false;
      setText(this.stale, error.message);
      this.#showBar();
    }
  }

  #save() {
    return this.#carryOut(() => saveGraph(this.#text, this.#file.version), t("Saved, and in force."));
  }

  #undo() {
    return this.#carryOut(() => undoGraph(this.#file.version), t("The text before the last save is in force again."));
  }
}

// View Search: objects by words or by their looks, as pictures.

import { search as askSearch } from "./api.js";
import { el, setText, svg } from "./dom.js";
import { count } from "./format.js";
import { Filters, query } from "./incident_filters.js";
import { shortTime } from "./incident_words.js";
import { likeAddress, match, pictureOf, recordingAddress, title } from "./search_words.js";
import { t } from "./texts.js";

/** Results that are shown. */
const LIMIT = 60;
/** The period without a choice. */
const USUAL = "all";

/** Parameters of the address, with their names in the API. */
const NAMED = { text: "text", like: "like", camera: "cameras", class: "class" };

export class Search {
  #params = new URLSearchParams();
  #asked = null;
  #number = 0;
  #hasSink = null;
  #hasRecordings = false;
  #answer = null;

  constructor(root, app) {
    [this.root, this.app] = [root, app];
    this.filters = new Filters((params) => this.#change(params), {
      choices: ["camera", "class"], usual: USUAL, flags: false, isTextFirst: true,
      placeholder: t("red van, a plate, a name"), label: t("Words to search for"),
    });
    this.filters.text.setAttribute("aria-keyshortcuts", "/");
    this.likeImage = el("img", { alt: t("The object that results look like"), onerror: () => { this.likeImage.hidden = true; } });
    this.like = el("div", { class: "panel search-like", hidden: "" }, this.likeImage,
      el("p", { text: t("Objects that look like this one, on all cameras that you see. The most alike come first.") }),
      el("button", { type: "button", text: t("Show all objects"), onclick: () => this.#change(new URLSearchParams()) }));
    this.count = el("span", { class: "count", role: "status" });
    this.note = el("p", { class: "hint", hidden: "" });
    this.list = el("ol", { class: "search-results", "aria-label": t("Results") });
    this.empty = el("div", { class: "search-empty", hidden: "" });
    root.append(el("div", { class: "title" }, el("h2", { text: t("Search") }), this.count),
      this.filters.root, this.like, this.note, this.list, this.empty);
    this.list.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** Puts the cursor into the field of words. */
  focus() {
    this.filters.text.focus();
    this.filters.text.select();
  }

  show(params) {
    this.#params = params;
    this.filters.show(params);
    const like = params.get("like");
    this.like.hidden = !like;
    if (like && this.likeImage.dataset.of !== like) {
      this.likeImage.dataset.of = like;
      this.likeImage.hidden = false;
      this.likeImage.src = pictureOf(like);
    }
    // The newest objects are others after a while; results of a query are kept.
    const isQuery = like || params.get("text");
    if (this.#asked !== String(params) || !isQuery) this.#load();
  }

  update({ sinks }) {
    const hasRecordings = sinks.some(({ type }) => type === "archive");
    if (hasRecordings !== this.#hasRecordings) {
      this.#hasRecordings = hasRecordings;
      if (this.#answer) this.#show(this.#answer);
    }
    const has = sinks.some(({ type }) => type === "search");
    const isOther = this.#hasSink !== null && has !== this.#hasSink;
    this.#hasSink = has;
    if (isOther && !this.root.hidden) this.#load();
  }

  /** Words take the place of an object that results look like. */
  #change(params) {
    if (params.get("text")) params.delete("like");
    const text = String(params);
    this.app.go(text ? `search?${text}` : "search");
  }

  async #load() {
    const number = ++this.#number;
    this.#asked = String(this.#params);
    this.root.setAttribute("aria-busy", "true");
    const answer = await askSearch({ ...query(this.#params, Date.now(), NAMED, USUAL), limit: LIMIT }).catch((error) => error);
    if (number !== this.#number) return;
    this.root.removeAttribute("aria-busy");
    if (!(answer instanceof Error)) {
      this.#answer = answer;
      this.#show(answer);
      return;
    }
    // The same is asked for again at the next visit.
    this.#answer = this.#asked = null;
    this.list.replaceChildren();
    this.note.hidden = true;
    setText(this.count, "");
    this.#showEmpty([answer.message]);
  }

  #show(answer) {
    const { available, results, names } = answer;
    this.filters.root.hidden = !available;
    if (available) this.filters.offer(names);
    const isLike = this.#params.has("like");
    const best = Math.max(0, ...results.map(({ similarity }) => similarity ?? 0));
    this.list.replaceChildren(...results.map((result) => this.#card(result, match(result, isLike, best))));
    setText(this.count, available ? t(results.length === 1 ? "1 result" : "{count} results", { count: count(results.length) }) : "");
    const notes = available ? this.#notes(answer) : [];
    this.note.hidden = notes.length === 0;
    setText(this.note, notes.join(" "));
    this.#showEmpty(results.length ? [] : this.#reasons(answer));
  }

  /** What a reader must know to judge the results. */
  #notes({ meaning, results, other_model: other }) {
    const notes = [];
    const { text, like } = Object.fromEntries(this.#params);
    if (!text && !like && results.length) notes.push(t("The newest objects. Search by words, or choose a picture and what looks like it."));
    if (text && !meaning.available) notes.push(t("Only texts, names and classes are searched, not pictures: {why}.", { why: reason(meaning) }));
    if (results.length === LIMIT && (text || like)) notes.push(t("These are the first {count}: choose a camera, a class or a time for others.", { count: LIMIT }));
    if (other > 0 && (like || text)) notes.push(t("{count} older objects are found by words only: their pictures were read by another model.", { count: count(other) }));
    return notes;
  }

  /** Why there is nothing, and what to do, in sentences. */
  #reasons(answer) {
    if (!answer.available) return [t("Search is not set up in this graph: {why}.", { why: reason(answer) })];
    if (this.#params.has("like") && !answer.like.available) return [t("Objects cannot be compared by their looks: {why}.", { why: reason(answer.like) })];
    if (answer.kept.tracks === 0) return [t("No object has been kept yet. Each object is kept when it has left the picture.")];
    return [t("Nothing was found among {count} objects. Try other words, another camera or a longer time.", { count: count(answer.kept.tracks) })];
  }

  #showEmpty(sentences) {
    this.empty.hidden = sentences.length === 0;
    const next = sentences.map((text) => el("p", { text }));
    this.empty.replaceChildren(...next);
  }

  #card(result, { text, share }) {
    const { id, stream, incidents } = result;
    // An object without a picture has its begin.
    const ms = result.picture_ms ?? result.began_ms;
    const recording = this.#hasRecordings ? recordingAddress(stream, ms) : null;
    const incident = incidents.length ? `#incidents?${new URLSearchParams({ id: incidents[0] })}` : null;
    const target = incident ?? recording ?? likeAddress(id);
    const name = title(result) || t("Object");
    const image = el("img", { src: result.has_picture ? pictureOf(id) : undefined, alt: "", loading: "lazy", onerror: () => { image.hidden = true; } });
    image.hidden = !result.has_picture;
    const link = (href, label) => (href ? [el("a", { href, text: label, "aria-label": `${label}: ${name}` })] : []);
    const bar = share === undefined ? [] : [svg("svg", { class: "match-bar", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "whole", width: 100, height: 4 }), svg("rect", { class: "part", width: (100 * Math.min(1, share)).toFixed(0), height: 4 }))];
    return el("li", { class: "result", "data-id": id },
      el("a", { class: "result-shot", href: target, "aria-label": `${name}, ${stream}, ${shortTime(ms)}` }, image),
      el("div", { class: "result-text" }, el("strong", { text: name, dir: "auto" }), el("span", { text: stream, dir: "auto" }), el("span", { text: shortTime(ms) }),
        ...(text ? [el("span", { text })] : []), ...bar,
        el("span", { class: "result-links" }, ...link(likeAddress(id), t("Looks like this")), ...link(incident, t("Incident")), ...link(recording, t("Recording")))));
  }

  /** Arrow keys go from picture to picture. */
  #onKey(event) {
    const shots = [...this.list.querySelectorAll(".result-shot")];
    const at = shots.indexOf(event.target);
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (at < 0 || !by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    shots[at + by]?.focus();
  }
}

const reason = ({ why, hint }) => [why, hint].filter(Boolean).join(" – ");

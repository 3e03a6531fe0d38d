// A group of incidents in the list: one, or many alike that open.

import { incidentPictureAddress } from "./api.js";
import { el, setText } from "./dom.js";
import { details, lasted, phase, shortTime, title } from "./incident_words.js";
import { t } from "./texts.js";

/** Incidents of an open group that are shown at first. */
const MAX_OPEN = 48;

/** Changes the picture of an image where there is a newer one. */
function showPicture(image, incident) {
  image.hidden = !incident.has_picture;
  // A better picture may come until it is over.
  const address = incident.has_picture ? `${incidentPictureAddress(incident.id)}?${incident.time_ms}` : "";
  if (image.dataset.address === address) return;
  image.dataset.address = address;
  if (address) image.src = address;
  else image.removeAttribute("src");
}

/** A picture, a title and three lines, as a button. */
class Card {
  constructor(onclick) {
    this.image = el("img", { alt: "", loading: "lazy", onerror: () => { this.image.hidden = true; } });
    this.title = el("strong", { dir: "auto" });
    this.marks = el("span", { class: "incident-marks" });
    this.lines = [el("span"), el("span"), el("span", { class: "incident-details", dir: "auto" })];
    this.root = el("button", { type: "button", class: "incident", onclick },
      el("span", { class: "shot" }, this.image), el("span", { class: "incident-text" }, el("span", { class: "incident-title" }, this.title, this.marks), ...this.lines));
  }

  update(incident, others) {
    this.root.dataset.id = incident.id;
    showPicture(this.image, incident);
    setText(this.title, title(incident));
    const all = [incident, ...others];
    const isUnseen = all.some(({ seen }) => !seen);
    this.root.classList.toggle("unseen-incident", isUnseen);
    const marks = [isUnseen ? t("new") : "", all.some(({ pinned }) => pinned) ? t("pinned") : "", incident.has_clip ? t("clip") : ""];
    const count = others.length ? [el("span", { class: "mark group-count", text: t("{count} alike", { count: all.length }) })] : [];
    this.marks.replaceChildren(...count, ...marks.filter(Boolean).map((text) => el("span", { class: `mark${text === marks[0] ? " is-new" : ""}`, text })));
    const oldest = all.at(-1);
    const times = others.length ? t("{from} to {to}", { from: shortTime(oldest.began_ms), to: shortTime(incident.began_ms) }) : shortTime(incident.began_ms);
    setText(this.lines[0], [times, others.length ? "" : lasted(incident), incident.is_over ? "" : phase(incident)].filter(Boolean).join(" · "));
    setText(this.lines[1], incident.stream);
    setText(this.lines[2], details(incident));
  }
}

export class Row {
  #cards = new Map();
  #isOpen = false;

  /** `open(id)` is called for the incident that a reader chooses. */
  constructor(open) {
    this.open = open;
    this.head = new Card(() => this.#choose());
    this.members = el("ul", { class: "group-members", hidden: "" });
    this.root = el("li", {}, this.head.root, this.members);
  }

  #choose() {
    if (this.group.length === 1) {
      this.open(this.group[0].id);
      return;
    }
    this.#isOpen = !this.#isOpen;
    this.update(this.group);
  }

  update(group) {
    this.group = group;
    const isMany = group.length > 1;
    this.root.className = isMany ? "group" : "";
    this.head.update(group[0], group.slice(1));
    if (isMany) this.head.root.setAttribute("aria-expanded", String(this.#isOpen));
    else this.head.root.removeAttribute("aria-expanded");
    this.members.hidden = !isMany || !this.#isOpen;
    this.root.classList.toggle("is-open", !this.members.hidden);
    this.#showMembers(this.members.hidden ? [] : group.slice(0, MAX_OPEN));
  }

  #showMembers(shown) {
    const ids = new Set(shown.map(({ id }) => id));
    for (const [id, { root }] of this.#cards) {
      if (ids.has(id)) continue;
      root.parentNode.remove();
      this.#cards.delete(id);
    }
    shown.forEach((incident, index) => {
      let card = this.#cards.get(incident.id);
      if (!card) {
        card = new Card(() => this.open(incident.id));
        el("li", {}, card.root);
        this.#cards.set(incident.id, card);
      }
      card.update(incident, []);
      const item = card.root.parentNode;
      if (this.members.children[index] !== item) this.members.insertBefore(item, this.members.children[index] ?? null);
    });
  }
}

// Figures of each camera as a table.

import { shareBar, sparkline } from "./charts.js";
import { byId, el, replaceTable } from "./dom.js";
import { ms, percent, rate } from "./format.js";
import { perSecond } from "./history.js";
import { t } from "./texts.js";

const COLUMNS = [
  ["Camera", "Its name, and the address of its source", "words"],
  ["Arrived/s", "Frames per second that arrived from the camera, over the last ten seconds"],
  ["Goodput/s", "Frames per second that were delivered within their objective, over the last ten seconds"],
  ["Last two minutes", "Goodput over the last two minutes, and delivered (accent), late (amber) and dropped (red) frames over the last ten seconds", "course"],
  ["In time", "Frames that were delivered within their objective, of all that ended"],
  ["Late/s", "Frames per second that were delivered after their deadline"],
  ["Dropped/s", "Frames per second that were dropped before they were delivered"],
  ["p95 latency", "From arrival to delivery: 95 of 100 frames took less, since the start"],
];

/** Frames delivered in time, of the frames that ended; `null` without any. */
function inTime(grown) {
  const ended = grown ? grown.delivered + grown.late + grown.dropped : 0;
  return ended > 0 ? grown.delivered / ended : null;
}

export class Cameras {
  update(state, history) {
    if (!state.streams.length) {
      byId("cameras").replaceChildren(el("p", { class: "nothing", text: t("There is no camera yet.") }));
      return;
    }
    replaceTable(byId("cameras"), COLUMNS, state.streams.map((stream) => this.#row(stream, state, history)));
  }

  #row({ id, name, source, requests, slo_ms: slo }, state, history) {
    const grown = history.stream(id);
    const [course, bar] = [sparkline(t("Goodput of {name} over the last two minutes", { name })), shareBar()];
    course.update(history.course((sample) => sample.streams.get(id)?.delivered));
    bar.update(grown);
    const done = requests.delivered + requests.late;
    const p95 = done ? state.report.streams[name]?.latency_ms.p95 ?? null : null;
    return [
      el("span", { dir: "auto", text: name }, el("small", { text: source, title: source })),
      rate(perSecond(grown, "arrived")), rate(perSecond(grown, "delivered")), el("div", {}, course.root, bar.root),
      percent(inTime(grown)), rate(perSecond(grown, "late")), rate(perSecond(grown, "dropped")),
      el("span", { class: p95 > (slo ?? state.slo_ms) ? "bad" : "", text: ms(p95) }),
    ];
  }
}

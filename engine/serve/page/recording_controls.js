// Buttons of the view Recordings: the clock, its speed, the window of time, and the range to export.

import { el, setText } from "./dom.js";
import { number } from "./format.js";
import { showSound } from "./icons.js";
import { shownTime } from "./recording_strip.js";
import { t } from "./texts.js";

const RATES = [0.25, 0.5, 1, 2, 4, 8];

/** A time for an input in the zone of the reader: `2026-11-30T06:00:00`. */
function local(at) {
  const time = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return time.toISOString().slice(0, 19);
}

/** The buttons; `actions` are called for them. `show` gives them the state. */
export function controls(actions) {
  const button = (text, title, onclick, attributes = {}) =>
    el("button", { type: "button", text, title, "aria-label": title, onclick, ...attributes });
  const play = button("▶", t("Play"), actions.play, { class: "primary play" });
  const rate = el("select", { "aria-label": t("Speed"), onchange: () => actions.rate(Number(rate.value)) },
    ...RATES.map((value) => el("option", { value, text: `${number(value, value < 1 ? 2 : 0)}×` })));
  rate.value = 1;
  const sound = button("", t("Sound"), actions.sound, { class: "icon-button sound", hidden: "" });
  const span = el("select", { "aria-label": t("Time that is shown"), onchange: () => actions.span(span.value) },
    el("option", { value: "minutes", text: t("10 minutes") }),
    el("option", { value: "hour", text: t("1 hour"), selected: "" }),
    el("option", { value: "quarter", text: t("6 hours") }),
    el("option", { value: "day", text: t("1 day") }));
  const time = el("input", { type: "datetime-local", step: "1", "aria-label": t("Go to a time"), onchange: () => {
    const at = new Date(time.value).getTime();
    if (!Number.isNaN(at)) actions.seek(at);
  } });
  const now = el("strong", { class: "now" });
  const marked = el("span", { class: "marked-range" });
  const group = (label, ...nodes) => el("div", { class: "group", role: "group", "aria-label": label }, ...nodes);
  const root = el("div", { class: "panel recording-controls" },
    group(t("Playback"),
      button(t("‹ Incident"), t("Previous incident (p)"), () => actions.incident(-1)),
      button("−1", t("Previous picture (,)"), () => actions.step(-1)),
      play,
      button("+1", t("Next picture (.)"), () => actions.step(1)),
      button(t("Incident ›"), t("Next incident (n)"), () => actions.incident(1)),
      rate, sound, now),
    group(t("Time"),
      button("‹", t("Earlier"), () => actions.shift(-1)), span, button("›", t("Later"), () => actions.shift(1)), time),
    group(t("Export"),
      button(t("Begin here"), t("The range to export begins here (i)"), () => actions.mark("from")),
      button(t("End here"), t("The range to export ends here (o)"), () => actions.mark("to")),
      button(t("Export"), t("Save the marked range as MP4, without loss"), actions.export, { class: "export" }), marked));
  const show = ({ at, plays, marks, hasSound, isLoud }) => {
    sound.hidden = !hasSound;
    showSound(sound, isLoud);
    setText(play, plays ? "❚❚" : "▶");
    const title = t(plays ? "Pause playback" : "Play");
    if (play.title !== title) {
      play.title = title;
      play.setAttribute("aria-label", title);
    }
    setText(now, shownTime(at));
    if (document.activeElement !== time) time.value = local(at);
    setText(marked, marks ? t("{from} to {to}", { from: shownTime(marks[0]), to: shownTime(marks[1]) }) : "");
  };
  return { root, show };
}

// States of cameras in plain words: whether something is wrong, since when, why, and a remedy.

import { isDetailed, sourceWords } from "./causes.js";
import { duration } from "./format.js";
import { locale, sentences, t } from "./texts.js";

const time = new Intl.DateTimeFormat(locale, { timeStyle: "short" });
const date = new Intl.DateTimeFormat(locale, { dateStyle: "short", timeStyle: "short" });
/** Times of two cameras that are lost together differ by less, in milliseconds. */
const SAME_MS = 60_000;
/** Times of one loss, as two answers of the engine have it, differ by less, in milliseconds. */
const JITTER_MS = 5000;

const STATES = {
  connecting: () => t("connecting"),
  live: () => t("live"),
  stalled: () => t("no pictures"),
  waiting: () => t("not reachable"),
  gone: () => t("ended"),
  paused: () => t("paused"),
  removing: () => t("being removed"),
};

const toSecond = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });

const isToday = (ms) => new Date(ms).toDateString() === new Date().toDateString();

/** A time of day; with the date if it is not today. */
const clock = (ms) => (isToday(ms) ? time : date).format(ms);

/** The same to the second. */
export const moment = (ms) => (isToday(ms) ? toSecond : date).format(ms);

/** Seconds since a camera was lost; `null` if it is not. A retry does not count as another loss. */
function lostFor({ state, lost_s: lost, for_s: since, reason }) {
  if (["live", "paused", "removing"].includes(state)) return null;
  if (lost !== undefined) return lost;
  return ["stalled", "waiting"].includes(state) || (state === "gone" && reason) ? since : null;
}

export const isLost = (stream) => lostFor(stream) !== null;

const starts = new Map();

/** Time at which a camera was lost; always the same one of a loss. */
function lostSince(stream) {
  const at = Date.now() - 1000 * lostFor(stream);
  const known = starts.get(stream.id);
  if (known !== undefined && Math.abs(known - at) < JITTER_MS) return known;
  starts.set(stream.id, at);
  return at;
}

/** The state of a camera in a word or two. */
export function stateWord(stream) {
  const isRetry = stream.state === "connecting" && isLost(stream);
  return (STATES[isRetry ? "waiting" : stream.state] ?? (() => stream.state))();
}

/** A reason without the address of the camera and without repetitions, and its advice: `[reason, advice]`. */
function plainReason({ reason, source, detect_source: detected }) {
  const addresses = [source, detected].filter(Boolean);
  const hasAddress = (part) => addresses.some((address) => part.includes(address)) || /\w:\/\/\S/.test(part);
  // Lower layers add their own words in brackets, with an address of theirs.
  const parts = (reason ?? "").replace(/\s*\([^()]*:\/\/[^()]*\)/g, "").replace(/\.$/, "").split(": ");
  const kept = parts.filter((part, index) => parts.indexOf(part) === index && (parts.length === 1 || !hasAddress(part)));
  const advice = kept.length > 1 && kept.at(-1).startsWith("check ") ? kept.pop() : "";
  return [kept.join(": "), advice].map((text) => text && text[0].toLocaleUpperCase(locale) + text.slice(1));
}

/** The reason in words, and a remedy: in the language of the page if the engine names the cause, else as the engine words them. */
const because = (stream) => sourceWords(stream.cause) ?? plainReason(stream);

/** Text in place of the picture of a camera that sends none. */
export function explain(stream) {
  const [reason, remedy] = because(stream);
  if (isLost(stream)) {
    const since = t("No pictures since {time}", { time: clock(lostSince(stream)) });
    return sentences(since, reason, remedy);
  }
  if (stream.state === "paused") return t("Paused for {time}.", { time: duration(stream.for_s) });
  if (stream.state === "gone") return sentences(t("The recording has ended"), reason);
  if (stream.state === "connecting") return t("Waiting for the first picture.");
  return "";
}

/** Lost cameras by reason: `{ reason, remedy, detail, cameras: [{ name, since }] }`, the most cameras first. `detail` is the engine's own text where that has more. */
export function troubles(streams) {
  const byReason = new Map();
  for (const stream of streams.filter(isLost)) {
    const [plain, remedy] = because(stream);
    const reason = plain || stateWord(stream);
    const detail = isDetailed(stream.cause) ? plainReason(stream)[0] : "";
    const key = JSON.stringify([reason, detail]);
    const entry = byReason.get(key) ?? { reason, remedy, detail, cameras: [] };
    entry.cameras.push({ name: stream.name, since: clock(lostSince(stream)) });
    byReason.set(key, entry);
  }
  return [...byReason.values()].sort((a, b) => b.cameras.length - a.cameras.length);
}

/** All cameras in a line, and its tone: `""`, `warn`, or `bad` if no camera is live that should be. */
export function summarize(streams) {
  const lost = streams.filter(isLost).map(lostSince);
  const of = (state) => streams.filter((stream) => stream.state === state && !isLost(stream)).length;
  const [all, live] = [streams.length, of("live")];
  if (!all) return { text: "", tone: "" };
  if (live === all) return { text: all === 1 ? t("The camera is live.") : t("All {all} cameras are live.", { all }), tone: "" };
  const tone = lost.length ? (live ? "warn" : "bad") : "";
  const parts = [];
  if (lost.length) parts.push(lostLine(lost, all));
  else parts.push(all === 1 ? t("The camera is not live.") : t("{live} of {all} cameras are live.", { live, all }));
  const rest = ["connecting", "paused", "gone", "removing"].map((state) => [of(state), STATES[state]()]).filter(([count]) => count);
  if (rest.length) parts.push(`${rest.map(([count, word]) => `${count} ${word}`).join(", ")}.`);
  return { text: parts.join(" "), tone };
}

function lostLine(lost, all) {
  const [first, last] = [Math.min(...lost), Math.max(...lost)];
  const values = { count: lost.length, all, time: clock(first) };
  if (all === 1) return t("The camera has not been reachable since {time}.", values);
  if (lost.length === 1) return t("1 of {all} cameras has not been reachable since {time}.", values);
  const isOne = last - first < SAME_MS;
  if (lost.length === all) {
    return isOne ? t("None of {all} cameras has been reachable since {time}.", values)
      : t("None of {all} cameras is reachable, the first since {time}.", values);
  }
  return isOne ? t("{count} of {all} cameras have not been reachable since {time}.", values)
    : t("{count} of {all} cameras are not reachable, the first since {time}.", values);
}

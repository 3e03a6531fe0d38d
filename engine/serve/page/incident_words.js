// Words on incidents, and groups of those that are alike.

import { number } from "./format.js";
import { locale, t } from "./texts.js";

/** Incidents of one rule, camera and class with less time than this between them are one group. */
const NEAR_MS = 300_000;

const UNITS = { _s: " s", _kmh: " km/h", _ms: " ms", _px: " px" };

const format = (options) => new Intl.DateTimeFormat(locale, options);
const full = format({ dateStyle: "medium", timeStyle: "medium" });
const short = format({ timeStyle: "medium" });
const day = format({ weekday: "short", day: "numeric", month: "short" });

export const fullTime = (ms) => full.format(ms);

/** A time of today without its date. */
export function shortTime(ms) {
  const isToday = new Date(ms).toDateString() === new Date().toDateString();
  return isToday ? short.format(ms) : `${day.format(ms)}, ${short.format(ms)}`;
}

/** A time by the clock of a camera, where it shows another one than that of the reader; else `null`. */
export function cameraTime(ms, zone) {
  if (!zone) return null;
  try {
    const there = format({ dateStyle: "medium", timeStyle: "medium", timeZone: zone }).format(ms);
    return there === fullTime(ms) ? null : there;
  } catch {
    return null;
  }
}

/** `["dwell", "12.3 s"]` of `dwell_s: 12.34`. */
export function value(name, value) {
  const end = Object.keys(UNITS).find((end) => name.endsWith(end)) ?? "";
  const label = name.slice(0, name.length - end.length).replaceAll("_", " ");
  if (typeof value !== "number") return [label, String(value)];
  const digits = Math.abs(value) < 1 ? 2 : 1;
  return [label, `${value.toLocaleString(locale, { maximumFractionDigits: digits })}${UNITS[end] ?? ""}`];
}

export const title = ({ transform, class: name }) => (name ? `${transform}: ${name}` : transform);

/** How long it lasted; empty for a moment. */
export function lasted({ began_ms, time_ms }) {
  const seconds = (time_ms - began_ms) / 1000;
  if (seconds < 0.1) return "";
  return seconds < 120 ? t("{count} s", { count: number(seconds, 1) }) : t("{count} min", { count: Math.round(seconds / 60) });
}

export const phase = ({ is_over, phase }) => (is_over ? t("over") : phase === "began" ? t("began") : t("continues"));

/** Zones, plates and names, values: the words that distinguish one from another. */
export function details({ zones, values, attributes }) {
  const texts = Object.entries(values).map((entry) => value(...entry).join(" "));
  return [...Object.values(attributes), ...zones, ...texts].join(" · ");
}

/** Groups of incidents, which come with the newest first: arrays with the newest first. */
export function groups(incidents) {
  const all = [];
  const open = new Map();
  for (const incident of incidents) {
    const key = JSON.stringify([incident.stream, incident.transform, incident.class]);
    const group = open.get(key);
    if (group && group.at(-1).began_ms - incident.time_ms < NEAR_MS) {
      group.push(incident);
      continue;
    }
    const next = [incident];
    open.set(key, next);
    all.push(next);
  }
  return all;
}

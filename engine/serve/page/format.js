// Numbers as they are read: few digits, always as many for one kind, so that columns stand still.

import { locale, t } from "./texts.js";

const formats = new Map();

/** A number in the notation of the reader, with so many digits after the point. */
export function number(value, digits = 0) {
  if (!formats.has(digits)) {
    formats.set(digits, new Intl.NumberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }
  return formats.get(digits).format(value);
}

/** A rate a second. */
export function rate(value) {
  if (value === null) return "–";
  return number(value, value >= 100 ? 0 : 1);
}

export const count = (value) => number(value);

/** A share from 0 to 1 in per cent. */
export function percent(value) {
  if (value === null || !Number.isFinite(value)) return "–";
  const points = 100 * value;
  return `${number(points, points < 10 && points > 0 ? 1 : 0)}\u00a0%`;
}

/** Milliseconds, in seconds from ten of them on. */
export function ms(value) {
  if (value === null || !Number.isFinite(value)) return "–";
  if (value >= 10_000) return `${number(value / 1000, 1)} s`;
  return `${number(value, value < 10 ? 1 : 0)} ms`;
}

/** A duration in its two largest units. */
export function duration(seconds) {
  const whole = Math.floor(seconds);
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days) return t("{days} d {hours} h", { days, hours });
  if (hours) return `${hours} h ${minutes} min`;
  if (minutes) return `${minutes} min ${whole % 60} s`;
  return `${whole} s`;
}

// Numbers as they are read: few digits, always as many for one kind, so that columns stand still.

/** A rate a second. */
export function rate(value) {
  if (value === null) return "–";
  if (value >= 1000) return Math.round(value).toLocaleString("en");
  return value.toFixed(value >= 100 ? 0 : 1);
}

export function count(value) {
  return Math.round(value).toLocaleString("en");
}

/** A share from 0 to 1 in per cent. */
export function percent(value) {
  if (value === null || !Number.isFinite(value)) return "–";
  const points = 100 * value;
  return `${points.toFixed(points < 10 && points > 0 ? 1 : 0)}\u00a0%`;
}

/** Milliseconds, in seconds from ten of them on. */
export function ms(value) {
  if (value === null || !Number.isFinite(value)) return "–";
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

/** How long something has been so. */
export function duration(seconds) {
  const whole = Math.floor(seconds);
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  if (minutes) return `${minutes} min ${whole % 60} s`;
  return `${whole} s`;
}

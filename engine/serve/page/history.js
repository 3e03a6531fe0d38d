// What happened of late: differences of what the engine counts since its start. The clock is the engine's.

/** Rates are over so many seconds. */
export const WINDOW_S = 10;
/** Courses go so far back. */
export const COURSE_S = 120;

const key = (drop) => JSON.stringify([drop.module, drop.reason]);

function sample(state) {
  const modules = state.modules.map((module) => {
    const { busy_s = 0, wasted_s = 0, dropped = 0 } = state.report.modules[module.name] ?? {};
    return [module.name, { ...module.totals, busy_s, wasted_s, dropped }];
  });
  return {
    at: state.report.run.duration_s,
    all: { ...state.report.requests },
    streams: new Map(state.streams.map((stream) => [stream.id, stream.requests])),
    modules: new Map(modules),
    drops: new Map(state.report.drops.map((drop) => [key(drop), drop.count])),
    sinks: new Map(Object.entries(state.report.sinks)),
    gears: state.report.gears?.seconds_by_gear ?? [],
  };
}

export class History {
  #samples = [];

  add(state) {
    const next = sample(state);
    const last = this.#samples.at(-1);
    // Another engine answers now.
    if (last && (next.at < last.at || next.all.arrived < last.all.arrived)) this.#samples = [];
    if (last && next.at === last.at) return;
    this.#samples.push(next);
    while (this.#samples[0].at < next.at - COURSE_S) this.#samples.shift();
  }

  /** Growth of the numbers that `of` finds in a sample, over the window, and the seconds that it took; `null` at first. */
  growth(of) {
    const last = this.#samples.at(-1);
    if (!last) return null;
    const first = this.#samples.find((sample) => sample.at >= last.at - WINDOW_S - 0.5);
    const [before, now, seconds] = [of(first) ?? {}, of(last), last.at - first.at];
    if (!now || seconds < 0.5) return null;
    const grown = { seconds };
    for (const [name, value] of Object.entries(now)) {
      if (typeof value === "number") grown[name] = Math.max(0, value - (before[name] ?? 0));
    }
    return grown;
  }

  /** How much `of` grew a second, from sample to sample: `[seconds before now, rate]`. */
  course(of) {
    const points = [];
    const end = this.#samples.at(-1)?.at ?? 0;
    for (let i = 1; i < this.#samples.length; i++) {
      const [before, now] = [this.#samples[i - 1], this.#samples[i]];
      const [from, to] = [of(before), of(now)];
      if (from === undefined || to === undefined) continue;
      points.push([end - now.at, Math.max(0, to - from) / (now.at - before.at)]);
    }
    return points;
  }

  /** Gears that were in force, from so many seconds before now to so many; the one that was so longest between two samples. */
  gears() {
    const end = this.#samples.at(-1)?.at ?? 0;
    const spans = [];
    for (let i = 1; i < this.#samples.length; i++) {
      const [before, now] = [this.#samples[i - 1], this.#samples[i]];
      const grown = now.gears.map((seconds, gear) => seconds - (before.gears[gear] ?? 0));
      const gear = grown.indexOf(Math.max(...grown));
      if (gear < 0 || grown[gear] <= 0) continue;
      const last = spans.at(-1);
      if (last?.gear === gear && last.to === end - before.at) last.to = end - now.at;
      else spans.push({ from: end - before.at, to: end - now.at, gear });
    }
    return spans;
  }

  all() { return this.growth((sample) => sample.all); }
  stream(id) { return this.growth((sample) => sample.streams.get(id)); }
  module(name) { return this.growth((sample) => sample.modules.get(name)); }
  sink(name) { return this.growth((sample) => sample.sinks.get(name)); }
  drop(drop) { return this.growth((sample) => ({ count: sample.drops.get(key(drop)) ?? 0 })); }
}

/** `name` of what grew, a second. */
export const perSecond = (grown, name) => (grown ? grown[name] / grown.seconds : null);

/** One that grew by another; `null` where that did not grow. */
export const ratio = (grown, name, by) => (grown && grown[by] > 0 ? grown[name] / grown[by] : null);

// Recordings and incidents of one camera in a range of time, as the engine lists them.

import { incidentsOf, segments as askSegments } from "./api.js";

/** Segments that are kept of a range: two days of ten seconds each. */
const MAX_SEGMENTS = 20_000;

/** Segments and incidents between two times in milliseconds, whether there is sound, and a note where they cannot be listed. */
export async function recorded(name, from, to) {
  const found = { segments: [], hasSound: false, incidents: [], note: "" };
  try {
    // Many short segments come in several parts.
    for (let next = from; next !== undefined && found.segments.length < MAX_SEGMENTS;) {
      const list = await askSegments(name, next, to);
      found.segments.push(...list.segments.filter(({ id }) => id !== found.segments.at(-1)?.id));
      next = list.next_ms;
    }
  } catch (error) {
    // Nothing recorded is no error of a timeline.
    if (error.status !== 404) found.note = error.message;
  }
  found.hasSound = found.segments.some(({ type }) => /mp4a|opus/i.test(type));
  try {
    const { incidents } = await incidentsOf(name, from, to);
    found.incidents = incidents.filter(({ stream, began_ms }) => stream === name && began_ms >= from && began_ms < to);
  } catch { /* Recordings are shown without them. */ }
  return found;
}

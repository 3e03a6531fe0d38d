// Differences of two texts, line by line.

import { el } from "./dom.js";

/** Cells of the table of common lines: larger changes are shown as one block. */
const MAX_CELLS = 4_000_000;
/** Equal lines around a change. */
const CONTEXT = 2;

/** Lines of both texts as `[sign, text, number]` with the signs `-`, `+` and blank; `null` in place of equal ones that are left out. */
export function changedLines(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  if (start + end === a.length && a.length === b.length) return [];
  const middle = common(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const lines = [];
  let number = Math.max(0, start - CONTEXT);
  if (number > 0) lines.push(null);
  const push = (sign, text) => { if (sign !== "-") number++; lines.push([sign, text, sign === "-" ? "" : number]); };
  a.slice(number, start).forEach((text) => push(" ", text));
  let equal = [];
  const flush = (isLast) => {
    if (equal.length > 2 * CONTEXT && !isLast) {
      equal.slice(0, CONTEXT).forEach((text) => push(" ", text));
      number += equal.length - 2 * CONTEXT;
      lines.push(null);
      equal = equal.slice(-CONTEXT);
    }
    equal.forEach((text) => push(" ", text));
    equal = [];
  };
  for (const [sign, text] of middle) {
    if (sign === " ") equal.push(text);
    else { flush(false); push(sign, text); }
  }
  flush(true);
  const tail = a.length - end;
  a.slice(tail, tail + CONTEXT).forEach((text) => push(" ", text));
  if (end > CONTEXT) lines.push(null);
  return lines;
}

/** The shortest edit of lists of lines, by their longest common subsequence. */
function common(a, b) {
  if (a.length * b.length > MAX_CELLS) return [...a.map((text) => ["-", text]), ...b.map((text) => ["+", text])];
  const width = b.length + 1;
  const length = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const at = i * width + j;
      length[at] = a[i] === b[j] ? length[at + width + 1] + 1 : Math.max(length[at + width], length[at + 1]);
    }
  }
  const out = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { out.push([" ", a[i++]]); j++; }
    else if (j === b.length || (i < a.length && length[(i + 1) * width + j] >= length[i * width + j + 1])) out.push(["-", a[i++]]);
    else out.push(["+", b[j++]]);
  }
  return out;
}

const CLASSES = { "-": "removed", "+": "added", " ": "same" };

/** Shows changed lines in an element. */
export function showChanges(place, lines) {
  place.replaceChildren(...lines.map((line) => (line === null
    ? el("span", { class: "left-out", text: "⋯" })
    : el("span", { class: CLASSES[line[0]] }, el("span", { class: "number", text: String(line[2]) }), `${line[0]} ${line[1]}`))));
}

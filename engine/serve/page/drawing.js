// Zones, lines, trails and objects on a canvas. Places are in parts of the picture, which is at `place` on the canvas.

const BOX = "#7cc0ff";
const ZONE = "#3fd6b0";
const LINE = "#ffd24a";
const POINT = "#ffd24a";
const BONE = "#50e65a";
const MASK = "rgb(124 192 255 / 35%)";
/** Limbs between the 17 key points of COCO. */
const BONES = [
  [0, 1], [0, 2], [1, 3], [2, 4], [5, 6], [5, 7], [7, 9], [6, 8], [8, 10], [5, 11], [6, 12], [11, 12], [11, 13], [13, 15],
  [12, 14], [14, 16], [0, 5], [0, 6],
];
const GROUND = "rgb(0 0 0 / 70%)";
/** Seconds that a trail goes back. */
const TRAIL_S = 2;
/** Bits of a track's id that are its number within the run. */
const NUMBERS = 2 ** 20;

export const fontOf = ({ w }) => `${Math.min(15, Math.max(10, Math.round(w / 45)))}px system-ui, sans-serif`;

const at = (place, [x, y]) => [place.x + x * place.w, place.y + y * place.h];

/** A line that is seen on any ground: dark below, and narrower in its colour. */
function stroke(context, color, width) {
  context.lineWidth = width + 1.5;
  context.strokeStyle = GROUND;
  context.stroke();
  context.lineWidth = width;
  context.strokeStyle = color;
  context.stroke();
}

function path(context, points, closed) {
  context.beginPath();
  points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
  if (closed) context.closePath();
}

/** A text on dark ground whose lower left corner is there, kept within the picture; gives the area that it takes. */
function label(context, place, text, [x, y], color) {
  const height = parseFloat(context.font) + 3;
  const width = context.measureText(text).width + 6;
  const left = Math.max(place.x, Math.min(x, place.x + place.w - width));
  const bottom = Math.max(place.y + height, Math.min(y, place.y + place.h));
  context.fillStyle = GROUND;
  context.fillRect(left, bottom - height, width, height);
  context.fillStyle = color;
  context.fillText(text, left + 3, bottom - 1);
  return { left, top: bottom - height, right: left + width, bottom };
}

const overlaps = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/** A zone or a line. */
export function drawShape(context, place, { closed, points }) {
  const corners = points.map((point) => at(place, point));
  const color = closed ? ZONE : LINE;
  path(context, corners, closed);
  if (closed) {
    context.fillStyle = "rgb(63 214 176 / 12%)";
    context.fill();
  }
  stroke(context, color, closed ? 1.25 : 2);
  if (!closed && corners.length === 2) {
    // Where it begins: its directions are seen from there.
    context.beginPath();
    context.arc(corners[0][0], corners[0][1], 3.5, 0, 7);
    context.fillStyle = color;
    context.fill();
  }
}

/** Its name and what it counts, at its highest point; `taken` are the areas of texts that are there already. */
export function nameShape(context, place, { name, closed, points, text }, taken) {
  const corners = points.map((point) => at(place, point));
  const [x, y] = corners.reduce((best, corner) => (corner[1] < best[1] ? corner : best));
  const said = text ? `${name}: ${text}` : name;
  const height = parseFloat(context.font) + 3;
  const [width, left] = [context.measureText(said).width + 6, Math.max(place.x, x)];
  const area = (row) => {
    const top = Math.max(place.y, y - height) + row * height;
    const from = Math.min(left, place.x + place.w - width);
    return { left: from, top, right: from + width, bottom: top + height };
  };
  const row = [0, 1, 2, 3, 4, 5].find((row) => !taken.some((other) => overlaps(area(row), other))) ?? 0;
  taken.push(label(context, place, said, [left, area(row).bottom], closed ? ZONE : LINE));
}

/** Where each track of a frame was in the seconds before: the middle of the lower edge of its box. */
export function drawTrails(context, place, frames, now) {
  const trails = new Map(now.objects.filter(({ track }) => track !== undefined).map(({ track }) => [track, []]));
  if (!trails.size) return;
  for (const frame of frames) {
    if (frame.at < now.at - TRAIL_S) continue;
    for (const { track, box } of frame.objects) trails.get(track)?.push(at(place, [(box[0] + box[2]) / 2, box[3]]));
  }
  for (const points of trails.values()) {
    if (points.length < 2) continue;
    path(context, points, false);
    context.lineWidth = 1.5;
    context.strokeStyle = "rgb(124 192 255 / 65%)";
    context.stroke();
  }
}

/** The pixels of an object: upright strips over the picture, which is seen through them. */
function drawMask(context, place, { width, strips }) {
  context.fillStyle = MASK;
  for (const [x, top, bottom] of strips) {
    const [left, upper] = at(place, [x, top]);
    context.fillRect(left, upper, width * place.w, (bottom - top) * place.h);
  }
}

/** Key points, and the limbs between those of a person; a point that the model is not sure of is `null`. */
function drawPoints(context, place, points) {
  const spots = points.map((point) => point && at(place, point));
  for (const [from, to] of points.length === 17 ? BONES : []) {
    if (!spots[from] || !spots[to]) continue;
    path(context, [spots[from], spots[to]], false);
    stroke(context, BONE, 1.5);
  }
  context.fillStyle = POINT;
  for (const spot of spots.filter(Boolean)) {
    context.beginPath();
    context.arc(spot[0], spot[1], 2, 0, 7);
    context.fill();
  }
}

/** An object with its texts; one at an angle by its corners. */
export function drawObject(context, place, { box, corners, mask, points, class: name, track, words, tags, parent }) {
  if (mask) drawMask(context, place, mask);
  if (points) drawPoints(context, place, points);
  const [[x0, y0], [x1, y1]] = [at(place, box.slice(0, 2)), at(place, box.slice(2))];
  const outline = corners?.map((corner) => at(place, corner)) ?? [[x0, y0], [x1, y0], [x1, y1], [x0, y1]];
  path(context, outline, true);
  stroke(context, BOX, 1);
  // A number within the run is short enough to read; the class of what is found within another object is clear from it.
  const number = track === undefined ? "" : String(track % NUMBERS);
  const joined = (...parts) => parts.filter(Boolean).join(" ");
  const all = parent === undefined ? joined(name, number, words, tags) : words ?? "";
  // A text that is wider than what it names hides more than it says, unless that was read of it.
  const texts = words ? [all] : parent === undefined ? [all, joined(number, tags), number] : [];
  const text = texts.find((text) => text && (words || context.measureText(text).width + 4 <= x1 - x0));
  if (text) label(context, place, text, [x0 - 1, y0], "#ffffff");
}

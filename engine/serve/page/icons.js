// Icons of buttons, drawn in the colour of their text.

import { svg } from "./dom.js";

const PATHS = {
  enlarge: "M9.5 2.5h4v4M13 3L9 7M6.5 13.5h-4v-4M3 13l4-4",
  shrink: "M13.5 6.5h-4v-4M10 6l4-4M2.5 9.5h4v4M6 10l-4 4",
  full: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  menu: "M3 8h.01M8 8h.01M13 8h.01",
  previous: "M10 3L5 8l5 5",
  next: "M6 3l5 5-5 5",
  sound: "M2.5 6H5l3.5-3v10L5 10H2.5zM11 6c.9 1.2.9 2.8 0 4M13 4c2.1 2.4 2.1 5.6 0 8",
  silent: "M2.5 6H5l3.5-3v10L5 10H2.5zM11 6.3l3 3.4M14 6.3l-3 3.4",
};

export function icon(name) {
  return svg("svg", { class: `icon icon-${name}`, viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}

/** Shows on a button whether sound is on. */
export function showSound(button, isLoud) {
  if (button.ariaPressed === String(isLoud)) return;
  button.ariaPressed = String(isLoud);
  button.replaceChildren(icon(isLoud ? "sound" : "silent"));
}

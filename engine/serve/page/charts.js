// Small drawings: a course, and outcomes as one bar.

import { svg } from "./dom.js";
import { COURSE_S } from "./history.js";
import { t } from "./texts.js";

/** A course as a line over the last two minutes. */
export function sparkline(label) {
  const line = svg("path", { class: "spark" });
  const base = svg("path", { class: "spark-base", d: "M0 31.5H120" });
  const root = svg("svg", { viewBox: "0 0 120 32", preserveAspectRatio: "none", role: "img", "aria-label": label }, base, line);
  const update = (points) => {
    const top = Math.max(1, ...points.map(([, value]) => value)) * 1.05;
    const at = ([before, value]) => `${(120 * (1 - before / COURSE_S)).toFixed(1)} ${(31 - 30 * (value / top)).toFixed(1)}`;
    line.setAttribute("d", points.length > 1 ? `M${points.map(at).join("L")}` : "M0 0");
  };
  return { root, update };
}

/** Delivered, late and dropped of what arrived. */
export function shareBar() {
  const parts = ["delivered", "late", "dropped"].map((name) => svg("rect", { class: name, y: 0, height: 6, width: 0 }));
  const root = svg("svg", { class: "share", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img" }, ...parts);
  const update = (grown) => {
    const values = grown ? [grown.delivered, grown.late, grown.dropped] : [0, 0, 0];
    const sum = values.reduce((a, b) => a + b, 0);
    let x = 0;
    values.forEach((value, index) => {
      const width = sum > 0 ? (100 * value) / sum : 0;
      parts[index].setAttribute("x", x.toFixed(2));
      parts[index].setAttribute("width", width.toFixed(2));
      x += width;
    });
    const share = (value) => (sum > 0 ? `${Math.round((100 * value) / sum)} %` : t("none"));
    root.setAttribute("aria-label", t("delivered {delivered}, late {late}, dropped {dropped}", {
      delivered: share(values[0]), late: share(values[1]), dropped: share(values[2]),
    }));
  };
  return { root, update };
}

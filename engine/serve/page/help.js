// A word on what each figure means, behind a question mark that the keyboard reaches.

import { el } from "./dom.js";
import { t } from "./texts.js";

const WORDS = {
  streams: [
    ["Goodput/s, in time", "Frames per second that were delivered within their latency objective, and their share of all frames that ended."],
    ["Last two minutes", "Goodput as a line. Below it the last ten seconds: delivered in time (accent), late (amber), dropped (red)."],
    ["Arrived, late, dropped", "Frames per second over the last ten seconds. Every frame that arrives is delivered, late, dropped, still (nothing had changed in it, or its camera is outside its schedule), or in flight."],
    ["p95 latency", "From arrival to delivery: 95 of 100 frames took less, since the start."],
  ],
  fleet: [
    ["Engines", "The engines that share the cameras of the graph, as this engine sees them. Each engine has a page of its own cameras."],
    ["Capacity, load", "Frames per second that an engine can serve in time, and the share of them that its cameras deliver."],
    ["Cameras of the fleet", "Cameras that some engine receives frames from, of all cameras. If an engine fails, other engines take over its cameras within seconds."],
  ],
  graph: [
    ["Load, %", "Arriving items as a share of the module's capacity. Above 100 % some must be dropped. The line below shows the same value."],
    ["Inside", "Requests in the module now: waiting, in a batch that forms, or running."],
    ["Items/s, drops/s", "Items (frames, or crops of them) that ran per second, and requests that the module dropped per second."],
  ],
  modules: [
    ["Load, inside, items/s", "As in the graph above."],
    ["Batch", "Mean number of items per batch. Larger batches cost less time per item."],
    ["Busy, %", "Device time of its batches, as a share of the time of its slots."],
    ["Useful, %", "Device time spent on frames that were delivered in time, as a share of all device time of the module. The rest was wasted on frames that were dropped or late."],
    ["Dropped/s", "Requests per second that this module dropped."],
  ],
  latency: [
    ["Queue, ms", "Mean time from entering the mailbox to joining a batch."],
    ["Batch wait, ms", "Mean time from joining a batch until it starts."],
    ["Execution, ms", "Mean time of a batch on its slot. All three are of the last ten seconds."],
  ],
  timeline: [
    ["A strip", "A slot of a device with the batches that ran on it, in the colour of their module. The slot was free where the strip is empty."],
    ["Shares and links", "For partitioned models: bookings on each share of a worker, and booked transfers on the link into it, including future ones."],
    ["%", "Share of the last seconds in which the slot, share or link was busy or booked. A batch appears once it has finished."],
  ],
  gears: [
    ["Gear", "The certainty that the small models of cascades must reach. A plan has one gear per range of load; gear 1 is for the lowest load."],
    ["The strip", "The active gear over the last two minutes. Darker gears are for higher loads."],
    ["Shifts", "Number of gear changes since the start."],
  ],
  drops: [
    ["Module", "The module that dropped the frame, or the source."],
    ["Reason", "The reason for the drop, with the same name as in reports, events and metrics."],
    ["Frames/s, since start", "Rate of these drops now, and their number since the start."],
  ],
  dropped: [
    ["Needed", "Estimated time that the frame still needed when it was dropped: waiting (grey), its execution in that module (accent), and everything after it (light)."],
    ["Had", "Time left until its deadline at that moment: the mark on the bar. If the mark lies before the end of the bar, the frame would have been late."],
    ["Reason", "As above; late: the frame was complete after its deadline and was not delivered."],
  ],
  sinks: [
    ["Written", "Deliveries that the output has accepted."],
    ["Skipped", "Deliveries left out because the output was slow, if the graph allows that."],
    ["Lost", "Deliveries not written because of an error, which is shown."],
  ],
};

export function addHelp() {
  for (const place of document.querySelectorAll("[data-help]")) {
    const entries = WORDS[place.dataset.help] ?? [];
    const list = entries.flatMap(([term, text]) => [el("div", {}, el("dt", { text: t(term) }), el("dd", { text: t(text) }))]);
    const summary = el("summary", { text: "?", "aria-label": t("What these figures mean"), title: t("What these figures mean") });
    const details = el("details", { class: "help" }, summary, el("dl", {}, ...list));
    place.replaceWith(details);
    details.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { details.open = false; summary.focus(); }
    });
    document.addEventListener("click", (event) => { if (!details.contains(event.target)) details.open = false; });
  }
}

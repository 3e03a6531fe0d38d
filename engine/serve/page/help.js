// A word on what each figure means, behind a question mark that the keyboard reaches.

import { el } from "./dom.js";

const WORDS = {
  streams: [
    ["Goodput, frames/s", "Frames a second that came out within their latency objective, and their share of those that ended."],
    ["The bar", "Delivered in time (accent), late (amber), dropped (red), over the last ten seconds."],
    ["Arrived, late, dropped", "Frames a second over the last ten seconds. Every frame that arrives is delivered, late, dropped, still (nothing had changed in it), or in flight."],
    ["p95 latency", "From arrival to delivery: 95 of 100 frames took less, since the start."],
    ["State", "live: frames arrive. connecting, waiting: it is being opened. stalled: connected, without pictures. gone: ended."],
  ],
  fleet: [
    ["Engines", "Those that share the cameras of the graph, as this engine sees them. Each shows the page of its own cameras."],
    ["Capacity, load", "Frames a second that an engine can serve in time, and those that its cameras bring, of that."],
    ["Cameras of the fleet", "Those that any engine has frames of, of all. One that has just been lost is taken over within seconds."],
  ],
  incidents: [
    ["An incident", "Something that a transform of the graph found in the tracks of a camera: a crossing, a stay, a rule that held. The newest are first."],
    ["Times", "When it began, by the clock of this engine, and how long it lasted, in seconds."],
    ["The picture", "The one in which its object is seen best so far."],
  ],
  graph: [
    ["Load, %", "Items that arrive, of those that the module can do. Above 100 % some have to be dropped. The line below is the same."],
    ["Inside", "Requests in the module now: waiting, in a batch that forms, or running."],
    ["Items/s, drops/s", "Items (frames, or crops of them) that ran, and requests that the module dropped, a second."],
  ],
  modules: [
    ["Load, inside, items/s", "As in the graph above."],
    ["Batch", "Mean items of a batch: larger ones cost less time for each item."],
    ["Busy, %", "Device time of its batches, of the time that its slots have."],
    ["Useful, %", "Device time spent on frames that were delivered in time, of all that the module spent; the rest was wasted on frames that were dropped or late."],
    ["Dropped/s", "Requests a second that this module dropped."],
  ],
  latency: [
    ["Queue, ms", "Mean time from entering the mailbox to joining a batch."],
    ["Batch wait, ms", "Mean time from joining a batch until it starts."],
    ["Execution, ms", "Mean time of a batch on its slot. All three are of the last ten seconds."],
  ],
  timeline: [
    ["A strip", "A slot of a device with the batches that ran on it, by the colour of their module; where it is empty the slot was free."],
    ["Shares and links", "Where models are partitioned: what is booked on each share of a worker, and the transfers that are booked on the link into it, also ahead of now."],
    ["%", "Time that it was busy or booked, of the last seconds. What still runs is shown when it is over."],
  ],
  gears: [
    ["Gear", "How certain the small models of cascades must be; a plan has one for each load, the first for the lowest."],
    ["The strip", "Which gear was in force over the last two minutes: the darker, the higher the load that it is for."],
    ["Shifts", "How often another gear came into force since the start."],
  ],
  drops: [
    ["Where", "The module that dropped the frame, or the source."],
    ["Why", "The reason as reports, events and metrics have it."],
    ["Frames/s, since start", "How often that happens now, and how often it has happened."],
  ],
  dropped: [
    ["Needed", "What the frame would have needed when it was dropped, by the estimates of that moment: waiting (grey), its execution in that module (accent), and all that comes after it (light)."],
    ["Had", "What was left until its deadline then: the mark on the bar. Where it stands before the end of the bar, the frame would have been late."],
    ["Why", "As above; late: it was complete after its deadline, and was not delivered."],
  ],
  sinks: [
    ["Written", "Deliveries that the output has taken."],
    ["Skipped", "Left out because it was slow, where the graph allows that."],
    ["Lost", "Not written because of an error, which is shown."],
  ],
};

export function addHelp() {
  for (const place of document.querySelectorAll("[data-help]")) {
    const entries = WORDS[place.dataset.help] ?? [];
    const list = entries.flatMap(([term, text]) => [el("div", {}, el("dt", { text: term }), el("dd", { text }))]);
    const summary = el("summary", { text: "?", "aria-label": "What these figures mean", title: "What these figures mean" });
    const details = el("details", { class: "help" }, summary, el("dl", {}, ...list));
    place.replaceWith(details);
    details.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { details.open = false; summary.focus(); }
    });
    document.addEventListener("click", (event) => { if (!details.contains(event.target)) details.open = false; });
  }
}

//! Numbers of sinks that describe incidents: questions by what became of them, requests, tokens and their price.

use weir_policy::{Report, SinkReport};

use super::{Family, family, write};

const QUESTIONS: Family = family(
    "weir_descriptions_total",
    "counter",
    "Incidents or tracks of a describe sink by outcome: answered, wrong, refused, failed, expired, crowded_out, over_budget, no_picture, private.",
);
const REQUESTS: Family = family(
    "weir_description_requests_total",
    "counter",
    "Requests of a describe sink to its server: asked; of these, timed_out and limited.",
);
const QUEUED: Family = family(
    "weir_descriptions_queued",
    "gauge",
    "Questions of a describe sink that wait or are asked now.",
);
const TOKENS: Family = family(
    "weir_description_tokens_total",
    "counter",
    "Tokens of a describe sink by direction: in, with those of pictures, and out.",
);
const PRICE: Family = family(
    "weir_description_price_total",
    "counter",
    "Price of the tokens of a describe sink, in the unit of its price_in and price_out.",
);

/// Outcomes of questions, by their names in reports.
const OUTCOMES: [&str; 9] = [
    "answered",
    "wrong",
    "refused",
    "failed",
    "expired",
    "crowded_out",
    "over_budget",
    "no_picture",
    "private",
];

/// Writes the numbers of all sinks that describe.
pub(super) fn descriptions(out: &mut String, report: &Report) {
    let describing = || {
        report
            .sinks
            .iter()
            .filter(|(_, sink)| sink.counts.contains_key("tokens_in"))
    };
    let of = |sink: &SinkReport, name: &str| sink.counts.get(name).copied().unwrap_or(0) as f64;
    let label = |name: &String| vec![("sink", name.clone())];
    let labelled = |name: &String, key: &'static str, value: &str| {
        let mut labels = label(name);
        labels.push((key, value.to_owned()));
        labels
    };
    let questions = describing().flat_map(|(name, sink)| {
        OUTCOMES.map(|outcome| (labelled(name, "outcome", outcome), of(sink, outcome)))
    });
    write(out, &QUESTIONS, questions);
    let requests = describing().flat_map(|(name, sink)| {
        ["asked", "timed_out", "limited"].map(|kind| (labelled(name, "kind", kind), of(sink, kind)))
    });
    write(out, &REQUESTS, requests);
    let queued = describing().map(|(name, sink)| (label(name), of(sink, "queued")));
    write(out, &QUEUED, queued);
    let tokens = describing().flat_map(|(name, sink)| {
        [("in", "tokens_in"), ("out", "tokens_out")]
            .map(|(direction, count)| (labelled(name, "direction", direction), of(sink, count)))
    });
    write(out, &TOKENS, tokens);
    let price = describing().map(|(name, sink)| (label(name), of(sink, "price_millionths") / 1e6));
    write(out, &PRICE, price);
}

//! Views of the other engines by their reports; differences become events for the fleet policy. This file
//! uses no clock and no network.

use std::collections::BTreeMap;

use weir_policy::fleet::FleetEvent;

use super::names::{Names, engine_id};
use super::report::EngineReport;

/// View of another engine: its token and its last report.
#[derive(Debug, Default)]
struct View {
    /// True if the token of the engine is in the fleet.
    is_present: bool,
    /// Its last report, where it has reported since its token is there.
    report: Option<EngineReport>,
    /// Life and number of the last report that was taken: older ones are refused.
    last: (u64, u64),
}

/// Views of all other engines, and the number of refused reports.
#[derive(Debug)]
pub(super) struct Views {
    names: Names,
    others: BTreeMap<String, View>,
    refused: u64,
}

impl Views {
    pub(super) fn new(names: Names) -> Self {
        Self {
            names,
            others: BTreeMap::new(),
            refused: 0,
        }
    }

    /// Reports that were refused: from engines that the fleet does not have, unreadable, or older than what is known.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Last reports of engines that are up.
    pub(super) fn reports(&self) -> impl Iterator<Item = (&str, &EngineReport)> {
        let reports = self.others.iter();
        reports.filter_map(|(name, view)| Some((name.as_str(), view.report.as_ref()?)))
    }

    /// The token of an engine is there. It counts as up with its first report.
    pub(super) fn on_joined(&mut self, engine: &str) {
        if self.names.has_engine(engine) {
            self.others.entry(engine.to_owned()).or_default().is_present = true;
        }
    }

    /// The token is gone, and all that the engine said is void.
    pub(super) fn on_left(&mut self, engine: &str) -> Vec<FleetEvent> {
        let Some(view) = self.others.get_mut(engine) else {
            return Vec::new();
        };
        view.is_present = false;
        let was_up = view.report.take().is_some();
        let engine = engine_id(engine);
        was_up
            .then_some(FleetEvent::EngineDown { engine })
            .into_iter()
            .collect()
    }

    /// Bytes that are no report.
    pub(super) fn on_garbage(&mut self) {
        self.refused += 1;
    }

    /// Takes in a report and returns its differences from the last one as events. A report that is stale or
    /// of an unknown engine is refused, and one of an engine without a token waits for the next.
    pub(super) fn on_report(&mut self, from: &str, report: EngineReport) -> Vec<FleetEvent> {
        if !self.names.has_engine(from) {
            self.refused += 1;
            return Vec::new();
        }
        let view = self.others.entry(from.to_owned()).or_default();
        let number = (report.life, report.number);
        if number <= view.last {
            self.refused += 1;
            return Vec::new();
        }
        let is_another_life = report.life != view.last.0;
        view.last = number;
        if !view.is_present {
            // Its token is yet to come; it reports again.
            return Vec::new();
        }
        let engine = engine_id(from);
        let mut events = Vec::new();
        let mut before = view.report.take();
        if is_another_life && before.take().is_some() {
            events.push(FleetEvent::EngineDown { engine });
        }
        let before = before.unwrap_or_default();
        events.push(FleetEvent::EngineUp {
            engine,
            capacity: report.capacity,
        });
        events.extend(changed_streams(&self.names, engine, &before, &report));
        events.extend(changed_redirects(&self.names, engine, &before, &report));
        events.push(FleetEvent::EngineStatus {
            engine,
            load: report.load,
            missed: report.missed,
        });
        view.report = Some(report);
        events
    }
}

fn changed_streams(
    names: &Names,
    engine: weir_policy::fleet::EngineId,
    before: &EngineReport,
    now: &EngineReport,
) -> Vec<FleetEvent> {
    let mut events = Vec::new();
    for (name, work) in &now.streams {
        let Some(stream) = names.known_stream(name) else {
            continue;
        };
        events.push(FleetEvent::StreamKnown { stream, work: *work });
        if !before.streams.contains_key(name) {
            events.push(FleetEvent::Claimed { engine, stream });
        }
    }
    let gone = before
        .streams
        .keys()
        .filter(|name| !now.streams.contains_key(*name));
    let gone = gone.filter_map(|name| names.known_stream(name));
    events.extend(gone.map(|stream| FleetEvent::Unclaimed { engine, stream }));
    events
}

fn changed_redirects(
    names: &Names,
    home: weir_policy::fleet::EngineId,
    before: &EngineReport,
    now: &EngineReport,
) -> Vec<FleetEvent> {
    let mut events = Vec::new();
    for (name, to) in &now.redirects {
        if before.redirects.get(name) == Some(to) || !names.has_engine(to) {
            continue;
        }
        events.extend(names.known_stream(name).map(|stream| FleetEvent::Redirected {
            home,
            stream,
            to: Some(engine_id(to)),
        }));
    }
    let ended = before
        .redirects
        .keys()
        .filter(|name| !now.redirects.contains_key(*name));
    events.extend(
        ended
            .filter_map(|name| names.known_stream(name))
            .map(|stream| FleetEvent::Redirected {
                home,
                stream,
                to: None,
            }),
    );
    events
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

    use super::super::names::stream_key;
    use super::*;

    fn views() -> Views {
        let names = Names::new(["north", "south"].into_iter(), ["a", "b"].into_iter());
        Views::new(names.unwrap())
    }

    fn report(life: u64, number: u64, streams: &[&str]) -> EngineReport {
        EngineReport {
            life,
            number,
            capacity: 10.0,
            streams: streams.iter().map(|name| ((*name).to_owned(), 5.0)).collect(),
            ..EngineReport::default()
        }
    }

    fn claims(events: &[FleetEvent]) -> (usize, usize) {
        let claimed = events
            .iter()
            .filter(|event| matches!(event, FleetEvent::Claimed { .. }));
        let unclaimed = events
            .iter()
            .filter(|event| matches!(event, FleetEvent::Unclaimed { .. }));
        (claimed.count(), unclaimed.count())
    }

    #[test]
    fn an_engine_is_up_with_the_first_report_after_its_token() {
        let mut views = views();
        assert_eq!(views.on_report("south", report(1, 1, &["a"])), []);
        views.on_joined("south");
        let events = views.on_report("south", report(1, 2, &["a", "unknown"]));
        let engine = engine_id("south");
        assert!(events.contains(&FleetEvent::EngineUp {
            engine,
            capacity: 10.0
        }));
        let stream = stream_key("a");
        assert!(events.contains(&FleetEvent::Claimed { engine, stream }));
        assert_eq!(
            claims(&events),
            (1, 0),
            "streams that are not of the fleet are not taken"
        );
        assert_eq!(claims(&views.on_report("south", report(1, 3, &["a"]))), (0, 0));
        assert_eq!(claims(&views.on_report("south", report(1, 4, &["b"]))), (1, 1));
        assert_eq!(views.on_left("south"), [FleetEvent::EngineDown { engine }]);
        assert_eq!(views.on_left("south"), []);
        // What it said before counts no more, and it says it again.
        views.on_joined("south");
        assert_eq!(claims(&views.on_report("south", report(1, 5, &["b"]))), (1, 0));
    }

    #[test]
    fn reports_that_are_repeated_old_or_of_strangers_are_refused() {
        let mut views = views();
        views.on_joined("south");
        views.on_joined("east");
        views.on_report("south", report(2, 5, &["a"]));
        for (from, old) in [
            ("south", report(2, 5, &["b"])),
            ("south", report(2, 4, &["b"])),
            ("south", report(1, 9, &["b"])),
            ("east", report(1, 1, &["b"])),
        ] {
            assert_eq!(views.on_report(from, old), []);
        }
        assert_eq!(views.refused(), 4);
        assert_eq!(views.reports().count(), 1);
    }

    #[test]
    fn an_engine_that_was_started_again_was_down_between() {
        let mut views = views();
        views.on_joined("south");
        views.on_report("south", report(1, 7, &["a"]));
        let events = views.on_report("south", report(2, 1, &["a"]));
        let engine = engine_id("south");
        assert_eq!(events[0], FleetEvent::EngineDown { engine });
        assert_eq!(claims(&events), (1, 0));
    }

    #[test]
    fn redirections_are_reported_when_they_change() {
        let mut views = views();
        views.on_joined("south");
        let mut first = report(1, 1, &[]);
        first.redirects = [("a".to_owned(), "north".to_owned())].into();
        let redirected = |events: &[FleetEvent]| {
            events.iter().find_map(|event| match event {
                FleetEvent::Redirected { to, .. } => Some(*to),
                _ => None,
            })
        };
        assert_eq!(
            redirected(&views.on_report("south", first.clone())),
            Some(Some(engine_id("north")))
        );
        first.number = 2;
        assert_eq!(redirected(&views.on_report("south", first)), None);
        assert_eq!(
            redirected(&views.on_report("south", report(1, 3, &[]))),
            Some(None)
        );
    }
}

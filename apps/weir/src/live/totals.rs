//! Incidents, crossings and occupancy by camera and rule, for metrics. The numbers are those that incidents carry.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_flow::{Incident, IncidentValue};

/// Rules that are counted: cameras times their transforms. Incidents of further rules count for the stream [`OTHERS`].
const MAX_RULES: usize = 2_000;

/// Stream of the incidents beyond [`MAX_RULES`]; no stream can have the name.
const OTHERS: &str = "(others)";

/// A transform of a stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    pub(crate) stream: Arc<str>,
    pub(crate) transform: Arc<str>,
    pub(crate) kind: &'static str,
}

/// Numbers of a rule since the start of the engine.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RuleTotals {
    /// Incidents that began.
    pub(crate) incidents: u64,
    /// Crossings of a line, by direction.
    pub(crate) crossings: BTreeMap<Arc<str>, f64>,
    /// Objects that entered a zone.
    pub(crate) entered: Option<f64>,
    /// Objects in the zone, as of its latest incident.
    pub(crate) occupancy: Option<f64>,
}

/// Totals by rule; bounded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals(BTreeMap<Rule, RuleTotals>);

impl Totals {
    /// Takes in an incident; `is_new` unless an incident of its id was taken in before.
    pub(super) fn add(&mut self, stream: &Arc<str>, incident: &Incident, is_new: bool) {
        let rule = Rule {
            stream: Arc::clone(stream),
            transform: Arc::clone(&incident.transform),
            kind: incident.kind,
        };
        let new = u64::from(is_new);
        if self.0.len() >= MAX_RULES && !self.0.contains_key(&rule) {
            let rule = Rule {
                stream: OTHERS.into(),
                transform: OTHERS.into(),
                kind: incident.kind,
            };
            self.0.entry(rule).or_default().incidents += new;
            return;
        }
        let totals = self.0.entry(rule).or_default();
        totals.incidents += new;
        let number = |name: &str| match value(incident, name)? {
            IncidentValue::Number(number) => Some(*number),
            IncidentValue::Text(_) => None,
        };
        match (value(incident, "direction"), number("count")) {
            (Some(IncidentValue::Text(direction)), Some(count)) => {
                totals.crossings.insert(Arc::clone(direction), count);
            }
            // Of a rule on the number of objects in a zone.
            (None, Some(count)) => totals.occupancy = Some(count),
            _ => {}
        }
        totals.occupancy = number("occupancy").or(totals.occupancy);
        totals.entered = number("entered").or(totals.entered);
    }

    /// Drops the rules of a stream that was removed.
    pub(super) fn remove(&mut self, stream: &str) {
        self.0.retain(|rule, _| &*rule.stream != stream);
    }

    /// Returns the rules in the order of their streams.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Rule, &RuleTotals)> {
        self.0.iter()
    }
}

fn value<'a>(incident: &'a Incident, name: &str) -> Option<&'a IncidentValue> {
    let mut values = incident.values.iter();
    values.find(|(of, _)| *of == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use weir_flow::Phase;

    use super::*;

    fn incident(kind: &'static str, values: Vec<(&'static str, IncidentValue)>) -> Incident {
        Incident {
            id: "north/gate/1".into(),
            transform: "gate".into(),
            kind,
            phase: Phase::Ended,
            track: None,
            class: None,
            score: 0.9,
            rect: None,
            began_ms: 0,
            time_ms: 0,
            began_pts_ms: 0.0,
            pts_ms: 0.0,
            zones: Vec::new(),
            values,
            attributes: Vec::new(),
            best: None,
        }
    }

    #[test]
    fn numbers_of_incidents_are_kept_by_rule() {
        let (mut totals, north) = (Totals::default(), Arc::<str>::from("north"));
        let crossing = |direction: &str, count| {
            let direction = IncidentValue::Text(direction.into());
            incident(
                "line",
                vec![("direction", direction), ("count", IncidentValue::Number(count))],
            )
        };
        totals.add(&north, &crossing("in", 1.0), true);
        totals.add(&north, &crossing("in", 2.0), true);
        totals.add(&north, &crossing("out", 1.0), true);
        let visit = |occupancy, entered| {
            let number = IncidentValue::Number;
            incident(
                "zone",
                vec![("occupancy", number(occupancy)), ("entered", number(entered))],
            )
        };
        totals.add(&north, &visit(2.0, 5.0), true);
        totals.add(&north, &visit(1.0, 5.0), false);
        let found: Vec<_> = totals.iter().map(|(rule, of)| (rule.kind, of.clone())).collect();
        assert_eq!(
            found[0].1.crossings,
            [("in".into(), 2.0), ("out".into(), 1.0)].into()
        );
        assert_eq!(
            (found[0].0, found[0].1.incidents, found[0].1.occupancy),
            ("line", 3, None)
        );
        let zone = RuleTotals {
            incidents: 1,
            occupancy: Some(1.0),
            entered: Some(5.0),
            ..RuleTotals::default()
        };
        assert_eq!(found[1], ("zone", zone));
        let text = crate::exposition::incidents_text(&totals);
        for line in [
            "weir_incidents_total{stream=\"north\",rule=\"gate\",type=\"line\"} 3",
            "weir_line_crossings_total{stream=\"north\",rule=\"gate\",direction=\"in\"} 2",
            "weir_zone_entered_total{stream=\"north\",rule=\"gate\"} 5",
            "weir_zone_occupancy{stream=\"north\",rule=\"gate\"} 1",
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "no {line} in\n{text}"
            );
        }
        totals.remove("north");
        assert_eq!(totals.iter().count(), 0);
    }

    #[test]
    fn rules_beyond_the_bound_are_counted_together() {
        let mut totals = Totals::default();
        for number in 0..MAX_RULES + 10 {
            totals.add(&number.to_string().into(), &incident("still", Vec::new()), true);
        }
        assert_eq!(totals.iter().count(), MAX_RULES + 1);
        let others = totals.iter().find(|(rule, _)| &*rule.stream == OTHERS);
        assert_eq!(others.map(|(_, of)| of.incidents), Some(10));
    }
}

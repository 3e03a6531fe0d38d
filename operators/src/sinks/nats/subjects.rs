//! Subjects, all below one prefix: `<prefix>.<stream>.incidents` and `<prefix>.<stream>.tracks`.

use weir_flow::{Settings, SinkError};

#[cfg(feature = "nats")]
use super::super::event_sink::EventKind;

#[derive(Debug, Clone)]
pub(super) struct Subjects {
    #[cfg_attr(
        not(feature = "nats"),
        expect(dead_code, reason = "nothing is sent in this build")
    )]
    prefix: String,
}

impl Subjects {
    /// As `settings` say.
    ///
    /// # Errors
    /// A prefix that nothing can be published below.
    pub(super) fn new(settings: &Settings) -> Result<Self, SinkError> {
        let prefix = settings.text("prefix").unwrap_or("weir");
        match fault(prefix) {
            None => Ok(Self {
                prefix: prefix.to_owned(),
            }),
            Some(fault) => Err(SinkError {
                target: format!("below the subject \"{prefix}\""),
                reason: format!("`prefix` {fault}"),
            }),
        }
    }

    /// Subject for the events of `stream`.
    #[cfg(feature = "nats")]
    pub(super) fn of(&self, stream: &str, kind: EventKind) -> String {
        // No name of a stream makes another level, or a wildcard.
        let plain = |c: char| {
            let stays = c.is_alphanumeric() || "-_".contains(c);
            if stays { c } else { '_' }
        };
        let stream: String = stream.chars().map(plain).collect();
        let kind = match kind {
            EventKind::Incident => "incidents",
            EventKind::Track => "tracks",
        };
        format!("{}.{stream}.{kind}", self.prefix)
    }
}

/// Why nothing can be published below a subject.
fn fault(prefix: &str) -> Option<&'static str> {
    if prefix.is_empty() {
        Some("is empty: name a subject")
    } else if prefix.contains(['*', '>']) {
        Some("holds a wildcard, and to those nothing can be published: leave * and > out")
    } else if prefix.starts_with(['$', '_']) {
        Some("begins with $ or _, which are the server's own: choose another one")
    } else if prefix.split('.').any(str::is_empty) {
        Some("has an empty part: leave the full stop out")
    } else if prefix.chars().any(|c| c.is_whitespace() || c.is_control()) || prefix.len() > 200 {
        Some("is too long, or holds spaces or control characters")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    fn subjects(prefix: &str) -> Result<Subjects, String> {
        let prefix = Value::Text(prefix.to_owned());
        Subjects::new(&Settings([("prefix".to_owned(), prefix)].into())).map_err(|error| error.reason)
    }

    #[test]
    fn subjects_with_wildcards_are_refused() {
        for prefix in [
            "weir.>", "a.*", "", "$JS", "_INBOX", ".a", "a.", "a..b", "a b", "a\n",
        ] {
            let fault = subjects(prefix).expect_err(prefix);
            assert!(fault.starts_with("`prefix`"), "{fault}");
        }
    }

    #[cfg(feature = "nats")]
    #[test]
    fn names_of_streams_stay_below_the_prefix() {
        let subjects = subjects("site.weir").expect("a subject");
        assert_eq!(
            subjects.of("north.1 >", EventKind::Incident),
            "site.weir.north_1__.incidents"
        );
        assert_eq!(subjects.of("north", EventKind::Track), "site.weir.north.tracks");
    }
}

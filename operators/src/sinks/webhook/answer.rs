//! Answers of web servers: their outcome, the wait that they ask for, and their reason.

use std::time::Duration;

use serde_json::Value;

use super::super::outbox::Outcome;

/// Characters of a reason that are shown.
const MAX_REASON: usize = 160;

/// An answer, as far as it was read.
pub(in crate::sinks) struct Answer {
    pub(in crate::sinks) status: u16,
    /// Header `Retry-After`.
    pub(in crate::sinks) retry_after: Option<String>,
    pub(in crate::sinks) body: Vec<u8>,
}

impl Answer {
    /// The outcome; `said` makes a reason of a text that is shown.
    pub(in crate::sinks) fn outcome(&self, said: impl Fn(&str) -> String) -> Outcome {
        let status = self.status;
        let reason = match self.reason() {
            Some(reason) => format!("it answers {status}: {reason}"),
            None => format!("it answers {status}"),
        };
        if let (429 | 503, Some(wait)) = (status, self.wait()) {
            return Outcome::Limited(said(&reason), wait);
        }
        match status {
            200..=299 => Outcome::Delivered,
            300..=399 => Outcome::Refused(said(&format!(
                "it answers {status} and redirects events, which is not followed: set the address that it redirects to"
            ))),
            // Not now, or a fault of the server: it may take the event later.
            408 | 425 | 429 | 500.. => Outcome::Failed(said(&reason)),
            _ => Outcome::Refused(said(&reason)),
        }
    }

    /// The wait in seconds that a header or the JSON of the answer asks for.
    fn wait(&self) -> Option<Duration> {
        let header = self.retry_after.as_deref();
        let seconds = header.and_then(|text| text.trim().parse::<f64>().ok());
        let seconds = seconds.or_else(|| {
            let json: Value = serde_json::from_slice(&self.body).ok()?;
            let of = [&json["parameters"]["retry_after"], &json["retry_after"]];
            of.into_iter().find_map(Value::as_f64)
        });
        let seconds = seconds.filter(|seconds| *seconds >= 0.0)?;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// The reason in the words of the server: a known key of JSON, or a short text.
    fn reason(&self) -> Option<String> {
        let text = std::str::from_utf8(&self.body).ok()?;
        let json = serde_json::from_str::<Value>(text).ok();
        let known = ["description", "errorDescription", "message", "error"];
        let named = |json: &Value| {
            let mut found = known.iter().filter_map(|key| json[*key].as_str());
            found.next().map(str::to_owned)
        };
        // Servers of models put the words of an error one level deeper.
        let named = json
            .as_ref()
            .and_then(|json| named(json).or_else(|| named(&json["error"])));
        // A page of HTML says nothing to who reads a log.
        let plain = Some(text).filter(|text| json.is_none() && !text.trim_start().starts_with('<'));
        let words = named.or_else(|| plain.map(str::to_owned))?;
        let line = words.lines().find(|line| !line.trim().is_empty())?;
        let shown = line.trim().chars().filter(|c| !c.is_control());
        Some(shown.take(MAX_REASON).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: u16, retry_after: Option<&str>, body: &str) -> Outcome {
        let answer = Answer {
            status,
            retry_after: retry_after.map(str::to_owned),
            body: body.as_bytes().to_vec(),
        };
        answer.outcome(str::to_owned)
    }

    #[test]
    fn waits_of_rate_limits_are_those_that_services_ask_for() {
        let seconds = |retry_after: Option<&str>, body: &str| match outcome(429, retry_after, body) {
            Outcome::Limited(_, wait) => Some(wait),
            _ => None,
        };
        assert_eq!(seconds(Some("30"), ""), Some(Duration::from_secs(30)));
        let telegram = r#"{"ok":false,"description":"Too Many Requests","parameters":{"retry_after":35}}"#;
        assert_eq!(seconds(None, telegram), Some(Duration::from_secs(35)));
        let discord = r#"{"message":"You are being rate limited.","retry_after":0.65,"global":false}"#;
        assert_eq!(seconds(None, discord), Some(Duration::from_millis(650)));
        assert_eq!(seconds(Some("1e300"), ""), Some(Duration::MAX));
        for unusable in [
            Some("-1"),
            Some("NaN"),
            Some("Wed, 21 Oct 2026 07:28:00 GMT"),
            None,
        ] {
            assert_eq!(seconds(unusable, "slow down"), None);
        }
    }

    #[test]
    fn reasons_are_short_lines_in_the_words_of_the_server() {
        let reason = |body: &str| match outcome(400, None, body) {
            Outcome::Refused(reason) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason("invalid_payload\n"), "it answers 400: invalid_payload");
        assert_eq!(
            reason(r#"{"ok":false,"description":"Bad Request: chat not found"}"#),
            "it answers 400: Bad Request: chat not found"
        );
        let of_model = r#"{"error":{"message":"no such model","type":"invalid_request_error"}}"#;
        assert_eq!(reason(of_model), "it answers 400: no such model");
        assert_eq!(reason("<html>no</html>"), "it answers 400");
        assert_eq!(reason("\u{1b}[31mred"), "it answers 400: [31mred");
        assert!(reason(&"a".repeat(9_000)).len() < 200);
    }
}

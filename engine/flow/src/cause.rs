//! Causes of failures as codes with values, beside their English text: a page words them in the language of its reader.
//!
//! Reasons travel as texts, through logs, events and reports, and some are those of FFmpeg or the system. One table here has the
//! wordings that people who watch cameras meet, each with its code. A text that has none of them is shown as it is. Codes are stable:
//! a page and other clients know them.

use std::collections::BTreeMap;

use serde::Serialize;

/// Bytes of a value that are kept.
const MAX_VALUE_BYTES: usize = 200;

/// Cause of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Stable code, such as `no-data`.
    pub code: &'static str,
    /// Values of its text by their names, such as the duration of a silence.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<&'static str, String>,
}

/// A wording of a cause.
struct Wording {
    code: &'static str,
    /// Parts of the text in small letters, which follow each other.
    parts: &'static [&'static str],
    /// Names of the values after the parts, up to the next part or to the end of the clause.
    values: &'static [&'static str],
}

const fn wording(
    code: &'static str,
    parts: &'static [&'static str],
    values: &'static [&'static str],
) -> Wording {
    Wording { code, parts, values }
}

/// Causes for which a source gives no frames; the first that fits holds.
const OF_SOURCES: &[Wording] = &[
    wording("login-missing", &["asks for a user and a password"], &[]),
    wording("login-rejected", &["rejects this user and password"], &[]),
    wording("login-unknown", &["to log in, and weir knows"], &[]),
    wording("forbidden", &["403 forbidden"], &[]),
    wording("certificate-expired", &["the certificate has expired"], &[]),
    wording(
        "certificate-changed",
        &["the certificate is not the pinned one"],
        &[],
    ),
    wording("certificate-untrusted", &["the certificate "], &[]),
    wording("not-encrypted", &["does not speak tls"], &[]),
    wording("not-encrypted", &["no encrypted connection"], &[]),
    wording("host-unknown", &["resolve hostname"], &[]),
    wording("host-unknown", &["has no address: check the name"], &[]),
    wording("path-unknown", &["404 not found"], &[]),
    wording("path-unknown", &["there is no video at this path"], &[]),
    wording("transport-unknown", &["it does not send in this way"], &[]),
    wording("viewers-full", &["it serves no more viewers"], &[]),
    wording("refused", &["connection refused"], &[]),
    wording("unreachable", &["there is no way to this host"], &[]),
    wording("unreachable", &["no route to host"], &[]),
    wording("unreachable", &["network is unreachable"], &[]),
    wording("not-opened", &["it did not open within "], &["time"]),
    wording("not-closed", &["it did not close within "], &["time"]),
    wording("no-data", &["silent: no data for "], &["time"]),
    wording("no-data", &["no data arrived for "], &["time"]),
    wording("no-pictures", &["but no pictures for "], &["time"]),
    wording(
        "undecoded",
        &["no picture could be decoded whole for "],
        &["time"],
    ),
    wording("size-missing", &["for their size (sps, pps) was not in it"], &[]),
    wording("sends-no-pictures", &["but no pictures: check the path"], &[]),
    wording("sends-no-pictures", &["it sends no pictures"], &[]),
    wording("sends-no-video", &["finds no video in what it sends"], &[]),
    wording("no-answer", &["timed out"], &[]),
    wording("no-answer", &["it does not answer"], &[]),
    wording("connection-ended", &["the connection ended"], &[]),
    wording("file-missing", &["there is no such file"], &[]),
    wording("file-empty", &["the file is empty"], &[]),
    wording("file-cut-off", &["the file was cut off"], &[]),
    wording("file-cut-off", &["the mp4 is cut off"], &[]),
    wording("file-no-video", &["finds no video in it"], &[]),
    wording("file-no-video", &["it holds no video stream"], &[]),
    wording(
        "file-not-permitted",
        &["not permitted: check its permissions"],
        &[],
    ),
    wording("device-in-use", &["not in use by another program"], &[]),
    wording("no-frame", &["gave no frame: check what its source names"], &[]),
];

/// Causes for which a sink writes nothing, and other warnings about the engine.
const OF_WARNINGS: &[Wording] = &[
    wording(
        "disk-full",
        &[
            "cannot write ",
            ": its end could not be written: the disk is full",
        ],
        &["place"],
    ),
    wording("disk-full", &["cannot write ", ": the disk is full"], &["place"]),
    wording("disk-full", &["the disk is full"], &[]),
    wording(
        "disk-read-only",
        &["cannot write ", ": nothing can be written there"],
        &["place"],
    ),
    wording(
        "place-not-permitted",
        &["cannot write ", ": not permitted"],
        &["place"],
    ),
    wording("server-unknown", &["resolve hostname"], &[]),
    wording("server-unknown", &["failed to lookup address"], &[]),
    wording("server-refuses", &["connection refused"], &[]),
    wording("server-silent", &["timed out"], &[]),
    wording("server-silent", &["no route to host"], &[]),
    wording("server-silent", &["network is unreachable"], &[]),
    wording(
        "reserves-too-high",
        &["the streams reserve ", " % of what the machine can do"],
        &["share"],
    ),
];

/// Causes for which a watcher is shown no video.
const OF_VIEWS: &[Wording] = &[
    wording("view-interlaced", &["its video is interlaced"], &[]),
    wording(
        "view-unplayable",
        &["this browser does not play its video (", ")"],
        &["codec"],
    ),
    wording(
        "view-no-key-frame",
        &["no key frame has come for ", ";"],
        &["time"],
    ),
    wording("view-masked", &["its pictures hide what its video shows"], &[]),
    wording("view-masked", &["pictures of the camera hide something"], &[]),
    wording("view-private", &["the camera is private"], &[]),
    wording("archive-unreadable", &["its archive cannot be read"], &[]),
];

impl Cause {
    /// Cause in the reason for which a source gives no frames; `None` if the reason is none of those in the table.
    #[must_use]
    pub fn of_source(reason: &str) -> Option<Self> {
        Self::find(OF_SOURCES, &without_addresses(reason))
    }

    /// Cause in a warning about the engine, or in the reason for which a sink writes nothing.
    #[must_use]
    pub fn of_warning(text: &str) -> Option<Self> {
        Self::find(OF_WARNINGS, text)
    }

    /// Cause in the reason for which a watcher is shown no video.
    #[must_use]
    pub fn of_view(reason: &str) -> Option<Self> {
        Self::find(OF_VIEWS, reason)
    }

    /// All codes, some more than once.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        let all = [OF_SOURCES, OF_WARNINGS, OF_VIEWS].into_iter().flatten();
        all.map(|wording| wording.code)
    }

    fn find(wordings: &[Wording], text: &str) -> Option<Self> {
        // Of the same length in bytes: values are taken from the text itself.
        let small = text.to_ascii_lowercase();
        wordings.iter().find_map(|wording| wording.find(text, &small))
    }
}

impl Wording {
    /// The cause, if the text has this wording; `small` is the text in small letters.
    fn find(&self, text: &str, small: &str) -> Option<Cause> {
        let mut ends = Vec::with_capacity(self.parts.len());
        let mut from = 0;
        for part in self.parts {
            let start = from + small.get(from..)?.find(*part)?;
            from = start + part.len();
            ends.push((start, from));
        }
        let value = |index: usize| {
            let (_, from) = *ends.get(index)?;
            let value = match ends.get(index + 1) {
                Some((next, _)) => text.get(from..*next)?,
                None => clause(text.get(from..)?),
            };
            Some(bounded(value.trim()).to_owned())
        };
        let values = self.values.iter().enumerate();
        let values = values.map(|(index, name)| Some((*name, value(index)?)));
        Some(Cause {
            code: self.code,
            values: values.collect::<Option<_>>()?,
        })
    }
}

/// The text up to the end of its first clause.
fn clause(text: &str) -> &str {
    let ends = [": ", "; ", ", ", " ("].into_iter();
    let end = ends.filter_map(|end| text.find(end)).min();
    end.and_then(|end| text.get(..end))
        .unwrap_or(text)
        .trim_end_matches('.')
}

fn bounded(value: &str) -> &str {
    let mut end = value.len().min(MAX_VALUE_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    &value[..end]
}

/// The text without addresses, whose parts may read like a cause.
fn without_addresses(text: &str) -> String {
    let words = text.split(' ').filter(|word| !word.contains("://"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(cause: Option<Cause>) -> Option<&'static str> {
        cause.map(|cause| cause.code)
    }

    #[test]
    fn reasons_of_sources_have_codes() {
        for (reason, expected) in [
            (
                "cannot open rtsp://cam/1: Connection refused (Connection to tcp://cam:554 failed: Connection refused): nothing \
                 listens there: check the port, and that the camera is on",
                "refused",
            ),
            (
                "cannot open rtsp://cam/1: Connection refused (os error 111): nothing listens at port 554: check it, and that the \
                 camera is on",
                "refused",
            ),
            (
                "cannot open rtsp://cam/1: Input/output error (Failed to resolve hostname cam: Name or service not known): no such \
                 host is known: check its name, and the name server of this machine",
                "host-unknown",
            ),
            (
                "cannot open rtsp://cam/1: Server returned 404 Not Found: there is no video at this path: check the path of the \
                 address",
                "path-unknown",
            ),
            (
                "cannot open rtsp://cam/1: 401 Unauthorized: the camera rejects this user and password: check both",
                "login-rejected",
            ),
            (
                "cannot open rtsps://cam/1: the certificate has expired: renew it in the camera, check the clock",
                "certificate-expired",
            ),
            ("the connection ended", "connection-ended"),
            (
                "cannot open a.mp4: there is no such file: check the path",
                "file-missing",
            ),
            (
                "it sends other data, such as sound, but no pictures for 10s",
                "no-pictures",
            ),
            (
                "cannot open udp://0.0.0.0:5000/: it sends sound but no pictures: check the path of the address",
                "sends-no-pictures",
            ),
        ] {
            assert_eq!(code(Cause::of_source(reason)), Some(expected), "{reason}");
        }
        assert_eq!(Cause::of_source("the driver is on fire"), None);
        assert_eq!(
            Cause::of_source("cannot open http://cam/the-connection-ended-timed:out: odd"),
            None
        );
    }

    #[test]
    fn values_are_taken_from_the_text() {
        let values = |cause: Option<Cause>| -> Vec<(&'static str, String)> {
            cause
                .map(|cause| cause.values.into_iter().collect())
                .unwrap_or_default()
        };
        let no_data = values(Cause::of_source(
            "rtsp://Cam/1 broke off after 12 frames: no data arrived for 10 s",
        ));
        assert_eq!(no_data, [("time", "10 s".to_owned())]);
        let full = values(Cause::of_warning(
            "sink archive: cannot write /srv/Vidéo: the disk is full: make room or write elsewhere.",
        ));
        assert_eq!(full, [("place", "/srv/Vidéo".to_owned())]);
        let reserved = values(Cause::of_warning(
            "the streams reserve 140 % of what the machine can do: reserves are kept as far as it can; lower them",
        ));
        assert_eq!(reserved, [("share", "140".to_owned())]);
        let codec = values(Cause::of_view("this browser does not play its video (H.265)"));
        assert_eq!(codec, [("codec", "H.265".to_owned())]);
        let key = values(Cause::of_view(
            "no key frame has come for 5 s; shorten the key frame interval of the camera",
        ));
        assert_eq!(key, [("time", "5 s".to_owned())]);
        let long = format!("silent: no data for {}", "é".repeat(MAX_VALUE_BYTES));
        assert_eq!(values(Cause::of_source(&long))[0].1.len(), MAX_VALUE_BYTES);
    }

    #[test]
    fn parts_of_wordings_are_in_small_letters_and_each_value_follows_a_part() {
        for wording in [OF_SOURCES, OF_WARNINGS, OF_VIEWS].into_iter().flatten() {
            assert!(!wording.parts.is_empty() && wording.values.len() <= wording.parts.len());
            for part in wording.parts {
                assert_eq!(*part, part.to_ascii_lowercase());
            }
        }
    }
}

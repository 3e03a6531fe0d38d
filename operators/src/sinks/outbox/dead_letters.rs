//! The file of events that could not be delivered: a JSON line each, up to so many bytes.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use weir_flow::SinkError;

use super::message::Message;
use crate::files::{IN_USE, Reopening, append_whole, is_still, lock};
use crate::sinks::target::{failed, io_failed, make_folder};

/// See the module.
pub(in crate::sinks) struct DeadLetters {
    path: PathBuf,
    reopening: Reopening,
    file: File,
    bytes: u64,
    max_bytes: u64,
    is_torn: bool,
}

impl DeadLetters {
    /// Opens the file to append to it.
    ///
    /// # Errors
    /// It cannot be written, or another run has it.
    pub(in crate::sinks) fn open(path: &Path, max_bytes: u64) -> Result<Self, SinkError> {
        make_folder(path)?;
        let open = || -> io::Result<Option<(File, u64)>> {
            let file = OpenOptions::new().append(true).create(true).open(path)?;
            if !lock(&file)? {
                return Ok(None);
            }
            let bytes = file.metadata()?.len();
            Ok(Some((file, bytes)))
        };
        match open() {
            Ok(Some((file, bytes))) => Ok(Self {
                path: path.to_owned(),
                reopening: Reopening::new(),
                file,
                bytes,
                max_bytes,
                // A line that a killed run left incomplete must not be continued.
                is_torn: bytes > 0,
            }),
            Ok(None) => Err(failed(path, IN_USE)),
            Err(error) => Err(io_failed(path, &error)),
        }
    }

    /// Appends an event.
    ///
    /// # Errors
    /// It is not in the file, for this reason.
    pub(super) fn append(&mut self, message: &Message, reason: &str) -> Result<(), String> {
        let body = serde_json::from_slice(&message.body);
        let body = body.unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&message.body)));
        let letter = json!({
            "time": utc(),
            "reason": reason,
            "stream": &*message.stream,
            "id": message.id,
            "topic": (!message.topic.is_empty()).then_some(&message.topic),
            "event": body,
        });
        let letter = letter.to_string();
        if let Err(error) = self.reopen_if_due(letter.len()) {
            tracing::warn!(
                "{} cannot be opened again: {error}; the file that was open is written to",
                self.path.display()
            );
        }
        let torn = if self.is_torn { "\n" } else { "" };
        let line = format!("{torn}{letter}\n");
        if self.bytes + line.len() as u64 > self.max_bytes {
            return Err(format!(
                "{} has reached its largest size: move it away, or raise `dead_letter_bytes`",
                self.path.display()
            ));
        }
        let written = append_whole(&mut self.file, line.as_bytes());
        // What could not be taken back.
        self.is_torn = self.is_torn && written.is_err();
        let bytes = self.file.metadata().map_or(self.bytes, |found| found.len());
        self.is_torn |= written.is_err() && bytes > self.bytes;
        self.bytes = bytes;
        written.map_err(|error| io_failed(&self.path, &error).to_string())
    }

    /// Opens the path once more where that was asked for, or there is no room for so many bytes, if another file or none is there now.
    fn reopen_if_due(&mut self, bytes: usize) -> Result<(), SinkError> {
        let is_full = self.bytes + bytes as u64 + 2 > self.max_bytes;
        let is_due = self.reopening.is_asked() || is_full;
        if is_due && !is_still(&self.path, &self.file).unwrap_or(false) {
            *self = Self::open(&self.path, self.max_bytes)?;
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "it is shown, and decides nothing")]
fn utc() -> String {
    humantime::format_rfc3339_millis(SystemTime::now().max(UNIX_EPOCH)).to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn full_file_that_is_moved_away_is_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, moved] = ["lost.jsonl", "lost.jsonl.1"].map(|name| folder.path().join(name));
        let mut letters = DeadLetters::open(&path, 300).expect("a file");
        let message = Message {
            stream: "north".into(),
            id: "1".to_owned(),
            body: format!("{:?}", "x".repeat(60)).into_bytes(),
            topic: String::new(),
            picture: None,
        };
        letters
            .append(&message, "nothing listens")
            .expect("there is room");
        let full = letters
            .append(&message, "nothing listens")
            .expect_err("it is full");
        assert!(full.contains("move it away"), "{full}");
        fs::rename(&path, &moved).expect("moved");
        letters
            .append(&message, "nothing listens")
            .expect("there is room again");
        let lines = |path: &Path| fs::read_to_string(path).expect("text").lines().count();
        assert_eq!((lines(&moved), lines(&path)), (1, 1));
    }
}

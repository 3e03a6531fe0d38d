//! Examines a source: opens it and decodes one picture, within a timeout.

use std::sync::mpsc;
use std::time::Duration;

use weir_flow::{Connection, SourceError, SourceInfo, SourceLogin, StopFlag, mask_credentials};
use weir_operators::media::{SourceOptions, source};
use weir_types::Span;

use crate::error::UserError;

/// Longest wait for a source after it was asked to stop; drivers may not answer at all.
const MAX_STOP: Duration = Duration::from_secs(2);

/// Size, codec and frame rate of the source, read from its first picture.
///
/// # Errors
/// A [`UserError`] where it cannot be opened, has no picture, or gives none within `timeout`.
pub(super) fn look(uri: &str, login: Option<SourceLogin>, timeout: Span) -> Result<SourceInfo, UserError> {
    let failed = |reason: &str| UserError::new(format!("{}: {reason}", mask_credentials(uri)));
    let stop = StopFlag::default();
    let (sender, receiver) = mpsc::channel();
    let (address, flag) = (uri.to_owned(), stop.clone());
    let options = SourceOptions {
        timeout_s: timeout.as_secs_f64(),
        connection: Connection {
            login,
            ..Connection::default()
        },
        ..SourceOptions::default()
    };
    let opened = std::thread::Builder::new()
        .name("look".to_owned())
        .spawn(move || {
            let _ = sender.send(first_picture(&address, options, &flag));
        });
    opened.map_err(|error| failed(&error.to_string()))?;
    let timeout = Duration::from_micros(timeout.micros());
    match receiver.recv_timeout(timeout) {
        Ok(Ok(Some(info))) => Ok(info),
        Ok(Ok(None)) => Err(failed("it contains no picture")),
        Ok(Err(error)) => Err(UserError::new(error.to_string())),
        Err(_) => {
            stop.raise();
            let _ = receiver.recv_timeout(MAX_STOP);
            Err(failed("no picture arrived within the timeout; raise --timeout"))
        }
    }
}

fn first_picture(
    uri: &str,
    options: SourceOptions,
    stop: &StopFlag,
) -> Result<Option<SourceInfo>, SourceError> {
    let mut source = source(uri, options).open(stop)?;
    let frame = source.next()?;
    let info = source.info();
    Ok(frame.map(|frame| SourceInfo {
        width: frame.image.width,
        height: frame.image.height,
        ..info
    }))
}

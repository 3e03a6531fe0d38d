//! Outages of a camera: from the loss of its source to the next frame, over all attempts to open it again.

use weir_flow::SourceError;
use weir_policy::{Backoff, Silence};
use weir_types::Span;

use super::silence::silence_reason;

/// Counts outages, and spaces the attempts to end one.
#[derive(Debug)]
pub(super) struct Outages {
    backoff: Backoff,
    /// The silence that ended the last opening, where one did.
    pub(super) silence: Option<Silence>,
    /// Number of outages so far.
    count: u64,
    /// True from the first loss until a frame arrives.
    is_down: bool,
}

/// The source ended or could not be opened.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Loss {
    pub(super) reason: String,
    /// Time until the next attempt.
    pub(super) wait: Span,
    /// Number of the outage that begins with this loss, from 1; `None`: an earlier outage continues.
    pub(super) begins: Option<u64>,
}

impl Outages {
    /// No outage yet; attempts are spaced by `backoff`.
    pub(super) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            silence: None,
            count: 0,
            is_down: false,
        }
    }

    /// The source is lost: because of the silence, where there was one, else because of `error`.
    pub(super) fn on_loss(&mut self, error: Option<SourceError>) -> Loss {
        let reason = match (self.silence.take(), error) {
            (Some(silence), _) => silence_reason(silence),
            (None, Some(error)) => error.to_string(),
            (None, None) => "the connection ended".to_owned(),
        };
        let is_new = !std::mem::replace(&mut self.is_down, true);
        self.count += u64::from(is_new);
        Loss {
            reason,
            wait: self.backoff.next_wait(),
            begins: is_new.then_some(self.count),
        }
    }

    /// A picture arrived whole: the next outage begins with short waits again.
    pub(super) fn on_whole_frame(&mut self) {
        self.backoff.on_frame();
    }

    /// Frames arrive, for the first time or again. Returns whether there was an outage before.
    pub(super) fn on_live(&mut self) -> bool {
        self.is_down = false;
        self.count > 0
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::ReconnectSpec;

    use super::*;

    #[test]
    fn attempts_during_an_outage_continue_it_until_frames_arrive() {
        let mut outages = Outages::new(Backoff::new(ReconnectSpec::default(), 1));
        assert!(!outages.on_live(), "the first frames");
        let first = outages.on_loss(None);
        assert_eq!(
            (first.reason.as_str(), first.begins),
            ("the connection ended", Some(1))
        );
        assert_eq!(outages.on_loss(None).begins, None);
        assert!(outages.on_live());
        outages.silence = Some(Silence::NoData(Span::from_secs(2)));
        let second = outages.on_loss(None);
        assert_eq!(second.begins, Some(2));
        assert!(second.reason.starts_with("silent"), "{}", second.reason);
        assert_eq!(outages.silence, None, "it ended one opening only");
    }
}

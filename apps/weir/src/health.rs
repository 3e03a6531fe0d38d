//! Health of streams in words: for the table of a run, and for its failures.

use weir_policy::{StreamHealth, StreamReport, StreamStanding};

/// The reason why a stream makes its run fail, if it does: it broke off, never delivered a frame, or was down
/// at the end.
pub(crate) fn stream_failure(stream: &StreamReport) -> Option<String> {
    let error = stream.error.clone();
    error.or_else(|| stream.health.as_ref().and_then(failure))
}

fn failure(health: &StreamHealth) -> Option<String> {
    let reason = health.down_because.as_deref();
    match health.state {
        StreamStanding::Running | StreamStanding::Ended => None,
        StreamStanding::NeverReached => Some(match reason {
            Some(reason) => format!("no frame was received in {:.1} s: {reason}", health.down_s),
            None => "no frame was received before the run ended".to_owned(),
        }),
        StreamStanding::Down => Some(format!(
            "it was down when the run ended: {}",
            reason.unwrap_or("the reason is unknown")
        )),
    }
}

/// Remarks of the table about a stream, in addition to its [`failure`]; empty if nothing went wrong.
pub(crate) fn remarks(health: &StreamHealth) -> Vec<String> {
    let mut remarks = Vec::new();
    if health.outages > 0 {
        remarks.push(outages(health));
    }
    let counts = [
        (health.stale, "frames arrived older than the slo"),
        (
            health.discontinuities,
            "jumps of its time stamps; media time continued without a gap",
        ),
        (
            health.concealed,
            "frames that the decoder had to reconstruct in part",
        ),
        (health.unreadable, "files that could not be read"),
        (health.not_sampled, "frames not sampled"),
        (
            health.not_decoded,
            "frames not decoded, because the engine could use no more of them",
        ),
        (health.cpu_decoded, "frames decoded on the CPU instead of the GPU"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    remarks.extend(counts.map(|(count, what)| format!("{count} {what}")));
    remarks
}

fn outages(health: &StreamHealth) -> String {
    let times = if health.outages == 1 {
        "once".to_owned()
    } else {
        format!(
            "{} times, at longest {:.1} s",
            health.outages, health.longest_outage_s
        )
    };
    let silent = if health.silent_s > 0.0 {
        format!(" ({:.1} s of it connected and silent)", health.silent_s)
    } else {
        String::new()
    };
    let reason = health.first_outage.as_deref().unwrap_or("the reason is unknown");
    let back = match health.reconnects {
        0 => String::new(),
        1 => ", came back once".to_owned(),
        times => format!(", came back {times} times"),
    };
    format!(
        "down {times}, {:.1} s in all{silent}{back}; first: {reason}",
        health.down_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_only_ran_has_no_remark() {
        for state in [StreamStanding::Running, StreamStanding::Ended] {
            let health = StreamHealth {
                state,
                ..StreamHealth::default()
            };
            assert_eq!((remarks(&health), failure(&health)), (Vec::new(), None));
        }
    }

    #[test]
    fn outages_are_said_with_how_often_how_long_and_why() {
        let mut health = StreamHealth {
            state: StreamStanding::Running,
            outages: 2,
            reconnects: 2,
            down_s: 8.04,
            longest_outage_s: 6.0,
            silent_s: 2.0,
            first_outage: Some("silent: nothing came for 2s".to_owned()),
            stale: 175,
            ..StreamHealth::default()
        };
        let words = "down 2 times, at longest 6.0 s, 8.0 s in all (2.0 s of it connected and silent), came back 2 times; \
                     first: silent: nothing came for 2s";
        let old = "175 frames arrived older than the slo";
        assert_eq!(remarks(&health), [words, old]);
        assert_eq!(failure(&health), None);
        health.state = StreamStanding::Down;
        health.down_because = Some("refused".to_owned());
        assert_eq!(
            failure(&health).as_deref(),
            Some("it was down when the run ended: refused")
        );
        health.state = StreamStanding::NeverReached;
        let never = "no frame was received in 8.0 s: refused";
        assert_eq!(failure(&health).as_deref(), Some(never));
        health.down_because = None;
        assert!(failure(&health).unwrap().contains("before the run ended"));
    }
}

//! Calls to the driver of a capture device on a thread that can be left behind: a driver may never answer, and FFmpeg looks at
//! nothing while it waits for one.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use weir_flow::StopFlag;

/// Longest wait between two polls of the stop flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The thread of one device: never more than one, so that a driver that does not answer for months holds one thread.
#[derive(Debug, Default)]
pub(super) struct DriverThread {
    /// Held by the thread as well.
    alive: Arc<()>,
}

/// Receiver of the values that the thread of a device produces, in order.
pub(super) struct Given<T>(Receiver<T>);

impl DriverThread {
    /// Calls `next` on the thread again and again until it gives nothing, one call ahead of who takes what it gives. Waits for
    /// the earlier thread of the device to end; where `stop` is raised meanwhile, nothing is called.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub(super) fn start<T: Send + 'static>(
        &self,
        stop: &StopFlag,
        mut next: impl FnMut() -> Option<T> + Send + 'static,
    ) -> io::Result<Given<T>> {
        let (sender, receiver) = sync_channel(1);
        while Arc::strong_count(&self.alive) > 1 {
            if stop.is_raised() {
                return Ok(Given(receiver));
            }
            std::thread::sleep(STOP_CHECK_INTERVAL);
        }
        let alive = Arc::clone(&self.alive);
        let thread = std::thread::Builder::new().name("weir-driver".to_owned());
        thread.spawn(move || {
            while let Some(given) = next() {
                // Nobody takes it any more.
                if sender.send(given).is_err() {
                    break;
                }
            }
            // What it holds of the device is closed on this thread, too.
            drop(next);
            drop(alive);
        })?;
        Ok(Given(receiver))
    }
}

impl<T> Given<T> {
    /// The next; `None` where there is none, or once `stop` is raised.
    pub(super) fn next(&self, stop: &StopFlag) -> Option<T> {
        loop {
            match self.0.recv_timeout(STOP_CHECK_INTERVAL) {
                Ok(given) => return Some(given),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if stop.is_raised() => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn raised() -> StopFlag {
        let stop = StopFlag::default();
        stop.raise();
        stop
    }

    #[test]
    fn a_driver_that_does_not_answer_is_left_and_called_again_when_it_has() {
        let (device, stop) = (DriverThread::default(), StopFlag::default());
        let (answer, answers) = channel();
        let (closed, is_closed) = channel::<()>();
        let mut frames = 0;
        let given = device.start(&stop, move || {
            let _open = &closed;
            frames += 1;
            if frames > 2 {
                answers.recv().unwrap();
            }
            Some(frames)
        });
        let given = given.unwrap();
        assert_eq!([given.next(&stop), given.next(&stop)], [Some(1), Some(2)]);
        assert_eq!(given.next(&raised()), None);
        drop(given);
        // It is not called beside the call that hangs.
        let second = device.start(&raised(), || Some(0)).unwrap();
        assert_eq!(second.next(&stop), None);
        answer.send(()).unwrap();
        assert!(
            is_closed.recv().is_err(),
            "the device is closed once the driver answers"
        );
        let third = device.start(&stop, || Some(7)).unwrap();
        assert_eq!(third.next(&stop), Some(7));
    }

    #[test]
    fn what_gives_nothing_more_has_ended() {
        let (device, stop) = (DriverThread::default(), StopFlag::default());
        let mut left = vec!["frame"];
        let given = device.start(&stop, move || left.pop()).unwrap();
        assert_eq!((given.next(&stop), given.next(&stop)), (Some("frame"), None));
        // The next thread need not wait for anyone.
        assert!(device.start(&stop, || None::<()>).unwrap().next(&stop).is_none());
    }
}

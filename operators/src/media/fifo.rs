//! A named pipe (FIFO) as a readable file. Waiting for a writer and for bytes ends at a timeout or at a stop.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use weir_flow::StopFlag;

/// Longest wait between two polls of the stop flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The reading end of a pipe.
#[derive(Debug)]
pub(super) struct Fifo {
    file: File,
    /// Polls without a byte after which the read times out.
    max_polls: u64,
    /// Whether a read timed out. Demuxers that search for a place to continue would wait again on each attempt.
    timed_out: bool,
    stop: StopFlag,
}

/// Whether `path` is a pipe.
pub(super) fn is_fifo(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

impl Fifo {
    /// Opens the pipe and waits for its first bytes.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if none arrive in time, [`ErrorKind::UnexpectedEof`] if the writer closes the pipe
    /// without any, and errors of the system.
    pub(super) fn open(path: &Path, timeout: Duration, stop: &StopFlag) -> Result<Self, Error> {
        // A blocking open would wait for a writer without end.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path)?;
        let max_polls = (timeout.as_millis() / STOP_CHECK_INTERVAL.as_millis()).max(1);
        let fifo = Self {
            file,
            max_polls: u64::try_from(max_polls).unwrap_or(u64::MAX),
            timed_out: false,
            stop: stop.clone(),
        };
        if fifo.wait()?.contains(PollFlags::IN) {
            Ok(fifo)
        } else {
            Err(ErrorKind::UnexpectedEof.into())
        }
    }

    /// Waits until there are bytes, or the last writer closed the pipe.
    fn wait(&self) -> Result<PollFlags, Error> {
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(STOP_CHECK_INTERVAL.subsec_nanos()),
        };
        for _ in 0..self.max_polls {
            if self.stop.is_raised() {
                return Err(Error::other("stopped"));
            }
            let mut looked_at = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut looked_at, Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(looked_at[0].revents()),
                Err(error) => return Err(error.into()),
            }
        }
        Err(ErrorKind::TimedOut.into())
    }
}

impl Read for Fifo {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        loop {
            if self.timed_out {
                return Err(ErrorKind::TimedOut.into());
            }
            self.wait()
                .inspect_err(|error| self.timed_out = error.kind() == ErrorKind::TimedOut)?;
            match self.file.read(buffer) {
                // Another reader took the bytes.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn pipe(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success() && is_fifo(&path));
        path
    }

    #[test]
    fn a_pipe_without_a_writer_times_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let stop = StopFlag::default();
        let silent = Fifo::open(&path, Duration::from_millis(60), &stop).unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::TimedOut);
        stop.raise();
        let stopped = Fifo::open(&path, Duration::from_secs(3600), &stop).unwrap_err();
        assert_eq!(stopped.to_string(), "stopped");
    }

    #[test]
    fn written_data_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let to = path.clone();
        let writer = std::thread::spawn(move || {
            let mut file = OpenOptions::new().write(true).open(to).unwrap();
            file.write_all(&vec![7; 200_000]).unwrap();
        });
        let mut fifo = Fifo::open(&path, Duration::from_secs(600), &StopFlag::default()).unwrap();
        let mut read = Vec::new();
        fifo.read_to_end(&mut read).unwrap();
        writer.join().unwrap();
        assert_eq!(read, vec![7; 200_000]);
    }
}

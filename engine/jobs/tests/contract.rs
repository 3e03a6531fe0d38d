//! Contract of a queue, checked on a folder and on a server. The server is a real nats-server, if it is
//! installed and this build has the feature `nats`.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test says why it does nothing")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use weir_jobs::{
    Claim, CommitClaim, JobState, MAX_JOB_VIDEOS, OutputForm, Queue, QueueError, QueuePlace, ServerOptions,
    StagedOutput, Submission, Task, VideoState,
};

use crate::common::{FILE, segments, submission};
#[cfg(feature = "nats")]
use crate::nats_server;

/// A queue, and what it needs.
struct Case {
    name: &'static str,
    folder: tempfile::TempDir,
    place: QueuePlace,
    #[cfg(feature = "nats")]
    _server: Option<nats_server::NatsServer>,
}

impl Case {
    fn folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            name: "folder",
            place: QueuePlace::Folder(folder.path().join("jobs")),
            folder,
            #[cfg(feature = "nats")]
            _server: None,
        }
    }

    #[cfg(not(feature = "nats"))]
    fn server() -> Option<Self> {
        None
    }

    #[cfg(feature = "nats")]
    fn server() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let server = nats_server::NatsServer::new(&folder.path().join("store"), &["-js"])?;
        Some(Self {
            name: "server",
            place: crate::common::queue_on(server.port()),
            folder,
            _server: Some(server),
        })
    }

    /// Another program's view of it.
    fn queue(&self) -> Queue {
        let queue = Queue::create(&self.place, &ServerOptions::default()).unwrap();
        queue.set_work_root(&self.folder.path().join("work"));
        queue
    }

    fn target(&self) -> PathBuf {
        self.folder.path().join("events.jsonl")
    }

    fn lines(&self) -> String {
        fs::read_to_string(self.target()).unwrap_or_default()
    }

    /// Writes the results of a segment, and commits them.
    fn commit(&self, queue: &Queue, claim: &Claim, segment: u32) -> Result<(), QueueError> {
        fs::create_dir_all(claim.work()).unwrap();
        let file = claim.work().join(format!("{segment}.jsonl"));
        fs::write(&file, format!("segment {segment}\n")).unwrap();
        let output = StagedOutput {
            sink: "events".to_owned(),
            form: OutputForm::Lines,
            file,
            target: self.target(),
        };
        let Task::Segments(range) = claim.task() else {
            panic!("{:?}", claim.task());
        };
        let commits = CommitClaim {
            job: 1,
            video: 0,
            first: range.start,
            begun: claim.begun(),
            given: claim.given(),
        };
        let (say, said) = mpsc::channel();
        let committed = Box::new(move |committed| say.send(committed).unwrap());
        queue.commit(&commits, segment, 10, segment == 2, &[output], committed);
        said.recv().unwrap()
    }

    /// Commits all of a claim.
    fn process(&self, queue: &Queue, claim: Claim) {
        let Task::Segments(range) = claim.task().clone() else {
            panic!("{:?}", claim.task());
        };
        for segment in range {
            self.commit(queue, &claim, segment).unwrap();
        }
        claim.done();
    }
}

fn each(check: impl Fn(&Case)) {
    for case in [Some(Case::folder()), Case::server()].into_iter().flatten() {
        println!("in a {}", case.name);
        check(&case);
    }
}

/// Takes the next task, which a server may deliver only after a while.
fn take(queue: &Queue, whole: bool) -> Claim {
    for _ in 0..2_000 {
        if let Some(claim) = queue.take(1, 0, whole).unwrap() {
            return claim;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing is given");
}

/// A job of one video in `count` segments, as an engine has it that has cut it.
fn cut(case: &Case, count: u32) -> Queue {
    let queue = case.queue();
    assert_eq!(queue.submit(&submission(1), 1_000).unwrap(), 1);
    let claim = take(&queue, false);
    assert_eq!(*claim.task(), Task::Cut);
    queue.record_cut((1, 0), FILE, &segments(count), None).unwrap();
    claim.done();
    queue
}

fn finish(queue: &Queue) {
    let claim = take(queue, false);
    assert_eq!(*claim.task(), Task::Finish);
    queue.end(1, 0, VideoState::Done, 2_000).unwrap();
    claim.done();
}

#[test]
fn a_job_goes_from_its_submission_to_its_end_and_each_segment_is_committed_once() {
    each(|case| {
        let queue = cut(case, 3);
        assert_eq!(queue.segments(1, 0).unwrap().unwrap(), segments(3));
        assert_eq!(queue.jobs().unwrap()[0].state(), JobState::Waiting);
        let claim = take(&queue, true);
        assert_eq!((claim.task(), claim.begun()), (&Task::Segments(0..3), 1));
        case.process(&queue, claim);
        let view = queue.jobs().unwrap().remove(0);
        assert_eq!(view.state(), JobState::Begun);
        finish(&queue);
        assert_eq!(case.lines(), "segment 0\nsegment 1\nsegment 2\n");
        let view = case.queue().jobs().unwrap().remove(0);
        assert_eq!(
            (view.state(), view.job.finished_ms),
            (JobState::Done, Some(2_000))
        );
        let video = &view.progress[0];
        assert_eq!((video.committed, video.segments, video.frames), (3, 3, 30));
        assert_eq!((video.late_frames, video.repeated), (10, 0));
    });
}

#[test]
fn what_an_engine_drops_is_taken_again_from_what_it_committed_on() {
    each(|case| {
        let queue = cut(case, 3);
        let claim = take(&queue, true);
        case.commit(&queue, &claim, 0).unwrap();
        drop(claim);
        let queue = case.queue();
        let claim = take(&queue, true);
        assert_eq!(claim.task(), &Task::Segments(1..3));
        assert_eq!(claim.video().committed, 1);
        drop(claim);
        let claim = take(&queue, true);
        assert!(claim.begun() >= 2, "{}", claim.begun());
        case.process(&queue, claim);
        finish(&queue);
        assert_eq!(case.lines(), "segment 0\nsegment 1\nsegment 2\n");
        assert!(queue.jobs().unwrap()[0].progress[0].repeated >= 1);
    });
}

#[test]
fn what_was_committed_stays_where_a_video_fails_or_its_job_is_cancelled() {
    each(|case| {
        fs::write(case.target(), "before\n").unwrap();
        let queue = cut(case, 3);
        let claim = take(&queue, true);
        case.commit(&queue, &claim, 0).unwrap();
        case.commit(&queue, &claim, 1).unwrap();
        let reason = "a frame was dropped".to_owned();
        let failed = VideoState::Failed { reason };
        queue.end(1, 0, failed.clone(), 3_000).unwrap();
        drop(claim);
        assert_eq!(case.lines(), "before\nsegment 0\nsegment 1\n");
        let view = queue.jobs().unwrap().remove(0);
        assert_eq!(view.state(), JobState::Failed);
        assert_eq!(
            (view.progress[0].committed, &view.progress[0].state),
            (2, &failed)
        );
        assert!(!queue.cancel(1, 4_000).unwrap());
        assert_eq!(queue.submit(&submission(2), 5_000).unwrap(), 2);
        assert!(queue.cancel(2, 6_000).unwrap());
        assert!(!case.queue().cancel(2, 7_000).unwrap());
        let view = queue.jobs().unwrap().remove(1);
        assert_eq!(
            (view.state(), view.job.finished_ms),
            (JobState::Cancelled, Some(6_000))
        );
    });
}

#[test]
fn what_a_queue_does_not_take_is_one_clear_error() {
    each(|case| {
        let missing = Queue::open(&case.place, &ServerOptions::default());
        assert!(matches!(missing, Err(QueueError::Missing(_))), "{missing:?}");
        let queue = case.queue();
        let late = Submission {
            within_ms: Some(0),
            ..submission(1)
        };
        let words = queue.submit(&late, 0).unwrap_err().to_string();
        assert!(words.contains("over before it begins"), "{words}");
        for videos in [0, MAX_JOB_VIDEOS + 1] {
            assert!(matches!(
                queue.submit(&submission(videos), 0),
                Err(QueueError::Refused(_))
            ));
        }
        assert!(matches!(queue.cancel(7, 0), Err(QueueError::Unknown(7))));
        assert!(queue.jobs().unwrap().is_empty());
        assert!(Queue::open(&case.place, &ServerOptions::default()).is_ok());
    });
}

#[test]
fn two_engines_of_a_server_have_different_segments_and_commit_the_same_one_once() {
    let Some(case) = Case::server() else { return };
    let first = cut(&case, 4);
    let second = case.queue();
    let (one, two) = (take(&first, false), take(&second, false));
    assert_eq!(
        (one.task(), two.task()),
        (&Task::Segments(0..1), &Task::Segments(1..2))
    );
    // An engine that was silent for long may have what another one has, too.
    case.commit(&second, &one, 0).unwrap();
    case.commit(&first, &one, 0).unwrap();
    one.done();
    case.process(&second, two);
    for _ in 2..4 {
        let claim = take(&second, false);
        case.process(&second, claim);
    }
    finish(&first);
    assert_eq!(case.lines(), "segment 0\nsegment 1\nsegment 2\nsegment 3\n");
    let view = second.jobs().unwrap().remove(0);
    assert_eq!((view.progress[0].committed, view.progress[0].frames), (4, 40));
    // The video has ended: there is no further task, and ending it again has no effect.
    assert!(second.take(1, 0, false).unwrap().is_none());
    let reason = "too late".to_owned();
    second.end(1, 0, VideoState::Failed { reason }, 9_000).unwrap();
    assert_eq!(first.jobs().unwrap()[0].state(), JobState::Done);
}

#[test]
fn a_build_without_the_feature_says_so() {
    if cfg!(feature = "nats") {
        return;
    }
    let place = QueuePlace::of(Path::new("nats://127.0.0.1:4222/jobs")).unwrap();
    let words = Queue::create(&place, &ServerOptions::default())
        .unwrap_err()
        .to_string();
    assert!(words.contains("--features nats"), "{words}");
}

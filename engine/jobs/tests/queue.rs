//! A queue keeps what was committed, whatever happens to its files, and says clearly what it cannot do.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fs::{self, OpenOptions};
use std::path::Path;

use weir_jobs::{
    FolderQueue as Queue, JobState, OutputForm, QueueError, StagedOutput, Submission, VideoState,
};

use crate::common::{self, FILE, submission};

/// A queue with a job of one video in `segments` segments.
fn begun(folder: &Path, segments: u32) -> Queue {
    let queue = Queue::create(folder).unwrap();
    assert_eq!(queue.submit(&submission(1), 1_000).unwrap(), 1);
    queue
        .record_cut((1, 0), FILE, &common::segments(segments), None)
        .unwrap();
    queue.begin(1, 0).unwrap();
    queue
}

fn commit(queue: &Queue, segment: u32) -> Result<(), QueueError> {
    let work = queue.work_folder(1, 0);
    fs::create_dir_all(&work).unwrap();
    let file = work.join(format!("{segment}.jsonl"));
    fs::write(&file, format!("segment {segment}\n")).unwrap();
    let output = StagedOutput {
        sink: "events".to_owned(),
        form: OutputForm::Lines,
        file,
        target: queue.folder().join("events.jsonl"),
    };
    queue.commit((1, 0, segment), 10, segment > 1, &[output])
}

fn lines(queue: &Queue) -> String {
    fs::read_to_string(queue.folder().join("events.jsonl")).unwrap()
}

fn cut_off(path: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length.saturating_sub(bytes)).unwrap();
}

#[test]
fn segments_are_committed_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let queue = begun(folder.path(), 3);
    commit(&queue, 0).unwrap();
    assert!(matches!(commit(&queue, 0), Err(QueueError::OutOfOrder { .. })));
    assert!(matches!(commit(&queue, 2), Err(QueueError::OutOfOrder { .. })));
    commit(&queue, 1).unwrap();
    commit(&queue, 2).unwrap();
    assert_eq!(lines(&queue), "segment 0\nsegment 1\nsegment 2\n");
    queue.end(1, 0, VideoState::Done, 2_000).unwrap();
    let jobs = queue.jobs().unwrap();
    assert_eq!(jobs[0].state(), JobState::Done);
    let video = &jobs[0].progress[0];
    assert_eq!((video.committed, video.frames, video.late_frames), (3, 30, 10));
    assert!(!queue.work_folder(1, 0).exists());
}

#[test]
fn a_torn_append_is_cut_off_before_the_next_commit() {
    let folder = tempfile::tempdir().unwrap();
    let queue = begun(folder.path(), 3);
    commit(&queue, 0).unwrap();
    let events = folder.path().join("events.jsonl");
    fs::write(&events, "segment 0\nsegm").unwrap();
    commit(&queue, 1).unwrap();
    assert_eq!(lines(&queue), "segment 0\nsegment 1\n");
    // What is shorter than what was committed was changed by another program.
    fs::write(&events, "seg").unwrap();
    assert!(matches!(commit(&queue, 2), Err(QueueError::OutputChanged(_))));
}

#[test]
fn a_full_disk_at_the_last_step_of_a_commit_is_made_up_for_when_the_video_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let queue = begun(folder.path(), 2);
    commit(&queue, 0).unwrap();
    // The file cannot be written, and then it can be.
    let events = folder.path().join("events.jsonl");
    let aside = folder.path().join("aside.jsonl");
    fs::rename(&events, &aside).unwrap();
    fs::create_dir(&events).unwrap();
    assert!(commit(&queue, 1).is_err());
    fs::remove_dir(&events).unwrap();
    fs::rename(&aside, &events).unwrap();
    assert_eq!(queue.begin(1, 0).unwrap().committed, 2);
    assert_eq!(lines(&queue), "segment 0\nsegment 1\n");
    queue.begin(1, 0).unwrap();
    assert_eq!(lines(&queue), "segment 0\nsegment 1\n");
}

#[test]
fn a_store_without_its_last_bytes_opens_with_what_was_committed_and_says_what_was_lost() {
    for bytes in [1, 13, 4_096, 20_000, 1 << 30] {
        let folder = tempfile::tempdir().unwrap();
        let queue = begun(folder.path(), 4);
        commit(&queue, 0).unwrap();
        commit(&queue, 1).unwrap();
        drop(queue);
        cut_off(&folder.path().join("queue.redb"), bytes);
        let queue = Queue::open(folder.path()).unwrap();
        assert_eq!(queue.jobs().unwrap()[0].progress[0].committed, 2, "{bytes}");
        let loss = queue.loss().unwrap().unwrap();
        assert!(loss.contains("at most the last one is lost"), "{loss}");
        commit(&queue, 2).unwrap();
        // A damaged copy is written again.
        cut_off(&folder.path().join("queue.copy.redb"), bytes);
        commit(&queue, 3).unwrap();
        cut_off(&folder.path().join("queue.redb"), bytes);
        let queue = Queue::open(folder.path()).unwrap();
        assert_eq!(queue.jobs().unwrap()[0].progress[0].committed, 4, "{bytes}");
        assert_eq!(lines(&queue).lines().count(), 4);
    }
}

#[test]
fn a_copy_that_is_one_change_behind_repeats_a_segment_without_doubling_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let queue = begun(folder.path(), 3);
    commit(&queue, 0).unwrap();
    let copy = folder.path().join("queue.copy.redb");
    let behind = fs::read(&copy).unwrap();
    commit(&queue, 1).unwrap();
    fs::write(&copy, behind).unwrap();
    cut_off(&folder.path().join("queue.redb"), 100);
    assert_eq!(queue.begin(1, 0).unwrap().committed, 1);
    commit(&queue, 1).unwrap();
    commit(&queue, 2).unwrap();
    assert_eq!(lines(&queue), "segment 0\nsegment 1\nsegment 2\n");
}

#[test]
fn what_a_queue_cannot_do_is_one_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Queue::open(&folder.path().join("none"));
    assert!(matches!(missing, Err(QueueError::Missing(_))));
    let queue = begun(folder.path(), 1);
    let lock = queue.lock_for_engine().unwrap();
    let second = Queue::open(folder.path()).unwrap().lock_for_engine();
    assert!(matches!(second, Err(QueueError::InUse(_))));
    drop(lock);
    assert!(queue.lock_for_engine().is_ok());
    assert!(matches!(queue.cancel(7, 0), Err(QueueError::Unknown(7))));
    let late = Submission {
        within_ms: Some(0),
        ..submission(1)
    };
    let words = queue.submit(&late, 0).unwrap_err().to_string();
    assert!(words.contains("over before it begins"), "{words}");
    assert!(queue.submit(&submission(0), 0).is_err());
    assert!(queue.cancel(1, 5).unwrap());
    assert!(!queue.cancel(1, 6).unwrap());
    assert_eq!(queue.jobs().unwrap()[0].state(), JobState::Cancelled);
    // Both stores are damaged.
    for name in ["queue.redb", "queue.copy.redb"] {
        fs::write(folder.path().join(name), "no store").unwrap();
    }
    assert!(matches!(
        Queue::open(folder.path()),
        Err(QueueError::Damaged { .. })
    ));
}

#[test]
fn a_queue_of_another_version_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    drop(begun(folder.path(), 1));
    let path = folder.path().join("queue.redb");
    let rows: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("rows");
    let database = redb::Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    write
        .open_table(rows)
        .unwrap()
        .insert("meta/format", b"2".as_slice())
        .unwrap();
    write.commit().unwrap();
    drop(database);
    let words = Queue::open(folder.path()).unwrap_err().to_string();
    assert!(
        words.contains("another version") && words.contains("format 2"),
        "{words}"
    );
}

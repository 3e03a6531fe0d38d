//! The engine is killed while it works, and what it left may be damaged.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::archive::{
    assert_same, clips, number, random, report, run, submitted, succeed, undisturbed, weir,
};

const FRAMES: u32 = 95;

/// Kills the engine at random moments, harms what it left, and starts it again, until that was done `kills` times; results must be
/// those of an undisturbed run. Gives how often something was lost, as reports say.
fn kill(kills: u64, jobs: usize, harm: impl Fn(&Path, &mut u64)) -> u64 {
    let first_seed = number("WEIR_SEED", 26);
    let folder = tempfile::tempdir().unwrap();
    let clips = clips(folder.path(), jobs, FRAMES);
    let undisturbed = undisturbed(&clips, FRAMES);
    let (mut seed, mut killed, mut rounds, mut lost) = (first_seed, 0, 0, 0);
    while killed < kills {
        rounds += 1;
        let folder = submitted(&clips);
        loop {
            let mut engine = weir(folder.path(), &["run", "graph.toml", "--report", "report.json"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(200 + random(&mut seed, 1_500)));
            if killed >= kills || engine.try_wait().unwrap().is_some() {
                assert!(engine.wait().unwrap().success(), "seed {first_seed}");
                break;
            }
            engine.kill().unwrap();
            engine.wait().unwrap();
            killed += 1;
            harm(folder.path(), &mut seed);
        }
        let found = report(folder.path());
        assert_eq!(found["jobs"]["done"], jobs, "seed {first_seed}: {found}");
        let frames = u64::from(FRAMES) * jobs as u64;
        assert_eq!(found["jobs"]["frames"], frames, "{found}");
        lost += found["jobs"]["lost"].as_array().unwrap().len() as u64;
        let what = format!("seed {first_seed}");
        assert_same(folder.path(), undisturbed.path(), jobs, FRAMES, &what);
    }
    println!("seed {first_seed}: killed {killed} times in {rounds} rounds");
    lost
}

/// Takes the last bytes of a file away.
fn cut_off(path: &Path, bytes: u64) {
    let file: File = OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length.saturating_sub(bytes)).unwrap();
}

#[test]
fn a_killed_engine_goes_on_where_it_was_and_its_results_are_those_of_an_undisturbed_run() {
    let (kills, jobs) = (number("WEIR_KILLS", 4), number("WEIR_KILL_JOBS", 2) as usize);
    assert_eq!(kill(kills, jobs, |_, _| {}), 0);
}

#[test]
fn a_killed_engine_whose_store_is_cut_off_opens_with_what_was_committed_and_says_what_was_lost() {
    let (kills, jobs) = (number("WEIR_KILLS", 2), number("WEIR_KILL_JOBS", 2) as usize);
    let lost = kill(kills, jobs, |folder, seed| {
        let bytes = 1 + random(seed, 64 << 10);
        cut_off(&folder.join("jobs/queue.redb"), bytes);
    });
    assert!(lost > 0, "a store that is cut off is noticed");
}

/// The results of one job stand, and the next is done, when the store is cut off between runs.
#[test]
fn a_store_that_is_cut_off_between_runs_keeps_the_jobs_that_are_done() {
    let folder = tempfile::tempdir().unwrap();
    let clips = clips(folder.path(), 2, 30);
    let undisturbed = undisturbed(&clips, 30);
    for bytes in [1, 4_096, 1 << 30] {
        let folder = submitted(&clips[..1]);
        succeed(&run(folder.path()));
        crate::archive::submit(folder.path(), "", &clips[1..]);
        cut_off(&folder.path().join("jobs/queue.redb"), bytes);
        let output = run(folder.path());
        succeed(&output);
        let found = report(folder.path());
        assert_eq!(found["jobs"]["done"], 2, "{bytes}: {found}");
        assert_eq!(found["jobs"]["repeated"], 0, "{bytes}: {found}");
        let lost = found["jobs"]["lost"][0].as_str().unwrap();
        assert!(lost.contains("replaced by its copy"), "{lost}");
        assert!(folder.path().join("jobs/queue.redb.damaged").exists());
        let what = format!("{bytes} bytes less");
        assert_same(folder.path(), undisturbed.path(), 2, 30, &what);
    }
}

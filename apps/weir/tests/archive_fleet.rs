//! Several engines work on the jobs of one queue on a server of NATS, and results are those of one undisturbed engine, however
//! often engines and the server are killed. `make crash-jobs-fleet` kills them 50 times.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test says why it does nothing")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::archive::{self, assert_same, clip, number, random, run, submitted, succeed, weir, words};
use crate::nats_server::NatsServer;

/// A server with a folder of its own.
struct Server {
    nats: NatsServer,
    _folder: tempfile::TempDir,
}

impl Server {
    /// `None` where it is not installed.
    fn new(options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let nats = NatsServer::new(folder.path(), &[&["-js"], options].concat())?;
        Some(Self {
            nats,
            _folder: folder,
        })
    }

    /// By SIGKILL, and starts it again.
    fn kill(&mut self) {
        self.nats.kill();
        self.nats.start();
    }

    fn queue(&self, name: &str) -> String {
        format!("nats://127.0.0.1:{}/{name}", self.nats.port())
    }
}

/// An engine that is killed where the test ends before it.
struct Engine {
    child: Child,
    folder: PathBuf,
    number: usize,
}

impl Engine {
    fn start(folder: &Path, number: usize) -> Self {
        let log = fs::File::create(folder.join(format!("engine-{number}.log"))).unwrap();
        let report = format!("report-{number}.json");
        let child = weir(folder, &["run", "graph.toml", "--report", &report])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            child,
            folder: folder.to_owned(),
            number,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join(format!("engine-{}.log", self.number))).unwrap()
    }

    /// True if the engine has ended by itself.
    fn has_ended(&mut self) -> bool {
        match self.child.try_wait().unwrap() {
            Some(status) => {
                assert!(status.success(), "{}", self.log());
                true
            }
            None => false,
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The graph with its queue on a server, and so slow that something goes on when it is looked at.
fn graph(queue: &str, frame_ms: u32) -> String {
    let text = archive::graph("").replace("queue = \"jobs\"", &format!("queue = \"{queue}\""));
    let slower = text.replace("\"3ms\"", &format!("\"{frame_ms}ms\""));
    let slower = slower.replace("\"4ms\"", &format!("\"{}ms\"", 2 * frame_ms - 4));
    assert_ne!(slower, text);
    slower
}

/// A folder with the graph and one job a clip.
fn submitted_to(queue: &str, frame_ms: u32, clips: &[PathBuf]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("graph.toml"), graph(queue, frame_ms)).unwrap();
    for clip in clips {
        let clip = clip.to_str().unwrap();
        let args = ["submit", queue, "--graph", "graph.toml", "--within", "10m", clip];
        succeed(&weir(folder.path(), &args).output().unwrap());
    }
    folder
}

fn listed(folder: &Path, queue: &str) -> Vec<Value> {
    let listed = weir(folder, &["jobs", queue, "--json"]).output().unwrap();
    succeed(&listed);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    listed["jobs"].as_array().unwrap().clone()
}

fn clips(folder: &Path, count: usize, frames: u32) -> Vec<PathBuf> {
    let paths: Vec<PathBuf> = (0..count).map(|job| folder.join(format!("{job}.mp4"))).collect();
    for (shade, path) in (0..).zip(&paths) {
        clip(path, frames, shade * 31);
    }
    paths
}

/// Each job is done, and each of its segments is committed once.
fn assert_done(folder: &Path, queue: &str, jobs: usize, frames: u32, seed: u64) {
    let listed = listed(folder, queue);
    assert_eq!(listed.len(), jobs, "seed {seed}");
    for job in &listed {
        assert_eq!(job["state"], "done", "seed {seed}: {job}");
        let video = &job["job"]["progress"][0];
        assert_eq!(video["committed"], video["segments"], "seed {seed}: {job}");
        assert_eq!(video["frames"], frames, "seed {seed}: {job}");
    }
    // Nothing of it is left beside the results.
    let work = folder.join(format!("{}.work", queue.rsplit('/').next().unwrap()));
    let left = fs::read_dir(work).into_iter().flatten().count();
    assert_eq!(left, 0, "seed {seed}");
    for entry in fs::read_dir(folder.join("out")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            name.ends_with("-1.jsonl") || name.ends_with("-1.mp4"),
            "seed {seed}: {name}"
        );
    }
}

#[test]
fn killed_engines_and_a_killed_server_leave_the_results_of_one_undisturbed_engine() {
    let Some(mut server) = Server::new(&[]) else {
        return;
    };
    let (kills, jobs) = (number("WEIR_KILLS", 5), number("WEIR_KILL_JOBS", 2) as usize);
    let (engines, first_seed) = (3, number("WEIR_SEED", 28));
    let frames = 95;
    let folder = tempfile::tempdir().unwrap();
    let paths = clips(folder.path(), jobs, frames);
    let undisturbed = submitted(&paths);
    succeed(&run(undisturbed.path()));

    let (mut seed, mut killed, mut of_server, mut rounds) = (first_seed, 0, 0, 0);
    while killed < kills {
        rounds += 1;
        let queue = server.queue(&format!("round-{rounds}"));
        let folder = submitted_to(&queue, 12, &paths);
        let start = |number: usize| Engine::start(folder.path(), number);
        let mut running: Vec<Engine> = (0..engines).map(start).collect();
        loop {
            std::thread::sleep(Duration::from_millis(200 + random(&mut seed, 1_500)));
            let ended = running
                .iter_mut()
                .filter_map(|engine| engine.has_ended().then_some(()))
                .count();
            if ended == engines {
                break;
            }
            if killed >= kills {
                continue;
            }
            killed += 1;
            match random(&mut seed, engines as u64 + 1) as usize {
                victim if victim < engines => {
                    running[victim].kill();
                    running[victim] = start(victim);
                }
                _ => {
                    server.kill();
                    of_server += 1;
                }
            }
        }
        assert_done(folder.path(), &queue, jobs, frames, first_seed);
        assert_same(
            folder.path(),
            undisturbed.path(),
            jobs,
            frames,
            &format!("seed {first_seed}"),
        );
    }
    println!(
        "seed {first_seed}: killed {killed} times in {rounds} rounds, the server {of_server} times of them"
    );
}

#[test]
fn two_engines_share_the_segments_and_one_does_those_of_another_that_is_killed() {
    let Some(server) = Server::new(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let frames = 195;
    let paths = clips(folder.path(), 1, frames);
    let undisturbed = submitted(&paths);
    succeed(&run(undisturbed.path()));
    let queue = server.queue("shared");
    let folder = submitted_to(&queue, 60, &paths);
    let mut first = Engine::start(folder.path(), 1);
    let committed = || {
        listed(folder.path(), &queue)[0]["job"]["progress"][0]["committed"]
            .as_u64()
            .unwrap()
    };
    while committed() < 2 {
        assert!(!first.has_ended());
    }
    // It has some, and is in the middle of others.
    let mut second = Engine::start(folder.path(), 2);
    while committed() < 6 {
        assert!(!first.has_ended());
    }
    first.kill();
    while !second.has_ended() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_done(folder.path(), &queue, 1, frames, 0);
    assert_same(folder.path(), undisturbed.path(), 1, frames, "one job");
}

#[test]
fn what_cannot_be_done_with_a_queue_on_a_server_is_one_clear_error() {
    let Some(server) = Server::new(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let paths = clips(folder.path(), 2, 30);
    let queue = server.queue("errors");
    let folder = submitted_to(&queue, 4, &paths);
    let refused = |args: &[&str], part: &str| {
        let output = weir(folder.path(), args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", words(&output));
        assert!(words(&output).contains(part), "{args:?}: {}", words(&output));
    };
    refused(&["jobs", &server.queue("none")], "there is no queue");
    refused(&["jobs", &queue, "--cancel", "9"], "no job 9");
    refused(&["jobs", "nats://user:secret@a:4222/jobs"], "WEIR_NATS_USERNAME");
    refused(
        &["jobs", "nats://nats.lan:4222/jobs"],
        "a queue server on another machine needs credentials",
    );
    let other = server.queue("other");
    let path = paths[0].to_str().unwrap();
    refused(
        &["submit", &other, "--graph", "graph.toml", path],
        "no source of the graph",
    );
    // A video that is gone, one that is cancelled, and a job for a graph that changed since.
    fs::remove_file(&paths[1]).unwrap();
    let args = ["submit", &queue, "--graph", "graph.toml", path];
    succeed(&weir(folder.path(), &args).output().unwrap());
    succeed(
        &weir(folder.path(), &["jobs", &queue, "--cancel", "1"])
            .output()
            .unwrap(),
    );
    let output = run(folder.path());
    assert_eq!(output.status.code(), Some(2), "{}", words(&output));
    assert!(
        words(&output).contains("the video cannot be read"),
        "{}",
        words(&output)
    );
    succeed(&weir(folder.path(), &args).output().unwrap());
    fs::write(
        folder.path().join("graph.toml"),
        format!("{}\n# changed\n", graph(&queue, 4)),
    )
    .unwrap();
    let output = run(folder.path());
    assert!(
        words(&output).contains("the graph changed since"),
        "{}",
        words(&output)
    );
    let listed = listed(folder.path(), &queue);
    let states: Vec<&str> = listed.iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["cancelled", "failed", "done", "failed"]);
}

#[test]
fn a_server_that_asks_who_comes_is_answered_from_files_and_no_secret_is_shown() {
    let Some(server) = Server::new(&["--user", "weir", "--pass", "hidden-word"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let queue = server.queue("asks");
    for (name, text) in [("right", "hidden-word\n"), ("wrong", "other-word\n")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let jobs = |password: Option<&str>| {
        let mut command = weir(folder.path(), &["jobs", &queue]);
        if let Some(file) = password {
            command
                .env("WEIR_NATS_USERNAME", "weir")
                .env("WEIR_NATS_PASSWORD_FILE", file);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", words(&output));
        words(&output)
    };
    for password in [None, Some("wrong")] {
        let words = jobs(password);
        assert!(words.contains("the server refuses the connection"), "{words}");
        assert!(!words.contains("-word"), "{words}");
    }
    // It is let in: the queue is not there yet.
    let words = jobs(Some("right"));
    assert!(words.contains("there is no queue"), "{words}");
}

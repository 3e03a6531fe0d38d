//! Sources over the network, on loopback: a file over HTTP, segments of HLS, and RTMP.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_flow::{Source, SourceError, StopFlag};
use weir_operators::media::{SourceOptions, source};

/// Frames of the clip: three seconds.
const FRAMES: u64 = 30;

fn ffmpeg(arguments: &[&str]) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y"]).args(arguments);
    command
}

/// Encodes a test picture for that many seconds, with a key picture each second.
fn encode(seconds: &str) -> Command {
    let mut command = ffmpeg(&["-f", "lavfi", "-i", "testsrc2=size=160x90:rate=10", "-t", seconds]);
    command.args(["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]);
    command.args(["-g", "10"]);
    command
}

/// A clip whose index comes first.
fn write_clip(folder: &Path) -> PathBuf {
    let clip = folder.join("clip.mp4");
    let made = encode("3").args(["-movflags", "+faststart"]).arg(&clip).status();
    assert!(made.unwrap().success());
    clip
}

/// Serves the files of `folder` over HTTP; ends with the program.
fn serve(folder: PathBuf) -> u16 {
    serve_as(move |name| std::fs::read(folder.join(name)).ok())
}

/// Serves what `content` returns for a name over HTTP; ends with the program.
fn serve_as(mut content: impl FnMut(&str) -> Option<Vec<u8>> + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = move |mut stream: TcpStream| {
        let mut lines = BufReader::new(stream.try_clone().unwrap())
            .lines()
            .map_while(Result::ok);
        let first = lines.next().unwrap_or_default();
        // The rest of the request, or its end would be lost with the connection.
        lines.by_ref().find(|line| line.is_empty());
        let name = first
            .split(' ')
            .nth(1)
            .unwrap_or_default()
            .trim_start_matches('/');
        let content = content(name);
        let status = if content.is_some() {
            "200 OK"
        } else {
            "404 Not Found"
        };
        let content = content.unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            content.len()
        );
        // A reader that hangs up has seen enough.
        let _ = stream.write_all(&[head.as_bytes(), &content].concat());
    };
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    port
}

fn open(uri: &str) -> Result<Box<dyn Source>, SourceError> {
    source(uri, SourceOptions::default()).open(&StopFlag::default())
}

/// The frames until the end or the loss of the source, which come in order and whole.
fn count(source: &mut dyn Source) -> u64 {
    let (mut frames, mut last_ms) = (0, -1.0);
    while let Ok(Some(frame)) = source.next() {
        assert_eq!((frame.index, frame.image.width), (frames, 160));
        assert!(frame.pts_ms > last_ms, "{} after {last_ms}", frame.pts_ms);
        (frames, last_ms) = (frames + 1, frame.pts_ms);
    }
    frames
}

#[test]
fn a_file_over_http_and_segments_of_hls_are_read_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let clip = write_clip(folder.path());
    let segmented = ffmpeg(&["-i"])
        .arg(clip)
        .args(["-c", "copy", "-f", "hls", "-hls_time", "1", "-hls_list_size", "0"])
        .arg(folder.path().join("live.m3u8"))
        .status();
    assert!(segmented.unwrap().success());
    assert!(folder.path().join("live2.ts").is_file(), "three segments");
    let port = serve(folder.path().to_owned());
    for name in ["clip.mp4", "live.m3u8"] {
        let mut source = open(&format!("http://127.0.0.1:{port}/{name}")).unwrap();
        assert_eq!(count(source.as_mut()), FRAMES, "{name}");
    }
    let missing = open(&format!("http://127.0.0.1:{port}/none.m3u8")).err().unwrap();
    let missing = missing.to_string();
    assert!(missing.contains("404") && !missing.contains('\n'), "{missing}");
}

#[test]
fn a_live_list_of_hls_goes_on_and_gives_each_picture_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let segmented = encode("6")
        .args(["-f", "hls", "-hls_time", "1", "-hls_list_size", "0"])
        .arg(path.join("all.m3u8"))
        .status();
    assert!(segmented.unwrap().success() && path.join("all5.ts").is_file());
    let mut last_read = 0;
    // The list grows as its segments are read, by one that is not read yet, and ends with the last.
    let port = serve_as(move |name| {
        if name != "live.m3u8" {
            let number = name.strip_prefix("all")?.strip_suffix(".ts")?.parse().ok()?;
            last_read = last_read.max(number);
            return std::fs::read(path.join(name)).ok();
        }
        let shown = (last_read + 2).clamp(3, 6);
        let mut list =
            "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:1\n#EXT-X-MEDIA-SEQUENCE:0\n".to_owned();
        for number in 0..shown {
            list += &format!("#EXTINF:1.0,\nall{number}.ts\n");
        }
        if shown == 6 {
            list += "#EXT-X-ENDLIST\n";
        }
        Some(list.into_bytes())
    });
    let mut source = open(&format!("http://127.0.0.1:{port}/live.m3u8")).unwrap();
    assert!(source.comes_in_segments() && source.info().live);
    assert_eq!(count(source.as_mut()), 2 * FRAMES);
}

/// A server that plays a clip to its first client; killed when this is dropped.
struct Player(Child);

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_stream_over_rtmp_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let clip = write_clip(folder.path());
    // A port that is free now.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let uri = format!("rtmp://127.0.0.1:{port}/live/camera");
    let player = ffmpeg(&["-i"])
        .arg(clip)
        .args(["-c", "copy", "-f", "flv", "-listen", "1", &uri])
        .stderr(Stdio::null())
        .spawn();
    let _player = Player(player.unwrap());
    let mut reasons = String::new();
    // Refused until it listens.
    let opened = (0..1_000).find_map(|_| match open(&uri) {
        Ok(source) => Some(source),
        Err(error) => {
            reasons = error.to_string();
            std::thread::sleep(Duration::from_millis(20));
            None
        }
    });
    let mut source = opened.unwrap_or_else(|| panic!("{reasons}"));
    assert_eq!(count(source.as_mut()), FRAMES);
}

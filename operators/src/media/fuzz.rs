//! Edited inputs on the readers of parameter sets, containers, addresses, web servers' answers, playlists and pictures.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_flow::{PacketCodec, PacketFormat, Settings, Source, StopFlag, host};

use super::access::Access;
use super::fragments::{Form, Fragments};
use super::parameter_sets::{new_format, size};
use super::{
    Encoding, FfmpegSource, ImageSource, Rgb, SourceOptions, VideoCodec, VideoFile, container, images,
    redirect, userinfo,
};
use crate::edited::{MemoryBound, fuzz};

/// Memory of FFmpeg is not counted, copies of its pictures are.
const PICTURES: MemoryBound = MemoryBound {
    base: 64 << 20,
    per_byte: 4_096,
};

/// Parameter sets of libx264 and libx265: 1920x1080 and 64x48.
const SPS_264: &[u8] = &[
    0x67, 0x64, 0x00, 0x28, 0xac, 0xd9, 0x40, 0x78, 0x02, 0x27, 0xe5, 0xc0, 0x44, 0x00, 0x00, 0x03, 0x00,
    0x04, 0x00, 0x00, 0x03, 0x00, 0xc8, 0x3c, 0x60,
];
const PPS_264: &[u8] = &[0x68, 0xeb, 0xe3, 0xcb, 0x22, 0xc0];
const VPS_265: &[u8] = &[
    0x40, 0x01, 0x0c, 0x01, 0xff, 0xff, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00,
    0x00, 0x03, 0x00, 0x1e, 0x95, 0x98, 0x09,
];
const SPS_265: &[u8] = &[
    0x42, 0x01, 0x01, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00,
    0x1e, 0xa0, 0x20, 0x83, 0x16, 0x59, 0x59, 0xae, 0x4c, 0xaf, 0x01, 0x68, 0x08, 0x00, 0x00, 0x03, 0x00,
    0x08, 0x00, 0x00, 0x03, 0x00, 0x28, 0x40,
];
const PPS_265: &[u8] = &[0x44, 0x01, 0xc1, 0x73, 0xd0, 0x89];

fn stream(units: &[&[u8]]) -> Vec<u8> {
    units
        .iter()
        .flat_map(|unit| [&[0, 0, 0, 1], *unit].concat())
        .collect()
}

/// The parameter sets as containers have them.
fn records() -> [Vec<u8>; 2] {
    let with_length = |unit: &[u8]| [&(unit.len() as u16).to_be_bytes()[..], unit].concat();
    let mut h264 = vec![1, 0x64, 0, 0x28, 0xff, 0xe1];
    h264.extend(with_length(SPS_264));
    h264.push(1);
    h264.extend(with_length(PPS_264));
    let mut h265 = vec![1; 22];
    h265.push(3);
    for (kind, unit) in [(32, VPS_265), (33, SPS_265), (34, PPS_265)] {
        h265.extend([kind, 0, 1]);
        h265.extend(with_length(unit));
    }
    [h264, h265]
}

#[test]
fn fuzz_parameter_sets() {
    let [h264, h265] = records();
    let streams = [
        stream(&[SPS_264, PPS_264, &[0x65, 0x88]]),
        stream(&[VPS_265, SPS_265, PPS_265, &[0x26, 0x01]]),
    ];
    assert_eq!(size(PacketCodec::H265, &h265), Some((64, 48)));
    assert_eq!(size(PacketCodec::H264, &h264), Some((1920, 1080)));
    let known = [stream(&[PPS_264]), stream(&[VPS_265])];
    let seeds = streams.into_iter().chain([h264, h265]).collect();
    fuzz(
        "parameter-sets",
        4_000,
        MemoryBound::default(),
        seeds,
        &[&[0, 0, 1], &[0, 0, 3]],
        |bytes| {
            for (codec, known) in [PacketCodec::H264, PacketCodec::H265].into_iter().zip(&known) {
                if let Some((width, height)) = size(codec, bytes) {
                    assert!((1..=32_768).contains(&width) && (1..=32_768).contains(&height));
                }
                for extradata in [&known[..], bytes] {
                    let format = PacketFormat {
                        codec,
                        extradata: extradata.into(),
                        width: 7,
                        height: 7,
                        turn: None,
                        sample_aspect: None,
                        sound: None,
                    };
                    if let Some(new) = new_format(&format, bytes) {
                        assert_eq!(
                            new_format(&new, bytes),
                            None,
                            "the same key frame has nothing new"
                        );
                    }
                }
            }
        },
    );
}

fn whole_box(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let length = (content.len() + 8) as u32;
    [&length.to_be_bytes()[..], kind, content].concat()
}

#[test]
fn fuzz_mp4_boxes() {
    let fragment = [whole_box(b"moof", &[7; 20]), whole_box(b"mdat", &[9; 60])].concat();
    let large = [&[0, 0, 0, 1][..], b"mdat", &[0, 0, 0, 0, 0, 0, 0, 40], &[3; 24]].concat();
    let begin = [whole_box(b"ftyp", b"isom"), whole_box(b"moov", &[0; 40])].concat();
    let seeds = vec![
        [&begin[..], &fragment, &fragment, &whole_box(b"mfra", &[0; 8])].concat(),
        [&begin[..], &large].concat(),
    ];
    let kinds: [&[u8]; 5] = [b"moov", b"moof", b"mdat", b"mfra", &[0, 0, 0, 8]];
    fuzz(
        "mp4-boxes",
        1_000,
        MemoryBound::default(),
        seeds,
        &kinds,
        |bytes| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            let found = Fragments::of(&mut file).unwrap();
            assert!(found.whole <= found.length && found.length == bytes.len() as u64);
            // The part that is kept of a file that was cut off is whole.
            file.set_len(found.whole).unwrap();
            let kept = Fragments::of(&mut file).unwrap();
            assert_eq!((kept.whole, kept.length), (found.whole, found.whole));
            let _ = (
                found.is_complete(Form::Indexed),
                found.is_complete(Form::Fragmented),
            );
        },
    );
}

#[test]
fn fuzz_containers() {
    let matroska = [
        &[
            0x1A, 0x45, 0xDF, 0xA3, 0x82, 1, 2, 0x18, 0x53, 0x80, 0x67, 0x40, 0x0A,
        ][..],
        &[0; 10],
    ]
    .concat();
    let mut packet = [0; 188];
    packet[0] = 0x47;
    let seeds = vec![matroska, b"RIFF\x0a\0\0\0AVI x x x x".to_vec(), packet.repeat(8)];
    let file = tempfile::NamedTempFile::new().unwrap();
    fuzz("containers", 1_000, MemoryBound::default(), seeds, &[], |bytes| {
        fs::write(file.path(), bytes).unwrap();
        for format in ["matroska,webm", "avi", "mpegts"] {
            let _ = container::truncation(file.path(), format);
        }
        let _ = container::truncation_by_signature(file.path());
    });
}

#[test]
fn fuzz_addresses() {
    let seeds = [
        "http://u:p@cam:81/c/d?e=/f",
        "https://user:p%40ss@[::1]:8443/live.m3u8#x",
        "rtsp://u:p@ss@Cam:554/1@x",
        "//b/x",
        "/x?a=1",
        "../y.ts",
        "crypto+http://cam/1.ts",
        "file:///etc/passwd",
        "data:text/plain,x",
    ];
    let words: Vec<&[u8]> = [
        "://", "@", ":", "/", "?", "#", "\\", "[", "]", "%2f", "cam", "http", "\t", "\u{e9}",
    ]
    .map(str::as_bytes)
    .into();
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let web = Access::new("http://cam/1", None, &Settings::default(), Duration::from_secs(1)).unwrap();
    let session = Access::new("rtsp://cam/1", None, &Settings::default(), Duration::from_secs(1)).unwrap();
    fuzz(
        "addresses",
        4_000,
        MemoryBound::default(),
        seeds,
        &words,
        |bytes| {
            let url = String::from_utf8_lossy(bytes);
            let _ = (
                web.check(&url),
                web.options_of(&url),
                session.on_session_redirect(&url),
            );
            let _ = userinfo::of(&url).map(userinfo::basic);
            for from in ["http://u:p@cam:81/c/d?e=/f", "https://cam", &*url] {
                let to = redirect::absolute(from, &url);
                if redirect::check(from, &to).is_ok() {
                    assert_eq!(host(from), host(&to), "{from} to {to}");
                    let next = redirect::with_credentials(from, to.clone());
                    assert_eq!(host(&next), host(&to), "{from} to {to} as {next}");
                }
            }
        },
    );
}

/// A web server that answers each request with what it was given last, and closes.
struct Server {
    at: String,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let answer = Arc::<Mutex<Vec<u8>>>::default();
        let given = Arc::clone(&answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = given.lock().unwrap().clone();
                let _ = answer_one(stream, &answer);
            }
        });
        Self { at, answer }
    }
}

fn answer_one(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (mut request, mut buffer) = (Vec::<u8>::new(), [0; 2_048]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            read => request.extend(&buffer[..read]),
        }
    }
    stream.write_all(answer)
}

#[test]
fn fuzz_http_heads() {
    let server = Server::start();
    let url = format!("http://u:p@{}/live/a.m3u8", server.at);
    let seeds = [
        "HTTP/1.1 302 Found\r\nLocation: /b.m3u8\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1/b?x=1\r\nSet-Cookie: a=b\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.0 401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"x\", nonce=\"y\"\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 307 T\r\nlocation: //cam/x\r\n\r\n",
    ];
    let words: Vec<&[u8]> = [
        "\r\n",
        "\r\n\r\n",
        ": ",
        "HTTP/1.1 302 ",
        "Location: ",
        "\0",
        "\u{e9}",
        "100 ",
    ]
    .map(str::as_bytes)
    .into();
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let bound = MemoryBound {
        base: 4 << 20,
        per_byte: 160,
    };
    // The authorities of the system are not read for each.
    let none = tempfile::NamedTempFile::new().unwrap();
    let ca_file = none.path().to_str();
    fuzz("http-heads", 100, bound, seeds, &words, |bytes| {
        *server.answer.lock().unwrap() = bytes.to_vec();
        if let Some(location) = redirect::location(&url, true, ca_file, Duration::from_secs(5)) {
            let _ = redirect::check(&url, &location);
        }
    });
}

/// A video of a few small pictures.
fn video(path: &Path, codec: VideoCodec, is_live: bool) -> Option<Vec<u8>> {
    let encoding = Encoding {
        codec,
        gop: 2,
        live: is_live,
        ..Encoding::live(40.0)
    };
    let mut file = VideoFile::create(path, (64, 48), encoding).ok()?;
    for picture in 0..5_u8 {
        let samples: Vec<u8> = (0..64 * 48 * 3)
            .map(|at| (at % 251) as u8 ^ (picture * 9))
            .collect();
        let rgb = Rgb {
            width: 64,
            height: 48,
            samples: &samples,
        };
        file.write(rgb, f64::from(picture) * 40.0).unwrap();
    }
    fs::read(file.finish().unwrap()).ok()
}

/// Opens an address and reads some pictures of it.
fn play(uri: &str) {
    let stop = StopFlag::default();
    if let Ok(mut source) = FfmpegSource::open(uri, &SourceOptions::default(), &stop) {
        let _ = source.info();
        for _ in 0..8 {
            if !matches!(source.next(), Ok(Some(_))) {
                break;
            }
        }
    }
}

#[test]
fn fuzz_videos() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = [
        (VideoCodec::H264, true),
        (VideoCodec::H264, false),
        (VideoCodec::Hevc, true),
    ];
    let seeds = kinds
        .iter()
        .filter_map(|(codec, is_live)| video(&folder.path().join("seed.mp4"), *codec, *is_live))
        .collect();
    let path = folder.path().join("edited.mp4");
    let kinds: [&[u8]; 6] = [b"moov", b"moof", b"mdat", b"trak", b"stsd", b"elst"];
    fuzz("videos", 60, PICTURES, seeds, &kinds, |bytes| {
        fs::write(&path, bytes).unwrap();
        play(path.to_str().unwrap());
    });
}

#[test]
fn fuzz_playlists() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    fs::create_dir(&list).unwrap();
    let Some(video) = video(&folder.path().join("secret.mp4"), VideoCodec::H264, true) else {
        return;
    };
    fs::write(list.join("1.mp4"), &video).unwrap();
    fs::write(list.join("key"), [7; 16]).unwrap();
    let head = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:1\n";
    let seeds = [
        format!("{head}#EXTINF:0.2,\n1.mp4\n#EXT-X-ENDLIST\n"),
        format!("{head}#EXT-X-MAP:URI=\"1.mp4\",BYTERANGE=\"{}@0\"\n#EXTINF:0.2,\n1.mp4\n#EXT-X-ENDLIST\n", video.len()),
        format!("{head}#EXT-X-KEY:METHOD=AES-128,URI=\"key\",IV=0x1\n#EXT-X-BYTERANGE:99@1\n#EXTINF:0.2,\n../secret.mp4\n#EXT-X-ENDLIST\n"),
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,RESOLUTION=64x48\na.m3u8\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",URI=\"b.m3u8\"\n"
            .to_owned(),
        format!("{head}#EXTINF:0.2,\n1.mp4\n#EXT-X-DISCONTINUITY\n#EXTINF:0.2,\nfile:///dev/zero\n#EXT-X-ENDLIST\n"),
    ];
    let words: Vec<&[u8]> = [
        "\n",
        "#EXT-X-",
        "URI=\"",
        "\"",
        "file:",
        "../",
        "/dev/zero",
        "crypto:",
        "1.mp4",
        "#EXT-X-ENDLIST\n",
        "a.m3u8",
        "-1",
        "99999999999999999999",
    ]
    .map(str::as_bytes)
    .into();
    let path = list.join("a.m3u8");
    let seeds = seeds.map(String::into_bytes).to_vec();
    fuzz("playlists", 20, PICTURES, seeds, &words, |bytes| {
        // A list without an end is one that goes on: it is asked for again and again.
        let text = [bytes, b"\n#EXT-X-ENDLIST\n"].concat();
        fs::write(&path, text).unwrap();
        play(path.to_str().unwrap());
    });
}

#[test]
fn fuzz_pictures() {
    let (mut png, mut jpeg) = (Vec::new(), Vec::new());
    let picture = image::RgbImage::from_fn(32, 24, |x, y| image::Rgb([x as u8 * 8, y as u8 * 8, 7]));
    let write = |format, to: &mut Vec<u8>| picture.write_to(&mut std::io::Cursor::new(to), format).unwrap();
    write(image::ImageFormat::Png, &mut png);
    write(image::ImageFormat::Jpeg, &mut jpeg);
    // With the orientation that a phone writes.
    let exif = b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let turned = [&jpeg[..2], exif, &jpeg[2..]].concat();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edited.png");
    fuzz(
        "pictures",
        150,
        PICTURES,
        vec![png, jpeg, turned],
        &[b"IHDR", b"IDAT", b"Exif", b"\xff\xc0", b"\xff\xe1"],
        |bytes| {
            if let Ok(picture) = images::picture_from(bytes.to_vec()) {
                assert!(picture.width > 0 && picture.height > 0);
            }
            fs::write(&path, bytes).unwrap();
            if let Ok(mut source) =
                ImageSource::single(&path, &SourceOptions::default(), &StopFlag::default())
            {
                let _ = source.next();
            }
        },
    );
}

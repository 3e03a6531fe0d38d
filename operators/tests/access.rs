//! Addresses that a source may open: what servers answer leads neither to files of this machine, nor to other hosts, and no
//! text is drawn. And logins of cameras.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use weir_flow::{Connection, Settings, SourceLogin, StopFlag, Transport, Value};
use weir_operators::media::{SourceOptions, source};

/// A server, and the heads of the requests to it.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers each request by its head; without an end of the head it is answered at once, as by `tcp://`.
    fn start(host: &str, has_requests: bool, answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let serve = move |mut stream: TcpStream| {
            let mut lines = BufReader::new(stream.try_clone().unwrap())
                .lines()
                .map_while(Result::ok);
            loop {
                let head: Vec<String> = if has_requests {
                    lines.by_ref().take_while(|line| !line.is_empty()).collect()
                } else {
                    Vec::new()
                };
                if has_requests && head.is_empty() {
                    return;
                }
                let head = head.join("\n");
                noted.lock().unwrap().push(head.clone());
                let answered = stream.write_all(&answer(&head));
                if answered.is_err() || !head.contains("RTSP/") {
                    return;
                }
            }
        };
        std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
        Self { port, asked }
    }

    fn requests(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn http(status: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn cseq(head: &str) -> &str {
    head.lines()
        .find(|line| line.starts_with("CSeq"))
        .unwrap_or_default()
}

/// An RTSP server that redirects every DESCRIBE.
fn rtsp_redirect(to: impl Fn() -> String + Send + 'static) -> Server {
    Server::start("127.0.0.1", true, move |head| {
        let answer = if head.starts_with("OPTIONS") {
            format!("RTSP/1.0 200 OK\r\n{}\r\nPublic: DESCRIBE\r\n\r\n", cseq(head))
        } else {
            format!(
                "RTSP/1.0 302 Found\r\n{}\r\nLocation: {}\r\n\r\n",
                cseq(head),
                to()
            )
        };
        answer.into_bytes()
    })
}

/// Why `uri` does not open.
fn refused(uri: &str) -> String {
    let options = SourceOptions {
        timeout_s: 3.0,
        ..SourceOptions::default()
    };
    let opened = source(uri, options).open(&StopFlag::default());
    let error = opened.err().unwrap_or_else(|| panic!("{uri} is open"));
    error.to_string()
}

fn opens(uri: &str) -> bool {
    let opened = source(uri, SourceOptions::default()).open(&StopFlag::default());
    opened.is_ok_and(|mut source| matches!(source.next(), Ok(Some(_))))
}

fn write_clip(path: &Path) {
    let made = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-nostdin",
            "-y",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=160x90:rate=10",
            "-t",
            "2",
        ])
        .args([
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-pix_fmt",
            "yuv420p",
            "-g",
            "10",
        ])
        .arg(path)
        .status();
    assert!(made.unwrap().success());
}

fn hls(address: &str) -> Vec<u8> {
    format!("#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:20\n#EXTINF:20,\n{address}\n#EXT-X-ENDLIST\n")
        .into_bytes()
}

fn dash(address: &str) -> Vec<u8> {
    format!(
        "<?xml version=\"1.0\"?>\n<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\" \
         mediaPresentationDuration=\"PT20S\" profiles=\"urn:mpeg:dash:profile:isoff-on-demand:2011\"><Period>\
         <AdaptationSet mimeType=\"video/mp4\"><Representation id=\"1\" bandwidth=\"1000\"><BaseURL>{address}</BaseURL>\
         <SegmentBase/></Representation></AdaptationSet></Period></MPD>"
    )
    .into_bytes()
}

#[test]
fn playlists_over_the_network_open_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("private.ts");
    write_clip(&clip);
    let clip = clip.display().to_string();
    for address in [format!("file://{clip}"), clip.clone(), format!("file:{clip}")] {
        for content in [hls(&address), dash(&address)] {
            let sent = content.clone();
            let raw = Server::start("127.0.0.1", false, move |_| sent.clone());
            refused(&format!("tcp://127.0.0.1:{}", raw.port));
            let web = Server::start("127.0.0.1", true, move |_| http("200 OK", "", &content));
            for name in ["x.m3u8", "x.mpd", "x"] {
                refused(&format!("http://127.0.0.1:{}/{name}", web.port));
            }
        }
    }
    let concat = format!("ffconcat version 1.0\nfile '{clip}'\n").into_bytes();
    let list = folder.path().join("list.ffconcat");
    std::fs::write(&list, &concat).unwrap();
    refused(list.to_str().unwrap());
    let raw = Server::start("127.0.0.1", false, move |_| concat.clone());
    refused(&format!("tcp://127.0.0.1:{}", raw.port));
}

#[test]
fn playlists_on_disk_open_files_of_their_folder_only() {
    let folder = tempfile::tempdir().unwrap();
    let lists = folder.path().join("lists");
    std::fs::create_dir(&lists).unwrap();
    write_clip(&folder.path().join("private.ts"));
    write_clip(&lists.join("part.ts"));
    let list = lists.join("list.m3u8");
    std::fs::write(&list, hls("part.ts")).unwrap();
    assert!(opens(list.to_str().unwrap()));
    std::fs::write(&list, hls("../private.ts")).unwrap();
    let reason = refused(list.to_str().unwrap());
    assert!(reason.contains("only files of its own folder"), "{reason}");
}

#[test]
fn playlists_that_name_each_other_end() {
    let variant =
        |name: &str| format!("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{name}\n#EXT-X-ENDLIST\n").into_bytes();
    // Itself, and another one each time.
    let itself = Server::start("127.0.0.1", true, move |_| {
        http("200 OK", "", &variant("live.m3u8"))
    });
    let number = std::sync::atomic::AtomicU32::new(0);
    let others = Server::start("127.0.0.1", true, move |_| {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        http("200 OK", "", &variant(&format!("{number}.m3u8")))
    });
    for server in [itself, others] {
        let reason = refused(&format!("http://127.0.0.1:{}/live.m3u8", server.port));
        assert!(reason.contains("in a circle"), "{reason}");
        assert!(server.requests().len() <= 300, "{}", server.requests().len());
    }
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("a.m3u8");
    std::fs::write(&list, variant("a.m3u8")).unwrap();
    let reason = refused(list.to_str().unwrap());
    assert!(reason.contains("in a circle"), "{reason}");
}

#[test]
fn texts_on_web_servers_are_not_drawn() {
    let text = "line of a secret\n".repeat(200).into_bytes();
    let server = Server::start("127.0.0.1", true, move |_| http("200 OK", "", &text));
    for name in [
        "x.txt", "x?a=.txt", "x?a=.nfo", "x.ans", "x.diz", "x.bin", "x.xb", "x.srt", "x.raw", "x.svg", "x",
    ] {
        refused(&format!("http://127.0.0.1:{}/{name}", server.port));
    }
    assert!(!server.requests().is_empty());
}

#[test]
fn sessions_are_not_redirected_to_other_hosts_nor_for_ever() {
    let other = Server::start("127.0.0.2", true, |head| {
        format!(
            "RTSP/1.0 401 Unauthorized\r\n{}\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\r\n",
            cseq(head)
        )
        .into_bytes()
    });
    let port = other.port;
    let first = rtsp_redirect(move || format!("rtsp://127.0.0.2:{port}/b"));
    let reason = refused(&format!("rtsp://admin:geheim@127.0.0.1:{}/a", first.port));
    assert!(reason.contains("another host, rtsp://127.0.0.2"), "{reason}");
    assert_eq!(other.requests(), Vec::<String>::new());
    let own = Arc::new(Mutex::new(0));
    let at = Arc::clone(&own);
    let looped = rtsp_redirect(move || format!("rtsp://127.0.0.1:{}/{}", at.lock().unwrap(), "b"));
    *own.lock().unwrap() = looped.port;
    let reason = refused(&format!("rtsp://admin:geheim@127.0.0.1:{}/a", looped.port));
    assert!(
        looped.requests().len() < 40,
        "{} requests: {reason}",
        looped.requests().len()
    );
    assert!(!reason.contains("geheim"), "{reason}");
}

#[test]
fn web_redirects_stay_on_their_host_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("clip.ts");
    write_clip(&clip);
    let content = std::fs::read(clip).unwrap();
    let other = Server::start("127.0.0.2", true, |_| {
        http("401 Unauthorized", "WWW-Authenticate: Basic\r\n", b"")
    });
    let port = other.port;
    let server = Server::start("127.0.0.1", true, move |head| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let redirect = |to: &str| http("302 Found", &format!("Location: {to}\r\n"), b"");
        let count = path.trim_start_matches("/hop").parse::<u32>().ok();
        match (path, count) {
            (_, Some(0)) => http("200 OK", "", &content),
            (_, Some(hops)) => redirect(&format!("/hop{}", hops - 1)),
            ("/loop", _) => redirect("/loop"),
            ("/list.m3u8", _) => http("200 OK", "", &hls("/elsewhere")),
            ("/file", _) => redirect("file:///etc/passwd"),
            _ => redirect(&format!("http://127.0.0.2:{port}/b")),
        }
    });
    let at = |path: &str| format!("http://admin:geheim@127.0.0.1:{}/{path}", server.port);
    assert!(
        opens(&at("hop0")) && opens(&at("hop5")),
        "{:?}",
        server.requests()
    );
    for (path, expected) in [
        ("hop6", "more than 5 times"),
        ("loop", "more than 5 times"),
        ("elsewhere", "another host, http://127.0.0.2"),
        ("file", "redirects to"),
    ] {
        let reason = refused(&at(path));
        assert!(
            reason.contains(expected) && !reason.contains("geheim"),
            "{reason}"
        );
    }
    refused(&at("list.m3u8"));
    assert_eq!(other.requests(), Vec::<String>::new());
}

/// A camera that offers these ways to log in to each request without credentials, and has nothing at any path.
fn camera_offering(offers: &[&str]) -> Server {
    let offers: String = offers
        .iter()
        .map(|offer| format!("WWW-Authenticate: {offer}\r\n"))
        .collect();
    Server::start("127.0.0.1", true, move |head| {
        let answer = if head.starts_with("OPTIONS") {
            format!("RTSP/1.0 200 OK\r\n{}\r\nPublic: DESCRIBE\r\n\r\n", cseq(head))
        } else if head.contains("\nAuthorization: ") {
            format!("RTSP/1.0 404 Not Found\r\n{}\r\n\r\n", cseq(head))
        } else {
            format!("RTSP/1.0 401 Unauthorized\r\n{}\r\n{offers}\r\n", cseq(head))
        };
        answer.into_bytes()
    })
}

const MD5: &str = "Digest realm=\"cam\", nonce=\"def\", algorithm=MD5";
const SHA_256: &str = "Digest realm=\"cam\", nonce=\"abc\", algorithm=\"SHA-256\", qop=\"auth\"";
const SHA_512: &str = "Digest realm=\"cam\", nonce=\"abc\", algorithm=SHA-512-256, qop=\"auth\"";

#[test]
fn the_safest_challenge_of_a_camera_is_answered() {
    for (offers, expected) in [
        (vec![MD5, SHA_256], "algorithm=SHA-256, qop=auth, nc=00000001"),
        (vec![SHA_256, MD5], "algorithm=SHA-256, qop=auth, nc=00000001"),
        (vec![SHA_256], "algorithm=SHA-256, qop=auth, nc=00000001"),
        (vec![SHA_512, MD5], "nonce=\"def\""),
        (vec!["Basic realm=\"cam\"", MD5], "nonce=\"def\""),
        (
            vec!["Basic realm=\"cam\""],
            "Authorization: Basic YWRtaW46Z2VoZWlt",
        ),
    ] {
        let camera = camera_offering(&offers);
        let reason = refused(&format!("rtsp://admin:geheim@127.0.0.1:{}/1", camera.port));
        assert!(reason.contains("no video at this path"), "{offers:?}: {reason}");
        let requests = camera.requests();
        let [_, first, second] = &requests[..] else {
            panic!("{requests:?}")
        };
        assert!(!first.contains("Authorization"), "{first}");
        let address = format!("DESCRIBE rtsp://127.0.0.1:{}/1 RTSP", camera.port);
        assert!(
            second.starts_with(&address) && second.contains(expected),
            "{second}"
        );
    }
}

#[test]
fn the_safest_challenge_of_a_web_server_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("clip.ts");
    write_clip(&clip);
    let content = std::fs::read(clip).unwrap();
    for (offers, expected) in [
        (vec![MD5, SHA_256], "algorithm=SHA-256, qop=auth, nc=00000001"),
        (vec![SHA_256], "algorithm=SHA-256, qop=auth, nc=00000001"),
        (vec![SHA_512, MD5], "nonce=\"def\""),
        (vec![MD5, SHA_512], "nonce=\"def\""),
    ] {
        let content = content.clone();
        let challenges: String = offers
            .iter()
            .map(|offer| format!("WWW-Authenticate: {offer}\r\n"))
            .collect();
        let camera = Server::start("127.0.0.1", true, move |head| {
            if head.contains("\nAuthorization: Digest ") {
                http("200 OK", "", &content)
            } else {
                http("401 Unauthorized", &challenges, b"")
            }
        });
        let uri = format!("http://admin:geheim@127.0.0.1:{}/live?ch=1", camera.port);
        assert!(opens(&uri), "{offers:?}: {:?}", camera.requests());
        let requests = camera.requests();
        let answered = requests
            .iter()
            .find(|head| head.contains("Authorization: Digest"))
            .unwrap();
        assert!(
            answered.contains(expected) && answered.contains("uri=\"/live?ch=1\""),
            "{answered}"
        );
        let has_password = |head: &String| head.to_lowercase().contains("authorization: basic");
        assert!(!requests.iter().any(has_password), "{requests:?}");
    }
    let unknown = format!("WWW-Authenticate: {SHA_512}\r\n");
    let camera = Server::start("127.0.0.1", true, move |_| {
        http("401 Unauthorized", &unknown, b"")
    });
    let reason = refused(&format!("http://admin:geheim@127.0.0.1:{}/live", camera.port));
    assert!(reason.contains("offers Digest by SHA-512-256"), "{reason}");
}

#[test]
fn a_password_from_a_file_may_have_any_characters() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "g@:#%/ hä\n").unwrap();
    let mut options = SourceOptions::default();
    options.connection.login = Some(SourceLogin {
        user: "ad min".to_owned(),
        password_file: Some(file.clone()),
    });
    let camera = camera_offering(&["Basic realm=\"cam\""]);
    let uri = format!("rtsp://127.0.0.1:{}/1", camera.port);
    let open = || {
        source(&uri, options.clone())
            .open(&StopFlag::default())
            .err()
            .unwrap()
            .to_string()
    };
    assert!(open().contains("no video at this path"));
    let requests = camera.requests();
    // `ad min:g@:#%/ hä`, in UTF-8.
    let answered = requests.last().unwrap();
    assert!(
        answered.contains("Authorization: Basic YWQgbWluOmdAOiMlLyBow6Q="),
        "{answered}"
    );
    // The file is read again each time.
    std::fs::write(&file, "other").unwrap();
    open();
    assert!(
        camera
            .requests()
            .last()
            .unwrap()
            .contains("Basic YWQgbWluOm90aGVy")
    );
    std::fs::write(&file, "").unwrap();
    let empty = open();
    assert!(
        empty.contains("password_file") && empty.contains("is empty"),
        "{empty}"
    );
    let checked = source(&uri, options.clone()).check(&StopFlag::default());
    assert!(checked.unwrap_err().to_string().contains("is empty"));
    let rejecting = Server::start("127.0.0.1", true, |head| {
        format!(
            "RTSP/1.0 401 Unauthorized\r\n{}\r\nWWW-Authenticate: {MD5}\r\n\r\n",
            cseq(head)
        )
        .into_bytes()
    });
    std::fs::write(&file, "S3CR3T%@").unwrap();
    let uri = format!("rtsp://127.0.0.1:{}/1", rejecting.port);
    let wrong = source(&uri, options)
        .open(&StopFlag::default())
        .err()
        .unwrap()
        .to_string();
    assert!(
        wrong.contains("rejects this user and password") && !wrong.contains("S3CR3T"),
        "{wrong}"
    );
}

#[test]
fn each_way_to_fail_at_a_login_has_its_own_reason() {
    let refuses = |offers: &[&str], user: &str, options: &[(&str, Value)]| {
        let camera = camera_offering(offers);
        let mut source_options = SourceOptions::default();
        let options = options
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()));
        source_options.connection.options = Settings(options.collect());
        let opened = source(
            &format!("rtsp://{user}127.0.0.1:{}/1", camera.port),
            source_options,
        )
        .open(&StopFlag::default());
        opened.err().unwrap().to_string()
    };
    let unknown = refuses(&[SHA_512], "admin:geheim@", &[]);
    assert!(unknown.contains("offers Digest by SHA-512-256"), "{unknown}");
    let missing = refuses(&[MD5], "", &[]);
    assert!(missing.contains("asks for a user and a password"), "{missing}");
    let camera = camera_offering(&[SHA_256]);
    let mut datagrams = SourceOptions::default();
    datagrams.connection.transport = Transport::Udp;
    let opened = source(
        &format!("rtsp://admin:geheim@127.0.0.1:{}/1", camera.port),
        datagrams,
    );
    let datagrams = opened.open(&StopFlag::default()).err().unwrap().to_string();
    assert!(datagrams.contains("`transport = \"tcp\"`"), "{datagrams}");
    let pinned = Value::Text(format!("sha256:{}", "0".repeat(64)));
    let pinned = refuses(&[MD5], "", &[("tls_fingerprint", pinned)]);
    assert!(pinned.contains("for rtsps:// only"), "{pinned}");
    let mut mistyped = SourceOptions::default();
    let text = Value::Text("sha256:12".to_owned());
    mistyped.connection.options = Settings([("tls_fingerprint".to_owned(), text)].into());
    let mistyped = source("rtsps://camera/1", mistyped).check(&StopFlag::default());
    let mistyped = mistyped.unwrap_err().to_string();
    assert!(mistyped.contains("64 hexadecimal digits"), "{mistyped}");
    // A camera that takes no password at all.
    let camera = Server::start("127.0.0.1", true, |head| {
        format!(
            "RTSP/1.0 401 Unauthorized\r\n{}\r\nWWW-Authenticate: {SHA_256}\r\n\r\n",
            cseq(head)
        )
        .into_bytes()
    });
    let wrong = refused(&format!("rtsp://admin:geheim@127.0.0.1:{}/1", camera.port));
    assert!(wrong.contains("rejects this user and password"), "{wrong}");
    assert_eq!(camera.requests().len(), 2, "{:?}", camera.requests());
}

/// Requests that a camera gets whose track of sound cannot be set up.
fn requests_to_camera_without_sound(user: &str, sound: bool) -> Vec<String> {
    let content = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
                   a=control:video\r\nm=audio 0 RTP/AVP 0\r\na=control:sound\r\n\
                   m=application 0 RTP/AVP 107\r\na=rtpmap:107 vnd.onvif.metadata/90000\r\na=control:metadata\r\n";
    let camera = Server::start("127.0.0.1", true, move |head| {
        let more = match head.split(' ').next().unwrap_or_default() {
            "DESCRIBE" => format!(
                "Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{content}",
                content.len()
            ),
            "SETUP" => "Session: 1\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n\r\n".to_owned(),
            _ => "\r\n".to_owned(),
        };
        let status = if head.contains("/sound ") {
            "404 Not Found"
        } else {
            "200 OK"
        };
        format!("RTSP/1.0 {status}\r\n{}\r\n{more}", cseq(head)).into_bytes()
    });
    let options = SourceOptions {
        timeout_s: 1.0,
        connection: Connection {
            sound,
            ..Connection::default()
        },
        ..SourceOptions::default()
    };
    // No picture comes.
    let camera_at = format!("rtsp://{user}127.0.0.1:{}/1", camera.port);
    drop(source(&camera_at, options).open(&StopFlag::default()));
    camera.requests()
}

#[test]
fn sound_and_metadata_of_a_camera_are_not_asked_for_by_default() {
    for user in ["", "admin:geheim@"] {
        let requests = requests_to_camera_without_sound(user, false);
        let is_played = requests.iter().any(|head| head.starts_with("PLAY"));
        let is_asked = |track: &str| requests.iter().any(|head| head.contains(track));
        assert!(
            is_played && !is_asked("/sound") && !is_asked("/metadata"),
            "{requests:?}"
        );
    }
}

#[test]
fn a_camera_that_refuses_its_sound_is_played_without_it() {
    for user in ["", "admin:geheim@"] {
        let requests = requests_to_camera_without_sound(user, true);
        let asked = requests.iter().rposition(|head| head.contains("/sound"));
        let played = requests.iter().rposition(|head| head.starts_with("PLAY"));
        assert!(asked.is_some() && asked < played, "{requests:?}");
        assert!(
            !requests.iter().any(|head| head.contains("/metadata")),
            "{requests:?}"
        );
    }
}

#[test]
fn each_kind_of_content_that_gives_no_picture_has_its_own_reason() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, more: &[&str]| {
        let path = folder.path().join(name);
        let input = [
            "-v",
            "error",
            "-nostdin",
            "-y",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=160x90:rate=10",
            "-t",
            "10",
        ];
        let encoder = [
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-pix_fmt",
            "yuv420p",
            "-g",
            "300",
        ];
        let run = Command::new("ffmpeg")
            .args(input)
            .args(encoder)
            .args(more)
            .arg(&path)
            .status();
        assert!(run.unwrap().success());
        std::fs::read(path).unwrap()
    };
    let page = b"<html>log in, please</html>".repeat(50);
    let (index_last, without_sets) = (
        made("last.mp4", &[]),
        made("bare.ts", &["-bsf:v", "filter_units=remove_types=7|8"]),
    );
    for (path, kind, body, part) in [
        ("page", "text/html", &page, "may be a page to log in at"),
        (
            "frames",
            "multipart/x-mixed-replace; boundary=x",
            &page,
            "announces pictures one after the other",
        ),
        ("last.mp4", "video/mp4", &index_last, "its index is at its end"),
        (
            "bare.ts",
            "video/mp2t",
            &without_sets,
            "repeat its parameter sets",
        ),
    ] {
        let (kind, body) = (format!("Content-Type: {kind}\r\n"), body.clone());
        let server = Server::start("127.0.0.1", true, move |_| http("200 OK", &kind, &body));
        let uri = format!("http://127.0.0.1:{}/{path}", server.port);
        let options = SourceOptions {
            timeout_s: 3.0,
            ..SourceOptions::default()
        };
        let opened = source(&uri, options).open(&StopFlag::default());
        let error = match opened {
            Err(error) => error.to_string(),
            Ok(mut source) => match source.next() {
                Err(error) => error.to_string(),
                Ok(frame) => panic!("{path}: {}", frame.is_some()),
            },
        };
        assert!(error.contains(part), "{path}: {error}");
    }
}

//! A session of RTSP between FFmpeg and a camera, as a machine without sockets: addresses of requests are those of the
//! camera, challenges are answered, and redirects are judged.

use std::collections::VecDeque;

use super::super::open::REJECTS_LOGIN;
use super::super::redirect::{self, MAX_REDIRECTS};
use super::super::userinfo;
use super::challenge::{self, Challenge};
use super::messages::{Head, Messages, Piece};

/// Requests that wait for their responses. FFmpeg sends the next one before only to keep a session alive.
const MAX_WAITING: usize = 16;

/// Times that a request is sent: without credentials, with them, and with a newer nonce.
const MAX_SENT: u8 = 3;

/// The address of a camera.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Target {
    /// Scheme, host and port.
    pub(super) origin: String,
    /// Path and query.
    pub(super) path: String,
}

impl Target {
    /// The parts of an address, and the user and the password in it. The port is always written, as FFmpeg does.
    pub(super) fn of(address: &str) -> Option<(Self, Option<String>)> {
        let (scheme, rest) = address.split_once("://")?;
        let user = userinfo::of(address);
        let rest = user.map_or(rest, |user| &rest[user.len() + 1..]);
        let (place, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let has_port = place
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.contains(']'));
        let port = match (has_port, scheme) {
            (true, _) => "",
            (false, "rtsps") => ":322",
            (false, _) => ":554",
        };
        let is_text = |c: char| !c.is_ascii_whitespace() && !c.is_ascii_control();
        (!place.is_empty() && address.chars().all(is_text)).then(|| {
            let target = Self {
                origin: format!("{scheme}://{place}{port}"),
                path: path.to_owned(),
            };
            (target, user.map(str::to_owned))
        })
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.origin.starts_with("rtsps://")
    }

    /// Host and port.
    pub(super) fn place(&self) -> (&str, u16) {
        let place = self.origin.split_once("://").map_or("", |(_, place)| place);
        let (host, port) = place.rsplit_once(':').unwrap_or((place, ""));
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        (host, port.parse().unwrap_or(0))
    }
}

/// A request whose response is awaited.
#[derive(Debug)]
struct Request {
    /// As FFmpeg sent it.
    head: Head,
    sent: u8,
    /// The nonce that it was sent with; empty for Basic.
    nonce: Option<String>,
}

impl Request {
    fn number(&self) -> Option<&str> {
        self.head.header("CSeq")
    }
}

/// The challenge that requests are answered with.
#[derive(Debug)]
struct Answer {
    challenge: Challenge,
    cnonce: String,
    count: u32,
}

/// State of a session.
#[derive(Debug)]
pub(super) struct Session {
    /// The beginning of FFmpeg's addresses.
    local: String,
    /// The address of FFmpeg's first request.
    first: Option<String>,
    target: Target,
    user: Option<String>,
    answer: Option<Answer>,
    /// Whether the camera took the credentials.
    is_accepted: bool,
    /// Source of random text.
    random: fn() -> String,
    waiting: VecDeque<Request>,
    from_ffmpeg: Messages,
    from_camera: Messages,
    /// Whether the body of the last response is left out, too.
    is_left_out: bool,
    redirects: u32,
    reason: Option<String>,
}

/// Bytes to send.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) to_ffmpeg: Vec<u8>,
    pub(super) to_camera: Vec<u8>,
}

impl Session {
    /// A session of FFmpeg at addresses that begin with `local`, and the camera at `target`.
    pub(super) fn new(local: String, target: Target, user: Option<String>, random: fn() -> String) -> Self {
        Self {
            local,
            first: None,
            target,
            user,
            answer: None,
            is_accepted: false,
            random,
            waiting: VecDeque::new(),
            from_ffmpeg: Messages::default(),
            from_camera: Messages::default(),
            is_left_out: false,
            redirects: 0,
            reason: None,
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Why the camera refuses, once it does.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Takes bytes of FFmpeg.
    ///
    /// # Errors
    /// The sender is not FFmpeg.
    pub(super) fn on_ffmpeg(&mut self, bytes: &[u8], outbox: &mut Outbox) -> Result<(), String> {
        self.from_ffmpeg.push(bytes);
        while let Some(piece) = self.from_ffmpeg.next() {
            match piece {
                Piece::Bytes(_) if self.first.is_none() => return Err(stranger()),
                Piece::Bytes(bytes) => outbox.to_camera.extend(bytes),
                Piece::Head(head) => match head.request() {
                    Some((_, address)) => {
                        if self.first.is_none() {
                            if !address.starts_with(&self.local) {
                                return Err(stranger());
                            }
                            self.first = Some(address.to_owned());
                        }
                        self.send(
                            Request {
                                head,
                                sent: 0,
                                nonce: None,
                            },
                            outbox,
                        );
                    }
                    None if self.first.is_none() => return Err(stranger()),
                    None => head.write(&mut outbox.to_camera),
                },
            }
        }
        Ok(())
    }

    /// The camera's name of one of FFmpeg's addresses.
    fn camera_address(&self, address: &str) -> String {
        let Target { origin, path } = &self.target;
        let first = self.first.as_deref().unwrap_or(&self.local);
        if let Some(rest) = address.strip_prefix(first) {
            let path = if self.redirects == 0 {
                first.strip_prefix(&self.local).unwrap_or_default()
            } else {
                path
            };
            let path = if rest.starts_with('/') {
                path.strip_suffix('/').unwrap_or(path)
            } else {
                path
            };
            return format!("{origin}{path}{rest}");
        }
        match address.strip_prefix(&self.local) {
            Some(rest) => format!("{origin}{rest}"),
            None => address.to_owned(),
        }
    }

    /// Sends a request with the camera's address, and with credentials once they were asked for.
    fn send(&mut self, mut request: Request, outbox: &mut Outbox) {
        let mut head = request.head.clone();
        let Some((method, address)) = request.head.request() else {
            return;
        };
        let address = self.camera_address(address);
        head.set_address(&address);
        request.sent += 1;
        if let (Some(user), Some(answer)) = (&self.user, &mut self.answer) {
            answer.count = answer.count.saturating_add(1);
            let value = answer
                .challenge
                .answer(user, method, &address, answer.count, &answer.cnonce);
            head.set("Authorization", &value);
            request.nonce = Some(answer.challenge.nonce.clone());
        }
        head.write(&mut outbox.to_camera);
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(request);
    }

    /// Takes bytes of the camera. Returns whether it redirects: then [`Session::target`] is another one, and
    /// [`Session::on_moved`] is called once it is connected to.
    ///
    /// # Errors
    /// A redirect that is not followed.
    pub(super) fn on_camera(&mut self, bytes: &[u8], outbox: &mut Outbox) -> Result<bool, String> {
        self.from_camera.push(bytes);
        while let Some(piece) = self.from_camera.next() {
            let mut head = match piece {
                Piece::Head(head) => head,
                Piece::Bytes(_) if self.is_left_out => continue,
                Piece::Bytes(bytes) => {
                    outbox.to_ffmpeg.extend(bytes);
                    continue;
                }
            };
            self.is_left_out = false;
            if let Some(status) = head.status() {
                let request = self.answered(&head);
                if (300..400).contains(&status)
                    && let Some(location) = head.header("Location")
                {
                    self.on_redirect(location)?;
                    self.waiting.extend(request);
                    return Ok(true);
                }
                if status == 401
                    && let Some(request) = request
                {
                    match self.on_challenge(&request, &head) {
                        Ok(()) => {
                            self.is_left_out = head.body() > 0;
                            self.send(request, outbox);
                            continue;
                        }
                        Err(reason) => self.reason = Some(reason),
                    }
                } else if (200..300).contains(&status) {
                    self.is_accepted |= request.is_some_and(|request| request.nonce.is_some());
                }
                head.remove("WWW-Authenticate");
            }
            head.write(&mut outbox.to_ffmpeg);
        }
        Ok(false)
    }

    /// The request that a response belongs to.
    fn answered(&mut self, response: &Head) -> Option<Request> {
        let number = response.header("CSeq");
        let at = self.waiting.iter().position(|request| request.number() == number);
        self.waiting.remove(at.unwrap_or(0))
    }

    /// Chooses how requests are answered from now on.
    ///
    /// # Errors
    /// The reason, if they cannot be.
    fn on_challenge(&mut self, request: &Request, response: &Head) -> Result<(), String> {
        let offered = challenge::choose(response.all("WWW-Authenticate"));
        if self.user.is_none() {
            return Err(
                "401 Unauthorized: the camera asks for a user and a password: set `user` and `password_file`, or write them \
                 before its host, as in rtsp://USER:PASSWORD@HOST"
                    .to_owned(),
            );
        }
        let challenge = offered.map_err(|names| {
            let names = if names.is_empty() { "nothing" } else { &names };
            format!(
                "401 Unauthorized: the camera offers {names} to log in, and Weir knows Digest by SHA-256 \
                 or MD5, and Basic: choose one of them in the settings of the camera"
            )
        })?;
        if let Some(nonce) = &request.nonce {
            let is_new = *nonce != challenge.nonce && (challenge.stale || self.is_accepted);
            if !is_new || request.sent >= MAX_SENT {
                return Err(format!("401 Unauthorized: the camera {REJECTS_LOGIN}"));
            }
        }
        let is_known = self
            .answer
            .as_ref()
            .is_some_and(|answer| answer.challenge.nonce == challenge.nonce && answer.challenge == challenge);
        if !is_known {
            self.answer = Some(Answer {
                challenge,
                cnonce: (self.random)(),
                count: 0,
            });
        }
        Ok(())
    }

    /// Judges a redirect, and takes its address.
    ///
    /// # Errors
    /// The reason why it is not followed.
    fn on_redirect(&mut self, location: &str) -> Result<(), String> {
        if self.redirects >= MAX_REDIRECTS {
            return Err(redirect::too_many());
        }
        let Target { origin, path } = &self.target;
        redirect::check(&format!("{origin}{path}"), location)?;
        let location = weir_flow::with_small_scheme(location);
        let (target, user) = Target::of(&location)
            .ok_or_else(|| "its server redirects to what is not an address: check the path".to_owned())?;
        self.redirects += 1;
        self.target = target;
        if user.is_some() {
            self.user = user;
        }
        self.answer = None;
        self.is_accepted = false;
        Ok(())
    }

    /// The camera that it was redirected to is connected: sends again what waits for a response.
    pub(super) fn on_moved(&mut self, outbox: &mut Outbox) {
        self.from_camera = Messages::default();
        self.is_left_out = false;
        outbox.to_camera.clear();
        for mut request in std::mem::take(&mut self.waiting) {
            (request.sent, request.nonce) = (0, None);
            self.send(request, outbox);
        }
    }
}

fn stranger() -> String {
    "another program connected to what relays the camera: try again".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "rtsp://127.0.0.1:7/t";

    fn session(address: &str) -> Session {
        let (target, user) = Target::of(address).unwrap();
        Session::new(LOCAL.to_owned(), target, user, || "c".to_owned())
    }

    /// Bytes to the camera for a request of FFmpeg.
    fn ask(session: &mut Session, method: &str, path: &str, number: u32) -> String {
        let mut outbox = Outbox::default();
        let request = format!("{method} {LOCAL}{path} RTSP/1.0\r\nCSeq: {number}\r\n\r\n");
        session.on_ffmpeg(request.as_bytes(), &mut outbox).unwrap();
        String::from_utf8(outbox.to_camera).unwrap()
    }

    /// Bytes to FFmpeg and to the camera for an answer.
    fn answer(session: &mut Session, status: &str, number: u32, headers: &str) -> (String, String) {
        let mut outbox = Outbox::default();
        let response = format!("RTSP/1.0 {status}\r\nCSeq: {number}\r\n{headers}\r\n");
        let moved = session.on_camera(response.as_bytes(), &mut outbox).unwrap();
        assert!(!moved);
        let [to_ffmpeg, to_camera] =
            [outbox.to_ffmpeg, outbox.to_camera].map(|bytes| String::from_utf8(bytes).unwrap());
        (to_ffmpeg, to_camera)
    }

    fn offer(nonce: &str, more: &str) -> String {
        format!("WWW-Authenticate: Digest realm=\"r\", nonce=\"{nonce}\", algorithm=SHA-256{more}\r\n")
    }

    #[test]
    fn requests_carry_the_address_of_the_camera_and_an_answer() {
        let mut session = session("rtsp://u:p@cam/1?a=b");
        let sent = ask(&mut session, "OPTIONS", "/1?a=b", 1);
        assert_eq!(sent, "OPTIONS rtsp://cam:554/1?a=b RTSP/1.0\r\nCSeq: 1\r\n\r\n");
        answer(&mut session, "200 OK", 1, "");
        ask(&mut session, "DESCRIBE", "/1?a=b", 2);
        let (to_ffmpeg, again) = answer(&mut session, "401 Unauthorized", 2, &offer("n", ", qop=\"auth\""));
        assert_eq!(to_ffmpeg, "");
        assert!(
            again.starts_with("DESCRIBE rtsp://cam:554/1?a=b RTSP/1.0\r\nCSeq: 2\r\nAuthorization: Digest")
        );
        assert!(
            again.contains("nc=00000001, cnonce=\"c\"") && again.contains("uri=\"rtsp://cam:554/1?a=b\"")
        );
        let (to_ffmpeg, _) = answer(&mut session, "200 OK", 2, "Content-Base: rtsp://x/\r\n");
        assert!(to_ffmpeg.contains("Content-Base: rtsp://x/"));
        let next = ask(&mut session, "SETUP", "/1?a=b/track=1", 3);
        assert!(
            next.starts_with("SETUP rtsp://cam:554/1?a=b/track=1 ") && next.contains("nc=00000002"),
            "{next}"
        );
        // A nonce that got too old, said and unsaid.
        for (nonce, stale) in [("o", ", stale=true"), ("q", "")] {
            ask(&mut session, "PLAY", "/1?a=b", 4);
            let (_, again) = answer(&mut session, "401 Unauthorized", 4, &offer(nonce, stale));
            assert!(again.contains(&format!("nonce=\"{nonce}\"")), "{again}");
            answer(&mut session, "200 OK", 4, "");
        }
        assert_eq!(session.reason(), None);
    }

    #[test]
    fn refused_credentials_end_with_their_own_reasons() {
        let described = |address: &str, offers: &[String]| {
            let mut session = session(address);
            ask(&mut session, "DESCRIBE", "/1", 1);
            let mut count = 0;
            for offer in offers {
                let (to_ffmpeg, again) = answer(&mut session, "401 Unauthorized", 1, offer);
                if again.is_empty() {
                    assert!(
                        to_ffmpeg.contains("401") && !to_ffmpeg.contains("WWW"),
                        "{to_ffmpeg}"
                    );
                    return (count, session.reason().unwrap().to_owned());
                }
                count += 1;
            }
            (count, String::new())
        };
        let offers: Vec<String> = (0..9).map(|n| offer(&n.to_string(), "")).collect();
        let (count, reason) = described("rtsp://u:p@cam/1", &offers);
        assert!(
            count == 1 && reason.contains("rejects this user"),
            "{count} {reason}"
        );
        let stale: Vec<String> = (0..9).map(|n| offer(&n.to_string(), ", stale=true")).collect();
        assert_eq!(described("rtsp://u:p@cam/1", &stale).0, 2);
        let (count, reason) = described("rtsp://cam/1", &offers);
        assert!(count == 0 && reason.contains("asks for a user"), "{reason}");
        let unknown = "WWW-Authenticate: Digest algorithm=SHA-512-256, nonce=\"n\"\r\n".to_owned();
        let (_, reason) = described("rtsp://u:p@cam/1", &[unknown]);
        assert!(reason.contains("offers Digest by SHA-512-256"), "{reason}");
    }

    #[test]
    fn bodies_of_answered_challenges_are_left_out() {
        let mut session = session("rtsp://u:p@cam/1");
        ask(&mut session, "DESCRIBE", "/1", 1);
        let body = format!("{}Content-Length: 5\r\n", offer("n", ""));
        let (to_ffmpeg, again) = answer(&mut session, "401 Unauthorized", 1, &body);
        assert!(to_ffmpeg.is_empty() && !again.is_empty());
        let mut outbox = Outbox::default();
        let bytes = b"$abc\nRTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n$\0\0\x01x";
        session.on_camera(bytes, &mut outbox).unwrap();
        assert_eq!(outbox.to_ffmpeg, b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n$\0\0\x01x");
    }

    #[test]
    fn redirects_are_followed_within_the_host_and_at_most_five_times() {
        let moved = |session: &mut Session, location: &str| {
            let mut outbox = Outbox::default();
            let response = format!("RTSP/1.0 302 Found\r\nCSeq: 1\r\nLocation: {location}\r\n\r\nrest");
            session.on_camera(response.as_bytes(), &mut outbox).map(|moved| {
                assert!(moved && outbox.to_ffmpeg.is_empty());
                session.on_moved(&mut outbox);
                String::from_utf8(outbox.to_camera).unwrap()
            })
        };
        let mut followed = session("rtsp://u:p@cam/1");
        ask(&mut followed, "DESCRIBE", "/1", 1);
        answer(&mut followed, "401 Unauthorized", 1, &offer("n", ""));
        let again = moved(&mut followed, "rtsps://Cam:9/2/").unwrap();
        assert_eq!(again, "DESCRIBE rtsps://Cam:9/2/ RTSP/1.0\r\nCSeq: 1\r\n\r\n");
        assert_eq!(followed.target().place(), ("Cam", 9));
        let next = ask(&mut followed, "SETUP", "/1/track", 2);
        assert!(next.starts_with("SETUP rtsps://Cam:9/2/track RTSP"), "{next}");
        for location in [
            "rtsp://other/1",
            "rtsp://cam/1",
            "/2",
            "rtsps://cam@other/1",
            "rtsps://cam/1 RTSP/1.0",
        ] {
            let mut session = session("rtsps://cam/1");
            ask(&mut session, "DESCRIBE", "/1", 1);
            assert!(moved(&mut session, location).is_err(), "{location}");
        }
        let mut looped = session("rtsp://cam/1");
        ask(&mut looped, "DESCRIBE", "/1", 1);
        for _ in 0..5 {
            assert!(moved(&mut looped, "rtsp://cam/1").is_ok());
        }
        assert!(
            moved(&mut looped, "rtsp://cam/1")
                .unwrap_err()
                .contains("more than 5")
        );
    }

    #[test]
    fn another_program_gets_no_session() {
        for bytes in [
            &b"OPTIONS rtsp://127.0.0.1:7/1 RTSP/1.0\r\n\r\n"[..],
            b"$\0\0\0",
            b"GET / HTTP/1.1\r\n\r\n",
        ] {
            let mut outbox = Outbox::default();
            assert!(session("rtsp://u:p@cam/1").on_ffmpeg(bytes, &mut outbox).is_err());
            assert!(outbox.to_camera.is_empty());
        }
    }

    #[test]
    fn addresses_are_taken_apart() {
        let of = |address: &str| {
            let (target, user) = Target::of(address).unwrap();
            let (host, port) = target.place();
            format!("{host} {port} {} {}", target.path, user.unwrap_or_default())
        };
        assert_eq!(of("rtsp://u:p@x@cam/1?a"), "cam 554 /1?a u:p@x");
        assert_eq!(of("rtsps://[fe80::1]"), "fe80::1 322  ");
        assert_eq!(of("rtsps://[fe80::1]:9/x"), "fe80::1 9 /x ");
        for wrong in [
            "cam/1",
            "rtsp://",
            "rtsp://u@/x",
            "rtsp://cam/ 1",
            "rtsp://cam/\r\n",
        ] {
            assert!(Target::of(wrong).is_none(), "{wrong}");
        }
    }
}

//! Streams that are sent to a media server. FFmpeg's own receivers stand for the server.

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use ffmpeg_next::{Dictionary, Packet, codec, format};
use weir_flow::{DecodeLevel, PacketObserver, Settings, Sink, Value};
use weir_operators::sinks::sink;

use crate::common::{delivery, picture, shipped};
use crate::packets::observe;

/// Longest wait for a server to be reached, which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Packets that a server waits for.
const WANTED: usize = 40;

fn push(keys: &[(&str, Value)]) -> Box<dyn Sink> {
    let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    sink("push", &Settings(keys.collect())).unwrap().open().unwrap()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// A port that nothing listens at.
fn free_port() -> u16 {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    UdpSocket::bind(("127.0.0.1", port)).map_or_else(|_| free_port(), |_| port)
}

/// Codec and size of the stream that a server received.
#[derive(Debug, PartialEq)]
struct Received {
    codec: codec::Id,
    packets: usize,
}

/// A server that takes one stream, up to some packets of it.
fn server(address: &str, options: &'static [(&str, &str)]) -> Receiver<Received> {
    let (sender, receiver) = mpsc::channel();
    let address = address.to_owned();
    std::thread::spawn(move || {
        ffmpeg_next::init().unwrap();
        let mut dictionary = Dictionary::new();
        for (key, value) in options {
            dictionary.set(key, value);
        }
        let mut input = format::input_with_dictionary(&address, dictionary).unwrap();
        let codec = input.streams().next().unwrap().parameters().id();
        let mut packets = 0;
        while packets < WANTED && Packet::empty().read(&mut input).is_ok() {
            packets += 1;
        }
        let _ = sender.send(Received { codec, packets });
    });
    receiver
}

/// Sends the shipped clip again and again, until the server has what it wants.
fn send_until<T>(sink: &mut Box<dyn Sink>, received: &Receiver<T>) -> T {
    let (clip, _) = observe(&shipped(), DecodeLevel::ALL);
    let observer = sink.packet_observer().unwrap();
    let stream: Arc<str> = "north door".into();
    observer.on_format(&stream, &clip.formats[0]);
    let mut origin_ms = 0.0;
    for _ in 0..PATIENCE.as_millis() / 20 {
        for packet in &clip.packets {
            let mut packet = packet.clone();
            packet.pts_ms += origin_ms;
            packet.dts_ms += origin_ms;
            observer.on_packet(&stream, &packet);
        }
        origin_ms += 12_000.0;
        if let Ok(received) = received.recv_timeout(Duration::from_millis(20)) {
            return received;
        }
    }
    panic!("the server has no stream: {:?}", sink.outage())
}

#[test]
fn packets_arrive_as_they_were_and_the_sink_connects_by_itself() {
    for (scheme, path, options) in [
        ("rtsp", "/{stream}", &[("rtsp_flags", "listen")][..]),
        ("rtmp", "/live/{stream}", &[("listen", "1")][..]),
    ] {
        let port = free_port();
        let url = format!("{scheme}://127.0.0.1:{port}{path}");
        let mut sink = push(&[("url", text(&url))]);
        let address = url.replace("{stream}", "north%20door");
        let received = send_until(&mut sink, &server(&address, options));
        assert_eq!(received.codec, codec::Id::H264, "{scheme}");
        assert_eq!(received.packets, WANTED, "{scheme}");
        sink.finish().unwrap();
        let counts = sink.counts();
        assert!(
            counts["connections"] >= 1 && counts["packets_sent"] as usize >= WANTED,
            "{counts:?}"
        );
    }
}

#[test]
fn frames_are_sent_with_objects_drawn_on_them() {
    let port = free_port();
    let url = format!("rtsp://127.0.0.1:{port}/live");
    let mut sink = push(&[("url", text(&url)), ("boxes", Value::Flag(true))]);
    assert!(sink.packet_observer().is_none() && sink.encodes_video());
    let received = server(&url, &[("rtsp_flags", "listen")]);
    let mut index = 0;
    let taken = loop {
        for _ in 0..50 {
            let frame = delivery(
                "north",
                index,
                index as f64 * 40.0,
                picture(index, 128, 96),
                Vec::new(),
            );
            sink.accept(&frame).unwrap();
            index += 1;
        }
        if let Ok(taken) = received.recv_timeout(Duration::from_millis(20)) {
            break taken;
        }
        assert!(
            u128::from(index) < PATIENCE.as_millis() * 5,
            "{:?}",
            sink.outage()
        );
    };
    assert_eq!((taken.codec, taken.packets), (codec::Id::H264, WANTED));
    sink.finish().unwrap();
}

#[test]
fn a_server_that_is_away_costs_packets_and_has_its_reason() {
    let port = free_port();
    let url = format!("rtsp://weir:S3CR3T@127.0.0.1:{port}/live");
    let mut sink = push(&[("url", text(&url))]);
    let (clip, _) = observe(&shipped(), DecodeLevel::ALL);
    let observer: Arc<dyn PacketObserver> = sink.packet_observer().unwrap();
    assert!(
        observer.is_view(),
        "the packets of cameras with privacy are withheld"
    );
    let stream: Arc<str> = "north".into();
    observer.on_format(&stream, &clip.formats[0]);
    observer.on_packet(&stream, &clip.packets[0]);
    while sink.counts()["packets_lost"] == 0 {
        std::thread::yield_now();
    }
    let outage = sink.outage().unwrap();
    assert!(
        outage.contains("nothing listens there") && !outage.contains("S3CR3T"),
        "{outage}"
    );
    let other: Arc<str> = "south".into();
    observer.on_packet(&other, &clip.packets[0]);
    observer.on_refused(&stream, "its pictures hide what its video shows");
    assert_eq!(sink.outage().unwrap(), "its pictures hide what its video shows");
    sink.finish().unwrap();
    assert_eq!(sink.counts()["packets_sent"], 0);
}

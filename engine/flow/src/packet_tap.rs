//! Tap of a stream, between the source that reads packets and their observers. It converts packets to the
//! time base of frames, which is known once the first frame is out; until then it holds packets back. Observers that want sound
//! get packets in the order of time.

mod idle_frames;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::interleave::Interleaver;
use crate::packet::{Packet, PacketFormat, PacketObserver};

/// Packets kept until the first frame is out, in number and bytes. A decoder delays by a few frames.
const MAX_HELD: usize = 256;
const MAX_HELD_BYTES: usize = 16 << 20;

/// Change of the offset of packets to frames, in milliseconds, that is a jump of time stamps. Smaller ones are corrections of
/// single frames.
const MIN_JUMP_MS: f64 = 500.0;

/// Longest step in milliseconds between two pictures after a jump that is believed before the next key frame.
const MAX_STEP_MS: f64 = 1_000.0;

/// Step in milliseconds that takes the place of one that is not believed.
const USUAL_STEP_MS: f64 = 40.0;

/// Observers that packets of a stream are withheld from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Withheld {
    /// All observers get packets.
    #[default]
    FromNone,
    /// Those that show packets to people: pictures of the camera hide something, and its packets would show it.
    FromViews,
    /// All: the camera is private.
    FromAll,
}

impl Withheld {
    const PRIVATE: &str = "the camera is private";
    const MASKED: &str = "its pictures hide what its video shows";

    fn is_from(self, observer: &dyn PacketObserver) -> bool {
        match self {
            Self::FromNone => false,
            Self::FromViews => observer.is_view(),
            Self::FromAll => true,
        }
    }

    fn refuse(self, observer: &dyn PacketObserver, stream: &Arc<str>) {
        match self {
            Self::FromNone => {}
            Self::FromViews => observer.on_refused(stream, Self::MASKED),
            Self::FromAll => observer.on_private(stream, Self::PRIVATE),
        }
    }
}

/// See the module. Its methods may be called by any thread.
pub struct PacketTap {
    stream: Arc<str>,
    withheld: Withheld,
    /// The time in milliseconds since 1970 (UTC).
    utc_ms: Box<dyn Fn() -> u64 + Send + Sync>,
    is_observed: AtomicBool,
    wants_sound: AtomicBool,
    wants_idle: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Format of the open source, or the reason why it has none.
    format: Option<Result<Arc<PacketFormat>, Arc<str>>>,
    /// Offset in milliseconds that is added to the container's timestamps.
    offset_ms: Option<f64>,
    jump: Option<Jump>,
    /// Decoding time of the last picture, on the time base of frames.
    last_dts_ms: Option<f64>,
    /// Packets by the container's timestamps.
    held: VecDeque<Packet>,
    held_bytes: usize,
    /// Packets for observers that want sound.
    interleaver: Interleaver,
    /// Decoding times, as bits, of key frames in the interleaver before which the clock jumped.
    jumps: Vec<u64>,
    observers: Vec<Observed>,
}

/// A jump of time stamps, from when it is known to the next key frame: no file can begin before that. Packets until then belong to
/// the file before the jump, and their times continue.
struct Jump {
    /// Offset from the key frame on; `None` if the source has corrected the time stamps.
    offset_ms: Option<f64>,
}

struct Observed {
    observer: Arc<dyn PacketObserver>,
    /// Given up when it is gone.
    subscription: Weak<()>,
    /// True if it received a key frame since the last format.
    has_begun: bool,
    wants_sound: bool,
}

/// Ends the observation when it is dropped.
#[must_use = "the observation ends when this is dropped"]
#[derive(Debug)]
pub struct PacketSubscription {
    _alive: Arc<()>,
}

impl PacketTap {
    /// The tap of the stream of that name; `utc_ms` is the time in milliseconds since 1970 (UTC).
    pub fn new(stream: &str, utc_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Arc<Self> {
        Self::withholding(Withheld::FromNone, stream, utc_ms)
    }

    /// As [`PacketTap::new`], with observers that get no packets.
    pub fn withholding(
        withheld: Withheld,
        stream: &str,
        utc_ms: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            stream: stream.into(),
            withheld,
            utc_ms: Box::new(utc_ms),
            is_observed: AtomicBool::new(false),
            wants_sound: AtomicBool::new(false),
            wants_idle: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    /// Observes the packets of the stream until the subscription is dropped. The observer gets the format at
    /// once if it is known, and packets from the next key frame on.
    pub fn observe(&self, observer: Arc<dyn PacketObserver>) -> PacketSubscription {
        let alive = Arc::new(());
        if self.withheld.is_from(&*observer) {
            // It is no observer: what nobody else observes is not copied.
            self.withheld.refuse(&*observer, &self.stream);
            return PacketSubscription { _alive: alive };
        }
        let mut state = self.lock();
        match &state.format {
            Some(Ok(format)) => observer.on_format(&self.stream, format),
            Some(Err(reason)) => observer.on_refused(&self.stream, reason),
            None => {}
        }
        let wants_sound = observer.wants_sound();
        self.wants_idle.fetch_or(observer.is_view(), Ordering::Relaxed);
        state.observers.push(Observed {
            observer,
            subscription: Arc::downgrade(&alive),
            has_begun: false,
            wants_sound,
        });
        self.is_observed.store(true, Ordering::Relaxed);
        self.wants_sound.fetch_or(wants_sound, Ordering::Relaxed);
        PacketSubscription { _alive: alive }
    }

    /// True if packets have observers; otherwise they need not be handed over.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        self.is_observed.load(Ordering::Relaxed)
    }

    /// True if an observer wants sound; otherwise it need not be handed over.
    #[must_use]
    pub fn wants_sound(&self) -> bool {
        self.wants_sound.load(Ordering::Relaxed)
    }

    /// The source was opened: its packets have this format, or cannot be observed for a reason.
    pub fn on_open(&self, format: Result<PacketFormat, String>) {
        let mut state = self.lock();
        state.release(&self.stream);
        (state.offset_ms, state.jump, state.last_dts_ms) = (None, None, None);
        state.clear_held();
        state.format = Some(format.map(Arc::new).map_err(Into::into));
        state.announce(&self.stream);
    }

    /// The packets from now on have another format, on the same time base.
    pub fn on_format(&self, format: PacketFormat) {
        let mut state = self.lock();
        state.release(&self.stream);
        state.clear_held();
        state.format = Some(Ok(Arc::new(format)));
        state.announce(&self.stream);
    }

    /// The clock of the camera jumped before the next packet, whose time stamps are corrected: its times continue. A jump is
    /// reported with the next key frame.
    pub fn on_jump(&self) {
        self.lock().jump.get_or_insert(Jump { offset_ms: None });
    }

    /// Handles a packet with the container's timestamps.
    pub fn on_packet(&self, mut packet: Packet) {
        packet.time_ms = (self.utc_ms)();
        let mut state = self.lock();
        let is_observed = state.retain_alive();
        if self.wants_sound() && !state.wants_sound() {
            self.wants_sound.store(false, Ordering::Relaxed);
            (state.interleaver, state.jumps) = (Interleaver::default(), Vec::new());
        }
        if !is_observed {
            self.is_observed.store(false, Ordering::Relaxed);
            state.clear_held();
            return;
        }
        if !matches!(state.format, Some(Ok(_))) {
            return;
        }
        match state.offset_ms {
            Some(offset_ms) => {
                let offset_ms = state.after_jump(&self.stream, &packet, offset_ms);
                state.publish(&self.stream, packet, offset_ms);
            }
            None => state.hold(packet),
        }
    }

    /// The source ends or is closed: packets that wait for others are handed over.
    pub fn on_end(&self) {
        self.lock().release(&self.stream);
    }

    /// Handles a decoded frame: `stamp_ms` is its timestamp in the container, `pts_ms` its media time.
    pub fn on_frame(&self, stamp_ms: f64, pts_ms: f64) {
        let offset_ms = pts_ms - stamp_ms;
        if !self.is_observed() || !offset_ms.is_finite() {
            return;
        }
        let mut state = self.lock();
        if let Some(before) = state.offset_ms {
            let jump = state.jump.as_ref();
            let known = jump.and_then(|jump| jump.offset_ms).unwrap_or(before);
            if (offset_ms - known).abs() >= MIN_JUMP_MS {
                let offset_ms = Some(offset_ms);
                state.jump = Some(Jump { offset_ms });
            }
            return;
        }
        state.offset_ms = Some(offset_ms);
        state.held_bytes = 0;
        for packet in std::mem::take(&mut state.held) {
            state.publish(&self.stream, packet, offset_ms);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for PacketTap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PacketTap({})", self.stream)
    }
}

impl State {
    /// Drops observers that are gone; says whether any is left.
    fn retain_alive(&mut self) -> bool {
        self.observers
            .retain(|observed| observed.subscription.strong_count() > 0);
        !self.observers.is_empty()
    }

    fn wants_sound(&self) -> bool {
        self.observers.iter().any(|observed| observed.wants_sound)
    }

    fn announce(&mut self, stream: &Arc<str>) {
        self.retain_alive();
        for observed in &mut self.observers {
            observed.has_begun = false;
            match &self.format {
                Some(Ok(format)) => observed.observer.on_format(stream, format),
                Some(Err(reason)) => observed.observer.on_refused(stream, reason),
                None => {}
            }
        }
    }

    /// Offset of the next packet. After a jump, the next key frame begins a file with the new offset; until then times continue.
    fn after_jump(&mut self, stream: &Arc<str>, packet: &Packet, offset_ms: f64) -> f64 {
        match self.jump.take_if(|_| packet.key) {
            Some(jump) => self.end_jump(stream, &jump, packet.dts_ms, offset_ms),
            None if self.jump.is_some() && !packet.sound => self.continue_times(packet, offset_ms),
            None => offset_ms,
        }
    }

    /// Reports a jump before its key frame, which is decoded at `dts_ms`, and returns the offset of that key frame.
    fn end_jump(&mut self, stream: &Arc<str>, jump: &Jump, dts_ms: f64, offset_ms: f64) -> f64 {
        let Some(new_ms) = jump.offset_ms else {
            let interleaves = self.interleaves();
            for observed in &self.observers {
                if !(interleaves && observed.wants_sound) {
                    observed.observer.on_jump(stream);
                }
            }
            // Sound before the key frame belongs to the file before it, and may come after it.
            if interleaves {
                self.jumps.push((dts_ms + offset_ms).to_bits());
            }
            return offset_ms;
        };
        // What comes has times that do not continue: the sound so far ends here.
        self.release(stream);
        self.announce(stream);
        self.offset_ms = Some(new_ms);
        new_ms
    }

    /// Offset of a picture between a jump and its key frame; another one if the step from the last picture is not believed.
    fn continue_times(&mut self, packet: &Packet, offset_ms: f64) -> f64 {
        let Some(last_ms) = self.last_dts_ms else {
            return offset_ms;
        };
        let step_ms = packet.dts_ms + offset_ms - last_ms;
        if step_ms > 0.0 && step_ms <= MAX_STEP_MS {
            return offset_ms;
        }
        let continuing_ms = last_ms + USUAL_STEP_MS - packet.dts_ms;
        self.offset_ms = Some(continuing_ms);
        continuing_ms
    }

    fn publish(&mut self, stream: &Arc<str>, mut packet: Packet, offset_ms: f64) {
        packet.pts_ms += offset_ms;
        packet.dts_ms += offset_ms;
        if !packet.sound {
            self.last_dts_ms = Some(packet.dts_ms);
        }
        let interleaves = self.interleaves();
        if !packet.sound {
            self.deliver(stream, &packet, |observed| !(interleaves && observed.wants_sound));
        }
        if interleaves {
            self.interleaver.push(packet);
            while let Some(packet) = self.interleaver.next() {
                self.deliver_in_step(stream, &packet);
            }
        }
    }

    /// Whether observers that want sound get packets by way of the interleaver.
    fn interleaves(&self) -> bool {
        let has_sound = matches!(&self.format, Some(Ok(format)) if format.sound.is_some());
        has_sound && self.wants_sound()
    }

    /// Hands a packet over to observers that want sound, after a jump before it.
    fn deliver_in_step(&mut self, stream: &Arc<str>, packet: &Packet) {
        let is_after_jump = |dts: &u64| packet.key && *dts == packet.dts_ms.to_bits();
        if let Some(at) = self.jumps.iter().position(is_after_jump) {
            self.jumps.remove(at);
            let observers = self.observers.iter().filter(|observed| observed.wants_sound);
            observers.for_each(|observed| observed.observer.on_jump(stream));
        }
        self.deliver(stream, packet, |observed| observed.wants_sound);
    }

    /// Hands over the packets that wait for others.
    fn release(&mut self, stream: &Arc<str>) {
        while let Some(packet) = self.interleaver.pop() {
            self.deliver_in_step(stream, &packet);
        }
        (self.interleaver, self.jumps) = (Interleaver::default(), Vec::new());
    }

    fn deliver(&mut self, stream: &Arc<str>, packet: &Packet, is_for: impl Fn(&Observed) -> bool) {
        for observed in self.observers.iter_mut().filter(|observed| is_for(observed)) {
            observed.has_begun |= packet.key;
            if observed.has_begun {
                observed.observer.on_packet(stream, packet);
            }
        }
    }

    fn hold(&mut self, packet: Packet) {
        self.held_bytes += packet.data.len();
        self.held.push_back(packet);
        if self.held.len() > MAX_HELD || self.held_bytes > MAX_HELD_BYTES {
            // What comes next begins with a key frame again.
            self.clear_held();
        }
    }

    fn clear_held(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{PacketCodec, SoundCodec, SoundFormat};

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Seen {
        fn take(&self) -> String {
            std::mem::take(&mut *self.0.lock().expect("not poisoned")).join(" ")
        }

        fn push(&self, text: String) {
            self.0.lock().expect("not poisoned").push(text);
        }
    }

    impl PacketObserver for Seen {
        fn on_format(&self, _stream: &Arc<str>, format: &Arc<PacketFormat>) {
            self.push(format.codec.name().to_owned());
        }

        fn on_jump(&self, _stream: &Arc<str>) {
            self.push("jump".to_owned());
        }

        fn on_packet(&self, _stream: &Arc<str>, packet: &Packet) {
            let key = if packet.key { "K" } else { "" };
            self.push(format!(
                "{key}{}/{}@{}",
                packet.pts_ms, packet.dts_ms, packet.time_ms
            ));
        }

        fn on_refused(&self, _stream: &Arc<str>, reason: &str) {
            self.push(reason.to_owned());
        }
    }

    fn format() -> Result<PacketFormat, String> {
        Ok(PacketFormat {
            codec: PacketCodec::H264,
            extradata: Arc::new([]),
            width: 64,
            height: 48,
            turn: None,
            sample_aspect: None,
            sound: None,
        })
    }

    fn packet(pts_ms: f64, key: bool) -> Packet {
        Packet {
            data: Arc::new([0; 4]),
            pts_ms,
            dts_ms: pts_ms - 5.0,
            duration_ms: 40.0,
            key,
            sound: false,
            time_ms: 0,
        }
    }

    #[test]
    fn another_format_begins_with_a_key_frame_on_the_same_time_base() {
        let (tap, seen) = (PacketTap::new("north", || 7), Arc::<Seen>::default());
        let _subscription = tap.observe(seen.clone());
        tap.on_open(format());
        tap.on_packet(packet(1_000.0, true));
        tap.on_frame(1_000.0, 0.0);
        seen.take();
        tap.on_format(PacketFormat {
            codec: PacketCodec::H265,
            ..format().unwrap()
        });
        tap.on_packet(packet(1_040.0, false));
        tap.on_packet(packet(1_080.0, true));
        assert_eq!(seen.take(), "h265 K80/75@7");
    }

    #[test]
    fn packets_have_the_times_of_frames_from_the_first_on() {
        let (tap, seen) = (PacketTap::new("north", || 7), Arc::<Seen>::default());
        let _observed = tap.observe(Arc::clone(&seen) as _);
        tap.on_open(format());
        tap.on_packet(packet(1000.0, true));
        tap.on_packet(packet(1040.0, false));
        assert_eq!(seen.take(), "h264");
        tap.on_frame(1000.0, 0.0);
        assert_eq!(seen.take(), "K0/-5@7 40/35@7");
        // A corrected timestamp of a frame is no jump.
        tap.on_frame(1040.0, 41.0);
        tap.on_packet(packet(1080.0, false));
        assert_eq!(seen.take(), "80/75@7");
    }

    #[test]
    fn after_a_reconnect_packets_begin_with_a_key_frame() {
        let (tap, seen) = (PacketTap::new("north", || 0), Arc::<Seen>::default());
        let _observed = tap.observe(Arc::clone(&seen) as _);
        tap.on_open(format());
        tap.on_frame(0.0, 0.0);
        tap.on_packet(packet(0.0, true));
        tap.on_open(format());
        tap.on_packet(packet(0.0, false));
        tap.on_packet(packet(40.0, true));
        tap.on_frame(40.0, 9000.0);
        assert_eq!(seen.take(), "h264 K0/-5@0 h264 K9000/8995@0");
        tap.on_open(Err("it is mjpeg".to_owned()));
        tap.on_packet(packet(0.0, true));
        assert_eq!(seen.take(), "it is mjpeg");
    }

    #[test]
    fn a_jump_is_reported_with_the_next_key_frame_and_no_packet_before_it_is_lost() {
        let (tap, seen) = (PacketTap::new("north", || 0), Arc::<Seen>::default());
        let _observed = tap.observe(Arc::clone(&seen) as _);
        tap.on_open(format());
        tap.on_frame(0.0, 0.0);
        tap.on_packet(packet(0.0, true));
        // The source has corrected the time stamps, and the packet with the jump is a key frame.
        tap.on_jump();
        tap.on_packet(packet(40.0, true));
        assert_eq!(seen.take(), "h264 K0/-5@0 jump K40/35@0");
        tap.on_jump();
        tap.on_packet(packet(80.0, false));
        assert_eq!(seen.take(), "80/75@0");
        tap.on_packet(packet(120.0, true));
        assert_eq!(seen.take(), "jump K120/115@0");
        // A jump that only the times of frames show: ahead, back, and time stamps that stand still.
        for (stamp_ms, pts_ms, between) in [
            (50_000.0, 160.0, "160/155@0 200/195@0"),
            (90.0, 240.0, "280/275@0 320/315@0"),
        ] {
            tap.on_frame(stamp_ms, pts_ms);
            tap.on_packet(packet(stamp_ms, false));
            tap.on_packet(packet(stamp_ms, false));
            assert_eq!(seen.take(), between);
            tap.on_packet(packet(stamp_ms + 80.0, true));
            assert_eq!(
                seen.take(),
                format!("h264 K{}/{}@0", pts_ms + 80.0, pts_ms + 75.0)
            );
        }
        // A clock that runs fast: time stamps continue until the key frame.
        tap.on_frame(170.0, -300.0);
        tap.on_packet(packet(210.0, false));
        tap.on_packet(packet(250.0, true));
        assert_eq!(seen.take(), "360/355@0 h264 K-220/-225@0");
    }

    #[test]
    fn who_comes_late_begins_with_the_next_key_frame_and_who_left_gets_nothing() {
        let (tap, late) = (PacketTap::new("north", || 0), Arc::<Seen>::default());
        tap.on_open(format());
        assert!(!tap.is_observed());
        let first = tap.observe(Arc::<Seen>::default());
        tap.on_frame(0.0, 0.0);
        tap.on_packet(packet(0.0, true));
        let observed = tap.observe(Arc::clone(&late) as _);
        tap.on_packet(packet(40.0, false));
        tap.on_packet(packet(80.0, true));
        assert_eq!(late.take(), "h264 K80/75@0");
        drop(observed);
        tap.on_packet(packet(120.0, true));
        assert_eq!(late.take(), "");
        drop(first);
        tap.on_packet(packet(160.0, true));
        assert!(!tap.is_observed(), "nothing is copied any more");
    }

    #[test]
    fn packets_are_withheld_from_views_or_from_all() {
        #[derive(Default)]
        struct View(Seen);
        impl PacketObserver for View {
            fn on_format(&self, stream: &Arc<str>, format: &Arc<PacketFormat>) {
                self.0.on_format(stream, format);
            }
            fn on_packet(&self, stream: &Arc<str>, packet: &Packet) {
                self.0.on_packet(stream, packet);
            }
            fn on_refused(&self, stream: &Arc<str>, reason: &str) {
                self.0.on_refused(stream, reason);
            }
            fn is_view(&self) -> bool {
                true
            }
        }
        for (withheld, recorded) in [
            (Withheld::FromViews, "h264 K0/-5@0"),
            (Withheld::FromAll, "the camera is private"),
        ] {
            let tap = PacketTap::withholding(withheld, "north", || 0);
            let (seen, view) = (Arc::<Seen>::default(), Arc::<View>::default());
            let _recording = tap.observe(Arc::clone(&seen) as _);
            let _shown = tap.observe(Arc::clone(&view) as _);
            tap.on_open(format());
            tap.on_frame(0.0, 0.0);
            tap.on_packet(packet(0.0, true));
            assert_eq!(seen.take(), recorded);
            let shown = view.0.take();
            assert!(!shown.contains("h264") && !shown.contains('K'), "{shown}");
            assert_eq!(tap.is_observed(), withheld == Withheld::FromViews);
        }
    }

    #[test]
    fn what_is_kept_without_a_frame_is_bounded() {
        let (tap, seen) = (PacketTap::new("north", || 0), Arc::<Seen>::default());
        let _observed = tap.observe(Arc::clone(&seen) as _);
        tap.on_open(format());
        for index in 0..MAX_HELD + 2 {
            tap.on_packet(packet(index as f64, index == 0));
        }
        assert!(tap.lock().held.len() <= 2);
        tap.on_frame(0.0, 0.0);
        assert_eq!(
            seen.take(),
            "h264",
            "without their key frame the rest is of no use"
        );
    }

    #[test]
    fn only_observers_that_want_sound_get_it_and_their_pictures_wait_for_it() {
        #[derive(Default)]
        struct Listener(Seen);
        impl PacketObserver for Listener {
            fn on_format(&self, stream: &Arc<str>, format: &Arc<PacketFormat>) {
                self.0.on_format(stream, format);
            }
            fn on_packet(&self, stream: &Arc<str>, packet: &Packet) {
                if packet.sound {
                    self.0.push("sound".to_owned());
                }
                self.0.on_packet(stream, packet);
            }
            fn on_jump(&self, stream: &Arc<str>) {
                self.0.on_jump(stream);
            }

            fn wants_sound(&self) -> bool {
                true
            }
        }
        let (tap, seen) = (PacketTap::new("north", || 0), Arc::<Seen>::default());
        let _watched = tap.observe(Arc::clone(&seen) as _);
        assert!(!tap.wants_sound());
        let listener = Arc::<Listener>::default();
        let heard = tap.observe(Arc::clone(&listener) as _);
        assert!(tap.wants_sound());
        let sound = SoundFormat {
            codec: SoundCodec::Aac,
            extradata: Arc::new([0x12, 0x10]),
            rate: 44_100,
            channels: 2,
        };
        tap.on_open(format().map(|format| PacketFormat {
            sound: Some(sound),
            ..format
        }));
        let piece = |pts_ms: f64| Packet {
            dts_ms: pts_ms,
            sound: true,
            ..packet(pts_ms, false)
        };
        tap.on_packet(piece(90.0));
        tap.on_packet(packet(100.0, true));
        tap.on_frame(100.0, 0.0);
        tap.on_packet(packet(140.0, false));
        assert_eq!(seen.take(), "h264 K0/-5@0 40/35@0");
        assert_eq!(
            listener.0.take(),
            "h264",
            "sound before the first picture is left out"
        );
        tap.on_packet(piece(113.0));
        tap.on_packet(piece(136.0));
        assert_eq!(listener.0.take(), "K0/-5@0 sound 13/13@0 40/35@0");
        // Sound before a jump comes after the key frame of the jump, and belongs to the file before it.
        tap.on_jump();
        tap.on_packet(packet(180.0, true));
        assert_eq!(seen.take(), "jump K80/75@0");
        tap.on_packet(piece(159.0));
        tap.on_packet(piece(182.0));
        assert_eq!(listener.0.take(), "sound 36/36@0 sound 59/59@0 jump K80/75@0");
        tap.on_end();
        assert_eq!(listener.0.take(), "sound 82/82@0");
        assert_eq!(seen.take(), "");
        drop(heard);
        tap.on_packet(packet(220.0, false));
        assert!(!tap.wants_sound() && tap.is_observed());
    }
}

//! The places of connections: who has them, and who gives one up for another connection.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// WebSockets at a time whose client has not shown the token yet.
pub(crate) const MAX_UNCHECKED: usize = 64;

/// Longest time that a client that has shown the token may neither send nor take anything before its connection may be closed for
/// another one.
const MIN_IDLE: Duration = Duration::from_secs(1);

/// Longest time that a connection may neither send nor take anything.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time of the head of a request, from the connection or from its first byte on.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Ready once a connection has to give up its place.
pub(crate) type GivenUp = oneshot::Receiver<()>;

/// Work of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The head of a request comes, since then.
    Head(Instant),
    /// A request is carried out.
    Busy,
    /// It is answered, or waits for the next request.
    Answered,
    /// It is a WebSocket whose client is to send the token, since then.
    Unchecked(Instant),
    /// It is a WebSocket.
    Upgraded,
}

struct Holder {
    address: IpAddr,
    phase: Phase,
    /// Its client has shown that it may ask.
    is_trusted: bool,
    progress_at: Instant,
    /// Dropped where the connection has to give its place up.
    _keep: oneshot::Sender<()>,
}

impl Holder {
    /// Rank among connections: of two, the one with the lower rank gives up its place.
    fn rank(&self) -> (u8, Instant) {
        match self.phase {
            Phase::Head(since) | Phase::Unchecked(since) => (0, since),
            Phase::Answered => (1, self.progress_at),
            Phase::Busy | Phase::Upgraded => (2, self.progress_at),
        }
    }
}

/// The connections that there may be.
pub(crate) struct Places {
    max: usize,
    taken: Mutex<Taken>,
}

/// Those that there are, by number.
#[derive(Default)]
struct Taken {
    next: u64,
    holders: BTreeMap<u64, Holder>,
}

/// The place of one connection; free again when this is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    address: IpAddr,
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            taken: Mutex::default(),
        }
    }

    /// A place for a connection from that address. Where all are taken, another connection gives up its place: clients without
    /// the token keep no one else from an answer, and one that has it gives up its place if it has been idle.
    pub(crate) fn take(places: &Arc<Self>, address: IpAddr, now: Instant) -> Option<(Place, GivenUp)> {
        let mut taken = places.lock();
        if taken.holders.len() >= places.max {
            let number = taken.heaviest(|holder| !holder.is_trusted).or_else(|| {
                let holders = taken.holders.iter();
                let (number, holder) = holders.min_by_key(|(_, holder)| holder.progress_at)?;
                (now.duration_since(holder.progress_at) >= MIN_IDLE).then_some(*number)
            })?;
            taken.holders.remove(&number);
        }
        let number = taken.next;
        taken.next += 1;
        let (keep, given_up) = oneshot::channel();
        let holder = Holder {
            address: network(address),
            phase: Phase::Head(now),
            is_trusted: false,
            progress_at: now,
            _keep: keep,
        };
        taken.holders.insert(number, holder);
        drop(taken);
        let place = Place {
            places: Arc::clone(places),
            number,
            address,
        };
        Some((place, given_up))
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Returns the connection to close among those that `counts` accepts: from the address that has most of
    /// them, the one with the lowest rank.
    fn heaviest(&self, counts: impl Fn(&Holder) -> bool) -> Option<u64> {
        let counted = || self.holders.iter().filter(|(_, holder)| counts(holder));
        let mut of_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (_, holder) in counted() {
            *of_address.entry(holder.address).or_default() += 1;
        }
        let most = of_address.values().copied().max()?;
        let heavy = counted().filter(|(_, holder)| of_address.get(&holder.address) == Some(&most));
        heavy
            .min_by_key(|(_, holder)| holder.rank())
            .map(|(number, _)| *number)
    }
}

impl Place {
    /// Returns the address that the connection came from.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Bytes of the client arrived on a connection.
    pub(crate) fn on_read(&self, now: Instant) {
        self.update(|holder| {
            holder.progress_at = now;
            if holder.phase == Phase::Answered {
                holder.phase = Phase::Head(now);
            }
        });
    }

    /// Bytes were sent.
    pub(crate) fn on_written(&self, now: Instant) {
        self.update(|holder| {
            holder.progress_at = now;
            // The head of the next request was sent before the answer was taken.
            if let Phase::Head(since) = &mut holder.phase {
                *since = now;
            }
        });
    }

    /// The head of a request is complete.
    pub(crate) fn on_request(&self) {
        let now = Instant::now();
        self.update(|holder| {
            holder.progress_at = now;
            holder.phase = Phase::Busy;
        });
    }

    /// A request has its answer, which is still to be sent.
    pub(crate) fn on_answered(&self) {
        self.update(|holder| {
            if holder.phase == Phase::Busy {
                holder.phase = Phase::Answered;
            }
        });
    }

    /// The client has shown that it may ask.
    pub(crate) fn trust(&self) {
        self.update(|holder| holder.is_trusted = true);
    }

    /// It becomes a WebSocket, whose client has yet to send the token or not. So many may wait for it at a time; another one beyond
    /// that is closed.
    pub(crate) fn on_upgrade(&self, needs_token: bool) {
        let now = Instant::now();
        let mut taken = self.places.lock();
        if let Some(holder) = taken.holders.get_mut(&self.number) {
            holder.phase = if needs_token {
                Phase::Unchecked(now)
            } else {
                Phase::Upgraded
            };
        }
        let is_unchecked = |holder: &Holder| matches!(holder.phase, Phase::Unchecked(_));
        let unchecked = taken
            .holders
            .values()
            .filter(|holder| is_unchecked(holder))
            .count();
        if unchecked > MAX_UNCHECKED
            && let Some(number) = taken.heaviest(is_unchecked)
        {
            taken.holders.remove(&number);
        }
    }

    /// The time at which the connection is closed unless it makes progress.
    pub(crate) fn deadline(&self) -> Instant {
        let taken = self.places.lock();
        let Some(holder) = taken.holders.get(&self.number) else {
            // Its place is another one's.
            return Instant::now();
        };
        let idle = holder.progress_at + IDLE_TIMEOUT;
        match holder.phase {
            Phase::Head(since) => idle.min(since + HEAD_TIMEOUT),
            _ => idle,
        }
    }

    /// Another connection may have the place.
    pub(crate) fn free(&self) {
        self.places.lock().holders.remove(&self.number);
    }

    fn update(&self, change: impl FnOnce(&mut Holder)) {
        if let Some(holder) = self.places.lock().holders.get_mut(&self.number) {
            change(holder);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.free();
    }
}

/// The address, or the network of 64 bits that it is in: who has one address of IPv6 has all of these.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn other(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn is_open(given_up: &mut GivenUp) -> bool {
        given_up.try_recv() == Err(oneshot::error::TryRecvError::Empty)
    }

    fn take(places: &Arc<Places>, address: IpAddr, now: Instant) -> (Place, GivenUp) {
        Places::take(places, address, now).unwrap()
    }

    #[test]
    fn slow_head_gives_up_its_place_whatever_it_sends() {
        let places = Arc::new(Places::new(3));
        let now = Instant::now();
        let mut slow: Vec<_> = (0..3).map(|_| take(&places, other(1), now)).collect();
        let later = now + Duration::from_millis(300);
        slow.iter().for_each(|(place, _)| place.on_read(later));
        let (own, mut own_given_up) = take(&places, OWN, later);
        own.on_read(later);
        let open = slow
            .iter_mut()
            .filter_map(|(_, given_up)| is_open(given_up).then_some(()));
        assert_eq!(open.count(), 2);
        // The one that has most of them gives up the next one, too, though the other one has waited for longer by then.
        let _next = take(&places, other(2), later);
        assert!(is_open(&mut own_given_up));
    }

    #[test]
    fn head_of_request_ends_in_time_and_an_answered_connection_may_idle() {
        let places = Arc::new(Places::new(3));
        let now = Instant::now();
        let (place, _given_up) = take(&places, OWN, now);
        let slow = now + HEAD_TIMEOUT - Duration::from_millis(1);
        place.on_read(slow);
        assert_eq!(place.deadline(), now + HEAD_TIMEOUT);
        place.on_request();
        place.on_answered();
        place.on_written(slow);
        assert_eq!(place.deadline(), slow + IDLE_TIMEOUT);
        // The next request.
        place.on_read(slow);
        assert_eq!(place.deadline(), slow + HEAD_TIMEOUT);
    }

    #[test]
    fn connections_with_the_token_stay_while_others_come() {
        let places = Arc::new(Places::new(2));
        let now = Instant::now();
        let (trusted, mut kept) = take(&places, OWN, now);
        trusted.trust();
        let (_place, mut first) = take(&places, OWN, now);
        let (second_place, mut second) = take(&places, OWN, now + MIN_IDLE);
        assert!(is_open(&mut kept) && !is_open(&mut first) && is_open(&mut second));
        // Without any that has no token, the one that is idle.
        second_place.trust();
        let (_third, mut third) = take(&places, OWN, now + MIN_IDLE);
        assert!(!is_open(&mut kept) && is_open(&mut second) && is_open(&mut third));
    }

    #[test]
    fn websockets_that_send_no_token_are_bounded_and_keep_no_other_out() {
        let places = Arc::new(Places::new(1_000));
        let now = Instant::now();
        let mut own = take(&places, OWN, now);
        own.0.on_upgrade(true);
        let mut attack = Vec::new();
        for _ in 0..500 {
            let socket = take(&places, other(1), now);
            socket.0.on_upgrade(true);
            attack.push(socket);
        }
        let open = attack
            .iter_mut()
            .filter_map(|(_, given_up)| is_open(given_up).then_some(()));
        assert_eq!(open.count(), MAX_UNCHECKED - 1);
        assert!(is_open(&mut own.1));
        own.0.on_upgrade(false);
        own.0.trust();
        assert!(is_open(&mut own.1));
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}

//! A node among others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TrySendError, bounded};
use weir_tunnel::{Address, CertificateFiles, Tunnel, TunnelError, TunnelSettings};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::qos::CongestionControl;
use zenoh::sample::{Sample, SampleKind};
use zenoh::{Session, Wait};

use crate::config::config;
use crate::counts::{Counters, FabricCounts, count};
use crate::error::FabricError;
use crate::identity::{Identity, Kind, Member};
use crate::members::{Members, Present};
use crate::message::{Message, Urgency};
use crate::settings::{Certificates, Endpoint, FabricSettings};
use crate::transport_id::FleetGate;

/// Maximum number of queued messages per subscription: enough for some hundred nodes that publish at the same
/// time.
const MAX_WAITING: usize = 1_024;
/// Default limit for the bytes of queued messages.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Time limit for leaving when a node is dropped. Messages lost on the way would otherwise delay it by ten
/// seconds.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for other nodes to receive the last bytes of this node.
const LINGER: Duration = Duration::from_secs(1);

/// Node of a fleet; it leaves when it is dropped.
pub struct Fabric {
    identity: Identity,
    max_message_bytes: usize,
    counters: Arc<Counters>,
    /// Zenoh session, until the node leaves.
    session: Mutex<Option<Session>>,
    token: Mutex<Option<LivelinessToken>>,
    /// TLS tunnel in front of the session, if there are certificates; until the node leaves.
    tunnel: Mutex<Option<Tunnel>>,
}

impl Fabric {
    /// Opens a node: it listens, and connects to those that are there; others follow. It is a member only once it has
    /// [announced](Fabric::announce) itself.
    ///
    /// # Errors
    /// [`FabricError`]: settings that cannot be used, an address that is taken.
    pub fn open(identity: Identity, settings: &FabricSettings) -> Result<Self, FabricError> {
        settings.check(&identity)?;
        let tunnel = settings.certificates.as_ref();
        let tunnel = tunnel.map(|certificates| open_tunnel(&identity, settings, certificates));
        let tunnel = tunnel.transpose()?;
        let config = config(&identity, settings, tunnel.as_ref())?;
        let session = zenoh::open(config).wait();
        let session = session.map_err(|error| FabricError::Open(error.to_string()))?;
        Ok(Self {
            identity,
            max_message_bytes: settings.max_message_bytes,
            counters: Arc::default(),
            session: Mutex::new(Some(session)),
            token: Mutex::default(),
            tunnel: Mutex::new(tunnel),
        })
    }

    /// Fleet, kind and name of this node.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Counters of this node since it was opened.
    #[must_use]
    pub fn counts(&self) -> FabricCounts {
        self.counters.counts()
    }

    fn session(&self) -> Result<Session, FabricError> {
        let closed = || FabricError::Send("this node has left the fleet".to_owned());
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.clone().ok_or_else(closed)
    }

    /// Others see that it is there, from now until it leaves.
    ///
    /// # Errors
    /// [`FabricError::Open`].
    pub fn announce(&self) -> Result<(), FabricError> {
        let key = self.identity.alive_key();
        let token = self.session()?.liveliness().declare_token(key).wait();
        let token = token.map_err(|error| FabricError::Open(error.to_string()))?;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(())
    }

    /// Subscribes to membership; this node is a member once it has announced itself.
    ///
    /// # Errors
    /// [`FabricError::Open`].
    pub fn members(&self) -> Result<Members, FabricError> {
        let present: Arc<Mutex<Present>> = Arc::default();
        let (shared, identity) = (Arc::clone(&present), self.identity.clone());
        let counters = Arc::clone(&self.counters);
        let on_token = move |sample: Sample| {
            let Some(member) = identity.member_of_token(sample.key_expr().as_str()) else {
                count(&counters.malformed);
                return;
            };
            let mut present = shared.lock().unwrap_or_else(PoisonError::into_inner);
            match sample.kind() {
                SampleKind::Put => present.on_token(member),
                SampleKind::Delete => present.on_gone(&member),
            }
        };
        let subscriber = self
            .session()?
            .liveliness()
            .declare_subscriber(self.identity.alive_keys())
            .history(true)
            .callback(on_token)
            .wait();
        let subscriber = subscriber.map_err(|error| FabricError::Open(error.to_string()))?;
        Ok(Members::new(present, subscriber))
    }

    /// Sends to all that subscribed to this node's kind and the topic. Blocks while the way to one of them is full.
    ///
    /// # Errors
    /// [`FabricError`]: a message beyond the bound, a node that has left.
    pub fn publish(
        &self,
        topic: &str,
        urgency: Urgency,
        header: &[u8],
        payload: Vec<u8>,
    ) -> Result<(), FabricError> {
        self.put(self.identity.own_key(topic)?, urgency, header, payload)
    }

    /// Sends to one node only, as [`Fabric::publish`]. If the node is absent, the message is lost.
    ///
    /// # Errors
    /// As [`Fabric::publish`].
    pub fn send(
        &self,
        to: &Member,
        urgency: Urgency,
        header: &[u8],
        payload: Vec<u8>,
    ) -> Result<(), FabricError> {
        self.put(self.identity.key_to(to), urgency, header, payload)
    }

    fn put(&self, key: String, urgency: Urgency, header: &[u8], payload: Vec<u8>) -> Result<(), FabricError> {
        let bytes = header.len() + payload.len();
        if bytes > self.max_message_bytes {
            count(&self.counters.too_large);
            return Err(FabricError::TooLarge {
                bytes,
                max_bytes: self.max_message_bytes,
            });
        }
        let session = self.session()?;
        let put = session.put(key, payload);
        let put = put
            .congestion_control(CongestionControl::Block)
            .priority(urgency.priority())
            .express(true);
        let sent = if header.is_empty() {
            put.wait()
        } else {
            put.attachment(header.to_vec()).wait()
        };
        sent.map_err(|error| FabricError::Send(error.to_string()))?;
        count(&self.counters.sent);
        Ok(())
    }

    /// Subscribes to messages of other nodes of a kind on a topic. At most 1,024 messages are queued, with at
    /// most 64 MiB.
    ///
    /// # Errors
    /// [`FabricError::Open`].
    pub fn subscribe(&self, kind: Kind, topic: &str) -> Result<Subscription, FabricError> {
        let keys = self.identity.keys_of_all(kind, topic)?;
        self.listen(keys, MAX_WAITING_BYTES.max(self.max_message_bytes))
    }

    /// Subscribes to messages that other nodes send to this node only. At most 1,024 messages are queued,
    /// with at most `max_waiting_bytes` bytes.
    ///
    /// # Errors
    /// [`FabricError::Open`].
    pub fn inbox(&self, max_waiting_bytes: usize) -> Result<Subscription, FabricError> {
        self.listen(self.identity.keys_to_own(), max_waiting_bytes)
    }

    fn listen(&self, keys: String, max_waiting_bytes: usize) -> Result<Subscription, FabricError> {
        let (sender, receiver) = bounded(MAX_WAITING);
        let waiting_bytes: Arc<AtomicUsize> = Arc::default();
        let waiting = Arc::clone(&waiting_bytes);
        let (identity, counters) = (self.identity.clone(), Arc::clone(&self.counters));
        let max_bytes = self.max_message_bytes;
        let on_sample = move |sample: Sample| {
            let key = sample.key_expr().as_str();
            let sender_of = identity
                .sender_of(key)
                .filter(|_| sample.kind() == SampleKind::Put);
            let Some((from, _)) = sender_of else {
                count(&counters.malformed);
                return;
            };
            if from == *identity.member() {
                return;
            }
            let header = sample.attachment().map(|header| header.to_bytes().into_owned());
            let header = header.unwrap_or_default();
            if header.len() + sample.payload().len() > max_bytes {
                count(&counters.too_large);
                return;
            }
            let message = Message::new(from, header, sample.payload().clone());
            let bytes = message.bytes();
            let sent = if waiting.fetch_add(bytes, Ordering::Relaxed) + bytes > max_waiting_bytes {
                Err(TrySendError::Full(message))
            } else {
                sender.try_send(message)
            };
            match sent {
                Ok(()) => return count(&counters.received),
                Err(TrySendError::Full(_)) => count(&counters.overflowed),
                Err(TrySendError::Disconnected(_)) => {}
            }
            waiting.fetch_sub(bytes, Ordering::Relaxed);
        };
        let subscriber = self
            .session()?
            .declare_subscriber(keys)
            .callback(on_sample)
            .wait();
        let subscriber = subscriber.map_err(|error| FabricError::Open(error.to_string()))?;
        Ok(Subscription {
            messages: receiver,
            waiting_bytes,
            _subscriber: subscriber,
        })
    }

    /// Leaves the fleet; other nodes see this at once. Returns false if leaving takes longer than the limit
    /// and continues in the background.
    pub fn close(&self) -> bool {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(session) = session else {
            return true;
        };
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).take();
        let tunnel = self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (done, is_done) = bounded(1);
        let thread = std::thread::Builder::new().name("weir-fabric-close".to_owned());
        let spawned = thread.spawn(move || {
            drop(token);
            if let Err(error) = session.close().wait() {
                tracing::warn!(%error, "the connections to the fleet were not closed in order");
            }
            if tunnel.is_some_and(|tunnel| !tunnel.close(LINGER)) {
                tracing::warn!("a node of the fleet did not take the last bytes of this one");
            }
            let _ = done.send(());
        });
        spawned.is_ok() && is_done.recv_timeout(CLOSE_TIMEOUT).is_ok()
    }
}

fn open_tunnel(
    identity: &Identity,
    settings: &FabricSettings,
    certificates: &Certificates,
) -> Result<Tunnel, FabricError> {
    let address = |endpoint: &Endpoint| Address {
        host: endpoint.host().to_owned(),
        port: endpoint.port(),
    };
    let of_tunnel = TunnelSettings {
        listen: settings.listen.as_ref().map(address),
        connect: settings.connect.iter().map(address).collect(),
        files: CertificateFiles {
            authority: certificates.authority.clone(),
            certificate: certificates.certificate.clone(),
            key: certificates.key.clone(),
        },
    };
    let gate = FleetGate::new(identity.fleet(), &settings.nodes);
    Tunnel::open(&of_tunnel, Arc::new(gate)).map_err(|error| match error {
        TunnelError::Certificate { path, reason } => FabricError::Certificate { path, reason },
        other => FabricError::Open(other.to_string()),
    })
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fabric")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Messages of others, until it is dropped.
pub struct Subscription {
    messages: Receiver<Message>,
    /// Bytes of queued messages.
    waiting_bytes: Arc<AtomicUsize>,
    _subscriber: Subscriber<()>,
}

impl Subscription {
    /// Returns the next message, or `None` after `timeout`. Messages beyond the limits of the queue are
    /// dropped and counted.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> Option<Message> {
        match self.messages.recv_timeout(timeout) {
            Ok(message) => Some(self.taken(message)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                // The node has left, so no message will arrive.
                std::thread::sleep(timeout);
                None
            }
        }
    }

    /// Messages that are there.
    pub fn waiting(&self) -> impl Iterator<Item = Message> + '_ {
        self.messages.try_iter().map(|message| self.taken(message))
    }

    fn taken(&self, message: Message) -> Message {
        self.waiting_bytes.fetch_sub(message.bytes(), Ordering::Relaxed);
        message
    }
}

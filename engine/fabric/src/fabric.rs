//! A node among others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TrySendError, bounded};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::qos::CongestionControl;
use zenoh::sample::{Sample, SampleKind};
use zenoh::{Session, Wait};

use crate::config::config;
use crate::counts::{Counters, FabricCounts, count};
use crate::error::FabricError;
use crate::identity::{Identity, Kind};
use crate::members::{Members, Present};
use crate::message::{Message, Urgency};
use crate::settings::FabricSettings;

/// Messages that may wait for who subscribed: some hundred nodes that report at once.
const MAX_WAITING: usize = 1_024;

/// How long a node that is dropped takes to leave: what is lost on the way would hold it up for ten seconds.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A node among others; it leaves when it is dropped.
pub struct Fabric {
    identity: Identity,
    max_message_bytes: usize,
    counters: Arc<Counters>,
    /// Until it leaves.
    session: Option<Session>,
    token: Mutex<Option<LivelinessToken>>,
}

impl Fabric {
    /// Opens a node: it listens, and connects to those that are there; others follow. It is a member only once it has
    /// [announced](Fabric::announce) itself.
    ///
    /// # Errors
    /// [`FabricError`]: settings that cannot be used, an address that is taken.
    pub fn open(identity: Identity, settings: &FabricSettings) -> Result<Self, FabricError> {
        settings.check(&identity)?;
        let config = config(&identity, settings)?;
        let session = zenoh::open(config).wait();
        let session = session.map_err(|error| FabricError::Open(error.to_string()))?;
        Ok(Self {
            identity,
            max_message_bytes: settings.max_message_bytes,
            counters: Arc::default(),
            session: Some(session),
            token: Mutex::default(),
        })
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What it sent, took and refused.
    #[must_use]
    pub fn counts(&self) -> FabricCounts {
        self.counters.counts()
    }

    fn session(&self) -> Result<&Session, FabricError> {
        let closed = || FabricError::Send("this node has left the fleet".to_owned());
        self.session.as_ref().ok_or_else(closed)
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

    /// Who is there, this node included once it has announced itself.
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
        let key = self.identity.own_key(topic)?;
        let bytes = header.len() + payload.len();
        if bytes > self.max_message_bytes {
            count(&self.counters.too_large);
            return Err(FabricError::TooLarge {
                bytes,
                max_bytes: self.max_message_bytes,
            });
        }
        let put = self.session()?.put(key, payload);
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

    /// What other nodes of a kind publish on a topic.
    ///
    /// # Errors
    /// [`FabricError::Open`].
    pub fn subscribe(&self, kind: Kind, topic: &str) -> Result<Subscription, FabricError> {
        let keys = self.identity.keys_of_all(kind, topic)?;
        let (sender, receiver) = bounded(MAX_WAITING);
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
            match sender.try_send(Message::new(from, header, sample.payload().clone())) {
                Ok(()) => count(&counters.received),
                Err(TrySendError::Full(_)) => count(&counters.overflowed),
                Err(TrySendError::Disconnected(_)) => {}
            }
        };
        let subscriber = self
            .session()?
            .declare_subscriber(keys)
            .callback(on_sample)
            .wait();
        let subscriber = subscriber.map_err(|error| FabricError::Open(error.to_string()))?;
        Ok(Subscription {
            messages: receiver,
            _subscriber: subscriber,
        })
    }

    /// Leaves: others see it at once. Whether it was done in time; it goes on behind the back where not.
    pub fn close(mut self) -> bool {
        self.leave()
    }

    fn leave(&mut self) -> bool {
        let Some(session) = self.session.take() else {
            return true;
        };
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (done, is_done) = bounded(1);
        let thread = std::thread::Builder::new().name("weir-fabric-close".to_owned());
        let spawned = thread.spawn(move || {
            drop(token);
            if let Err(error) = session.close().wait() {
                tracing::warn!(%error, "the connections to the fleet were not closed in order");
            }
            let _ = done.send(());
        });
        spawned.is_ok() && is_done.recv_timeout(CLOSE_TIMEOUT).is_ok()
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.leave();
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
    _subscriber: Subscriber<()>,
}

impl Subscription {
    /// The next message; waits for it so long. At most 1,024 wait here: those beyond are dropped and counted.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> Option<Message> {
        match self.messages.recv_timeout(timeout) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                // The node has left: nothing will come.
                std::thread::sleep(timeout);
                None
            }
        }
    }

    /// Messages that are there.
    pub fn waiting(&self) -> impl Iterator<Item = Message> + '_ {
        self.messages.try_iter()
    }
}

//! A generative model on a worker in another process: each of its sessions has a connection of its own. The
//! tokens of all sequences are also kept here, so that they continue on another instance if the worker fails.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use weir_flow::{
    DeviceKind, GeneratedToken, GenerativeLimits, GenerativeModel, GenerativeSession, SequenceCommand,
    SequenceState, SequenceStep, SessionError, StopFlag,
};
use weir_types::SequenceId;

use crate::connection::{MessageReader, MessageWriter, connect};
use crate::time::Now;
use crate::timeouts::{Timeouts, span};
use crate::wire::{InstanceStep, Limits, Message, WireError};

/// Time in which a worker must have loaded a model.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Time in which a worker must have computed a step.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// Model and worker, for error messages.
#[derive(Clone)]
struct Place {
    model: String,
    address: String,
}

impl Place {
    fn gone(&self, reason: impl Into<String>) -> SessionError {
        SessionError::Gone {
            model: self.model.clone(),
            reason: format!("worker {}: {}", self.address, reason.into()),
        }
    }
}

/// A model that generates, on a worker.
pub struct RemoteGenerator {
    at: Place,
    /// Serialized model for the worker.
    bytes: Arc<Vec<u8>>,
    /// The same model in this process, which converts between texts and tokens.
    local: Arc<dyn GenerativeModel>,
    now: Now,
}

impl RemoteGenerator {
    /// Creates a client for the model `local`, named `name`, on the worker at `HOST:PORT`.
    ///
    /// # Errors
    /// [`SessionError::Load`] where the model cannot be sent.
    pub fn new(
        name: &str,
        address: &str,
        local: Arc<dyn GenerativeModel>,
        now: Now,
    ) -> Result<Self, SessionError> {
        let bytes = local.portable().ok_or_else(|| SessionError::Load {
            model: name.to_owned(),
            reason: "it cannot be sent to a worker: models of this kind run in this process alone".to_owned(),
        })?;
        Ok(Self {
            at: Place {
                model: name.to_owned(),
                address: address.to_owned(),
            },
            bytes: Arc::new(bytes),
            local,
            now,
        })
    }

    fn addresses(&self) -> Result<Vec<SocketAddr>, SessionError> {
        let found = self.at.address.to_socket_addrs();
        let mut found: Vec<SocketAddr> = found.map_err(|error| self.at.gone(error.to_string()))?.collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        Ok(found)
    }

    fn connect(&self) -> Result<(MessageReader, MessageWriter), SessionError> {
        let timeouts = Timeouts {
            stall: LOAD_TIMEOUT,
            ..Timeouts::default()
        };
        let mut last = self.at.gone("its name has no address");
        for address in self.addresses()? {
            let connected = connect(
                address,
                &Message::Generate,
                Limits::default(),
                &timeouts,
                &self.now,
                &StopFlag::default(),
            );
            match connected {
                Ok((Message::Welcome(welcome), reader, writer)) => {
                    if welcome.emulated {
                        tracing::info!(
                            model = %self.at.model,
                            worker = %self.at.address,
                            "the worker stands for a slower device of class {}: its times are emulated",
                            welcome.class
                        );
                    }
                    return Ok((reader, writer));
                }
                Ok((other, ..)) => last = self.at.gone(WireError::Unexpected(other.name()).to_string()),
                Err(error) => last = self.at.gone(error.to_string()),
            }
        }
        Err(last)
    }
}

impl GenerativeModel for RemoteGenerator {
    fn limits(&self) -> GenerativeLimits {
        self.local.limits()
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.local.encode(text)
    }

    fn decode(&self, tokens: &[u32]) -> String {
        self.local.decode(tokens)
    }

    fn prefix_tokens(&self) -> u32 {
        self.local.prefix_tokens()
    }

    fn open(&self, _device: DeviceKind) -> Result<Box<dyn GenerativeSession>, SessionError> {
        let (reader, writer) = self.connect()?;
        let mut session = RemoteSequences {
            at: self.at.clone(),
            reader,
            writer,
            commands: Vec::new(),
            sequences: BTreeMap::new(),
            now: self.now.clone(),
        };
        let load = Message::LoadGenerator {
            model: Arc::clone(&self.bytes),
        };
        session.send(&load)?;
        match session.answer(LOAD_TIMEOUT)? {
            Message::GeneratorLoaded {
                vocabulary,
                max_sequence_tokens,
            } => {
                let own = self.local.limits();
                if vocabulary == own.vocabulary && max_sequence_tokens == own.max_sequence_tokens {
                    return Ok(Box::new(session));
                }
                Err(SessionError::Load {
                    model: self.at.model.clone(),
                    reason: format!(
                        "worker {} has a model of {vocabulary} different tokens and {max_sequence_tokens} in a sequence, and \
                         here it is one of {} and {}: run the same version of weir on both",
                        self.at.address, own.vocabulary, own.max_sequence_tokens
                    ),
                })
            }
            Message::StepFailed { reason } => Err(SessionError::Load {
                model: self.at.model.clone(),
                reason: format!("worker {}: {reason}", self.at.address),
            }),
            other => Err(session.at.gone(WireError::Unexpected(other.name()).to_string())),
        }
    }
}

/// An instance on a worker.
struct RemoteSequences {
    at: Place,
    reader: MessageReader,
    writer: MessageWriter,
    /// Commands that are sent with the next step and executed before it.
    commands: Vec<SequenceCommand>,
    sequences: BTreeMap<SequenceId, SequenceState>,
    now: Now,
}

impl RemoteSequences {
    fn failed(&self, batch: usize, reason: String) -> SessionError {
        SessionError::Run {
            model: self.at.model.clone(),
            batch,
            reason,
        }
    }

    fn send(&mut self, message: &Message) -> Result<(), SessionError> {
        let sent = self.writer.send(message);
        sent.map_err(|error| self.at.gone(error.to_string()))
    }

    fn answer(&mut self, within: Duration) -> Result<Message, SessionError> {
        let began = (self.now)();
        while (self.now)().since(began) < span(within) {
            match self.reader.poll() {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(error) => return Err(self.at.gone(error.to_string())),
            }
        }
        Err(self
            .at
            .gone(format!("it has not answered for {} s", within.as_secs())))
    }
}

impl Drop for RemoteSequences {
    fn drop(&mut self) {
        self.writer.close();
    }
}

impl GenerativeSession for RemoteSequences {
    fn step(&mut self, steps: &[SequenceStep]) -> Result<Vec<GeneratedToken>, SessionError> {
        let step = InstanceStep {
            commands: std::mem::take(&mut self.commands),
            steps: steps.to_vec(),
        };
        self.send(&Message::Step(step))?;
        match self.answer(STEP_TIMEOUT)? {
            Message::Stepped { tokens, .. } => {
                for token in &tokens {
                    match self.sequences.get_mut(&token.sequence) {
                        Some(sequence) => sequence.generated.push(token.token),
                        None => {
                            let reason = format!(
                                "worker {} gave a token of sequence {}, which it was not given",
                                self.at.address, token.sequence.0
                            );
                            return Err(self.failed(steps.len(), reason));
                        }
                    }
                }
                Ok(tokens)
            }
            Message::StepFailed { reason } => {
                Err(self.failed(steps.len(), format!("worker {}: {reason}", self.at.address)))
            }
            other => Err(self.at.gone(WireError::Unexpected(other.name()).to_string())),
        }
    }

    fn evict(&mut self, sequence: SequenceId) {
        self.commands.push(SequenceCommand::Evict(sequence));
    }

    fn take(&mut self, sequence: SequenceId, _with_cache: bool) -> Option<SequenceState> {
        let taken = self.sequences.remove(&sequence)?;
        self.commands.push(SequenceCommand::Remove(sequence));
        Some(taken)
    }

    fn put(&mut self, sequence: SequenceId, state: SequenceState) -> Result<u32, SessionError> {
        if self.sequences.contains_key(&sequence) {
            return Err(self.failed(1, format!("sequence {} is here already", sequence.0)));
        }
        self.commands.push(SequenceCommand::Put {
            sequence,
            spec: state.spec.clone(),
            generated: state.generated.clone(),
        });
        self.sequences
            .insert(sequence, SequenceState { cache: None, ..state });
        Ok(0)
    }

    /// The worker stores it before its next step.
    fn keep_prefix(&mut self, sequence: SequenceId, tokens: u32) {
        self.commands
            .push(SequenceCommand::KeepPrefix { sequence, tokens });
    }

    /// The worker computes what it has not stored before its next step.
    fn reuse_prefix(&mut self, sequence: SequenceId, tokens: u32) -> u32 {
        self.commands
            .push(SequenceCommand::ReusePrefix { sequence, tokens });
        tokens
    }

    fn sequences(&self) -> usize {
        self.sequences.len()
    }
}

//! One request to a server of models, and what its answer means.

use std::sync::Arc;

use ureq::Agent;
use weir_flow::{Settings, SinkError};

use super::super::outbox::Outcome;
use super::super::renewed::Renewed;
use super::super::secret::secret_file;
use super::super::tls;
use super::super::webhook::{Address, Receiver, agent, checked_tls, is_unreached, read, token_fault};
use super::answers::Answer;
use super::keys::Config;
use super::questions::Reply;
use super::subject::Subject;

/// Bytes of an answer that are read; a longer one is no answer.
const MAX_ANSWER: u64 = 256 << 10;

/// Client and key of the server, by keys and their files.
pub(super) struct Access {
    agent: Agent,
    receiver: Receiver,
}

impl Access {
    /// # Errors
    /// A file cannot be read, or holds something else.
    pub(super) fn read(settings: &Settings, config: &Config, address: &Address) -> Result<Self, SinkError> {
        let key = secret_file(settings, "key_file")?;
        if let Some(reason) = key.as_deref().and_then(token_fault) {
            return Err(SinkError {
                target: format!("to {}", address.shown),
                reason: reason.to_owned(),
            });
        }
        let encryption = checked_tls(address, settings)?;
        Ok(Self {
            agent: agent(config.timeout, encryption),
            receiver: Receiver::with_token(address.clone(), key),
        })
    }
}

/// See the module.
pub(super) struct Server {
    access: Renewed<Arc<Access>>,
    address: Address,
    config: Arc<Config>,
}

impl Server {
    /// # Errors
    /// As [`Access::read`].
    pub(super) fn new(
        config: Arc<Config>,
        address: &Address,
        settings: &Settings,
    ) -> Result<Self, SinkError> {
        let (of_access, at) = (Arc::clone(&config), address.clone());
        let read = move |settings: &Settings| Access::read(settings, &of_access, &at).map(Arc::new);
        Ok(Self {
            access: Renewed::new(settings, read)?,
            address: address.clone(),
            config,
        })
    }

    /// Asks about a picture. The reply has the answer if it is of the form that was asked for.
    pub(super) fn ask(&self, subject: &Subject) -> (Reply, Option<Answer>) {
        let access = self.access.get();
        let Access { agent, receiver } = &*access;
        let said = |reason: &str| receiver.said(reason);
        let prompt = match self.config.question(subject) {
            Ok(prompt) => prompt,
            // It would be the same again.
            Err(reason) => return (Reply::Refused(reason), None),
        };
        let body = self.config.chat.request(&prompt, subject.picture.jpeg());
        let address = self.address.with("/chat/completions");
        let mut request = agent.post(address).header("Content-Type", "application/json");
        if let Some(key) = receiver.token() {
            request = request.header("Authorization", format!("Bearer {key}"));
        } else if let Some(login) = self.address.login() {
            request = request.header("Authorization", login);
        }
        let answered = request
            .send(&body[..])
            .and_then(|answer| read(answer, MAX_ANSWER));
        match answered {
            Ok(answer) => match answer.outcome(said) {
                Outcome::Delivered => self.read(&answer.body, receiver),
                Outcome::Limited(reason, wait) => (Reply::Limited(reason, Some(wait)), None),
                Outcome::Failed(reason) if answer.status == 429 => (Reply::Limited(reason, None), None),
                Outcome::Failed(reason) => (Reply::Failed(reason), None),
                Outcome::Refused(reason) | Outcome::Unreached(reason) => (Reply::Refused(reason), None),
            },
            Err(ureq::Error::Http(error)) => (Reply::Refused(said(&error.to_string())), None),
            Err(error) if is_unreached(&error) => (Reply::Unreached(said(&error.to_string())), None),
            Err(error @ ureq::Error::Timeout(_)) => (Reply::TimedOut(said(&error.to_string())), None),
            Err(error) => (Reply::Failed(said(&tls::explained(&error.to_string()))), None),
        }
    }

    fn read(&self, body: &[u8], receiver: &Receiver) -> (Reply, Option<Answer>) {
        let chat = &self.config.chat;
        match chat.response(body) {
            Ok((words, usage)) => match chat.form.read(&words) {
                Ok(answer) => (Reply::Answered(usage), Some(answer)),
                Err(reason) => (Reply::Wrong(usage, receiver.said(&reason)), None),
            },
            Err(reason) => (Reply::Failed(receiver.said(&reason)), None),
        }
    }
}

//! Questions to a model about the pictures of incidents, over HTTP or of a model that runs here. No frame waits for an answer: a question
//! waits in a queue of the sink, and the answer comes later as a description, which other sinks receive.

mod answers;
mod budget;
mod chat;
mod chat_template;
mod keys;
mod local;
mod questions;
mod server;
mod subject;
mod threads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_flow::{
    Delivery, Description, Frame, Incident, KeyFault, Notice, Settings, Sink, SinkError, SinkFactory,
};

use self::keys::{Backend, Config};
use self::local::LocalModel;
use self::server::{Access, Server};
use self::subject::{Choice, Selection};
use self::threads::Threads;
use super::{SinkKind, alarm_keys};

pub(super) const KIND: SinkKind = SinkKind {
    name: "describe",
    about: "asks a model about the pictures of incidents, over HTTP as Ollama, llama.cpp, vLLM and hosted services have it, or of an ONNX export in a folder (docs/how-to/describe-incidents.md)",
    keys: keys::KEYS,
    file_per_stream: false,
    create,
};

/// All faults of the keys; no file is read.
pub(super) fn faults(settings: &Settings) -> Vec<KeyFault> {
    Config::read(settings).err().unwrap_or_default()
}

/// Server that pictures go to, as messages show it, and the name of its model.
pub(super) fn server_of(settings: &Settings) -> Option<(String, String)> {
    let config = Config::read(settings).ok()?;
    let model = config.chat.model;
    match config.backend {
        Backend::Server(address) => Some((address.shown, model)),
        Backend::Folder(_) => None,
    }
}

/// The model that runs on this machine, in words: its files, its bounds and its memory. `None`: there is none.
///
/// # Errors
/// The file of the folder that does not fit, and why.
pub(super) fn local_model(settings: &Settings) -> Option<Result<String, SinkError>> {
    let config = Arc::new(Config::read(settings).ok()?);
    match &config.backend {
        Backend::Server(_) => None,
        Backend::Folder(folder) => Some(LocalModel::open(&config, folder).map(|model| model.in_words())),
    }
}

fn create(settings: &Settings, _streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let config = Config::read(settings).map_err(|faults| alarm_keys::as_error("to a model", &faults))?;
    let factory = DescribeFactory {
        config: Arc::new(config),
        settings: settings.clone(),
    };
    match &factory.config.backend {
        Backend::Server(address) => drop(Access::read(settings, &factory.config, address)?),
        Backend::Folder(folder) => drop(local::texts(&factory.config, folder)?),
    }
    Ok(Box::new(factory))
}

struct DescribeFactory {
    config: Arc<Config>,
    settings: Settings,
}

impl SinkFactory for DescribeFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let threads = match &self.config.backend {
            Backend::Server(address) => {
                let server = Server::new(Arc::clone(&self.config), address, &self.settings)?;
                Threads::with_server(&self.config, server)?
            }
            Backend::Folder(folder) => Threads::with_model(&self.config, folder.clone())?,
        };
        Ok(Box::new(Describe {
            threads,
            config: Arc::clone(&self.config),
            selection: Selection::default(),
            private: BTreeSet::new(),
            without_picture: 0,
            withheld: 0,
        }))
    }
}

/// See the module.
struct Describe {
    config: Arc<Config>,
    threads: Threads,
    selection: Selection,
    /// Streams whose pictures stay on this machine.
    private: BTreeSet<Arc<str>>,
    without_picture: u64,
    /// Incidents of private cameras.
    withheld: u64,
}

impl Describe {
    fn push(&mut self, stream: &Arc<str>, incidents: &[Incident], frame: Option<&Frame>) {
        let is_private = self.private.contains(stream);
        for incident in incidents {
            let seen = (frame, is_private);
            match self.selection.on_event(&self.config, stream, incident, seen) {
                Choice::Ask(subject) => self.threads.push(subject),
                Choice::Pass => {}
                Choice::NoPicture => self.without_picture += 1,
                Choice::Private => self.withheld += 1,
            }
        }
    }
}

impl Sink for Describe {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        if !delivery.frame.privacy.is_private() {
            self.private.remove(&delivery.stream);
        } else if !self.private.contains(&delivery.stream) {
            self.private.insert(Arc::clone(&delivery.stream));
        }
        self.push(&delivery.stream, &delivery.incidents, Some(&delivery.frame));
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), SinkError> {
        if let Notice::Analytics {
            stream, incidents, ..
        } = notice
        {
            self.push(stream, incidents, None);
        }
        Ok(())
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.private.remove(stream);
        Ok(())
    }

    fn describes(&self) -> bool {
        true
    }

    fn take_descriptions(&mut self) -> Vec<Description> {
        self.threads.take_descriptions()
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.threads.counts();
        counts.insert("no_picture", self.without_picture);
        counts.insert("private", self.withheld);
        counts
    }

    fn outage(&self) -> Option<String> {
        self.threads.outage()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.threads.finish();
        Ok(())
    }
}

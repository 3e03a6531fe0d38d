//! A model that runs on this machine, on the thread of the sink: questions become prompts by its chat template, and its tokens words.

use std::sync::Arc;
use std::time::Duration;

use weir_flow::{SequenceId, SinkError};

use super::answers::Answer;
use super::budget::Usage;
use super::chat_template::ChatTemplate;
use super::keys::{Config, ModelFolder};
use super::questions::{Question, Reply};
use super::subject::Subject;
use crate::model::chat::{ChatAnswer, ChatError, ChatFolder, ChatLimits, ChatModel, ChatQuestion};

/// A question whose answer is generated.
struct Asked {
    id: SequenceId,
    question: Question<Subject>,
    /// Time since the sink was opened, at its beginning.
    began: Duration,
}

/// A question that is over, with its result.
type Ended = (Question<Subject>, (Reply, Option<Answer>));

/// See the module.
pub(super) struct LocalModel {
    config: Arc<Config>,
    model: ChatModel,
    template: ChatTemplate,
    asked: Vec<Asked>,
}

/// Reads the texts of the folder that the keys name.
///
/// # Errors
/// The file that does not fit, and why.
pub(super) fn texts(config: &Config, folder: &ModelFolder) -> Result<(ChatFolder, ChatTemplate), SinkError> {
    read(folder, &config.chat.system).map_err(|reason| failed(config, reason))
}

fn read(folder: &ModelFolder, system: &str) -> Result<(ChatFolder, ChatTemplate), String> {
    let texts = ChatFolder::read(&folder.path, folder.variant.as_deref())?;
    let template = ChatTemplate::checked(&texts.texts, &texts.without_marks(system))?;
    Ok((texts, template))
}

fn failed(config: &Config, reason: String) -> SinkError {
    SinkError {
        target: format!("to {}", config.backend.shown()),
        reason,
    }
}

impl LocalModel {
    /// Opens the model, and runs nothing.
    ///
    /// # Errors
    /// The file of the folder that does not fit, and why.
    pub(super) fn open(config: &Arc<Config>, folder: &ModelFolder) -> Result<Self, SinkError> {
        let (read, template) = texts(config, folder)?;
        let limits = ChatLimits {
            threads: folder.threads,
            context: folder.context,
            sequences: config.concurrency,
        };
        let model = ChatModel::open(read, limits).map_err(|reason| failed(config, reason))?;
        Ok(Self {
            config: Arc::clone(config),
            model,
            template,
            asked: Vec::new(),
        })
    }

    /// Its files, bounds and memory.
    pub(super) fn in_words(&self) -> String {
        let (limits, memory) = (self.model.limits(), self.model.memory());
        let pictures = match self.model.picture_size() {
            Some((width, height)) => format!("pictures of {width} x {height}"),
            None => "it sees no pictures, only the prompt".to_owned(),
        };
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let together = match limits.sequences {
            1 => "one answer at a time".to_owned(),
            several => format!("{several} answers at a time"),
        };
        format!(
            "{} of {}; {pictures}; {together}, {} tokens each with their prompt; memory: {} MiB of weights, {} MiB of caches at most",
            self.model.folder().graph_names(),
            self.config.chat.model,
            limits.context,
            mebibytes(memory.weights),
            mebibytes(memory.caches)
        )
    }

    /// True if another question may begin beside `more` that are not begun yet.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.asked.len() + more < self.model.limits().sequences
    }

    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Begins questions, computes one step of all answers, and returns the questions that are over. `now`: the time since the sink was
    /// opened.
    pub(super) fn step(&mut self, begun: Vec<Question<Subject>>, now: &dyn Fn() -> Duration) -> Vec<Ended> {
        let mut ended = Vec::new();
        for question in begun {
            let began = now();
            match self.begin(&question.subject) {
                Ok(id) => self.asked.push(Asked { id, question, began }),
                Err(reply) => ended.push((question, (reply, None))),
            }
        }
        if self.asked.is_empty() {
            return ended;
        }
        match self.model.step() {
            Ok(answers) => ended.extend(answers.into_iter().filter_map(|answer| self.end(&answer))),
            Err(reason) => {
                let all = self.asked.drain(..);
                ended.extend(all.map(|asked| (asked.question, (Reply::Failed(reason.clone()), None))));
            }
        }
        self.give_up_late(now(), &mut ended);
        ended
    }

    fn begin(&mut self, subject: &Subject) -> Result<SequenceId, Reply> {
        let chat = &self.config.chat;
        let question = self.config.question(subject).map_err(Reply::Refused)?;
        let folder = self.model.folder();
        let question = folder.without_marks(&chat.instructed(&question));
        let system = folder.without_marks(&chat.system);
        let prompt = self.template.render(&system, &question).map_err(Reply::Refused)?;
        let begun = self.model.begin(&ChatQuestion {
            prompt: &prompt,
            jpeg: subject.picture.jpeg(),
            max_tokens: u32::try_from(chat.max_tokens).unwrap_or(u32::MAX),
            temperature: chat.temperature as f32,
        });
        begun.map_err(|error| match error {
            ChatError::Refused(reason) => Reply::Refused(reason),
            ChatError::Failed(reason) => Reply::Failed(reason),
        })
    }

    fn end(&mut self, answer: &ChatAnswer) -> Option<Ended> {
        let place = self.asked.iter().position(|asked| asked.id == answer.id)?;
        let question = self.asked.remove(place).question;
        let usage = Usage::new(answer.prompt_tokens, answer.tokens);
        let reply = match self.config.chat.form.read(&answer.text) {
            Ok(answer) => (Reply::Answered(usage), Some(answer)),
            Err(reason) => (Reply::Wrong(usage, reason), None),
        };
        Some((question, reply))
    }

    /// Ends answers that take longer than a request may.
    fn give_up_late(&mut self, now: Duration, ended: &mut Vec<Ended>) {
        let timeout = self.config.timeout;
        let is_late = |asked: &mut Asked| now.saturating_sub(asked.began) >= timeout;
        for asked in self.asked.extract_if(.., is_late) {
            let tokens = self.model.remove(asked.id);
            let reason = format!(
                "no answer within {timeout:?}: {tokens} tokens were generated; use a smaller model, more `threads`, or a longer `timeout`"
            );
            ended.push((asked.question, (Reply::TimedOut(reason), None)));
        }
    }
}

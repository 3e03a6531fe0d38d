//! Keys of `describe`, and their reading.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_analytics::transforms::TimeZone;
use weir_flow::{KeyFault, KeyKind, KeySpec, Settings};

use super::super::event::incident_value;
use super::super::webhook::{Address, CA_FILE, Escape, Template, fault, zone};
use super::super::{alarm_keys, key};
use super::answers::{AnswerForm, Field, MAX_FIELDS};
use super::budget::{DayLimits, Prices};
use super::chat::Chat;
use super::questions::Limits;
use super::subject::Subject;

/// Bytes of a prompt.
const MAX_PROMPT: usize = 8 << 10;

/// Prompt of a graph that names none.
const PROMPT: &str = "This picture of a camera shows an object of the class \"{{ class }}\". Describe it and what it does in one \
                      short sentence.";

/// Amounts of money, tokens and requests.
const AMOUNT: KeyKind = KeyKind::Number { min: 0.0, max: 1e12 };

pub(super) const KEYS: &[KeySpec] = &[
    key(
        "url",
        KeyKind::Text,
        "address of the server without `/chat/completions`, such as `\"http://127.0.0.1:11434/v1\"` (required without `folder`)",
    ),
    key(
        "folder",
        KeyKind::Folder,
        "folder of an ONNX export of a model, which runs on this machine instead of at a server",
    ),
    key(
        "variant",
        KeyKind::Text,
        "ending of files in `folder` that are taken where there are, such as `\"q4\"` for `decoder_model_merged_q4.onnx` (default none)",
    ),
    key(
        "threads",
        KeyKind::Integer { min: 1, max: 64 },
        "processor cores that the model in `folder` uses at most, at a low priority (default 1)",
    ),
    key(
        "context",
        KeyKind::Integer { min: 64, max: 32_768 },
        "tokens of a prompt, its picture and its answer for the model in `folder`, which bound the memory of its caches (default 2048)",
    ),
    key(
        "model",
        KeyKind::Text,
        "name of the model at the server (required; with `folder` a name for events, default that of the folder)",
    ),
    key(
        "key_file",
        KeyKind::File,
        "file that holds the key of the server, sent as `Authorization: Bearer`; without it no key is sent",
    ),
    CA_FILE,
    key(
        "per",
        KeyKind::OneOf(&["incident", "track"]),
        "`incident`: asks once for each incident; `track`: once for each track, whose incidents all have the description (default `\"incident\"`)",
    ),
    key(
        "when",
        KeyKind::OneOf(&["began", "ended"]),
        "asks at the first event of an incident that has a picture, or at its end, with the best picture (default `\"began\"`, with `per = \"track\"` `\"ended\"`)",
    ),
    key(
        "picture",
        KeyKind::OneOf(&["object", "frame"]),
        "`object`: the best picture of the object, which a `best-shot` takes; `frame`: the whole frame of the event (default `\"object\"`)",
    ),
    key(
        "max_side",
        KeyKind::Integer { min: 64, max: 4_096 },
        "pixels of the longer side of the picture of a frame (default 768)",
    ),
    key(
        "prompt",
        KeyKind::Text,
        "template of the question, with the variables of webhooks, such as `\"What does this {{ class }} carry?\"` (default asks for one short sentence)",
    ),
    key(
        "system",
        KeyKind::Text,
        "words that the model is given before each prompt (default none)",
    ),
    key(
        "answers",
        KeyKind::Texts,
        "answers of which the model must give one, such as `[\"yes\", \"no\"]` (default any words)",
    ),
    key(
        "fields",
        KeyKind::Texts,
        "values that the model must give as JSON, each `\"NAME: number\"`, `\"NAME: text\"` or `\"NAME: one, another\"` (default none)",
    ),
    key(
        "timezone",
        KeyKind::Text,
        "time zone of times in prompts, such as `\"Europe/Berlin\"` (default UTC)",
    ),
    key(
        "max_tokens",
        KeyKind::Integer { min: 1, max: 100_000 },
        "maximum number of tokens of an answer (default 200)",
    ),
    key(
        "temperature",
        KeyKind::Number { min: 0.0, max: 2.0 },
        "randomness of answers (default 0)",
    ),
    key(
        "timeout",
        KeyKind::Duration,
        "timeout of one request (default `\"60s\"`)",
    ),
    key(
        "concurrency",
        KeyKind::Integer { min: 1, max: 16 },
        "requests at a time; with `folder` sequences that run together (default 1)",
    ),
    key(
        "per_minute",
        KeyKind::Integer { min: 1, max: 100_000 },
        "requests that begin within a minute (default any number)",
    ),
    key(
        "queue",
        KeyKind::Integer { min: 1, max: 1_000 },
        "questions that wait; the newest goes first, and where there is no room the oldest is left out and counted (default 64)",
    ),
    key(
        "give_up_after",
        KeyKind::Duration,
        "age from which on a question is given up (default `\"10m\"`)",
    ),
    key(
        "finish",
        KeyKind::Duration,
        "time at the end of a run for questions that wait (default `\"4s\"`)",
    ),
    key(
        "tokens_per_day",
        AMOUNT,
        "tokens of requests and answers within a day (UTC); further questions are counted and not asked (default any number)",
    ),
    key(
        "price_per_day",
        AMOUNT,
        "price of a day (UTC), in the unit of `price_in` and `price_out` (default any)",
    ),
    key(
        "price_in",
        AMOUNT,
        "price of a million tokens of requests, in any currency (default 0)",
    ),
    key(
        "price_out",
        AMOUNT,
        "price of a million tokens of answers (default 0)",
    ),
];

/// Picture that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Object,
    /// The whole frame, whose longer side has at most so many pixels.
    Frame(u32),
}

/// Place where the model runs.
#[derive(Debug, Clone)]
pub(super) enum Backend {
    Server(Address),
    Folder(ModelFolder),
}

/// A model that runs on this machine.
#[derive(Debug, Clone)]
pub(super) struct ModelFolder {
    pub(super) path: PathBuf,
    pub(super) variant: Option<String>,
    pub(super) threads: usize,
    pub(super) context: usize,
}

impl Backend {
    /// The place, as messages show it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Server(address) => address.shown.clone(),
            Self::Folder(folder) => format!("the model in {}", folder.path.display()),
        }
    }
}

/// Values of the keys.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) backend: Backend,
    pub(super) chat: Chat,
    pub(super) prompt: Template,
    pub(super) zone: TimeZone,
    pub(super) per_track: bool,
    /// Whether an incident is asked about at its end only.
    pub(super) at_end: bool,
    pub(super) shown: Shown,
    pub(super) limits: Limits,
    pub(super) day: DayLimits,
    pub(super) prices: Prices,
    pub(super) concurrency: usize,
    pub(super) timeout: Duration,
    pub(super) finish: Duration,
}

impl Config {
    /// Reads the keys; no file is read.
    ///
    /// # Errors
    /// All faults of the keys.
    pub(super) fn read(settings: &Settings) -> Result<Self, Vec<KeyFault>> {
        // Those of the time zone: the other keys of alarms have no meaning here.
        let mut faults = alarm_keys::faults(settings);
        let backend = backend(settings, &mut faults);
        let own = match &backend {
            Some(Backend::Folder(folder)) => folder.path.file_name().and_then(|name| name.to_str()),
            _ => None,
        };
        let model = settings.text("model").filter(|name| !name.is_empty()).or(own);
        let model = model.unwrap_or_default().to_owned();
        if model.is_empty() {
            let hint = "name the model as the server knows it: model = \"llava\"";
            faults.push(fault("model", "it has no `model`", hint));
        }
        let form = form(settings, &mut faults);
        let prompt = Template::checked(
            settings.text("prompt").unwrap_or(PROMPT),
            Escape::Plain,
            MAX_PROMPT,
        );
        let prompt = taken(
            "prompt",
            prompt,
            "such as prompt = \"What does this {{ class }} do?\"",
            &mut faults,
        );
        let prices = Prices {
            input: settings.number("price_in", 0.0),
            output: settings.number("price_out", 0.0),
        };
        let day = DayLimits {
            tokens: number(settings, "tokens_per_day").map(|tokens| tokens as u64),
            price: number(settings, "price_per_day"),
        };
        if day.price.is_some() && prices == Prices::default() {
            let hint = "name what a million tokens cost: price_in = 0.15, price_out = 0.6";
            faults.push(fault(
                "price_per_day",
                "`price_per_day` is without `price_in` and `price_out`",
                hint,
            ));
        }
        let (Some(backend), Some(form), Some(prompt), true) = (backend, form, prompt, faults.is_empty())
        else {
            return Err(faults);
        };
        let per_track = settings.text("per") == Some("track");
        let seconds = |key: &str, default: f64| Duration::from_secs_f64(settings.number(key, default));
        Ok(Self {
            chat: Chat {
                model,
                system: settings.text("system").unwrap_or_default().to_owned(),
                max_tokens: settings.number("max_tokens", 200.0) as u64,
                temperature: settings.number("temperature", 0.0),
                form,
            },
            backend,
            prompt,
            zone: zone(settings),
            per_track,
            at_end: settings.text("when").map_or(per_track, |when| when == "ended"),
            shown: match settings.text("picture") {
                Some("frame") => Shown::Frame(settings.number("max_side", 768.0) as u32),
                _ => Shown::Object,
            },
            limits: Limits {
                queue: settings.number("queue", 64.0) as usize,
                per_minute: number(settings, "per_minute").map(|requests| requests as usize),
                give_up_after: seconds("give_up_after", 600.0),
            },
            day,
            prices,
            concurrency: settings.number("concurrency", 1.0) as usize,
            timeout: seconds("timeout", 60.0),
            finish: seconds("finish", 4.0),
        })
    }
}

impl Config {
    /// The question about an incident.
    ///
    /// # Errors
    /// The fault of the template for this incident.
    pub(super) fn question(&self, subject: &Subject) -> Result<String, String> {
        let event = incident_value(&subject.stream, &subject.incident);
        let question = self.prompt.render(&event, &self.zone);
        question.map_err(|reason| format!("`prompt`: {reason}"))
    }
}

fn number(settings: &Settings, key: &str) -> Option<f64> {
    settings.0.contains_key(key).then(|| settings.number(key, 0.0))
}

fn taken<T>(
    key: &'static str,
    value: Result<T, String>,
    hint: &str,
    faults: &mut Vec<KeyFault>,
) -> Option<T> {
    let fault = |reason: String| faults.push(fault(key, format!("`{key}`: {reason}"), hint));
    value.map_err(fault).ok()
}

fn backend(settings: &Settings, faults: &mut Vec<KeyFault>) -> Option<Backend> {
    let Some(path) = settings.text("folder").filter(|path| !path.is_empty()) else {
        for key in ["variant", "threads", "context"] {
            if settings.0.contains_key(key) {
                let hint = "name the folder of the model, or leave it out";
                faults.push(fault(
                    key,
                    format!("`{key}` has no effect without `folder`"),
                    hint,
                ));
            }
        }
        return address(settings, faults).map(Backend::Server);
    };
    for key in ["url", "key_file", "ca_file"] {
        if settings.0.contains_key(key) {
            let message = format!("`folder` and `{key}` exclude each other");
            let hint = "leave one out: a model in a folder runs on this machine";
            faults.push(fault(key, message, hint));
        }
    }
    let variant = settings.text("variant").filter(|variant| !variant.is_empty());
    let is_name = |variant: &&str| variant.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if variant.is_some_and(|variant| !is_name(&variant)) {
        let hint = "such as variant = \"q4\"";
        faults.push(fault(
            "variant",
            "`variant` has letters of ASCII, digits and _",
            hint,
        ));
    }
    Some(Backend::Folder(ModelFolder {
        path: PathBuf::from(path),
        variant: variant.map(str::to_owned),
        threads: settings.number("threads", 1.0) as usize,
        context: settings.number("context", 2_048.0) as usize,
    }))
}

fn address(settings: &Settings, faults: &mut Vec<KeyFault>) -> Option<Address> {
    let Some(url) = settings.text("url").filter(|url| !url.is_empty()) else {
        let hint =
            "name the address of the server: url = \"http://127.0.0.1:11434/v1\", or the folder of a model";
        faults.push(fault("url", "it has no `url`", hint));
        return None;
    };
    if url.contains(['?', '#']) {
        let hint = "leave out what follows the path";
        faults.push(fault("url", "`url`: it has a query", hint));
    }
    let address = Address::parsed(url).map_err(str::to_owned);
    let address = taken("url", address, "", faults)?;
    if settings.text("ca_file").is_some_and(|path| !path.is_empty()) && !address.is_encrypted() {
        let hint = "use an address with https://, or leave it out";
        faults.push(fault("ca_file", "`ca_file` has no effect with http://", hint));
    }
    Some(address)
}

fn form(settings: &Settings, faults: &mut Vec<KeyFault>) -> Option<AnswerForm> {
    let answers = settings.texts("answers").unwrap_or_default();
    let fields = settings.texts("fields").unwrap_or_default();
    match (answers, fields) {
        ([], []) => Some(AnswerForm::Words),
        ([_, _, ..], []) => Some(AnswerForm::OneOf(
            answers.iter().map(|answer| Arc::from(answer.trim())).collect(),
        )),
        ([_], []) => {
            let hint = "such as answers = [\"yes\", \"no\"]";
            faults.push(fault("answers", "`answers` has one answer alone", hint));
            None
        }
        ([], _) if fields.len() <= MAX_FIELDS => {
            let parsed: Result<Vec<Field>, String> =
                fields.iter().map(|field| Field::parsed(field)).collect();
            let hint = "such as fields = [\"persons: number\", \"vehicle: car, van, none\"]";
            taken("fields", parsed, hint, faults).map(AnswerForm::Fields)
        }
        ([], _) => {
            let message = format!("`fields` has {} entries; {MAX_FIELDS} are the most", fields.len());
            faults.push(fault("fields", message, "leave some out"));
            None
        }
        _ => {
            let message = "`fields` and `answers` exclude each other";
            faults.push(fault("fields", message, "leave one out"));
            None
        }
    }
}

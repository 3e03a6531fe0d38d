//! The folder of a model that answers in words: its files, and what they say of its inputs, its tokens and its pictures. Nothing is run, and a
//! number in a file is a wish: sessions have the last word.
//!
//! Two layouts are read. That of optimum and transformers.js has files with fixed names (`vision_encoder.onnx`, `embed_tokens.onnx`,
//! `decoder_model_merged.onnx` or `model.onnx`), in the folder or in `onnx/` below it; that of onnxruntime-genai has a `genai_config.json`,
//! which names the files and their inputs.

use std::path::{Component, Path, PathBuf};

use serde_json::Value as Json;
use tokenizers::Tokenizer;
use weir_flow::{Settings, Value};

use crate::heads::input::triple;
use crate::model::companion::Companions;
use crate::model::tokenizer_file;

/// Bytes of a configuration.
const MAX_JSON_BYTES: u64 = 16 << 20;

/// Bytes of a template.
const MAX_TEMPLATE_BYTES: u64 = 64 << 10;

/// Tokens that may end an answer.
const MAX_STOP_TOKENS: usize = 64;

/// Marks that are removed from a text one by one.
const MAX_ROUNDS: usize = 64;

/// Families whose prompts have marks around the places of a picture.
const MARKED_FAMILIES: [&str; 2] = ["idefics3", "smolvlm"];

/// Those marks: before the places of a whole picture, and behind them.
const MARKS: ([&str; 2], &str) = (
    ["<fake_token_around_image>", "<global-img>"],
    "<fake_token_around_image>",
);

/// Files of the graphs, and the names of their inputs and outputs where a configuration has them.
#[derive(Debug, Default)]
pub(super) struct GraphFiles {
    pub(super) decoder: PathBuf,
    pub(super) embeddings: Option<PathBuf>,
    pub(super) pictures: Option<PathBuf>,
    /// Keys of the decoder's inputs and outputs, as the head `generate` has them.
    pub(super) ports: Settings,
    /// Input of the model of embeddings for the features of pictures.
    pub(super) features: String,
    /// Output of the model of embeddings.
    pub(super) embedded: Option<String>,
    /// Input of the picture encoder.
    pub(super) pixels: String,
    /// Output of the picture encoder.
    pub(super) encoded: String,
}

/// Preparation of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Preparation {
    /// Mean and deviation of values from 0 to 255.
    pub(super) mean: [f32; 3],
    pub(super) std: [f32; 3],
    /// Width and height that the files name.
    pub(super) size: Option<(u32, u32)>,
    pub(super) is_centre: bool,
}

/// Place of the picture in a prompt.
#[derive(Debug, Clone)]
pub(super) struct ImagePlace {
    /// Token that stands for one row of features.
    pub(super) token: u32,
    /// Tokens before the places, and behind them.
    pub(super) before: Vec<u32>,
    pub(super) behind: Vec<u32>,
}

/// Template of a chat, and texts that it may use.
#[derive(Debug, Clone)]
pub(crate) struct ChatTexts {
    /// File of the template, for messages.
    pub(crate) file: PathBuf,
    pub(crate) template: String,
    pub(crate) begin: String,
    pub(crate) end: String,
    /// Text of the token that stands for a picture; `None`: the model sees no pictures.
    pub(crate) image: Option<String>,
}

/// See the module.
pub(crate) struct ChatFolder {
    pub(super) path: PathBuf,
    pub(super) graphs: GraphFiles,
    pub(super) tokenizer: Tokenizer,
    /// Texts of tokens with a meaning, which no prompt may have.
    pub(super) marks: Vec<String>,
    /// Number above that of each token.
    pub(super) vocabulary: u32,
    pub(super) stop_tokens: Vec<u32>,
    /// Tokens of a sequence that the model was made for.
    pub(super) context: Option<usize>,
    pub(super) image: Option<(ImagePlace, Preparation)>,
    pub(crate) texts: ChatTexts,
}

impl ChatFolder {
    /// Reads the texts of a folder; no graph is opened. `variant`: files such as `decoder_model_merged_q4.onnx` are taken where there are.
    ///
    /// # Errors
    /// The file that is missing or wrong, and what is expected.
    pub(crate) fn read(path: &Path, variant: Option<&str>) -> Result<Self, String> {
        let genai = json(path, "genai_config.json")?;
        let graphs = match &genai {
            Some(config) => genai_files(path, config)?,
            None => named_files(path, variant)?,
        };
        let config = json(path, "config.json")?.unwrap_or_default();
        let generation = json(path, "generation_config.json")?.unwrap_or_default();
        let texts = json(path, "tokenizer_config.json")?.unwrap_or_default();
        let genai = genai.unwrap_or_default();
        let tokenizer_path = path.join("tokenizer.json");
        let tokenizer = tokenizer_file::read(&tokenizer_path);
        let mut tokenizer =
            tokenizer.map_err(|reason| format!("tokenizer {}: {reason}", tokenizer_path.display()))?;
        tokenizer.with_padding(None);
        let untruncated = tokenizer.with_truncation(None);
        untruncated.map_err(|error| format!("tokenizer {}: {error}", tokenizer_path.display()))?;
        let vocabulary = tokenizer.get_vocab(true);
        let vocabulary = vocabulary.values().max().map_or(0, |last| last.saturating_add(1));
        let (begin, end) = (word(&texts["bos_token"]), word(&texts["eos_token"]));
        let named = [&generation, &config, &config["text_config"], &genai["model"]];
        let named = named.map(|file| &file["eos_token_id"]);
        let stop_tokens = stop_tokens(&named, tokenizer.token_to_id(&end), vocabulary);
        let image = match &graphs.pictures {
            Some(_) => Some(image(path, &config, &genai, &tokenizer)?),
            None => None,
        };
        let (image_text, image) = image.map_or((None, None), |(text, place, preparation)| {
            (Some(text), Some((place, preparation)))
        });
        let (file, template) = template(path, &texts)?;
        let context = [
            &config["max_position_embeddings"],
            &config["text_config"]["max_position_embeddings"],
            &genai["model"]["context_length"],
        ];
        let context = context.into_iter().filter_map(Json::as_u64).min();
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let special = added.values().filter(|token| token.special);
        let special = special
            .map(|token| token.content.clone())
            .filter(|text| !text.is_empty());
        let mut marks: Vec<String> = special.collect();
        marks.sort_unstable();
        Ok(Self {
            path: path.to_owned(),
            graphs,
            marks,
            tokenizer,
            vocabulary,
            stop_tokens,
            context: context.and_then(|context| usize::try_from(context).ok()),
            image,
            texts: ChatTexts {
                file,
                template,
                begin,
                end,
                image: image_text,
            },
        })
    }

    /// Names of the files of the graphs, in the order in which they are run.
    pub(crate) fn graph_names(&self) -> String {
        let graphs = [&self.graphs.pictures, &self.graphs.embeddings];
        let graphs = graphs.into_iter().flatten().chain([&self.graphs.decoder]);
        let shown = graphs.map(|path| {
            path.strip_prefix(&self.path)
                .unwrap_or(path)
                .display()
                .to_string()
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    /// A text in which no part is read as a token with a meaning, such as the end of a message.
    pub(crate) fn without_marks(&self, text: &str) -> String {
        let mut plain = text.to_owned();
        // Of what remains another mark may come, such as of `<|e<|end|>nd|>`.
        for _ in 0..MAX_ROUNDS {
            let Some(mark) = self.marks.iter().find(|mark| plain.contains(&***mark)) else {
                return plain;
            };
            plain = plain.replace(&**mark, "");
        }
        // No name of a camera or a class needs these.
        plain.replace(['<', '>', '[', ']', '|'], "")
    }
}

/// Text of a token: itself, or an object that has it as `content`.
fn word(value: &Json) -> String {
    let text = value.as_str().or_else(|| value["content"].as_str());
    text.unwrap_or_default().to_owned()
}

/// A configuration of the folder; `None` if there is none.
fn json(folder: &Path, name: &str) -> Result<Option<Json>, String> {
    let path = folder.join(name);
    if !path.is_file() {
        return Ok(None);
    }
    let text = weir_files::read_text(&path, MAX_JSON_BYTES);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    let parsed: Result<Json, _> = serde_json::from_str(&text);
    match parsed {
        Ok(parsed) if parsed.is_object() => Ok(Some(parsed)),
        Ok(_) => Err(format!("{}: it is no JSON object", path.display())),
        Err(error) => Err(format!("{}: it is no JSON: {error}", path.display())),
    }
}

/// Files with fixed names, in the folder or in `onnx/` below it.
fn named_files(folder: &Path, variant: Option<&str>) -> Result<GraphFiles, String> {
    let find = |stem: &str| {
        let names = variant.map(|variant| format!("{stem}_{variant}.onnx"));
        let names: Vec<String> = names.into_iter().chain([format!("{stem}.onnx")]).collect();
        let folders = [folder.to_owned(), folder.join("onnx")];
        let mut paths = names
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        paths.find(|path| path.is_file())
    };
    let decoder = find("decoder_model_merged").or_else(|| find("model"));
    let decoder = decoder.ok_or_else(|| {
        format!(
            "{}: it has no genai_config.json, and neither decoder_model_merged.onnx nor model.onnx, also not in onnx/: name the folder of \
             an export, such as that of `optimum-cli export onnx`",
            folder.display()
        )
    })?;
    let (embeddings, pictures) = (find("embed_tokens"), find("vision_encoder"));
    if pictures.is_some() && embeddings.is_none() {
        return Err(format!(
            "{}: it has vision_encoder.onnx and no embed_tokens.onnx: copy all files of the export",
            folder.display()
        ));
    }
    Ok(GraphFiles {
        decoder,
        embeddings,
        pictures,
        ports: Settings::default(),
        features: "image_features".to_owned(),
        embedded: None,
        pixels: "pixel_values".to_owned(),
        encoded: "image_features".to_owned(),
    })
}

/// Files and names that a `genai_config.json` has.
fn genai_files(folder: &Path, config: &Json) -> Result<GraphFiles, String> {
    let wrong = |reason: String| format!("{}: {reason}", folder.join("genai_config.json").display());
    let model = &config["model"];
    let file = |part: &str| -> Result<Option<PathBuf>, String> {
        let Some(name) = model[part]["filename"].as_str().filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let relative = Path::new(name);
        let is_inside = relative
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !is_inside {
            return Err(wrong(format!(
                "model.{part}.filename is \"{name}\", which is not below the folder"
            )));
        }
        let path = folder.join(relative);
        if !path.is_file() {
            return Err(wrong(format!(
                "model.{part}.filename is \"{name}\", and there is no such file"
            )));
        }
        Ok(Some(path))
    };
    let decoder = file("decoder")?;
    let decoder = decoder.ok_or_else(|| wrong("it has no model.decoder.filename".to_owned()))?;
    let (embeddings, pictures) = (file("embedding")?, file("vision")?);
    if pictures.is_some() && embeddings.is_none() {
        return Err(wrong(
            "it has model.vision and no model.embedding.filename".to_owned(),
        ));
    }
    let name = |part: &str, side: &str, key: &str| model[part][side][key].as_str().map(str::to_owned);
    let mut ports = Settings::default();
    let mut set = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            ports.0.insert(key.to_owned(), Value::Text(value));
        }
    };
    // Configurations name positions that the graph need not have.
    set("attention_mask", name("decoder", "inputs", "attention_mask"));
    let tokens = if embeddings.is_some() {
        "inputs_embeds"
    } else {
        "input_ids"
    };
    set(tokens, name("decoder", "inputs", tokens));
    let pattern = |side: &str, key: &str| prefix(&name("decoder", side, key)?);
    set("past", pattern("inputs", "past_key_names"));
    set("present", pattern("outputs", "present_key_names"));
    set("logits", name("decoder", "outputs", "logits"));
    let or_usual = |found: Option<String>, usual: &str| found.unwrap_or_else(|| usual.to_owned());
    Ok(GraphFiles {
        decoder,
        embeddings,
        pictures,
        ports,
        features: or_usual(name("embedding", "inputs", "image_features"), "image_features"),
        embedded: name("embedding", "outputs", "inputs_embeds"),
        pixels: or_usual(name("vision", "inputs", "pixel_values"), "pixel_values"),
        encoded: or_usual(name("vision", "outputs", "image_features"), "image_features"),
    })
}

/// Common beginning of the names that a pattern such as `past_key_values.%d.key` stands for, of keys and of values.
fn prefix(pattern: &str) -> Option<String> {
    let end = pattern.find(|c: char| !c.is_ascii_alphanumeric());
    let prefix = &pattern[..end.unwrap_or(pattern.len())];
    (!prefix.is_empty()).then(|| prefix.to_owned())
}

/// Tokens that end an answer, as several files name them.
fn stop_tokens(named: &[&Json], end: Option<u32>, vocabulary: u32) -> Vec<u32> {
    let listed = named.iter().flat_map(|value| match value {
        Json::Array(ids) => ids.iter().collect(),
        id => vec![*id],
    });
    let ids = listed.filter_map(|id| u32::try_from(id.as_u64()?).ok());
    let mut ids: Vec<u32> = ids.chain(end).filter(|id| *id < vocabulary).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.truncate(MAX_STOP_TOKENS);
    ids
}

/// The token of pictures with its text, the marks around its places, and the preparation of pictures.
fn image(
    folder: &Path,
    config: &Json,
    genai: &Json,
    tokenizer: &Tokenizer,
) -> Result<(String, ImagePlace, Preparation), String> {
    let named = [
        &config["image_token_id"],
        &config["image_token_index"],
        &genai["model"]["image_token_id"],
    ];
    let token = named
        .into_iter()
        .find_map(Json::as_u64)
        .and_then(|id| u32::try_from(id).ok());
    let token = token.ok_or_else(|| {
        format!(
            "{}: it names no image_token_id",
            folder.join("config.json").display()
        )
    })?;
    let text = tokenizer
        .id_to_token(token)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| {
            format!(
                "{}: it has no token {token}, which is the image_token_id of the model",
                folder.join("tokenizer.json").display()
            )
        })?;
    let mut place = ImagePlace {
        token,
        before: Vec::new(),
        behind: Vec::new(),
    };
    if config["model_type"]
        .as_str()
        .is_some_and(|family| MARKED_FAMILIES.contains(&family))
    {
        let id = |mark: &&str| tokenizer.token_to_id(mark);
        place.before = MARKS.0.iter().filter_map(id).collect();
        place.behind = id(&MARKS.1).into_iter().collect();
    }
    Ok((text, place, preparation(folder, config)?))
}

/// Reads `preprocessor_config.json`.
fn preparation(folder: &Path, config: &Json) -> Result<Preparation, String> {
    let path = folder.join("preprocessor_config.json");
    let file = json(folder, "preprocessor_config.json")?;
    let file = file.ok_or_else(|| {
        format!(
            "{}: it is missing, and has the preparation of pictures: copy it from the model's own repository",
            path.display()
        )
    })?;
    let wrong = |reason: &str| format!("{}: {reason}", path.display());
    let mut read = Companions::default();
    read.preprocessor(path.clone(), &file);
    if let Some((_, reason)) = read.unread.first() {
        return Err(wrong(reason));
    }
    let settings = &read.settings;
    let numbers = |key: &str| triple(settings, key).map_err(|reason| wrong(&reason));
    let side = |key: &str| {
        settings
            .0
            .contains_key(key)
            .then(|| settings.number(key, 0.0) as u32)
    };
    // Families that cut pictures into tiles name the side of one.
    let tile = [
        &file["max_image_size"]["longest_edge"],
        &config["vision_config"]["image_size"],
    ];
    let tile = tile.into_iter().find_map(Json::as_u64);
    let tile = tile
        .and_then(|side| u32::try_from(side).ok())
        .map(|side| (side, side));
    Ok(Preparation {
        mean: numbers("mean")?.unwrap_or([0.0; 3]),
        std: numbers("std")?.unwrap_or([255.0; 3]),
        size: side("width").zip(side("height")).or(tile),
        is_centre: settings.text("resize") == Some("centre"),
    })
}

/// The template of a chat and its file.
fn template(folder: &Path, texts: &Json) -> Result<(PathBuf, String), String> {
    let path = folder.join("chat_template.jinja");
    if path.is_file() {
        let text = weir_files::read_text(&path, MAX_TEMPLATE_BYTES);
        let text = text.map_err(|error| format!("chat template {}: {error}", path.display()))?;
        return Ok((path, text));
    }
    let own = json(folder, "chat_template.json")?.unwrap_or_default();
    let files = [("chat_template.json", &own), ("tokenizer_config.json", texts)];
    let found = files.into_iter().find_map(|(name, file)| {
        let template = match &file["chat_template"] {
            Json::Array(several) => several.iter().find(|one| one["name"] == "default")?["template"].as_str(),
            one => one.as_str(),
        };
        Some((folder.join(name), template?.to_owned()))
    });
    let (path, text) = found.ok_or_else(|| {
        format!(
            "{}: it has no chat template: neither chat_template.jinja nor chat_template.json, and none in tokenizer_config.json",
            folder.display()
        )
    })?;
    if text.len() as u64 > MAX_TEMPLATE_BYTES {
        return Err(format!(
            "chat template in {}: it has more than {MAX_TEMPLATE_BYTES} bytes",
            path.display()
        ));
    }
    Ok((path, text))
}

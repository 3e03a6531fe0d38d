//! One model to be profiled: a file, or one that ships with the program.

use std::path::Path;

use weir_flow::{Settings, Value};
use weir_models::PREFIX;
use weir_operators::ModelFile;

use crate::args::Profile;
use crate::error::UserError;
use crate::zoo::Zoo;

/// A model that is profiled without a graph.
pub(super) struct SingleModel {
    /// Name in tables and in the profile.
    pub(super) name: String,
    pub(super) file: ModelFile,
    /// Head with its settings: from `--head`, or from the shipped models or the zoo; `None` if neither names
    /// one.
    pub(super) head: Option<(String, Settings)>,
}

impl SingleModel {
    /// The model that the command line names; `None` if it names a graph.
    ///
    /// # Errors
    /// There is no such file, or no model with the name ships.
    pub(super) fn from_args(args: &Profile, zoo: &Zoo) -> anyhow::Result<Option<Self>> {
        let target = &args.target;
        if let Some(name) = target.to_str().and_then(|target| target.strip_prefix(PREFIX)) {
            return Self::shipped(name, args).map(Some);
        }
        if !target.is_file() {
            return Err(UserError::new(format!("there is no file {}", target.display())).into());
        }
        if target.extension().is_none_or(|extension| extension != "onnx") {
            return Ok(None);
        }
        let stem = target.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Some(Self {
            name: stem.unwrap_or_else(|| "model".to_owned()),
            file: ModelFile::Path(target.clone()),
            head: head(target, args, zoo)?,
        }))
    }

    fn shipped(name: &str, args: &Profile) -> anyhow::Result<Self> {
        let model = weir_models::find(name).ok_or_else(|| {
            let names: Vec<&str> = weir_models::shipped().iter().map(|model| &*model.name).collect();
            let known = names.join(", ");
            UserError::new(format!(
                "no model of the name {PREFIX}{name} ships; there are {known}"
            ))
        })?;
        if model.generates() {
            return Err(UserError::new(format!(
                "{PREFIX}{name} generates text token by token: a graph with it measures its steps as it starts, and `weir profile` \
                 what has one answer for each item"
            ))
            .into());
        }
        let own = || (model.head.clone(), model.settings.clone());
        let asked = args.head.clone().map(|head| (head, unread_names()));
        Ok(Self {
            name: model.name.clone(),
            file: ModelFile::Bytes(model.onnx.into()),
            head: Some(asked.unwrap_or_else(own)),
        })
    }
}

/// Head and settings for a file: from `--head`, or from the zoo if it lists a file with the same name.
fn head(path: &Path, args: &Profile, zoo: &Zoo) -> anyhow::Result<Option<(String, Settings)>> {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let known = zoo
        .entries()
        .find(|(_, entry)| args.head.is_none() && Some(&entry.file) == file.as_ref());
    let settings = match known {
        Some((_, entry)) => zoo.resolve_keys(&entry.settings)?,
        None => unread_names(),
    };
    let head = args
        .head
        .clone()
        .or_else(|| known.and_then(|(_, entry)| entry.head.clone()));
    Ok(head.map(|head| (head, settings)))
}

/// A profile has no use for the names of classes, so nothing need name them.
fn unread_names() -> Settings {
    let key = weir_operators::UNREAD_NAMES.to_owned();
    Settings([(key, Value::Flag(true))].into())
}

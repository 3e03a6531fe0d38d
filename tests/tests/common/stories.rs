//! The decoder of the asset pack, which tells stories, and what has it begin each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{Model, Operator, Settings, Value};
use weir_operators::{LoadRequest, ModelFile, OperatorRequest};

pub(crate) struct Stories {
    pub(crate) file: PathBuf,
    /// The file of its vocabulary.
    pub(crate) vocabulary: String,
}

impl Stories {
    pub(crate) fn of(assets: &Path) -> Self {
        Self {
            file: assets.join("models/stories260k_decoder.onnx"),
            vocabulary: assets.join("models/tok512.bin").display().to_string(),
        }
    }

    pub(crate) fn model(&self) -> Arc<dyn Model> {
        let vocabulary = Value::Text(self.vocabulary.clone());
        let settings = Settings([("vocabulary".to_owned(), vocabulary)].into());
        let loaded = weir_operators::load(&LoadRequest {
            name: "stories",
            file: ModelFile::Path(self.file.clone()),
            head: "generate",
            settings: &settings,
            max_batch: 1,
            dump: None,
        });
        loaded.unwrap()
    }

    pub(crate) fn operator(&self, model: &dyn Model, max_tokens: u32) -> Arc<dyn Operator> {
        let template = "Once upon a time, there was a".to_owned();
        let keys = [
            ("template", Value::Text(template)),
            ("max_tokens", Value::Number(f64::from(max_tokens))),
            ("temperature", Value::Number(0.8)),
            ("cut_short", Value::Text("keep".to_owned())),
        ];
        let settings = Settings(keys.map(|(key, value)| (key.to_owned(), value)).into());
        let operator = weir_operators::operator(&OperatorRequest {
            operator: "describe",
            regions: &[],
            settings: &settings,
            model: Some(model),
        });
        operator.unwrap()
    }
}

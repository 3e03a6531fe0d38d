//! Files that lie beside a model: `config.json` and `preprocessor_config.json` of Hugging Face, `infer_cfg.yml` of
//! PaddleDetection, and `pipeline.json` of MMDeploy.
//!
//! They say how an input is prepared and how classes are called. They count for the model of their folder alone, so they are read
//! only for models that name their inputs as the exporters of these do: a file that lies there by chance is not believed.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use weir_flow::{Settings, Value};

use super::adapt::Opened;
use super::family_of;
use crate::heads::layouts::Layout;
use crate::heads::{NAMES, names};

/// Largest file that is read: a list of classes, and some numbers.
const MAX_BYTES: u64 = 4 << 20;
/// Name of the image in exports of Hugging Face.
const PIXEL_VALUES: &str = "pixel_values";
/// Largest side that a file may ask for.
const MAX_SIDE: u64 = 8192;

/// Contents of the files beside a model.
#[derive(Debug, Default)]
pub(super) struct Companions {
    /// Keys of the head, as a graph could give them; and the names of the classes.
    pub(super) settings: Settings,
    /// Files that were read, with what is known by them in words.
    pub(super) files: Vec<(PathBuf, String)>,
    /// Files that are there and cannot be read, with the reason.
    pub(super) unread: Vec<(PathBuf, String)>,
}

/// Reads the files beside the model at `path`.
pub(super) fn read(path: &Path, opened: &Opened) -> Companions {
    let mut found = Companions::default();
    let takes = |name: &str| opened.inputs.iter().any(|port| port.name == name);
    if takes(PIXEL_VALUES) {
        // Exporters also put the ONNX file into a folder below that of the configuration.
        if let Some((path, config)) = found.json(path, "config.json") {
            found.config(path, &config);
        }
        if let Some((path, config)) = found.json(path, "preprocessor_config.json") {
            found.preprocessor(path, &config);
        }
    } else if takes("scale_factor") || takes("im_shape") {
        let beside = path.with_file_name("infer_cfg.yml");
        if let Some(text) = found.text(&beside) {
            found.paddle(beside, &text);
        }
    } else if family_of(opened) == Some(Layout::MmDeploy)
        && let Some((path, pipeline)) = found.json(path, "pipeline.json")
    {
        found.pipeline(path, &pipeline);
    }
    found
}

impl Companions {
    fn text(&mut self, path: &Path) -> Option<String> {
        if !path.is_file() {
            return None;
        }
        match weir_files::read_text(path, MAX_BYTES) {
            Ok(text) => Some(text),
            Err(error) => {
                self.unread.push((path.to_owned(), error.to_string()));
                None
            }
        }
    }

    fn json(&mut self, model: &Path, name: &str) -> Option<(PathBuf, Json)> {
        let folder = std::path::absolute(model).ok()?.parent()?.to_owned();
        let above = folder.parent().map(Path::to_owned);
        let path = [Some(folder), above]
            .into_iter()
            .flatten()
            .map(|folder| folder.join(name));
        let path = path.into_iter().find(|path| path.is_file())?;
        let text = self.text(&path)?;
        match serde_json::from_str(&text) {
            Ok(json) => Some((path, json)),
            Err(error) => {
                self.unread.push((path, format!("it is no JSON: {error}")));
                None
            }
        }
    }

    fn set(&mut self, key: &str, value: Value) {
        self.settings.0.insert(key.to_owned(), value);
    }

    fn config(&mut self, path: PathBuf, config: &Json) {
        let mut known = Vec::new();
        if let Some(kind) = config.get("model_type").and_then(Json::as_str) {
            known.push(format!("model_type {kind}"));
        }
        let labels = config.get("id2label").filter(|labels| labels.is_object());
        if let Some(names) = labels.and_then(|labels| names::parse(&labels.to_string())) {
            known.push(format!("id2label of {} classes", names.len()));
            self.set(NAMES, Value::Texts(names));
        }
        self.files.push((path, known.join(", ")));
    }

    pub(super) fn preprocessor(&mut self, path: PathBuf, config: &Json) {
        let flag = |key: &str, default: bool| config.get(key).and_then(Json::as_bool).unwrap_or(default);
        let triple = |key: &str| {
            let value = config.get(key)?;
            three_numbers(value).or_else(|| value.as_f64().map(|value| [value; 3]))
        };
        let scale = match flag("do_rescale", true) {
            true => config
                .get("rescale_factor")
                .and_then(Json::as_f64)
                .unwrap_or(1.0 / 255.0),
            false => 1.0,
        };
        let (mean, std) = match (
            flag("do_normalize", false),
            triple("image_mean"),
            triple("image_std"),
        ) {
            (true, Some(mean), Some(std)) => (mean, std),
            (true, ..) => {
                return self.unread.push((
                    path,
                    "it normalises, and image_mean or image_std is missing".to_owned(),
                ));
            }
            (false, ..) => ([0.0; 3], [1.0; 3]),
        };
        if scale <= 0.0 || !scale.is_finite() || std.iter().any(|std| *std <= 0.0) {
            return self
                .unread
                .push((path, "its numbers are no scale of pixels".to_owned()));
        }
        let crops = flag("do_center_crop", false);
        let sides = config
            .get("crop_size")
            .filter(|_| crops)
            .or_else(|| config.get("size"));
        self.normalise(mean, std, scale);
        self.set(
            "resize",
            Value::Text(if crops { "centre" } else { "stretch" }.to_owned()),
        );
        if let Some((width, height)) = sides.and_then(sides_of) {
            self.set("width", Value::Number(width as f64));
            self.set("height", Value::Number(height as f64));
        }
        self.files.push((path, self.prepared()));
    }

    /// MMDeploy writes the transforms of its first task, of which one normalises and one may keep the aspect.
    fn pipeline(&mut self, path: PathBuf, pipeline: &Json) {
        let tasks = pipeline.pointer("/pipeline/tasks").and_then(Json::as_array);
        let transforms = tasks
            .into_iter()
            .flatten()
            .filter_map(|task| task.get("transforms"));
        let transforms: Vec<&Json> = transforms.filter_map(Json::as_array).flatten().collect();
        let of_type = |name: &str| {
            let is_type = |transform: &&&Json| transform.get("type").and_then(Json::as_str) == Some(name);
            transforms.iter().find(is_type).copied()
        };
        let flag = |transform: Option<&Json>, key: &str| transform?.get(key)?.as_bool();
        let numbers = |key: &str| three_numbers(of_type("Normalize")?.get(key)?);
        let numbers = numbers("mean").zip(numbers("std"));
        let Some((mean, std)) = numbers.filter(|(_, std)| std.iter().all(|std| *std > 0.0)) else {
            let reason = "mean and std of Normalize are not three numbers each".to_owned();
            return self.unread.push((path, reason));
        };
        self.normalise(mean, std, 1.0);
        if flag(of_type("Normalize"), "to_rgb") == Some(false) {
            self.set("channels", Value::Text("bgr".to_owned()));
        }
        if flag(of_type("Resize"), "keep_ratio") == Some(false) {
            self.set("resize", Value::Text("stretch".to_owned()));
        }
        self.files.push((path, self.prepared()));
    }

    /// Sets mean and deviation of values from 0 to 255, where `scale` brings these to those that were measured.
    fn normalise(&mut self, mean: [f64; 3], std: [f64; 3], scale: f64) {
        // To the hundred thousandth of a byte: a third of 255 needs no more.
        let text = |values: [f64; 3]| {
            let rounded = values.map(|value| (value / scale * 1e5).round() / 1e5);
            Value::Text(rounded.map(|value| value.to_string()).join(", "))
        };
        self.set("mean", text(mean));
        self.set("std", text(std));
        self.set("channels", Value::Text("rgb".to_owned()));
    }

    /// The preparation of the input in words.
    fn prepared(&self) -> String {
        let keys = ["mean", "std", "resize", "width", "height"];
        let shown = keys.iter().filter_map(|key| match self.settings.0.get(*key)? {
            Value::Text(text) => Some(format!("{key} {text}")),
            Value::Number(number) => Some(format!("{key} {number}")),
            _ => None,
        });
        shown.collect::<Vec<_>>().join("; ")
    }

    /// PaddleDetection writes lists of numbers and of classes, each item in a line of its own.
    fn paddle(&mut self, path: PathBuf, text: &str) {
        let read = PaddleConfig::read(text);
        let unit = if read.is_scale { 1.0 / 255.0 } else { 1.0 };
        let triple = |values: &[f64]| <[f64; 3]>::try_from(values).ok();
        let numbers = triple(&read.mean).zip(triple(&read.std));
        let mut known = Vec::new();
        match numbers.filter(|(_, std)| std.iter().all(|std| *std > 0.0)) {
            Some((mean, std)) => self.normalise(mean, std, unit),
            None if read.normalises => {
                return self.unread.push((
                    path,
                    "mean and std of NormalizeImage are not three numbers each".to_owned(),
                ));
            }
            None => self.normalise([0.0; 3], [1.0; 3], 1.0),
        }
        self.set(
            "resize",
            Value::Text(if read.keep_ratio { "letterbox" } else { "stretch" }.to_owned()),
        );
        known.push(self.prepared());
        if !read.labels.is_empty() {
            known.push(format!("label_list of {} classes", read.labels.len()));
            self.set(NAMES, Value::Texts(read.labels));
        }
        self.files.push((path, known.join("; ")));
    }
}

/// A list of three numbers.
fn three_numbers(json: &Json) -> Option<[f64; 3]> {
    let values: Option<Vec<f64>> = json.as_array()?.iter().map(Json::as_f64).collect();
    values?.try_into().ok()
}

/// Width and height: `{"height": 640, "width": 640}`, `{"shortest_edge": 800}` or a number.
fn sides_of(size: &Json) -> Option<(u64, u64)> {
    let side = |json: &Json| json.as_u64().filter(|side| (16..=MAX_SIDE).contains(side));
    let of = |key: &str| size.get(key).and_then(side);
    match (of("width"), of("height")) {
        (Some(width), Some(height)) => Some((width, height)),
        _ => of("shortest_edge")
            .or_else(|| side(size))
            .map(|side| (side, side)),
    }
}

/// The lines of `infer_cfg.yml` that matter.
#[derive(Debug, Default, PartialEq)]
struct PaddleConfig {
    normalises: bool,
    is_scale: bool,
    keep_ratio: bool,
    mean: Vec<f64>,
    std: Vec<f64>,
    labels: Vec<String>,
}

impl PaddleConfig {
    fn read(text: &str) -> Self {
        /// Classes that are read.
        const MAX_CLASSES: usize = 1 << 16;
        let mut config = Self {
            is_scale: true,
            ..Self::default()
        };
        let mut list = String::new();
        for line in text.lines() {
            let is_item = line.trim_start().starts_with("- ");
            let plain = line.trim().trim_start_matches("- ").trim();
            if let Some((key, value)) = plain.split_once(':').filter(|_| list != "label_list" || !is_item) {
                let value = value.trim();
                list.clear();
                match key {
                    "mean" | "std" | "label_list" if value.is_empty() => key.clone_into(&mut list),
                    "mean" => config.mean = numbers(value),
                    "std" => config.std = numbers(value),
                    "is_scale" => config.is_scale = value == "true",
                    "keep_ratio" => config.keep_ratio = value == "true",
                    "type" => config.normalises |= value == "NormalizeImage",
                    _ => {}
                }
            } else if is_item {
                match list.as_str() {
                    "mean" => config
                        .mean
                        .extend(plain.parse::<f64>().ok().filter(|number| number.is_finite())),
                    "std" => config
                        .std
                        .extend(plain.parse::<f64>().ok().filter(|number| number.is_finite())),
                    "label_list" if config.labels.len() < MAX_CLASSES => {
                        config.labels.push(names::plain(plain.trim_matches(['\'', '"'])));
                    }
                    _ => {}
                }
            }
        }
        config
    }
}

/// Numbers in one line: `[0.485, 0.456, 0.406]`.
fn numbers(text: &str) -> Vec<f64> {
    let inner = text.trim_matches(['[', ']']);
    let numbers = inner.split(',').map(|number| number.trim().parse().ok());
    let finite = numbers.map(|number: Option<f64>| number.filter(|number| number.is_finite()));
    finite.collect::<Option<Vec<f64>>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preparation_of_hugging_face_becomes_keys() {
        let read = |text: &str| {
            let mut found = Companions::default();
            found.preprocessor(PathBuf::new(), &serde_json::from_str(text).expect("JSON"));
            found
        };
        let detr = read(
            r#"{"do_normalize": true, "do_rescale": true, "rescale_factor": 0.00392156862745098, "image_mean": [0.485, 0.456, 0.406],
                "image_std": [0.229, 0.224, 0.225], "size": {"shortest_edge": 800, "longest_edge": 1333}}"#,
        );
        assert_eq!(detr.settings.text("mean"), Some("123.675, 116.28, 103.53"));
        assert_eq!(detr.settings.text("std"), Some("58.395, 57.12, 57.375"));
        assert_eq!(detr.settings.text("resize"), Some("stretch"));
        assert!(detr.settings.number("width", 0.0) == 800.0 && detr.settings.number("height", 0.0) == 800.0);
        let plain = read(r#"{"do_normalize": false, "size": {"width": 640, "height": 480}}"#);
        assert_eq!(
            (plain.settings.text("mean"), plain.settings.text("std")),
            (Some("0, 0, 0"), Some("255, 255, 255"))
        );
        assert!(plain.settings.number("height", 0.0) == 480.0);
        let crop = read(r#"{"do_center_crop": true, "crop_size": 224, "size": 256}"#);
        assert_eq!(crop.settings.text("resize"), Some("centre"));
        assert!(crop.settings.number("width", 0.0) == 224.0);
        for broken in [
            r#"{"do_normalize": true}"#,
            r#"{"do_normalize": true, "image_mean": [0], "image_std": 1}"#,
            r#"{"rescale_factor": 0}"#,
            r#"{"do_normalize": true, "image_mean": 0, "image_std": 0}"#,
        ] {
            let found = read(broken);
            assert!(found.settings.0.is_empty() && found.unread.len() == 1, "{broken}");
        }
    }

    #[test]
    fn the_pipeline_of_mmdeploy_is_read() {
        let read = |normalize: &str| {
            let text = format!(
                r#"{{"pipeline": {{"input": ["img"], "tasks": [{{"name": "Preprocess", "transforms": [{{"type": "LoadImageFromFile"}},
                {{"type": "Resize", "keep_ratio": true, "size": [640, 640]}}, {normalize}]}}, {{"name": "net"}}]}}}}"#
            );
            let mut found = Companions::default();
            found.pipeline(PathBuf::new(), &serde_json::from_str(&text).expect("JSON"));
            found
        };
        let rtmdet = read(
            r#"{"type": "Normalize", "to_rgb": false, "mean": [103.53, 116.28, 123.675], "std": [57.375, 57.12, 58.395]}"#,
        );
        let text = |key: &str| rtmdet.settings.text(key);
        assert_eq!(text("mean"), Some("103.53, 116.28, 123.675"));
        assert_eq!((text("channels"), text("resize")), (Some("bgr"), None));
        let rgb = read(r#"{"type": "Normalize", "to_rgb": true, "mean": [0, 0, 0], "std": [255, 255, 255]}"#);
        assert_eq!(rgb.settings.text("channels"), Some("rgb"));
        for broken in [
            r#"{"type": "Pad"}"#,
            r#"{"type": "Normalize", "mean": [0], "std": [1, 1, 0]}"#,
        ] {
            let found = read(broken);
            assert!(found.settings.0.is_empty() && found.unread.len() == 1, "{broken}");
        }
    }

    #[test]
    fn the_configuration_of_paddle_is_read() {
        let text = "mode: paddle\nPreprocess:\n- interp: 2\n  keep_ratio: false\n  target_size:\n  - 640\n  - 640\n  type: Resize\n- is_scale: true\n  \
                    mean:\n  - 0.485\n  - 0.456\n  - 0.406\n  std:\n  - 0.229\n  - 0.224\n  - 0.225\n  type: NormalizeImage\n- type: Permute\n\
                    label_list:\n- person\n- 'traffic light'\n- \"a: b\"\nNMS:\n  keep_top_k: 100\n";
        let config = PaddleConfig::read(text);
        assert_eq!(config.mean, [0.485, 0.456, 0.406]);
        assert_eq!(config.std, [0.229, 0.224, 0.225]);
        assert_eq!(config.labels, ["person", "traffic light", "a: b"]);
        assert!(config.normalises && config.is_scale && !config.keep_ratio);
        let inline = PaddleConfig::read("- mean: [0, 0, 0]\n  std: [1, 1, x]\n  type: NormalizeImage");
        assert_eq!((inline.mean.len(), inline.std.len()), (3, 0));
        let mut found = Companions::default();
        found.paddle(PathBuf::new(), text);
        assert_eq!(found.settings.text("mean"), Some("123.675, 116.28, 103.53"));
        assert_eq!(found.settings.texts(NAMES).map(<[String]>::len), Some(3));
    }
}

//! Names of a model's classes.

use std::path::Path;
use std::sync::Arc;

use weir_flow::Settings;

/// Largest file with names or an alphabet. They are short lists; a larger file was named by mistake.
pub(super) const MAX_LIST_BYTES: u64 = 4 << 20;

/// The 80 classes of COCO in their usual order.
pub(crate) const COCO: &[&str] = &[
    "person",
    "bicycle",
    "car",
    "motorcycle",
    "airplane",
    "bus",
    "train",
    "truck",
    "boat",
    "traffic light",
    "fire hydrant",
    "stop sign",
    "parking meter",
    "bench",
    "bird",
    "cat",
    "dog",
    "horse",
    "sheep",
    "cow",
    "elephant",
    "bear",
    "zebra",
    "giraffe",
    "backpack",
    "umbrella",
    "handbag",
    "tie",
    "suitcase",
    "frisbee",
    "skis",
    "snowboard",
    "sports ball",
    "kite",
    "baseball bat",
    "baseball glove",
    "skateboard",
    "surfboard",
    "tennis racket",
    "bottle",
    "wine glass",
    "cup",
    "fork",
    "knife",
    "spoon",
    "bowl",
    "banana",
    "apple",
    "sandwich",
    "orange",
    "broccoli",
    "carrot",
    "hot dog",
    "pizza",
    "donut",
    "cake",
    "chair",
    "couch",
    "potted plant",
    "bed",
    "dining table",
    "toilet",
    "tv",
    "laptop",
    "mouse",
    "remote",
    "keyboard",
    "cell phone",
    "microwave",
    "oven",
    "toaster",
    "sink",
    "refrigerator",
    "book",
    "clock",
    "vase",
    "scissors",
    "teddy bear",
    "hair drier",
    "toothbrush",
];

/// Names listed in an error.
const MAX_LISTED: usize = 100;

/// Names of a model's classes; a class without a name is named by its number.
#[derive(Debug, Clone)]
pub(crate) struct Labels {
    names: Vec<Arc<str>>,
}

impl Labels {
    /// Reads the keys `labels` or `labels_file`, else takes `default`, for a model of `classes` classes.
    ///
    /// # Errors
    /// The file cannot be read, or the number of names is not the number of classes.
    pub(crate) fn read(settings: &Settings, default: &[&str], classes: usize) -> Result<Self, String> {
        let given: Option<Vec<Arc<str>>> = match (settings.text("labels_file"), settings.texts("labels")) {
            (Some(path), _) => {
                let text = weir_files::read_text(Path::new(path), MAX_LIST_BYTES)
                    .map_err(|error| format!("labels_file {path} cannot be read: {error}"))?;
                Some(
                    text.lines()
                        .map(str::trim)
                        .filter(|line| !line.is_empty())
                        .map(Arc::from)
                        .collect(),
                )
            }
            (None, Some(names)) => Some(names.iter().map(|name| Arc::from(name.as_str())).collect()),
            (None, None) => None,
        };
        if let Some(names) = &given
            && names.len() != classes
        {
            return Err(format!(
                "{} labels are given; the model has {classes} classes",
                names.len()
            ));
        }
        let names = given.unwrap_or_else(|| {
            let named = default.len() == classes;
            let number = |class: usize| Arc::from(class.to_string());
            (0..classes)
                .map(|class| {
                    if named {
                        Arc::from(default[class])
                    } else {
                        number(class)
                    }
                })
                .collect()
        });
        Ok(Self { names })
    }

    /// Labels with these names.
    pub(crate) fn of(names: &[Arc<str>]) -> Self {
        Self {
            names: names.to_vec(),
        }
    }

    /// Whether the settings name the classes.
    pub(crate) fn are_set(settings: &Settings) -> bool {
        settings.text("labels_file").is_some() || settings.texts("labels").is_some()
    }

    /// Names in the model's order.
    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Names as a comma-separated list, limited in length.
    pub(crate) fn listed(&self) -> String {
        let listed: Vec<&str> = self.names.iter().take(MAX_LISTED).map(|name| &**name).collect();
        let more = self.names.len().saturating_sub(MAX_LISTED);
        let tail = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        listed.join(", ") + &tail
    }

    /// The name of a class.
    pub(crate) fn name(&self, class: usize) -> Arc<str> {
        self.names
            .get(class)
            .map_or_else(|| Arc::from(class.to_string()), Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Value;

    #[test]
    fn names_come_from_keys_then_from_the_head_then_from_numbers() {
        let mut settings = Settings::default();
        assert_eq!(&*Labels::read(&settings, COCO, 80).expect("coco").name(16), "dog");
        assert_eq!(&*Labels::read(&settings, COCO, 3).expect("numbers").name(2), "2");
        settings.0.insert(
            "labels".to_owned(),
            Value::Texts(vec!["a".to_owned(), "b".to_owned()]),
        );
        assert_eq!(&*Labels::read(&settings, COCO, 2).expect("given").name(1), "b");
        assert!(Labels::read(&settings, COCO, 80).is_err());
    }
}

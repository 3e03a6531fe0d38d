//! Names of a model's classes.

use std::path::Path;
use std::sync::Arc;

use weir_flow::{COCO_LABEL, ClassNames, Settings};

use super::{NAMES, UNREAD_NAMES};
pub(crate) use weir_flow::COCO;

/// Largest file with names or an alphabet. They are short lists; a larger file was named by mistake.
pub(super) const MAX_LIST_BYTES: u64 = 4 << 20;

/// Names listed in an error.
const MAX_LISTED: usize = 100;

/// Names of a model's classes; a class without a name is named by its number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Labels {
    names: Vec<Arc<str>>,
    remarks: Vec<String>,
}

/// Names of classes that the graph or the model's file declares.
#[derive(Debug, Clone, Default)]
pub(super) struct DeclaredNames {
    /// Of the keys `labels` or `labels_file`.
    pub(super) labels: Option<Vec<Arc<str>>>,
    /// Whether the lines of `labels_file` have numbers, which are left out of the names.
    are_numbered: bool,
    /// Of the metadata of the file.
    pub(super) file: Option<Vec<Arc<str>>>,
    /// Nothing reads the names.
    unread: bool,
}

/// The numbers of the 80 classes in the annotations of COCO: what is between is no class.
const COCO_NUMBERS: [std::ops::RangeInclusive<usize>; 9] = [
    1..=11,
    13..=25,
    27..=28,
    31..=44,
    46..=65,
    67..=67,
    70..=70,
    72..=82,
    84..=90,
];

/// Names by the numbers of COCO's annotations, from 1 to 90, where `labels` asks for COCO's. A number without a class is its own name.
pub(super) fn coco_by_number(settings: &Settings) -> Option<Vec<Arc<str>>> {
    let is_asked = settings.text("labels_file").is_none()
        && matches!(settings.texts("labels"), Some([name]) if name == COCO_LABEL);
    if !is_asked {
        return None;
    }
    let mut names: Vec<Arc<str>> = (1..=90).map(|number| Arc::from(number.to_string())).collect();
    for (number, name) in COCO_NUMBERS.into_iter().flatten().zip(COCO.iter()) {
        names[number - 1] = Arc::from(*name);
    }
    Some(names)
}

impl DeclaredNames {
    /// Reads the keys and the metadata.
    ///
    /// # Errors
    /// The file of labels cannot be read.
    pub(super) fn read(settings: &Settings) -> Result<Self, String> {
        let mut are_numbered = false;
        let labels: Option<Vec<Arc<str>>> = match (settings.text("labels_file"), settings.texts("labels")) {
            (Some(path), _) => {
                let text = weir_files::read_text(Path::new(path), MAX_LIST_BYTES)
                    .map_err(|error| format!("labels_file {path} cannot be read: {error}"))?;
                let named = ClassNames::parse(&text);
                are_numbered = named.are_numbered;
                Some(named.names.into_iter().map(Arc::from).collect())
            }
            (None, Some([name])) if name == COCO_LABEL => {
                Some(COCO.iter().map(|name| Arc::from(*name)).collect())
            }
            (None, Some(names)) => Some(names.iter().map(|name| Arc::from(name.as_str())).collect()),
            (None, None) => None,
        };
        let file = settings.texts(NAMES).map(|names| {
            let name = |(class, name): (usize, &String)| match name.as_str() {
                "" => Arc::from(class.to_string()),
                name => Arc::from(name),
            };
            names.iter().enumerate().map(name).collect()
        });
        let unread = settings.0.contains_key(UNREAD_NAMES);
        Ok(Self {
            labels,
            are_numbered,
            file,
            unread,
        })
    }

    /// Whether nothing reads them.
    pub(super) fn are_unread(&self) -> bool {
        self.unread
    }

    /// Number of classes, and its source in words.
    pub(super) fn classes(&self) -> Option<(usize, &'static str)> {
        let labels = self
            .labels
            .as_ref()
            .map(|names| (names.len(), "`labels` of the graph"));
        labels.or(self
            .file
            .as_ref()
            .map(|names| (names.len(), "`names` in the file")))
    }
}

impl Labels {
    /// Reads the keys `labels` or `labels_file`, else takes the names in the file, else `default`, else numbers, for a model of
    /// `classes` classes.
    ///
    /// # Errors
    /// The file cannot be read, or the number of names is not the number of classes.
    pub(crate) fn read(settings: &Settings, default: &[&str], classes: usize) -> Result<Self, String> {
        Self::choose(DeclaredNames::read(settings)?, default, classes)
    }

    /// As [`Self::read`], for heads that find one kind of thing: the names in the file do not apply.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn read_fixed(settings: &Settings, default: &[&str], classes: usize) -> Result<Self, String> {
        let declared = DeclaredNames {
            file: None,
            ..DeclaredNames::read(settings)?
        };
        Self::choose(declared, default, classes)
    }

    /// # Errors
    /// As [`Self::read`].
    pub(super) fn choose(declared: DeclaredNames, default: &[&str], classes: usize) -> Result<Self, String> {
        let DeclaredNames {
            labels,
            are_numbered,
            file,
            unread,
        } = declared;
        let mut remarks = Vec::new();
        if let Some(names) = labels {
            if names.len() != classes {
                return Err(format!(
                    "{} labels are given; the model has {classes} classes",
                    names.len()
                ));
            }
            if are_numbered {
                let first = names.first().map_or("", |name| &**name);
                remarks.push(format!(
                    "the numbers in `labels_file` are taken as those of its classes, and are no part of their names: the first is \"{first}\""
                ));
            }
            remarks.extend(file.and_then(|file| difference(&names, &file)));
            return Ok(Self { names, remarks });
        }
        if let Some(names) = file {
            if names.len() == classes {
                return Ok(Self { names, remarks });
            }
            remarks.push(format!(
                "the file names {} classes and has {classes}: its names are not used; name the classes by `labels`",
                names.len()
            ));
        }
        if default.len() == classes {
            let names = default.iter().map(|name| Arc::from(*name)).collect();
            return Ok(Self { names, remarks });
        }
        let names = (0..classes).map(|class| Arc::from(class.to_string())).collect();
        if unread {
            return Ok(Self { names, remarks });
        }
        if classes == COCO.len() {
            return Err(format!(
                "nothing names its {classes} classes: write labels = [\"{COCO_LABEL}\"] if it was trained on COCO, else name \
                 them by `labels` or `labels_file`, or export it with its names"
            ));
        }
        remarks.push(format!(
            "nothing names its {classes} classes: they are called by their numbers, from \"0\"; name them by `labels` or \
             `labels_file`"
        ));
        Ok(Self { names, remarks })
    }

    /// Labels with these names.
    pub(crate) fn of(names: &[Arc<str>]) -> Self {
        Self {
            names: names.to_vec(),
            remarks: Vec::new(),
        }
    }

    /// Findings about the names that a user should know.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
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

/// The difference between labels of the graph and names in the file.
fn difference(labels: &[Arc<str>], file: &[Arc<str>]) -> Option<String> {
    if labels.len() != file.len() {
        return Some(format!(
            "the file names {} classes, `labels` of the graph {}: those of the graph are used",
            file.len(),
            labels.len()
        ));
    }
    let mut both = labels.iter().zip(file).enumerate();
    let (class, (label, name)) = both.find(|(_, (label, name))| !label.eq_ignore_ascii_case(name))?;
    Some(format!(
        "`labels` of the graph are not the names in the file: class {class} is \"{label}\" in the graph and \"{name}\" in the \
         file; those of the graph are used, so leave them out if the order is wrong"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Value;

    fn with(keys: &[(&str, &[&str])]) -> Settings {
        let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
        Settings(
            keys.iter()
                .map(|(key, names)| ((*key).to_owned(), texts(names)))
                .collect(),
        )
    }

    #[test]
    fn names_come_from_keys_then_the_file_then_the_head_then_numbers() {
        let default = ["x", "y"];
        let first = |settings: &Settings| Labels::read(settings, &default, 2).expect("fits").name(0);
        assert_eq!(
            &*first(&with(&[("labels", &["a", "b"]), (NAMES, &["c", "d"])])),
            "a"
        );
        assert_eq!(&*first(&with(&[(NAMES, &["c", "d"])])), "c");
        assert_eq!(&*first(&with(&[(NAMES, &["", "d"])])), "0");
        assert_eq!(&*first(&Settings::default()), "x");
        let numbers = Labels::read(&Settings::default(), &default, 3).expect("numbers");
        assert_eq!(&*numbers.name(2), "2");
        assert!(
            numbers.remarks()[0].contains("nothing names its 3 classes"),
            "{numbers:?}"
        );
        assert!(Labels::read(&with(&[("labels", &["a", "b"])]), &[], 80).is_err());
    }

    #[test]
    fn names_of_coco_must_be_asked_for() {
        let error = Labels::read(&Settings::default(), &[], 80).expect_err("refused");
        assert!(error.contains("labels = [\"coco\"]"), "{error}");
        let coco = Labels::read(&with(&[("labels", &["coco"])]), &[], 80).expect("named");
        assert_eq!(&*coco.name(16), "dog");
    }

    #[test]
    fn the_numbers_of_coco_have_their_names() {
        let names = coco_by_number(&with(&[("labels", &["coco"])])).expect("asked for");
        let at = |number: usize| &*names[number - 1];
        assert_eq!(
            [at(1), at(18), at(44), at(90)],
            ["person", "dog", "bottle", "toothbrush"]
        );
        assert_eq!((at(12), names.len()), ("12", 90));
        assert_eq!(COCO_NUMBERS.into_iter().flatten().count(), COCO.len());
        assert!(coco_by_number(&with(&[("labels", &["cat"])])).is_none());
    }

    #[test]
    fn numbers_of_a_label_file_are_left_out_and_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("labelmap.txt");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("written");
            let path = Value::Text(path.display().to_string());
            Labels::read(&Settings([("labels_file".to_owned(), path)].into()), &[], 3)
        };
        let numbered = read("0  person\n1  bicycle\n2  car\n").expect("fits");
        assert_eq!(&*numbered.name(2), "car");
        assert!(
            numbered.remarks()[0].contains("the first is \"person\""),
            "{numbered:?}"
        );
        let plain = read("person\n2 wheels\ncar\n").expect("fits");
        assert_eq!((&*plain.name(1), plain.remarks().len()), ("2 wheels", 0));
        let error = read("1 person\n2 bicycle\n3 car\n4 bus\n").expect_err("another number of classes");
        assert!(error.contains("4 labels are given"), "{error}");
    }

    #[test]
    fn labels_that_differ_from_the_file_are_reported() {
        let read = |labels: &[&str], names: &[&str]| {
            let labels = Labels::read(&with(&[("labels", labels), (NAMES, names)]), &[], labels.len());
            labels.expect("fits").remarks().to_vec()
        };
        assert!(read(&["Cat", "dog"], &["cat", "dog"]).is_empty());
        assert!(
            read(&["dog", "cat"], &["cat", "dog"])[0].contains("class 0 is \"dog\" in the graph and \"cat\"")
        );
        assert!(read(&["dog", "cat"], &["cat"])[0].contains("the file names 1 classes"));
    }
}

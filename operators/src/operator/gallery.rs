//! The gallery of known faces: images of a folder, embedded when the operator is created, and the search for the
//! nearest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{Attribute, DeviceKind, Frame, Item, Model, Object, Region, Session, SessionError, Settings};

use super::error::OperatorError;
use crate::model::{LoadRequest, ModelFile, load};

/// Images in a gallery: each query compares all of them.
const MAX_ENTRIES: usize = 10_000;

/// Largest image file; photographs of faces are smaller.
const MAX_IMAGE_BYTES: u64 = 64 << 20;

struct Entry {
    name: Arc<str>,
    /// L2-normalised.
    vector: Vec<f32>,
}

/// Entries, and the threshold of a match.
#[derive(Default)]
pub(super) struct Gallery {
    entries: Vec<Entry>,
    threshold: f32,
    keep_vector: bool,
}

impl Gallery {
    /// Reads and embeds the folder of the key `gallery`, if set.
    pub(super) fn read(settings: &Settings, model: Option<&dyn Model>) -> Result<Self, OperatorError> {
        let mut gallery = Self {
            entries: Vec::new(),
            threshold: settings.number("match_threshold", 0.5) as f32,
            keep_vector: settings.flag("vector", false),
        };
        let Some(folder) = settings.text("gallery") else {
            return Ok(gallery);
        };
        let failed = |reason: String| OperatorError::Gallery {
            folder: folder.to_owned(),
            reason,
        };
        let model = model.ok_or_else(|| failed("there is no model to embed it with".to_owned()))?;
        let images = images(Path::new(folder)).map_err(&failed)?;
        let mut embedder = model.open(DeviceKind::Cpu)?;
        let mut finder = match settings.text("gallery_faces") {
            Some(path) => Some(face_finder(path)?),
            None => None,
        };
        for (name, path) in images {
            let frame = frame(&path).map_err(&failed)?;
            let region = match &mut finder {
                None => Region::Whole,
                Some(finder) => face(finder.as_mut(), &frame)?
                    .map(|face| Region::Crop {
                        rect: face.rect,
                        points: face.points,
                    })
                    .ok_or_else(|| failed(format!("no face is found in {}", path.display())))?,
            };
            let said = embedder.run(
                &[Item {
                    frame,
                    region,
                    object: None,
                    class: None,
                }],
                &mut |_| (),
            )?;
            let attribute = said.into_iter().next().and_then(|inference| inference.attribute);
            let Some(Attribute::Match {
                vector: Some(vector), ..
            }) = attribute
            else {
                return Err(failed(format!(
                    "the model returns no embedding of {}",
                    path.display()
                )));
            };
            gallery.entries.push(Entry {
                name: name.into(),
                vector,
            });
        }
        Ok(gallery)
    }

    /// Margin between the nearest and the second nearest name, from 0 to 1, for an embedding that has not
    /// been matched yet; `None` for any other attribute.
    pub(super) fn margin(&self, attribute: &Attribute) -> Option<f32> {
        let Attribute::Match {
            vector: Some(vector),
            cosine: None,
            ..
        } = attribute
        else {
            return None;
        };
        let mut by_name: BTreeMap<&str, f32> = BTreeMap::new();
        for entry in self
            .entries
            .iter()
            .filter(|entry| entry.vector.len() == vector.len())
        {
            let cosine = cosine(entry, vector);
            let best = by_name.entry(&entry.name).or_insert(cosine);
            *best = best.max(cosine);
        }
        let mut cosines: Vec<f32> = by_name.into_values().collect();
        cosines.sort_by(|a, b| b.total_cmp(a));
        let nearest = cosines.first()?;
        Some((nearest - cosines.get(1).unwrap_or(&0.0)).clamp(0.0, 1.0))
    }

    /// Replaces an embedding by its nearest entry; other attributes, and what is a match already, are unchanged.
    pub(super) fn match_nearest(&self, attribute: Attribute) -> Attribute {
        let Attribute::Match {
            vector: Some(vector),
            cosine: None,
            ..
        } = attribute
        else {
            return attribute;
        };
        let nearest = self
            .entries
            .iter()
            .filter(|entry| entry.vector.len() == vector.len())
            .map(|entry| (entry, cosine(entry, &vector)))
            .max_by(|(_, a), (_, b)| a.total_cmp(b));
        let matching = nearest.filter(|(_, cosine)| *cosine >= self.threshold);
        Attribute::Match {
            r#match: matching.map(|(entry, _)| Arc::clone(&entry.name)),
            cosine: nearest.map(|(_, cosine)| cosine),
            vector: self.keep_vector.then_some(vector),
        }
    }
}

fn cosine(entry: &Entry, vector: &[f32]) -> f32 {
    entry.vector.iter().zip(vector).map(|(a, b)| a * b).sum()
}

fn face_finder(path: &str) -> Result<Box<dyn Session>, OperatorError> {
    let settings = Settings::default();
    let model = load(&LoadRequest {
        name: "gallery_faces",
        file: ModelFile::Path(PathBuf::from(path)),
        head: "yunet",
        settings: &settings,
        max_batch: 1,
        dump: None,
    })
    .map_err(SessionError::from)?;
    Ok(model.open(DeviceKind::Cpu)?)
}

/// The largest face in a picture.
fn face(finder: &mut dyn Session, frame: &Arc<Frame>) -> Result<Option<Object>, OperatorError> {
    let item = Item {
        frame: Arc::clone(frame),
        region: Region::Whole,
        object: None,
        class: None,
    };
    let found = finder.run(&[item], &mut |_| ())?;
    let faces = found.into_iter().flat_map(|inference| inference.objects);
    Ok(faces.max_by(|a, b| a.rect.area().total_cmp(&b.rect.area())))
}

fn frame(path: &Path) -> Result<Arc<Frame>, String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("{} cannot be read: {error}", path.display());
    let bytes = weir_files::read(path, MAX_IMAGE_BYTES).map_err(|error| unreadable(&error))?;
    // Phones store how they were held beside the picture.
    let picture = crate::media::picture_from(bytes).map_err(|error| unreadable(&error))?;
    Ok(Arc::new(Frame::new(0, 0.0, picture)))
}

/// Images of the folder with the names of their faces, sorted by path.
fn images(folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>, String> {
        let entries = std::fs::read_dir(folder).map_err(|error| {
            format!(
                "{} cannot be read: {}",
                folder.display(),
                weir_files::io_reason(&error)
            )
        })?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        Ok(paths)
    };
    let mut images = Vec::new();
    for path in list(folder)? {
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default()
            .to_owned();
        if path.is_dir() {
            let inner = list(&path)?.into_iter().filter(|path| is_image(path));
            images.extend(inner.map(|path| (stem.clone(), path)));
        } else if is_image(&path) {
            let name = match stem.split_once('_') {
                Some((name, _)) if !name.is_empty() => name.to_owned(),
                _ => stem,
            };
            images.push((name, path));
        }
    }
    match images.len() {
        0 => Err("there is no .jpg, .jpeg or .png in it".to_owned()),
        many if many > MAX_ENTRIES => Err(format!("{many} images are more than {MAX_ENTRIES}")),
        _ => Ok(images),
    }
}

fn is_image(path: &Path) -> bool {
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    path.is_file()
        && ["jpg", "jpeg", "png"]
            .iter()
            .any(|known| extension.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn photo_of_a_gallery_is_turned_upright() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("p01.jpg");
        image::RgbImage::new(96, 64).save(&path).expect("a photo");
        // The first tag of the first directory: orientation, a quarter to the right.
        let exif = b"\xFF\xE1\x00\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let mut bytes = std::fs::read(&path).expect("a photo");
        bytes.splice(2..2, exif.iter().copied());
        std::fs::write(&path, bytes).expect("written");
        let turned = frame(&path).expect("a picture");
        assert_eq!((turned.image.width, turned.image.height), (64, 96));
    }

    #[test]
    fn gallery_names_are_those_of_files_and_folders() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for name in [
            "p01.png",
            "p01_2.png",
            "p02.JPG",
            "notes.txt",
            "ada/1.png",
            "_.png",
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, b"").expect("written");
        }
        let names: Vec<String> = images(folder.path())
            .expect("images")
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["_", "ada", "p01", "p01", "p02"]);
    }
}

//! External data: weights of an ONNX file that lie in other files.
//!
//! ONNX Runtime looks for them in the current folder when a model is opened from memory, so weights of another model could be
//! taken. They are read from the folder of the model instead and put into the model's bytes; a model that still has external data
//! is not opened.

use std::borrow::Cow;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use super::MAX_MODEL_BYTES;
use super::protobuf::{Field, Message, Payload};

/// Messages within messages, as protobuf itself bounds them.
const MAX_DEPTH: usize = 100;

const TENSOR_RAW_DATA: u32 = 9;
const TENSOR_EXTERNAL_DATA: u32 = 13;
const TENSOR_LOCATION: u32 = 14;
/// Value of [`TENSOR_LOCATION`]: the weights are in another file.
const EXTERNAL: u32 = 1;

/// Messages of an ONNX file that contain tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Training,
    Graph,
    Function,
    Node,
    Attribute,
    Sparse,
    Tensor,
}

impl Kind {
    /// Kind of the messages in that field; `None` if they contain no tensors.
    fn child(self, number: u32) -> Option<Self> {
        match (self, number) {
            (Self::Model, 7) | (Self::Training, 1 | 2) | (Self::Attribute, 6 | 11) => Some(Self::Graph),
            (Self::Model, 20) => Some(Self::Training),
            (Self::Model, 25) => Some(Self::Function),
            (Self::Graph, 1) | (Self::Function, 7) => Some(Self::Node),
            (Self::Node, 5) | (Self::Function, 11) => Some(Self::Attribute),
            (Self::Graph, 15) | (Self::Attribute, 22 | 23) => Some(Self::Sparse),
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) | (Self::Sparse, 1 | 2) => Some(Self::Tensor),
            _ => None,
        }
    }
}

/// Whether any weights of the ONNX file lie outside it; `None` if the bytes cannot be read as one.
pub(super) fn has_external_data(bytes: &[u8]) -> Option<bool> {
    let mut open = vec![(Kind::Model, bytes, 0)];
    while let Some((kind, bytes, depth)) = open.pop() {
        let message = Message::read(bytes)?;
        if kind == Kind::Tensor {
            if is_external(&message) {
                return Some(true);
            }
            continue;
        }
        for field in &message.fields {
            if let (Some(child), Some(bytes)) = (kind.child(field.number), field.borrowed()) {
                if depth == MAX_DEPTH {
                    return None;
                }
                open.push((child, bytes, depth + 1));
            }
        }
    }
    Some(false)
}

fn is_external(tensor: &Message<'_>) -> bool {
    let mut locations = tensor
        .fields
        .iter()
        .filter(|field| field.number == TENSOR_LOCATION);
    // Protobuf reads an enum from the lower 32 bits.
    locations.any(|field| field.as_varint().is_some_and(|value| value as u32 == EXTERNAL))
}

/// The ONNX file at `path` with all its weights inside.
///
/// # Errors
/// External data that is missing, too short, or outside the folder of the model.
pub(super) fn with_weights(bytes: Vec<u8>, path: &Path) -> Result<Vec<u8>, String> {
    if has_external_data(&bytes) != Some(true) {
        return Ok(bytes);
    }
    let mut weights = Weights::beside(path)?;
    let inside = weights.inline(Kind::Model, &bytes, 0)?;
    Ok(inside.unwrap_or(bytes))
}

/// The files with external data of one model.
struct Weights {
    folder: PathBuf,
    /// Folders that the files may lie in: that of the model as it is named, and that of the file which a link leads to.
    allowed: Vec<PathBuf>,
    /// Bytes that may still be read.
    left: u64,
}

impl Weights {
    fn beside(model: &Path) -> Result<Self, String> {
        let folder = match model.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let real = |path: &Path| {
            path.canonicalize()
                .map_err(|error| format!("its folder cannot be read: {}", weir_files::io_reason(&error)))
        };
        let linked = real(model)?.parent().map(Path::to_owned);
        Ok(Self {
            allowed: [Some(real(&folder)?), linked].into_iter().flatten().collect(),
            folder,
            left: MAX_MODEL_BYTES,
        })
    }

    /// The message with external data inside; `None` if it has none.
    fn inline(&mut self, kind: Kind, bytes: &[u8], depth: usize) -> Result<Option<Vec<u8>>, String> {
        let damaged = || "it is damaged: its weights cannot be found".to_owned();
        let mut message = Message::read(bytes).ok_or_else(damaged)?;
        if kind == Kind::Tensor {
            return match is_external(&message) {
                true => self.tensor(message).map(Some),
                false => Ok(None),
            };
        }
        let mut is_changed = false;
        for field in &mut message.fields {
            let (Some(child), Some(inner)) = (kind.child(field.number), field.borrowed()) else {
                continue;
            };
            if depth == MAX_DEPTH {
                return Err(damaged());
            }
            if let Some(changed) = self.inline(child, inner, depth + 1)? {
                field.payload = Payload::Bytes(Cow::Owned(changed));
                is_changed = true;
            }
        }
        Ok(is_changed.then(|| message.write()))
    }

    fn tensor(&mut self, mut tensor: Message<'_>) -> Result<Vec<u8>, String> {
        let mut location = None;
        let (mut offset, mut length) = (0, None);
        for entry in tensor.all(TENSOR_EXTERNAL_DATA) {
            let entry = Message::read(entry).ok_or("it is damaged: external data without a name")?;
            let value = entry.text(2).unwrap_or_default().to_owned();
            let number = || {
                let number = value.trim().parse::<u64>();
                number.map_err(|_| format!("external data begins or ends at \"{value}\", which is no number"))
            };
            match entry.text(1) {
                Some("location") => location = Some(value),
                Some("offset") => offset = number()?,
                Some("length") => length = Some(number()?),
                _ => {}
            }
        }
        let location = location.ok_or("its external data names no file")?;
        let data = self.read(&location, offset, length)?;
        let is_old = |number| matches!(number, TENSOR_RAW_DATA | TENSOR_EXTERNAL_DATA | TENSOR_LOCATION);
        tensor.fields.retain(|field| !is_old(field.number));
        tensor.fields.push(Field::bytes(TENSOR_RAW_DATA, data));
        Ok(tensor.write())
    }

    fn read(&mut self, location: &str, offset: u64, length: Option<u64>) -> Result<Vec<u8>, String> {
        let failed = |reason: String| {
            format!(
                "its weights in {location} (external data) are not used: {reason}; the file belongs beside the model: copy \
                 both together, or export the model in one file"
            )
        };
        let path = self.place(location).map_err(failed)?;
        let io = |error: std::io::Error| failed(weir_files::io_reason(&error));
        let mut file = weir_files::open(&path).map_err(|error| failed(error.to_string()))?;
        let size = file.metadata().map_err(io)?.len();
        let wanted = length.unwrap_or_else(|| size.saturating_sub(offset));
        if offset.checked_add(wanted).is_none_or(|end| end > size) {
            return Err(failed(format!(
                "the file has {size} bytes, and {wanted} from byte {offset} on are needed"
            )));
        }
        self.left = self.left.checked_sub(wanted).ok_or_else(|| {
            failed(format!(
                "the weights take more than {} GiB, which no ONNX file in memory may",
                MAX_MODEL_BYTES >> 30
            ))
        })?;
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        let mut data = Vec::new();
        file.take(wanted).read_to_end(&mut data).map_err(io)?;
        match data.len() as u64 == wanted {
            true => Ok(data),
            false => Err(failed("the file was cut off while it was read".to_owned())),
        }
    }

    /// Path of a file with external data.
    fn place(&self, location: &str) -> Result<PathBuf, String> {
        let named = Path::new(location);
        let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let leaves = location.contains(['\\', '\0']) || !named.components().all(is_plain);
        if leaves || location.is_empty() {
            return Err("it is not a path within the folder of the model".to_owned());
        }
        let path = self.folder.join(named);
        let real = path
            .canonicalize()
            .map_err(|error| weir_files::io_reason(&error))?;
        if self.allowed.iter().any(|folder| real.starts_with(folder)) {
            Ok(path)
        } else {
            Err("a link leads out of the folder of the model".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fields: Vec<Field<'_>>) -> Vec<u8> {
        Message { fields }.write()
    }

    fn tensor(location: &str, range: Option<(&str, &str)>) -> Vec<u8> {
        let entry = |key: &str, value: &str| {
            let entry = message(vec![
                Field::bytes(1, key.as_bytes().to_vec()),
                Field::bytes(2, value.as_bytes().to_vec()),
            ]);
            Field::bytes(TENSOR_EXTERNAL_DATA, entry)
        };
        let mut fields = vec![entry("location", location)];
        if let Some((offset, length)) = range {
            fields.extend([entry("offset", offset), entry("length", length)]);
        }
        fields.push(Field::varint(TENSOR_LOCATION, u64::from(EXTERNAL)));
        message(fields)
    }

    /// A model with that tensor as a weight, or in the subgraph of a node.
    fn model(tensor: Vec<u8>, nested: bool) -> Vec<u8> {
        let graph = message(vec![Field::bytes(5, tensor)]);
        let graph = match nested {
            false => graph,
            true => {
                let attribute = message(vec![Field::bytes(6, graph)]);
                let node = message(vec![Field::bytes(5, attribute)]);
                message(vec![Field::bytes(1, node)])
            }
        };
        message(vec![Field::bytes(7, graph)])
    }

    fn raw_data(model: &[u8]) -> Vec<u8> {
        let model = Message::read(model).expect("model");
        let graph = Message::read(model.all(7).next().expect("graph")).expect("graph");
        let tensor = Message::read(graph.all(5).next().expect("tensor")).expect("tensor");
        tensor.all(TENSOR_RAW_DATA).next().expect("data").to_vec()
    }

    #[test]
    fn weights_come_from_the_folder_of_the_model() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, b"").expect("written");
        std::fs::create_dir(folder.path().join("sub")).expect("made");
        std::fs::write(folder.path().join("sub/w.bin"), b"0123456789").expect("written");
        for (range, expected) in [(None, &b"0123456789"[..]), (Some(("2", "3")), b"234")] {
            let inside =
                with_weights(model(tensor("sub/w.bin", range), false), &path).expect("weights are read");
            assert_eq!(raw_data(&inside), expected);
            assert_eq!(has_external_data(&inside), Some(false));
        }
        let nested = model(tensor("sub/w.bin", None), true);
        assert_eq!(has_external_data(&nested), Some(true));
        let inside = with_weights(nested, &path).expect("weights are read");
        assert_eq!(has_external_data(&inside), Some(false));
    }

    #[test]
    fn locations_outside_the_folder_are_refused() {
        let top = tempfile::tempdir().expect("temporary folder");
        let folder = top.path().join("models");
        std::fs::create_dir(&folder).expect("made");
        std::fs::write(top.path().join("w.bin"), b"0123456789").expect("written");
        std::fs::write(folder.join("short.bin"), b"0").expect("written");
        std::os::unix::fs::symlink(top.path().join("w.bin"), folder.join("link.bin")).expect("linked");
        let path = folder.join("m.onnx");
        std::fs::write(&path, b"").expect("written");
        let absolute = top.path().join("w.bin").to_string_lossy().into_owned();
        for (location, range, reason) in [
            ("../w.bin", None, "not a path within the folder"),
            ("./../w.bin", None, "not a path within the folder"),
            ("..\\w.bin", None, "not a path within the folder"),
            ("", None, "not a path within the folder"),
            (absolute.as_str(), None, "not a path within the folder"),
            ("link.bin", None, "a link leads out"),
            ("none.bin", None, "there is no such file"),
            (".", None, "it is a folder"),
            ("*/_ORT_MEM_ADDR_/*", Some(("0", "8")), "there is no such file"),
            ("short.bin", Some(("0", "2")), "has 1 bytes"),
            ("short.bin", Some(("18446744073709551615", "2")), "has 1 bytes"),
            ("short.bin", Some(("-1", "2")), "no number"),
        ] {
            let error = with_weights(model(tensor(location, range), false), &path).expect_err("refused");
            assert!(error.contains(reason), "{location}: {error}");
        }
    }

    #[test]
    fn a_link_to_a_model_finds_the_weights_beside_the_linked_file() {
        let top = tempfile::tempdir().expect("temporary folder");
        for folder in ["blobs", "named"] {
            std::fs::create_dir(top.path().join(folder)).expect("made");
        }
        let at = |name: &str| top.path().join(name);
        std::fs::write(at("blobs/1"), b"").expect("written");
        std::fs::write(at("blobs/2"), b"abc").expect("written");
        std::os::unix::fs::symlink(at("blobs/1"), at("named/m.onnx")).expect("linked");
        std::os::unix::fs::symlink(at("blobs/2"), at("named/w.bin")).expect("linked");
        let inside = with_weights(model(tensor("w.bin", None), false), &at("named/m.onnx")).expect("read");
        assert_eq!(raw_data(&inside), b"abc");
    }
}

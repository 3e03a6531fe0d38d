//! External data: weights of an ONNX file that lie in other files.
//!
//! ONNX Runtime looks for them in the current folder when a model is opened from memory, so weights of another model could be
//! taken. They are read from the folder of the model instead and put into the model's bytes; a model that still has external data
//! is not opened.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use prost::Message;
use prost::bytes::Bytes;

use super::MAX_MODEL_BYTES;
use super::onnx::{
    AttributeProto, EXTERNAL, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto,
};

/// Whether any weights of the ONNX file lie outside it; `None` if the bytes cannot be read as one.
pub(super) fn has_external_data(bytes: &[u8]) -> Option<bool> {
    let model = locations::Model::decode(bytes).ok()?;
    Some(model.is_external())
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
    let model = ModelProto::decode(Bytes::from(bytes));
    let mut model = model.map_err(|_| "it is damaged: its weights cannot be found".to_owned())?;
    weights.inline(&mut model)?;
    Ok(model.encode_to_vec())
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

    /// Puts all external data of a model inside.
    fn inline(&mut self, model: &mut ModelProto) -> Result<(), String> {
        let training = model.training_info.iter_mut();
        let training = training.flat_map(|info| info.initialization.iter_mut().chain(&mut info.algorithm));
        for graph in model.graph.iter_mut().chain(training) {
            self.graph(graph)?;
        }
        for function in &mut model.functions {
            self.attributes(&mut function.attribute_proto)?;
            self.nodes(&mut function.node)?;
        }
        Ok(())
    }

    /// Decoding bounds how deep graphs lie within graphs.
    fn graph(&mut self, graph: &mut GraphProto) -> Result<(), String> {
        self.tensors(graph.initializer.iter_mut())?;
        self.tensors(graph.sparse_initializer.iter_mut().flat_map(parts))?;
        self.nodes(&mut graph.node)
    }

    fn nodes(&mut self, nodes: &mut [NodeProto]) -> Result<(), String> {
        nodes
            .iter_mut()
            .try_for_each(|node| self.attributes(&mut node.attribute))
    }

    fn attributes(&mut self, attributes: &mut [AttributeProto]) -> Result<(), String> {
        for attribute in attributes {
            let single = attribute.t.iter_mut().map(|tensor| &mut **tensor);
            self.tensors(single.chain(&mut attribute.tensors))?;
            let single = attribute.sparse_tensor.iter_mut().map(|sparse| &mut **sparse);
            self.tensors(single.chain(&mut attribute.sparse_tensors).flat_map(parts))?;
            let single = attribute.g.iter_mut().map(|graph| &mut **graph);
            for graph in single.chain(&mut attribute.graphs) {
                self.graph(graph)?;
            }
        }
        Ok(())
    }

    fn tensors<'a>(&mut self, mut tensors: impl Iterator<Item = &'a mut TensorProto>) -> Result<(), String> {
        tensors.try_for_each(|tensor| self.tensor(tensor))
    }

    fn tensor(&mut self, tensor: &mut TensorProto) -> Result<(), String> {
        if tensor.data_location() != EXTERNAL {
            return Ok(());
        }
        let mut location = None;
        let (mut offset, mut length) = (0, None);
        for entry in &tensor.external_data {
            let value = str::from_utf8(entry.value()).unwrap_or_default();
            let number = || {
                let number = value.trim().parse::<u64>();
                number.map_err(|_| format!("external data begins or ends at \"{value}\", which is no number"))
            };
            match entry.key() {
                b"location" => location = Some(value),
                b"offset" => offset = number()?,
                b"length" => length = Some(number()?),
                _ => {}
            }
        }
        let location = location.ok_or("its external data names no file")?;
        tensor.raw_data = Some(self.read(location, offset, length)?.into());
        tensor.external_data.clear();
        tensor.data_location = None;
        Ok(())
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

fn parts(sparse: &mut SparseTensorProto) -> impl Iterator<Item = &mut TensorProto> {
    sparse.values.iter_mut().chain(&mut sparse.indices)
}

/// The messages of [`super::onnx`] with the locations of weights alone. Decoding them skips all weights, so a large model is checked
/// without a copy of it.
mod locations {
    use super::{EXTERNAL, Message};

    #[derive(Message)]
    pub(super) struct Model {
        #[prost(message, optional, tag = "7")]
        graph: Option<Graph>,
        #[prost(message, repeated, tag = "20")]
        training_info: Vec<Training>,
        #[prost(message, repeated, tag = "25")]
        functions: Vec<Function>,
    }

    #[derive(Message)]
    struct Training {
        #[prost(message, optional, tag = "1")]
        initialization: Option<Graph>,
        #[prost(message, optional, tag = "2")]
        algorithm: Option<Graph>,
    }

    #[derive(Message)]
    struct Function {
        #[prost(message, repeated, tag = "7")]
        node: Vec<Node>,
        #[prost(message, repeated, tag = "11")]
        attribute_proto: Vec<Attribute>,
    }

    #[derive(Message)]
    struct Graph {
        #[prost(message, repeated, tag = "1")]
        node: Vec<Node>,
        #[prost(message, repeated, tag = "5")]
        initializer: Vec<Tensor>,
        #[prost(message, repeated, tag = "15")]
        sparse_initializer: Vec<Sparse>,
    }

    #[derive(Message)]
    struct Node {
        #[prost(message, repeated, tag = "5")]
        attribute: Vec<Attribute>,
    }

    #[derive(Message)]
    struct Attribute {
        #[prost(message, optional, tag = "5")]
        t: Option<Tensor>,
        #[prost(message, optional, boxed, tag = "6")]
        g: Option<Box<Graph>>,
        #[prost(message, repeated, tag = "10")]
        tensors: Vec<Tensor>,
        #[prost(message, repeated, tag = "11")]
        graphs: Vec<Graph>,
        #[prost(message, optional, tag = "22")]
        sparse_tensor: Option<Sparse>,
        #[prost(message, repeated, tag = "23")]
        sparse_tensors: Vec<Sparse>,
    }

    #[derive(Message)]
    struct Sparse {
        #[prost(message, optional, tag = "1")]
        values: Option<Tensor>,
        #[prost(message, optional, tag = "2")]
        indices: Option<Tensor>,
    }

    #[derive(Message)]
    struct Tensor {
        #[prost(int32, optional, tag = "14")]
        data_location: Option<i32>,
    }

    impl Model {
        pub(super) fn is_external(&self) -> bool {
            let training = self.training_info.iter();
            let training = training.flat_map(|info| info.initialization.iter().chain(&info.algorithm));
            let mut functions = self.functions.iter();
            self.graph.iter().chain(training).any(Graph::is_external)
                || functions.any(|function| {
                    function.node.iter().any(Node::is_external)
                        || function.attribute_proto.iter().any(Attribute::is_external)
                })
        }
    }

    impl Graph {
        fn is_external(&self) -> bool {
            self.initializer.iter().any(Tensor::is_external)
                || self.sparse_initializer.iter().any(Sparse::is_external)
                || self.node.iter().any(Node::is_external)
        }
    }

    impl Node {
        fn is_external(&self) -> bool {
            self.attribute.iter().any(Attribute::is_external)
        }
    }

    impl Attribute {
        fn is_external(&self) -> bool {
            let single = self.g.iter().map(|graph| &**graph);
            self.t.iter().chain(&self.tensors).any(Tensor::is_external)
                || self
                    .sparse_tensor
                    .iter()
                    .chain(&self.sparse_tensors)
                    .any(Sparse::is_external)
                || single.chain(&self.graphs).any(Graph::is_external)
        }
    }

    impl Sparse {
        fn is_external(&self) -> bool {
            self.values.iter().chain(&self.indices).any(Tensor::is_external)
        }
    }

    impl Tensor {
        fn is_external(&self) -> bool {
            self.data_location() == EXTERNAL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::onnx::StringStringEntryProto;
    use super::*;

    fn tensor(location: &str, range: Option<(&str, &str)>) -> TensorProto {
        let entry = |key, value: &str| StringStringEntryProto::new(key, value.to_owned());
        let mut external_data = vec![entry("location", location)];
        if let Some((offset, length)) = range {
            external_data.extend([entry("offset", offset), entry("length", length)]);
        }
        TensorProto {
            external_data,
            data_location: Some(EXTERNAL),
            ..TensorProto::default()
        }
    }

    /// A model with that tensor as a weight, within so many graphs of nodes.
    fn model(tensor: TensorProto, depth: usize) -> Vec<u8> {
        let mut graph = GraphProto {
            initializer: vec![tensor],
            ..GraphProto::default()
        };
        for _ in 0..depth {
            let attribute = AttributeProto {
                g: Some(Box::new(graph)),
                ..AttributeProto::default()
            };
            let node = NodeProto {
                attribute: vec![attribute],
                ..NodeProto::default()
            };
            graph = GraphProto {
                node: vec![node],
                ..GraphProto::default()
            };
        }
        let graph = Some(graph);
        ModelProto {
            graph,
            ..ModelProto::default()
        }
        .encode_to_vec()
    }

    fn raw_data(model: &[u8]) -> Vec<u8> {
        let graph = ModelProto::decode(model).expect("model").graph.expect("graph");
        graph.initializer[0].raw_data().to_vec()
    }

    #[test]
    fn weights_come_from_the_folder_of_the_model() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, b"").expect("written");
        std::fs::create_dir(folder.path().join("sub")).expect("made");
        std::fs::write(folder.path().join("sub/w.bin"), b"0123456789").expect("written");
        for (range, expected) in [(None, &b"0123456789"[..]), (Some(("2", "3")), b"234")] {
            let inside = with_weights(model(tensor("sub/w.bin", range), 0), &path).expect("weights are read");
            assert_eq!(raw_data(&inside), expected);
            assert_eq!(has_external_data(&inside), Some(false));
        }
        let nested = model(tensor("sub/w.bin", None), 2);
        assert_eq!(has_external_data(&nested), Some(true));
        let inside = with_weights(nested, &path).expect("weights are read");
        assert_eq!(has_external_data(&inside), Some(false));
    }

    #[test]
    fn graphs_within_graphs_are_read_to_the_depth_that_the_runtime_reads() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, b"").expect("written");
        std::fs::write(folder.path().join("w.bin"), b"0123456789").expect("written");
        // A graph, a node and an attribute for each level; the model's graph, its weight and the place of that.
        let deepest = model(tensor("w.bin", None), 32);
        assert_eq!(has_external_data(&deepest), Some(true));
        let inside = with_weights(deepest, &path).expect("weights are read");
        assert_eq!(has_external_data(&inside), Some(false));
        for depth in [33, 34, 60] {
            let deeper = model(tensor("w.bin", None), depth);
            assert_eq!(has_external_data(&deeper), None, "{depth}");
            assert_eq!(with_weights(deeper.clone(), &path), Ok(deeper), "{depth}");
        }
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
            let error = with_weights(model(tensor(location, range), 0), &path).expect_err("refused");
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
        let inside = with_weights(model(tensor("w.bin", None), 0), &at("named/m.onnx")).expect("read");
        assert_eq!(raw_data(&inside), b"abc");
    }
}

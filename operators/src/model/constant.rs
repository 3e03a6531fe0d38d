//! Models for tests that always give the same outputs, in any layout.

use std::sync::Arc;

use prost::Message;
use weir_flow::Settings;

use super::adapt::Opened;
use super::auto::choose;
use super::metadata;
use super::onnx::{
    Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    TypeProto, ValueInfoProto, data_type,
};

/// An output of a model that always gives the same.
#[derive(Clone, Copy)]
pub(super) struct ConstantOutput<'a> {
    pub(super) name: &'a str,
    /// All sizes, the batch included.
    pub(super) shape: &'a [usize],
    /// Whether its elements are whole numbers.
    pub(super) is_whole: bool,
    /// The values by their places.
    pub(super) at: &'a dyn Fn(usize) -> f32,
}

/// The file of a model with an input of that shape, the batch included, and with entries of metadata.
pub(super) fn constant_model(
    input: &[usize],
    outputs: &[ConstantOutput<'_>],
    metadata: &[(&'static str, &str)],
) -> Vec<u8> {
    let text = |text: &str| Some(text.to_owned());
    let value = |name: &str, element: i32, shape: &[usize]| ValueInfoProto {
        name: text(name),
        r#type: Some(TypeProto::tensor(
            element,
            shape.iter().copied().map(Dimension::size).collect(),
        )),
        ..ValueInfoProto::default()
    };
    let mut graph = GraphProto {
        name: text("g"),
        input: vec![value("images", data_type::FLOAT, input)],
        ..GraphProto::default()
    };
    for (number, output) in outputs.iter().enumerate() {
        let weights = format!("weights{number}");
        let count: usize = output.shape.iter().product();
        let places = (0..count).map(|place| (output.at)(place));
        let (element, elements): (i32, Vec<u8>) = match output.is_whole {
            true => (
                data_type::INT64,
                places.flat_map(|value| (value as i64).to_le_bytes()).collect(),
            ),
            false => (data_type::FLOAT, places.flat_map(f32::to_le_bytes).collect()),
        };
        graph.initializer.push(TensorProto {
            dims: output.shape.iter().map(|size| *size as i64).collect(),
            data_type: Some(element),
            name: Some(weights.clone()),
            raw_data: Some(elements.into()),
            ..TensorProto::default()
        });
        graph.output.push(value(output.name, element, output.shape));
        graph.node.push(NodeProto {
            input: vec![weights],
            output: vec![output.name.to_owned()],
            op_type: text("Identity"),
            ..NodeProto::default()
        });
    }
    let model = ModelProto {
        ir_version: Some(8),
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            domain: text(""),
            version: Some(13),
        }],
        metadata_props: metadata
            .iter()
            .map(|(key, value)| StringStringEntryProto::new(key, (*value).to_owned()))
            .collect(),
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

/// The model of a file, and the keys that its metadata give.
pub(super) fn opened(file: &[u8]) -> (Opened, Settings) {
    let file: Arc<[u8]> = file.into();
    let opened = Opened::new(&file).expect("opens");
    let settings = metadata::with_metadata(&Settings::default(), &file, None, &opened);
    (opened, settings)
}

/// Name of the head that is found by the file of a model.
pub(super) fn chosen(file: &[u8]) -> Result<&'static str, String> {
    let (mut opened, settings) = opened(file);
    let chosen = choose(&mut opened, &settings);
    chosen.map(|kind| kind.name).map_err(|error| error.to_string())
}

//! Messages of ONNX files, written for the published schema (`onnx-ml.proto` of ONNX 1.23, IR version 14), with all its fields.
//!
//! `prost` drops fields that it does not know, so a model that is edited keeps every field that is listed here. The schema is the one
//! of `onnx.proto3`, with the presence and the encoding of the proto2 edition that ONNX Runtime and exporters use: each single field
//! is optional, and a default value that was written stays written. Enumerations are plain numbers.
//!
//! Names are text. Documentation and metadata are bytes: the runtime does not check their encoding, and exporters have written
//! others than UTF-8. Raw weights are slices of the file that a model was decoded from, if that was given as [`Bytes`].

use prost::bytes::Bytes;
use prost::{Message, Oneof};

/// Values of [`TensorProto::data_type`], and of the element type of [`TensorType`].
pub(crate) mod data_type {
    pub(crate) const FLOAT: i32 = 1;
    pub(crate) const UINT8: i32 = 2;
    pub(crate) const INT8: i32 = 3;
    pub(crate) const INT32: i32 = 6;
    pub(crate) const INT64: i32 = 7;
    pub(crate) const BOOL: i32 = 9;
    pub(crate) const FLOAT16: i32 = 10;
    pub(crate) const DOUBLE: i32 = 11;
}

/// Value of [`TensorProto::data_location`] for weights in another file.
pub(crate) const EXTERNAL: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelProto {
    #[prost(int64, optional, tag = "1")]
    pub(crate) ir_version: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) producer_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) producer_version: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(crate) domain: Option<String>,
    #[prost(int64, optional, tag = "5")]
    pub(crate) model_version: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub(crate) doc_string: Option<Bytes>,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "14")]
    pub(crate) metadata_props: Vec<StringStringEntryProto>,
    #[prost(message, repeated, tag = "20")]
    pub(crate) training_info: Vec<TrainingInfoProto>,
    #[prost(message, repeated, tag = "25")]
    pub(crate) functions: Vec<FunctionProto>,
    #[prost(message, repeated, tag = "26")]
    pub(crate) configuration: Vec<DeviceConfigurationProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeProto>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<TensorProto>,
    #[prost(bytes = "bytes", optional, tag = "10")]
    pub(crate) doc_string: Option<Bytes>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) value_info: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "14")]
    pub(crate) quantization_annotation: Vec<TensorAnnotation>,
    #[prost(message, repeated, tag = "15")]
    pub(crate) sparse_initializer: Vec<SparseTensorProto>,
    #[prost(message, repeated, tag = "16")]
    pub(crate) metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(crate) op_type: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<AttributeProto>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub(crate) doc_string: Option<Bytes>,
    #[prost(string, optional, tag = "7")]
    pub(crate) domain: Option<String>,
    #[prost(string, optional, tag = "8")]
    pub(crate) overload: Option<String>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) metadata_props: Vec<StringStringEntryProto>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) device_configurations: Vec<NodeDeviceConfigurationProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributeProto {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub(crate) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(crate) s: Option<Bytes>,
    #[prost(message, optional, boxed, tag = "5")]
    pub(crate) t: Option<Box<TensorProto>>,
    #[prost(message, optional, boxed, tag = "6")]
    pub(crate) g: Option<Box<GraphProto>>,
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub(crate) floats: Vec<f32>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub(crate) ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub(crate) strings: Vec<Bytes>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) tensors: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) graphs: Vec<GraphProto>,
    #[prost(bytes = "bytes", optional, tag = "13")]
    pub(crate) doc_string: Option<Bytes>,
    #[prost(message, optional, boxed, tag = "14")]
    pub(crate) tp: Option<Box<TypeProto>>,
    #[prost(message, repeated, tag = "15")]
    pub(crate) type_protos: Vec<TypeProto>,
    #[prost(int32, optional, tag = "20")]
    pub(crate) r#type: Option<i32>,
    #[prost(string, optional, tag = "21")]
    pub(crate) ref_attr_name: Option<String>,
    #[prost(message, optional, boxed, tag = "22")]
    pub(crate) sparse_tensor: Option<Box<SparseTensorProto>>,
    #[prost(message, repeated, tag = "23")]
    pub(crate) sparse_tensors: Vec<SparseTensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) data_type: Option<i32>,
    #[prost(message, optional, tag = "3")]
    pub(crate) segment: Option<Segment>,
    #[prost(float, repeated, tag = "4")]
    pub(crate) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(crate) int32_data: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(crate) string_data: Vec<Bytes>,
    #[prost(int64, repeated, tag = "7")]
    pub(crate) int64_data: Vec<i64>,
    #[prost(string, optional, tag = "8")]
    pub(crate) name: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub(crate) raw_data: Option<Bytes>,
    #[prost(double, repeated, tag = "10")]
    pub(crate) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(crate) uint64_data: Vec<u64>,
    #[prost(bytes = "bytes", optional, tag = "12")]
    pub(crate) doc_string: Option<Bytes>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) external_data: Vec<StringStringEntryProto>,
    #[prost(int32, optional, tag = "14")]
    pub(crate) data_location: Option<i32>,
    #[prost(message, repeated, tag = "16")]
    pub(crate) metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Segment {
    #[prost(int64, optional, tag = "1")]
    pub(crate) begin: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub(crate) end: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SparseTensorProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) values: Option<TensorProto>,
    #[prost(message, optional, tag = "2")]
    pub(crate) indices: Option<TensorProto>,
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub(crate) dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfoProto {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub(crate) r#type: Option<TypeProto>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) doc_string: Option<Bytes>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeProto {
    #[prost(oneof = "TypeValue", tags = "1, 4, 5, 7, 8, 9")]
    pub(crate) value: Option<TypeValue>,
    #[prost(string, optional, tag = "6")]
    pub(crate) denotation: Option<String>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum TypeValue {
    #[prost(message, tag = "1")]
    Tensor(TensorType),
    #[prost(message, tag = "4")]
    Sequence(Box<ElementType>),
    #[prost(message, tag = "5")]
    Map(Box<MapType>),
    #[prost(message, tag = "7")]
    Opaque(OpaqueType),
    #[prost(message, tag = "8")]
    SparseTensor(TensorType),
    #[prost(message, tag = "9")]
    Optional(Box<ElementType>),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorType {
    #[prost(int32, optional, tag = "1")]
    pub(crate) elem_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<TensorShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ElementType {
    #[prost(message, optional, boxed, tag = "1")]
    pub(crate) elem_type: Option<Box<TypeProto>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MapType {
    #[prost(int32, optional, tag = "1")]
    pub(crate) key_type: Option<i32>,
    #[prost(message, optional, boxed, tag = "2")]
    pub(crate) value_type: Option<Box<TypeProto>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OpaqueType {
    #[prost(string, optional, tag = "1")]
    pub(crate) domain: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub(crate) value: Option<DimensionValue>,
    #[prost(string, optional, tag = "3")]
    pub(crate) denotation: Option<String>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum DimensionValue {
    #[prost(int64, tag = "1")]
    Size(i64),
    #[prost(string, tag = "2")]
    Symbol(String),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StringStringEntryProto {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) key: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) value: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorAnnotation {
    #[prost(string, optional, tag = "1")]
    pub(crate) tensor_name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) quant_parameter_tensor_names: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorSetIdProto {
    #[prost(string, optional, tag = "1")]
    pub(crate) domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub(crate) version: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TrainingInfoProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) initialization: Option<GraphProto>,
    #[prost(message, optional, tag = "2")]
    pub(crate) algorithm: Option<GraphProto>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) initialization_binding: Vec<StringStringEntryProto>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) update_binding: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionProto {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) output: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    pub(crate) attribute: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) node: Vec<NodeProto>,
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub(crate) doc_string: Option<Bytes>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) opset_import: Vec<OperatorSetIdProto>,
    #[prost(string, optional, tag = "10")]
    pub(crate) domain: Option<String>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) attribute_proto: Vec<AttributeProto>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) value_info: Vec<ValueInfoProto>,
    #[prost(string, optional, tag = "13")]
    pub(crate) overload: Option<String>,
    #[prost(message, repeated, tag = "14")]
    pub(crate) metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeviceConfigurationProto {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) num_devices: Option<i32>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) device: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeDeviceConfigurationProto {
    #[prost(string, optional, tag = "1")]
    pub(crate) configuration_id: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) sharding_spec: Vec<ShardingSpecProto>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) pipeline_stage: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ShardingSpecProto {
    #[prost(string, optional, tag = "1")]
    pub(crate) tensor_name: Option<String>,
    #[prost(int64, repeated, packed = "false", tag = "2")]
    pub(crate) device: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) index_to_device_group_map: Vec<IntIntListEntryProto>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) sharded_dim: Vec<ShardedDimProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct IntIntListEntryProto {
    #[prost(int64, optional, tag = "1")]
    pub(crate) key: Option<i64>,
    #[prost(int64, repeated, packed = "false", tag = "2")]
    pub(crate) value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ShardedDimProto {
    #[prost(int64, optional, tag = "1")]
    pub(crate) axis: Option<i64>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) simple_sharding: Vec<SimpleShardedDimProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SimpleShardedDimProto {
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub(crate) dim: Option<DimensionValue>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) num_shards: Option<i64>,
}

impl TypeProto {
    /// The type of a tensor with these dimensions.
    pub(crate) fn tensor(elem_type: i32, dim: Vec<Dimension>) -> Self {
        Self {
            value: Some(TypeValue::Tensor(TensorType {
                elem_type: Some(elem_type),
                shape: Some(TensorShapeProto { dim }),
            })),
            denotation: None,
        }
    }
}

impl Dimension {
    pub(crate) fn size(size: usize) -> Self {
        DimensionValue::Size(i64::try_from(size).unwrap_or(i64::MAX)).into()
    }

    pub(crate) fn symbol(name: &str) -> Self {
        DimensionValue::Symbol(name.to_owned()).into()
    }
}

impl From<DimensionValue> for Dimension {
    fn from(value: DimensionValue) -> Self {
        Self {
            value: Some(value),
            denotation: None,
        }
    }
}

impl StringStringEntryProto {
    pub(crate) fn new(key: &'static str, value: impl Into<Bytes>) -> Self {
        Self {
            key: Some(key.into()),
            value: Some(value.into()),
        }
    }
}

/// The header and the metadata of a model. Decoding them skips the graph with its weights.
#[derive(Message)]
pub(crate) struct MetadataOnly {
    #[prost(int64, optional, tag = "1")]
    pub(crate) ir_version: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) producer_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) producer_version: Option<String>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "14")]
    pub(crate) metadata_props: Vec<StringStringEntryProto>,
}

/// A value of a model's metadata.
pub(crate) fn read_metadata(model: &[u8], key: &str) -> Option<String> {
    let model = MetadataOnly::decode(model).ok()?;
    let entry = model
        .metadata_props
        .iter()
        .find(|entry| entry.key() == key.as_bytes())?;
    String::from_utf8(entry.value.as_ref()?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Written by `every_field.py` beside it.
    const EVERY_FIELD: &[u8] = include_bytes!("../../tests/data/every-field.onnx");

    /// Shipped models, and those of the asset pack where it is present.
    fn models() -> Vec<(String, Bytes)> {
        let packs = [concat!(env!("CARGO_MANIFEST_DIR"), "/../models").into()];
        let assets =
            std::env::var_os("WEIR_ASSETS").map(|assets| std::path::PathBuf::from(assets).join("models"));
        let files = packs
            .into_iter()
            .chain(assets)
            .flat_map(|pack| std::fs::read_dir(pack).expect("is read"));
        let paths = files.map(|file| file.expect("is read").path());
        paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "onnx"))
            .map(|path| {
                (
                    path.display().to_string(),
                    std::fs::read(path).expect("is read").into(),
                )
            })
            .collect()
    }

    #[test]
    fn every_field_of_the_schema_survives_decoding_and_encoding() {
        let model = ModelProto::decode(EVERY_FIELD).expect("decodes");
        let again = model.encode_to_vec();
        // Contents of a type may change places with its denotation.
        assert_eq!(again.len(), EVERY_FIELD.len());
        assert_eq!(ModelProto::decode(&*again), Ok(model));
    }

    #[test]
    fn real_models_are_encoded_as_they_were() {
        let models = models();
        assert!(models.len() > 10);
        for (name, bytes) in models {
            let model = ModelProto::decode(bytes.clone()).expect("decodes");
            assert!(model.encode_to_vec() == bytes, "{name}");
            let graph = model.graph.expect("has a graph");
            let weights = graph
                .initializer
                .iter()
                .filter_map(|tensor| tensor.raw_data.as_ref());
            let file = bytes.as_ptr_range();
            for weights in weights.filter(|weights| !weights.is_empty()) {
                assert!(file.contains(&weights.as_ptr()), "{name}: weights are copied");
            }
        }
    }

    proptest! {
        #[test]
        fn damaged_models_are_refused_or_keep_what_was_decoded(
            at in 0..EVERY_FIELD.len(),
            byte in any::<u8>(),
            length in 0..=EVERY_FIELD.len(),
        ) {
            let mut bytes = EVERY_FIELD.to_vec();
            bytes[at] = byte;
            bytes.truncate(length);
            if let Ok(model) = ModelProto::decode(&*bytes) {
                let again = model.encode_to_vec();
                let read = ModelProto::decode(&*again).expect("decodes");
                prop_assert_eq!(read.encode_to_vec(), again);
            }
        }
    }
}

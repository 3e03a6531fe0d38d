use std::sync::Arc;

use prost::Message;
use weir_flow::DeviceKind;

use super::super::onnx::{
    AttributeProto, Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TypeProto,
    ValueInfoProto, data_type,
};
use super::{OrtSession, OutputView};

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn ints(name: &str, values: &[i64]) -> AttributeProto {
    /// Type of an attribute that is a list of whole numbers.
    const WHOLE_NUMBERS: i32 = 7;
    AttributeProto {
        name: text(name),
        ints: values.to_vec(),
        r#type: Some(WHOLE_NUMBERS),
        ..AttributeProto::default()
    }
}

fn node(op: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        op_type: text(op),
        attribute,
        ..NodeProto::default()
    }
}

fn value(name: &str, width: usize) -> ValueInfoProto {
    let shape = [1, 1, 1, width].map(Dimension::size);
    ValueInfoProto {
        name: text(name),
        r#type: Some(TypeProto::tensor(data_type::FLOAT, shape.to_vec())),
        ..ValueInfoProto::default()
    }
}

/// The end of YOLOv3-tiny's backbone: a column of zeros at the right, then the larger of each two neighbours.
#[test]
fn zeros_beside_a_picture_are_larger_than_what_is_negative() {
    let graph = GraphProto {
        name: text("g"),
        node: vec![
            node(
                "Constant",
                &[],
                "sides",
                vec![ints("value_ints", &[0, 0, 0, 0, 0, 0, 0, 1])],
            ),
            node("Pad", &["image", "sides"], "wider", Vec::new()),
            node("MaxPool", &["wider"], "most", vec![ints("kernel_shape", &[1, 2])]),
        ],
        input: vec![value("image", 3)],
        output: vec![value("most", 3)],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(8),
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            domain: text(""),
            version: Some(13),
        }],
        ..ModelProto::default()
    };
    let bytes: Arc<[u8]> = model.encode_to_vec().into();
    let mut session = OrtSession::open(&bytes, DeviceKind::Cpu).expect("opens");
    let mut feed = session.feed().expect("a feed");
    feed.reshape(&[1, 1, 1, 3]).expect("memory");
    feed.elements().copy_from_slice(&[-3.0, -2.0, -1.0]);
    let most = session.run(&feed, |views: &[OutputView<'_>]| views[0].data.to_vec());
    assert_eq!(most.expect("runs"), [-2.0, -1.0, 0.0]);
}

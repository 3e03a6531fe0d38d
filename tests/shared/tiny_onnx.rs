//! Small ONNX files written byte by byte, as tests need them: protobuf messages, and the nodes, tensors and values of a graph.

#![allow(dead_code, reason = "each test program needs some of it")]

/// Element types of ONNX.
pub(crate) const FLOAT: u64 = 1;
pub(crate) const INT64: u64 = 7;
pub(crate) const BOOL: u64 = 9;

/// Fields of a message, as protobuf has them on the wire.
#[derive(Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(crate) fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    pub(crate) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    pub(crate) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub(crate) fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    pub(crate) fn messages(self, field: u64, messages: impl IntoIterator<Item = Self>) -> Self {
        messages
            .into_iter()
            .fold(self, |message, part| message.message(field, &part))
    }
}

pub(crate) fn message() -> Message {
    Message::default()
}

/// A node with attributes that are whole numbers or lists of them.
pub(crate) fn node(op: &str, inputs: &[&str], output: &str, attributes: &[(&str, &[u64])]) -> Message {
    let node = inputs.iter().fold(message(), |node, input| node.text(1, input));
    let attributes = attributes.iter().map(|(name, numbers)| {
        let named = message().text(1, name);
        match numbers {
            [only] if *name != "axes" => named.number(3, *only).number(20, 2),
            several => several
                .iter()
                .fold(named, |named, number| named.number(8, *number))
                .number(20, 7),
        }
    });
    node.text(2, output).text(4, op).messages(5, attributes)
}

/// An input or output; a name stands for a free size.
pub(crate) fn value(name: &str, element: u64, shape: &[Result<u64, &str>]) -> Message {
    let sizes = shape.iter().map(|size| match size {
        Ok(size) => message().number(1, *size),
        Err(name) => message().text(2, name),
    });
    let tensor = message()
        .number(1, element)
        .message(2, &message().messages(1, sizes));
    message().text(1, name).message(2, &message().message(1, &tensor))
}

pub(crate) fn tensor(name: &str, element: u64, dims: &[u64], data: &[u8]) -> Message {
    let tensor = dims
        .iter()
        .fold(message(), |tensor, size| tensor.number(1, *size));
    tensor.number(2, element).text(8, name).bytes(9, data)
}

pub(crate) fn model(graph: Message) -> Vec<u8> {
    let opset = message().number(2, 13);
    message()
        .number(1, 8)
        .message(7, &graph.text(2, "g"))
        .message(8, &opset)
        .0
}

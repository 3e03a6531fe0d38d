//! The protobuf wire format, as far as editing and cutting ONNX files needs it.
//!
//! A message is a list of fields that stay encoded until they are read, so weights are never decoded. There is no
//! schema: callers know the field numbers. Groups, which ONNX does not use, are refused. Nothing here recurses, so no
//! file can exhaust the stack.

use std::borrow::Cow;

/// Content of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Payload<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Cow<'a, [u8]>),
    Fixed32([u8; 4]),
}

/// One field of a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) payload: Payload<'a>,
}

impl<'a> Field<'a> {
    pub(crate) fn varint(number: u32, value: u64) -> Self {
        Self {
            number,
            payload: Payload::Varint(value),
        }
    }

    pub(crate) fn bytes(number: u32, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self {
            number,
            payload: Payload::Bytes(bytes.into()),
        }
    }

    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match &self.payload {
            Payload::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Bytes borrowed from the parsed message; `None` if they were replaced.
    pub(crate) fn borrowed(&self) -> Option<&'a [u8]> {
        match self.payload {
            Payload::Bytes(Cow::Borrowed(bytes)) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn as_varint(&self) -> Option<u64> {
        match self.payload {
            Payload::Varint(value) => Some(value),
            _ => None,
        }
    }
}

/// A message: its fields in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Message<'a> {
    pub(crate) fields: Vec<Field<'a>>,
}

impl<'a> Message<'a> {
    /// Splits `bytes` into fields; `None` if they are no message.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let key = varint(&mut rest)?;
            let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0)?;
            let payload = match key & 7 {
                0 => Payload::Varint(varint(&mut rest)?),
                1 => Payload::Fixed64(take(&mut rest, 8)?.try_into().ok()?),
                2 => {
                    let length = usize::try_from(varint(&mut rest)?).ok()?;
                    Payload::Bytes(Cow::Borrowed(take(&mut rest, length)?))
                }
                5 => Payload::Fixed32(take(&mut rest, 4)?.try_into().ok()?),
                _ => return None,
            };
            fields.push(Field { number, payload });
        }
        Some(Self { fields })
    }

    /// Encodes the message.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for Field { number, payload } in &self.fields {
            let key = u64::from(*number) << 3;
            match payload {
                Payload::Varint(value) => {
                    put_varint(&mut out, key);
                    put_varint(&mut out, *value);
                }
                Payload::Fixed64(bytes) => {
                    put_varint(&mut out, key | 1);
                    out.extend_from_slice(bytes);
                }
                Payload::Bytes(bytes) => {
                    put_varint(&mut out, key | 2);
                    put_varint(&mut out, bytes.len() as u64);
                    out.extend_from_slice(bytes);
                }
                Payload::Fixed32(bytes) => {
                    put_varint(&mut out, key | 5);
                    out.extend_from_slice(bytes);
                }
            }
        }
        out
    }

    /// The first field of that number as text.
    pub(crate) fn text(&self, number: u32) -> Option<&str> {
        std::str::from_utf8(self.first(number)?.as_bytes()?).ok()
    }

    /// The first field of that number.
    pub(crate) fn first(&self, number: u32) -> Option<&Field<'a>> {
        self.fields.iter().find(|field| field.number == number)
    }

    /// All fields of that number that contain bytes.
    pub(crate) fn all(&self, number: u32) -> impl Iterator<Item = &[u8]> {
        self.fields
            .iter()
            .filter(move |field| field.number == number)
            .filter_map(Field::as_bytes)
    }

    /// Integers of a repeated field, packed or not.
    pub(crate) fn integers(&self, number: u32) -> Option<Vec<i64>> {
        let mut all = Vec::new();
        for field in self.fields.iter().filter(|field| field.number == number) {
            match &field.payload {
                Payload::Varint(value) => all.push(value.cast_signed()),
                Payload::Bytes(bytes) => {
                    let mut rest: &[u8] = bytes;
                    while !rest.is_empty() {
                        all.push(varint(&mut rest)?.cast_signed());
                    }
                }
                _ => return None,
            }
        }
        Some(all)
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_encoded_as_it_was_parsed() {
        let bytes = [
            0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8,
        ];
        let message = Message::read(&bytes).expect("well formed");
        assert_eq!(message.first(1).and_then(Field::as_varint), Some(150));
        assert_eq!(message.text(2), Some("hi"));
        assert_eq!(message.write(), bytes);
    }

    #[test]
    fn truncated_or_invalid_messages_are_refused() {
        for bytes in [
            &[0x08][..],
            &[0x12, 0x05, 1],
            &[0x1d, 1],
            &[0x0b],
            &[0x00, 0x01],
            &[0xff; 11],
        ] {
            assert_eq!(Message::read(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn negative_and_packed_integers() {
        let mut packed = Vec::new();
        put_varint(&mut packed, (-1_i64).cast_unsigned());
        put_varint(&mut packed, 300);
        let message = Message {
            fields: vec![Field::bytes(7, packed), Field::varint(7, 5)],
        };
        assert_eq!(message.integers(7), Some(vec![-1, 300, 5]));
    }
}

//! Elements of a tensor in JSON, flat or as lists of lists, read without a value for each.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

/// Dimensions of a tensor, and lists in each other.
pub(super) const MAX_DIMENSIONS: usize = 8;

/// Elements that a tensor has in the JSON.
#[derive(Debug, Default)]
pub(super) struct Elements {
    /// Those before the first that is no whole number from 0 to 255.
    pub(super) bytes: Vec<u8>,
    /// True if some element is no whole number from 0 to 255.
    pub(super) has_others: bool,
    /// Length of the lists at each depth, from the outermost; all at one depth have the same.
    lengths: Vec<Option<u64>>,
    /// Depth of the elements.
    leaves: Option<usize>,
}

impl Elements {
    /// True if the lists are flat, or nested as the shape is.
    pub(super) fn fits(&self, shape: &[u64]) -> bool {
        let lengths = || self.lengths.iter().copied();
        self.lengths.len() == 1 || lengths().eq(shape.iter().copied().map(Some))
    }

    fn add(&mut self, element: Option<u8>, depth: usize) -> Result<(), &'static str> {
        if *self.leaves.get_or_insert(depth) != depth {
            return Err("`data` has elements beside lists");
        }
        match element {
            Some(byte) if !self.has_others => self.bytes.push(byte),
            Some(_) => {}
            None => self.has_others = true,
        }
        Ok(())
    }

    fn on_list(&mut self, length: u64, depth: usize) -> Result<(), &'static str> {
        let known = &mut self.lengths[depth];
        if *known.get_or_insert(length) != length {
            return Err("`data` has lists of different lengths at one depth");
        }
        Ok(())
    }
}

impl<'de> serde::Deserialize<'de> for Elements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut elements = Self::default();
        let outermost = Nested {
            elements: &mut elements,
            depth: 0,
        };
        deserializer.deserialize_seq(outermost)?;
        Ok(elements)
    }
}

/// The lists and elements at a depth: 0 is the outermost list.
struct Nested<'e> {
    elements: &'e mut Elements,
    depth: usize,
}

impl Nested<'_> {
    fn add<E: Error>(self, element: Option<u8>) -> Result<(), E> {
        self.elements.add(element, self.depth).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Nested<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of elements")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.add(u8::try_from(number).ok())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.add(None)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.add(None)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.add(None)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.add(None)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.add(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { elements, depth } = self;
        if depth == MAX_DIMENSIONS {
            return Err(A::Error::custom(format_args!(
                "`data` has more than {MAX_DIMENSIONS} lists in each other"
            )));
        }
        if elements.lengths.len() == depth {
            elements.lengths.push(None);
        }
        let mut length = 0;
        loop {
            let element = Nested {
                elements: &mut *elements,
                depth: depth + 1,
            };
            if list.next_element_seed(element)?.is_none() {
                break;
            }
            length += 1;
        }
        elements.on_list(length, depth).map_err(A::Error::custom)
    }
}

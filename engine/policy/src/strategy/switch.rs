//! A part of a policy that can be switched off: `false`, `true`, or a table with its parameters.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A part of a policy: off, on with the parameters of the preset or the defaults, or on with its own
/// parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Switch<T> {
    /// Off, or on with the parameters of the preset, else the defaults.
    Is(bool),
    /// On, with these parameters.
    With(T),
}

impl<T: Copy + Default> Switch<T> {
    /// Parameters of the part if it is on; `preset` applies if the policy does not contain it.
    pub(crate) fn resolve(this: Option<Self>, preset: Option<T>) -> Option<T> {
        match this {
            None => preset,
            Some(Self::Is(false)) => None,
            Some(Self::Is(true)) => Some(preset.unwrap_or_default()),
            Some(Self::With(parameters)) => Some(parameters),
        }
    }
}

impl<T> From<Option<T>> for Switch<T> {
    fn from(parameters: Option<T>) -> Self {
        parameters.map_or(Self::Is(false), Self::With)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Switch<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a table with parameters")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<Self::Value, E> {
                Ok(Switch::Is(on))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Switch::With)
            }
        }
        deserializer.deserialize_any(Reader(PhantomData))
    }
}

/// Reads a strategy that is written as its name, or as a table with its name as `rule` and its parameters.
///
/// # Errors
///
/// If there is none of that name, or it has no such parameter.
pub(super) fn word_or_table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    struct Reader<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a rule's name, or a table with its name as `rule` and its parameters")
        }

        fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
            T::deserialize(MapDeserializer::new(std::iter::once(("rule", word)))).map(Some)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }

        fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
            inner.deserialize_any(self)
        }

        fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
    deserializer.deserialize_any(Reader(PhantomData))
}

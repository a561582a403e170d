//! A JSON text in which a name stands twice in one object is refused: one of the two values would be lost in silence.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Any JSON value without duplicate names.
pub(super) struct WithoutDuplicates;

impl<'de> Deserialize<'de> for WithoutDuplicates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for WithoutDuplicates {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                let _ = map.next_value::<IgnoredAny>();
                return Err(A::Error::custom(format!("{name:?} stands there twice")));
            }
            map.next_value::<Self>()?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_twice_is_found_wherever_it_is() {
        let reads = |text| serde_json::from_str::<WithoutDuplicates>(text).map(drop);
        for text in [r#"{"a":1,"b":[{"a":-1.5},{"a":null}],"c":{"a":"a","b":true}}"#, "[]", "5", "\"x\""] {
            assert!(reads(text).is_ok(), "{text}");
        }
        for text in [r#"{"a":1,"a":1}"#, r#"{"x":[0,{"a":1,"\u0061":2}]}"#] {
            let refused = reads(text).unwrap_err().to_string();
            assert!(refused.contains("\"a\" stands there twice"), "{refused}");
        }
    }
}

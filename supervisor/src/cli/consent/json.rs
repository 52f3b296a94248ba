//! Changing one place of somebody else's JSON file: everything that is not on the way to it keeps its
//! order and its bytes, so that numbers, escapes and keys that we do not know stay what they are.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::value::RawValue;
use std::fmt;

/// The members of an object, in order, unread.
#[derive(Default)]
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        d.deserialize_map(InOrder)
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// `text` with the value at `path` replaced by what `edit` makes of the one that is there. Objects on
/// the way are made where they are missing.
///
/// # Errors
/// When the text is not JSON, or something on the way is not an object.
pub(super) fn set<F>(text: &str, path: &[&str], edit: F) -> serde_json::Result<String>
where
    F: FnOnce(Option<&str>) -> serde_json::Result<String>,
{
    let Some((key, rest)) = path.split_first() else { return edit(Some(text)) };
    let mut members: Members = serde_json::from_str(text)?;
    let place = members.0.iter().position(|(k, _)| k == key);
    let old = place.and_then(|i| members.0.get(i)).map(|(_, value)| value.get());
    let new = if rest.is_empty() { edit(old)? } else { set(old.unwrap_or("{}"), rest, edit)? };
    let new = RawValue::from_string(new)?;
    match place.and_then(|i| members.0.get_mut(i)) {
        Some((_, value)) => *value = new,
        None => members.0.push(((*key).to_owned(), new)),
    }
    serde_json::to_string_pretty(&members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_one_place_and_keeps_the_rest() {
        let text = r#"{"z":1.00,"big":123456789012345678901234567890,"a":{"x":"\u00e9",
            "y" : [1, 2 ]},"projects":{"/b":{"k":true}}}"#;
        let set_true = |_: Option<&str>| Ok("true".to_owned());
        let once = set(text, &["projects", "/a b", "ok"], set_true).unwrap();
        for kept in ["1.00", "123456789012345678901234567890", r#""\u00e9""#, "[1, 2 ]", r#"{"k":true}"#] {
            assert!(once.contains(kept), "{kept} in {once}");
        }
        let keys: Vec<usize> =
            ["\"z\"", "\"big\"", "\"a\"", "\"projects\""].map(|k| once.find(k).unwrap()).to_vec();
        assert!(keys.is_sorted());
        let value: serde_json::Value = serde_json::from_str(&once).unwrap();
        assert_eq!(value["projects"]["/a b"]["ok"], true);
        assert_eq!(set(&once, &["projects", "/a b", "ok"], set_true).unwrap().matches("/a b").count(), 1);
    }

    #[test]
    fn refuses_what_is_no_object() {
        let set_true = |_: Option<&str>| Ok("true".to_owned());
        for text in ["", "[]", "{\"a\":[]}", "{\"a\":1,}"] {
            assert!(set(text, &["a", "b"], set_true).is_err(), "{text}");
        }
    }
}

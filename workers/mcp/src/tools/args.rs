//! The arguments of a call, read one by one with errors that name the place and what was found there,
//! so that the model can correct itself.

use super::ToolError;
use rmcp::model::JsonObject;
use serde_json::Value;
use std::ops::RangeInclusive;

/// Longest value quoted in an error.
const QUOTE: usize = 60;

/// A call's arguments. A `null` counts as absent: some models fill optional fields with it.
#[derive(Debug, Default)]
pub(crate) struct Args(JsonObject);

impl Args {
    /// Takes the arguments of a tool that knows the names in `known`.
    ///
    /// # Errors
    /// When there is one that it does not know, which is most often a misspelt one.
    pub(crate) fn checked(mut map: JsonObject, known: &[&str]) -> Result<Args, ToolError> {
        map.retain(|_, value| !value.is_null());
        match map.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Args(map)),
            Some(name) => Err(ToolError::Arguments(format!(
                "at $.{}: there is no such argument; this tool takes {}",
                quote(name),
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ))),
        }
    }

    /// An optional text.
    ///
    /// # Errors
    /// When it is something else.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ToolError> {
        self.0.get(name).map(|value| as_text(value, &format!("$.{name}"))).transpose()
    }

    /// An argument as it was given; none is absent.
    pub(crate) fn any(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// An optional list of texts; absent is empty.
    ///
    /// # Errors
    /// When it, or one of its items, is something else.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<&str>, ToolError> {
        match self.0.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().enumerate().map(|(i, value)| as_text(value, &format!("$.{name}[{i}]"))).collect()
            }
            Some(other) => Err(wrong(&format!("$.{name}"), "a list of texts", other)),
        }
    }

    /// An optional whole number within `range`.
    ///
    /// # Errors
    /// When it is something else, or outside.
    pub(crate) fn integer(&self, name: &str, range: &RangeInclusive<u32>) -> Result<Option<u32>, ToolError> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        // Some models write 20.0 for 20.
        let whole =
            value.as_u64().or_else(|| value.as_f64().filter(|f| f.fract() == 0.0 && *f >= 0.0).map(as_whole));
        match whole.and_then(|n| u32::try_from(n).ok()).filter(|n| range.contains(n)) {
            Some(n) => Ok(Some(n)),
            None => {
                let expected = format!("a whole number from {} to {}", range.start(), range.end());
                Err(wrong(&format!("$.{name}"), &expected, value))
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, and the range check follows")]
#[expect(clippy::cast_sign_loss, reason = "the caller has checked the sign")]
fn as_whole(f: f64) -> u64 {
    f as u64
}

fn as_text<'a>(value: &'a Value, place: &str) -> Result<&'a str, ToolError> {
    value.as_str().ok_or_else(|| wrong(place, "a text", value))
}

fn wrong(place: &str, expected: &str, found: &Value) -> ToolError {
    ToolError::Arguments(format!("at {place}: expected {expected}, found {}", quote(&found.to_string())))
}

fn quote(text: &str) -> String {
    if text.chars().count() <= QUOTE {
        return text.to_owned();
    }
    text.chars().take(QUOTE).chain("…".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KNOWN: [&str; 3] = ["text", "files", "limit"];

    fn args(value: Value) -> Result<Args, String> {
        let Value::Object(map) = value else { panic!("not an object") };
        Args::checked(map, &KNOWN).map_err(|e| e.to_string())
    }

    #[test]
    fn errors_name_the_place_and_what_was_found() {
        let bad = args(json!({"text": 7, "files": ["a", {"path": "b"}], "limit": 101})).unwrap();
        for (error, says) in [
            (bad.text("text").unwrap_err(), "at $.text: expected a text, found 7"),
            (bad.texts("files").unwrap_err(), "at $.files[1]: expected a text, found {\"path\":\"b\"}"),
            (
                bad.integer("limit", &(1..=100)).unwrap_err(),
                "at $.limit: expected a whole number from 1 to 100, found 101",
            ),
        ] {
            assert!(error.to_string().ends_with(says), "{error}");
        }
        assert!(args(json!({"file": "a"})).unwrap_err().contains("this tool takes text, files, limit"));
    }

    #[test]
    fn null_is_absent_and_whole_floats_are_whole() {
        let good = args(json!({"text": null, "files": null, "limit": 20.0, "file": null})).unwrap();
        assert_eq!(good.text("text").unwrap(), None);
        assert!(good.texts("files").unwrap().is_empty());
        assert_eq!(good.integer("limit", &(1..=100)).unwrap(), Some(20));
        for bad in [json!(-1), json!(1.5), json!(1e300), json!("20"), json!(0)] {
            let args = args(json!({ "limit": bad })).unwrap();
            assert!(args.integer("limit", &(1..=100)).is_err(), "{bad}");
        }
    }
}

//! What an agent may ask for: the rules of seed 001, "Ask inputs". Pure.

use leo_ipc::{
    Fault,
    ask::{Choice, Input, InputType, MAX_DESCRIPTION, MAX_LABEL, MAX_OPTIONS, MAX_QUESTION, MAX_TIMEOUT_S},
};
use serde_json::{Map, Value};

fn bad(text: impl Into<String>) -> Fault {
    Fault::new("bad_request", text)
}

/// Checks a question and its timeout.
pub(crate) fn question(text: &str, timeout_s: Option<u64>) -> Result<(), Fault> {
    if text.trim().is_empty() {
        return Err(bad("at $.question: a question needs text"));
    }
    if text.chars().count() > MAX_QUESTION {
        return Err(bad(format!("at $.question: at most {MAX_QUESTION} characters")));
    }
    match timeout_s {
        Some(s) if s > MAX_TIMEOUT_S => Err(bad(format!("at $.timeout_s: at most {MAX_TIMEOUT_S}"))),
        _ => Ok(()),
    }
}

/// Reads the input that an agent gave: bare-string options are accepted, top-level options ask
/// buttons, giving both is an error.
pub(crate) fn parse(input: Option<&Value>, options: Option<&Value>) -> Result<Input, Fault> {
    let none = |v: &&Value| !v.is_null();
    match (input.filter(none), options.filter(none)) {
        (Some(_), Some(_)) => Err(bad("at $.options: give `input` or `options`, not both")),
        (None, None) => Err(bad("at $.input: an ask needs `input`, or `options` for buttons")),
        (None, Some(options)) => {
            checked(InputType::Buttons, Some(choices(options, "$.options")?), &Map::new())
        }
        (Some(Value::Object(map)), None) => {
            let kind = match map.get("type").and_then(Value::as_str) {
                Some("buttons") => InputType::Buttons,
                Some("radio") => InputType::Radio,
                Some("checkboxes") => InputType::Checkboxes,
                Some("text") => InputType::Text,
                _ => return Err(bad("at $.input.type: one of buttons, radio, checkboxes, text")),
            };
            let options = match map.get("options").filter(|v| !v.is_null()) {
                Some(options) => Some(choices(options, "$.input.options")?),
                None => None,
            };
            checked(kind, options, map)
        }
        (Some(_), None) => Err(bad("at $.input: an object such as {\"type\":\"buttons\",\"options\":[…]}")),
    }
}

fn checked(kind: InputType, options: Option<Vec<Choice>>, map: &Map<String, Value>) -> Result<Input, Fault> {
    let is_text = kind == InputType::Text;
    match &options {
        None if !is_text => return Err(bad("at $.input.options: this type needs options")),
        Some(_) if is_text => return Err(bad("at $.input.options: a text input has no options")),
        _ => {}
    }
    let allow_text = flag(map, "allow_text")?;
    if is_text && allow_text == Some(true) {
        return Err(bad("at $.input.allow_text: only for choice types"));
    }
    let count = options.as_ref().map_or(0, Vec::len) as i64;
    let (min, max) = (number(map, "min")?, number(map, "max")?);
    if kind == InputType::Checkboxes {
        let (low, high) = (min.unwrap_or(0), max.unwrap_or(count));
        if low < 0 {
            return Err(bad("at $.input.min: not below 0"));
        }
        if high < 1 {
            return Err(bad("at $.input.max: at least 1"));
        }
        if high > count {
            return Err(bad("at $.input.max: not more than there are options"));
        }
        if low > high {
            return Err(bad("at $.input.min: not above max"));
        }
    } else if min.is_some_and(|m| m != 0) || max.is_some() {
        return Err(bad("at $.input: min and max are for checkboxes"));
    }
    let as_u32 = |n: Option<i64>| n.and_then(|n| u32::try_from(n).ok());
    let boxes = kind == InputType::Checkboxes;
    let placeholder = match map.get("placeholder").filter(|v| !v.is_null()) {
        Some(Value::String(text)) => Some(short(text, MAX_LABEL, "$.input.placeholder")?),
        Some(_) => return Err(bad("at $.input.placeholder: text")),
        None => None,
    };
    Ok(Input {
        kind,
        options,
        allow_text,
        min: as_u32(min).filter(|_| boxes),
        max: as_u32(max).filter(|_| boxes),
        placeholder,
        questions: None,
    })
}

fn flag(map: &Map<String, Value>, key: &str) -> Result<Option<bool>, Fault> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(on)) => Ok(Some(*on)),
        Some(_) => Err(bad(format!("at $.input.{key}: true or false"))),
    }
}

fn number(map: &Map<String, Value>, key: &str) -> Result<Option<i64>, Fault> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            value.as_i64().map(Some).ok_or_else(|| bad(format!("at $.input.{key}: a whole number")))
        }
    }
}

fn choices(value: &Value, path: &str) -> Result<Vec<Choice>, Fault> {
    let items = value.as_array().ok_or_else(|| bad(format!("at {path}: a list")))?;
    if items.is_empty() || items.len() > MAX_OPTIONS {
        return Err(bad(format!("at {path}: 1 to {MAX_OPTIONS} options")));
    }
    let mut found: Vec<Choice> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let choice = choice(item, &path)?;
        if found.iter().any(|other| other.value == choice.value) {
            return Err(bad(format!("at {path}: the value {:?} is there twice", choice.value)));
        }
        found.push(choice);
    }
    Ok(found)
}

fn choice(item: &Value, path: &str) -> Result<Choice, Fault> {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    let (value, label, description) = match item {
        Value::String(text) => (text.as_str(), text.as_str(), None),
        Value::Object(_) => {
            let value =
                text("value").or(text("label")).ok_or_else(|| bad(format!("at {path}.value: text")))?;
            (value, text("label").unwrap_or(value), text("description").filter(|d| !d.is_empty()))
        }
        _ => return Err(bad(format!("at {path}: text, or an object with value and label"))),
    };
    if value.trim().is_empty() || label.trim().is_empty() {
        return Err(bad(format!("at {path}: an option needs text")));
    }
    Ok(Choice {
        value: short(value, MAX_LABEL, &format!("{path}.value"))?,
        label: short(label, MAX_LABEL, &format!("{path}.label"))?,
        description: description
            .map(|d| short(d, MAX_DESCRIPTION, &format!("{path}.description")))
            .transpose()?,
    })
}

fn short(text: &str, most: usize, path: &str) -> Result<String, Fault> {
    if text.chars().count() > most {
        return Err(bad(format!("at {path}: at most {most} characters")));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(input: &Value, options: &Value) -> Result<Input, String> {
        parse(Some(input), Some(options)).map_err(|f| f.message)
    }

    #[test]
    fn rules_of_the_document() {
        let ab = json!(["a", "b"]);
        let boxes = |extra: Value| {
            let mut input = json!({"type": "checkboxes", "options": ["a", "b"]});
            if let (Some(map), Some(more)) = (input.as_object_mut(), extra.as_object()) {
                map.extend(more.clone());
            }
            ask(&input, &Value::Null)
        };
        let of = |kind: &str, extra: Value| {
            let mut input = json!({"type": kind, "options": ["a", "b"]});
            if let (Some(map), Some(more)) = (input.as_object_mut(), extra.as_object()) {
                map.extend(more.clone());
            }
            ask(&input, &Value::Null)
        };
        let cases = [
            ("omitting input and giving top-level options asks buttons", ask(&Value::Null, &ab), true),
            ("giving both is an error", ask(&json!({"type": "text"}), &ab), false),
            ("neither is an error", ask(&Value::Null, &Value::Null), false),
            ("min defaults to 0 and max to the number of options", boxes(json!({})), true),
            ("rejected when min < 0", boxes(json!({"min": -1})), false),
            ("rejected when max < 1", boxes(json!({"max": 0})), false),
            ("rejected when min > max", boxes(json!({"min": 2, "max": 1})), false),
            ("rejected when max exceeds the option count", boxes(json!({"max": 3})), false),
            ("min 2 of 2", boxes(json!({"min": 2, "max": 2})), true),
            ("a nonzero min on another type", of("buttons", json!({"min": 1})), false),
            ("min 0 on another type is harmless", of("buttons", json!({"min": 0})), true),
            ("any max on another type", of("radio", json!({"max": 1})), false),
            ("allow_text on choice types", of("radio", json!({"allow_text": true})), true),
            ("a text input has no options", of("text", json!({})), false),
            ("a text input", ask(&json!({"type": "text", "placeholder": "here"}), &Value::Null), true),
            ("questions is not an input type an agent can ask for", of("questions", json!({})), false),
            ("an unknown type", of("slider", json!({})), false),
            ("values must be distinct", ask(&Value::Null, &json!(["a", "a"])), false),
            ("no options", ask(&Value::Null, &json!([])), false),
            (
                "21 options",
                ask(&Value::Null, &json!((0..21).map(|n| n.to_string()).collect::<Vec<_>>())),
                false,
            ),
            ("an empty option", ask(&Value::Null, &json!([" "])), false),
            ("a long label", ask(&Value::Null, &json!(["x".repeat(201)])), false),
        ];
        for (rule, found, good) in cases {
            assert_eq!(found.is_ok(), good, "{rule}: {found:?}");
        }
    }

    #[test]
    fn bare_strings_become_objects_and_empty_descriptions_vanish() {
        let options = json!(["a", {"value": "b", "label": "B", "description": ""}, {"value": "c", "label": "C", "description": "d"}]);
        let input = parse(None, Some(&options)).unwrap();
        let options = serde_json::to_value(input.options).unwrap();
        assert_eq!(
            options,
            json!([{"value": "a", "label": "a"}, {"value": "b", "label": "B"}, {"value": "c", "label": "C", "description": "d"}])
        );
    }
}

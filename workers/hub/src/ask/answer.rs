//! What counts as an answer: the rules of seed 001, "Ask inputs" and "Questions cards". Pure, and always
//! asked before anything is consumed.

use leo_ipc::{
    Fault,
    ask::{AnswerBody, Choice, Input, InputType, MAX_ANSWER_TEXT, Question, QuestionAnswer},
};
use std::collections::BTreeSet;

fn bad(text: impl Into<String>) -> Fault {
    Fault::new("bad_answer", text)
}

/// Checks an answer and fills in what is stored: labels, trimmed texts.
///
/// # Errors
/// `bad_answer` with the rule that it breaks.
pub(crate) fn check(input: &Input, answer: &AnswerBody, is_permission: bool) -> Result<AnswerBody, Fault> {
    if input.kind == InputType::Questions {
        return questions(input, answer);
    }
    if answer.answers.is_some() {
        return Err(Fault::new("bad_answer", "at $.answers: only a questions card takes answers"));
    }
    text_length(&answer.text, "$.text")?;
    let options = input.options.as_deref().unwrap_or_default();
    let labels = known(options, &answer.values, "$.values")?;
    let has_text = !answer.text.trim().is_empty();
    let mut allow_text = input.allow_text.unwrap_or(false);
    // A denial may say why: the one exception to the rule of the buttons (WIRE.md §2).
    if is_permission && answer.values == ["deny"] {
        allow_text = true;
    }
    match input.kind {
        InputType::Text => {
            if !answer.values.is_empty() {
                return Err(bad("at $.values: a text answer has none"));
            }
            if !has_text {
                return Err(bad("at $.text: a text answer needs text"));
            }
        }
        InputType::Checkboxes => {
            if has_text && !allow_text {
                return Err(bad("at $.text: this question takes no text"));
            }
            distinct(&answer.values, "$.values")?;
            let count = answer.values.len();
            let min = input.min.unwrap_or(0) as usize;
            let max = input.max.map_or(options.len(), |m| m as usize);
            let by_text = allow_text && has_text && count == 0;
            if !by_text && (count < min || count > max) {
                return Err(bad(format!("at $.values: {min} to {max} of them, found {count}")));
            }
            // With free text allowed, choosing nothing is an answer only when something was written.
            if allow_text && count == 0 && !has_text {
                return Err(bad("at $.values: choose something, or write text"));
            }
        }
        _ => {
            if has_text && !allow_text {
                return Err(bad("at $.text: this question takes no text"));
            }
            let by_text = allow_text && has_text && answer.values.is_empty();
            if !by_text && answer.values.len() != 1 {
                return Err(bad("at $.values: exactly one value"));
            }
            if has_text && !answer.values.is_empty() && !is_permission {
                return Err(bad("at $.text: a value or text, not both"));
            }
        }
    }
    Ok(AnswerBody {
        values: answer.values.clone(),
        text: answer.text.clone(),
        labels: Some(labels),
        answers: None,
    })
}

fn questions(input: &Input, answer: &AnswerBody) -> Result<AnswerBody, Fault> {
    if !answer.values.is_empty() || !answer.text.is_empty() {
        return Err(bad("at $.values: a questions card is answered by `answers` alone"));
    }
    let given = answer.answers.as_ref().ok_or_else(|| bad("at $.answers: a questions card needs answers"))?;
    let asked = input.questions.as_deref().unwrap_or_default();
    if let Some(unknown) = given.keys().find(|id| !asked.iter().any(|q| q.id == **id)) {
        return Err(bad(format!("at $.answers.{unknown}: there is no such question")));
    }
    let mut stored = std::collections::BTreeMap::new();
    for question in asked {
        let path = format!("$.answers.{}", question.id);
        let found =
            given.get(&question.id).ok_or_else(|| bad(format!("at {path}: this question has no answer")))?;
        stored.insert(question.id.clone(), one(question, found, &path)?);
    }
    Ok(AnswerBody { answers: Some(stored), ..AnswerBody::default() })
}

fn one(question: &Question, answer: &QuestionAnswer, path: &str) -> Result<QuestionAnswer, Fault> {
    let text = answer.text.trim().to_owned();
    text_length(&text, &format!("{path}.text"))?;
    known(&question.options, &answer.values, &format!("{path}.values"))?;
    if answer.values.is_empty() && text.is_empty() {
        return Err(bad(format!("at {path}: at least one value, or text")));
    }
    if question.multi {
        distinct(&answer.values, &format!("{path}.values"))?;
    } else if answer.values.len() > 1 {
        return Err(bad(format!("at {path}.values: at most one")));
    } else if !answer.values.is_empty() && !text.is_empty() {
        return Err(bad(format!("at {path}: a value or text, not both")));
    }
    Ok(QuestionAnswer { values: answer.values.clone(), text })
}

fn known(options: &[Choice], values: &[String], path: &str) -> Result<Vec<String>, Fault> {
    let label = |value: &String| options.iter().find(|o| o.value == *value).map(|o| o.label.clone());
    values
        .iter()
        .map(|value| {
            label(value).ok_or_else(|| bad(format!("at {path}: {value:?} is not one of the options")))
        })
        .collect()
}

fn distinct(values: &[String], path: &str) -> Result<(), Fault> {
    let set: BTreeSet<&String> = values.iter().collect();
    if set.len() == values.len() { Ok(()) } else { Err(bad(format!("at {path}: a value is there twice"))) }
}

fn text_length(text: &str, path: &str) -> Result<(), Fault> {
    if text.chars().count() > MAX_ANSWER_TEXT {
        return Err(bad(format!("at {path}: at most {MAX_ANSWER_TEXT} characters")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn input(value: Value) -> Input {
        serde_json::from_value(value).unwrap()
    }

    fn answer(value: Value) -> AnswerBody {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn rules_of_the_document() {
        let options =
            json!([{"value": "a", "label": "A"}, {"value": "b", "label": "B"}, {"value": "c", "label": "C"}]);
        let of = |kind: &str, extra: Value| {
            let mut map = json!({"type": kind});
            if kind != "text" {
                map["options"] = options.clone();
            }
            for (key, value) in extra.as_object().into_iter().flatten() {
                map[key] = value.clone();
            }
            input(map)
        };
        let free = json!({"allow_text": true});
        let long = "x".repeat(MAX_ANSWER_TEXT + 1);
        let cases = [
            ("buttons: exactly one known value", of("buttons", json!({})), json!({"values": ["a"]}), true),
            ("buttons: none", of("buttons", json!({})), json!({}), false),
            ("buttons: two", of("buttons", json!({})), json!({"values": ["a", "b"]}), false),
            ("buttons: unknown", of("buttons", json!({})), json!({"values": ["z"]}), false),
            (
                "radio, with allow_text, no value and non-empty text",
                of("radio", free.clone()),
                json!({"text": "t"}),
                true,
            ),
            ("radio, with allow_text, blank text", of("radio", free.clone()), json!({"text": " "}), false),
            (
                "radio, value and text",
                of("radio", free.clone()),
                json!({"values": ["a"], "text": "t"}),
                false,
            ),
            (
                "text refused on a choice type without allow_text",
                of("radio", json!({})),
                json!({"values": ["a"], "text": "t"}),
                false,
            ),
            ("checkboxes: known, distinct", of("checkboxes", json!({})), json!({"values": ["a", "b"]}), true),
            ("checkboxes: the same twice", of("checkboxes", json!({})), json!({"values": ["a", "a"]}), false),
            (
                "checkboxes: fewer than min",
                of("checkboxes", json!({"min": 2})),
                json!({"values": ["a"]}),
                false,
            ),
            (
                "checkboxes: more than max",
                of("checkboxes", json!({"max": 1})),
                json!({"values": ["a", "b"]}),
                false,
            ),
            (
                "checkboxes: an empty selection is valid when min is 0",
                of("checkboxes", json!({})),
                json!({}),
                true,
            ),
            (
                "checkboxes: text may accompany the values",
                of("checkboxes", free.clone()),
                json!({"values": ["a"], "text": "t"}),
                true,
            ),
            (
                "checkboxes: text may replace them even if min > 0",
                of("checkboxes", json!({"allow_text": true, "min": 2})),
                json!({"text": "t"}),
                true,
            ),
            ("checkboxes with allow_text: empty only with text", of("checkboxes", free), json!({}), false),
            ("text: no values, non-empty text", of("text", json!({})), json!({"text": "t"}), true),
            ("text: empty", of("text", json!({})), json!({"text": " "}), false),
            ("text: with values", of("text", json!({})), json!({"values": ["a"], "text": "t"}), false),
            ("text is at most 4000 characters", of("text", json!({})), json!({"text": long}), false),
            (
                "answers is an error on any other input type",
                of("buttons", json!({})),
                json!({"values": ["a"], "answers": {}}),
                false,
            ),
        ];
        for (rule, input, given, good) in cases {
            let found = check(&input, &answer(given), false);
            assert_eq!(found.is_ok(), good, "{rule}: {found:?}");
        }
        let labelled =
            check(&of("checkboxes", json!({})), &answer(json!({"values": ["c", "a"]})), false).unwrap();
        assert_eq!(
            labelled.labels,
            Some(vec!["C".to_owned(), "A".to_owned()]),
            "labels in the order of the values"
        );
    }

    #[test]
    fn a_denial_may_say_why() {
        let buttons = input(json!({"type": "buttons", "options": [
            {"value": "allow", "label": "Allow"}, {"value": "deny", "label": "Deny"}]}));
        assert!(check(&buttons, &answer(json!({"values": ["deny"], "text": "not now"})), true).is_ok());
        assert!(check(&buttons, &answer(json!({"values": ["allow"], "text": "sure"})), true).is_err());
    }

    #[test]
    fn rules_of_a_questions_card() {
        let question = |id: &str, multi: bool| {
            json!({"id": id, "header": "h", "question": id, "multi": multi, "allow_text": true,
                   "options": [{"value": "L", "label": "L"}, {"value": "M", "label": "M"}]})
        };
        let card =
            input(json!({"type": "questions", "questions": [question("q1", false), question("q2", true)]}));
        let ok = json!({"values": ["L"]});
        let cases = [
            (
                "both answered",
                json!({"answers": {"q1": ok, "q2": {"values": ["L", "M"], "text": "t"}}}),
                true,
            ),
            ("every question id is present", json!({"answers": {"q1": ok}}), false),
            ("no unknown ids appear", json!({"answers": {"q1": ok, "q2": ok, "q3": ok}}), false),
            (
                "at least one value or non-blank text",
                json!({"answers": {"q1": {"text": "  "}, "q2": ok}}),
                false,
            ),
            (
                "single-select allows at most one value",
                json!({"answers": {"q1": {"values": ["L", "M"]}, "q2": ok}}),
                false,
            ),
            (
                "and not a value together with text",
                json!({"answers": {"q1": {"values": ["L"], "text": "t"}, "q2": ok}}),
                false,
            ),
            (
                "multi-select values are distinct",
                json!({"answers": {"q1": ok, "q2": {"values": ["L", "L"]}}}),
                false,
            ),
            ("every value is a known option", json!({"answers": {"q1": {"values": ["Z"]}, "q2": ok}}), false),
            (
                "top-level values must be empty",
                json!({"values": ["L"], "answers": {"q1": ok, "q2": ok}}),
                false,
            ),
            ("top-level text must be empty", json!({"text": "t", "answers": {"q1": ok, "q2": ok}}), false),
            ("no answers at all", json!({}), false),
        ];
        for (rule, given, good) in cases {
            let found = check(&card, &answer(given), false);
            assert_eq!(found.is_ok(), good, "{rule}: {found:?}");
        }
        let trimmed =
            check(&card, &answer(json!({"answers": {"q1": {"text": "  huge  "}, "q2": ok}})), false).unwrap();
        assert_eq!(trimmed.answers.unwrap()["q1"].text, "huge", "text is trimmed");
    }
}

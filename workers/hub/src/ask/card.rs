//! What a harness's prompt looks like to a person: the questions card of AskUserQuestion, the answer
//! that Claude gets back, and the one-line summary of a permission prompt. Pure.

use leo_ipc::ask::{AnswerBody, Choice, Input, InputType, MAX_QUESTIONS, Question, QuestionAnswer};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Longest summary in characters.
const MAX_SUMMARY: usize = 200;

/// Largest tool input that a card carries whole, as JSON.
const MAX_INPUT: usize = 64 * 1024;

/// The card for an AskUserQuestion; `None` when it does not fit one (more than four questions,
/// duplicate texts or labels, no options), and the ordinary prompt takes its place.
pub(crate) fn questions(tool_input: &Value) -> Option<Input> {
    let asked = tool_input.get("questions")?.as_array()?;
    if asked.is_empty() || asked.len() > MAX_QUESTIONS {
        return None;
    }
    let mut texts = BTreeSet::new();
    let mut questions = Vec::new();
    for (index, one) in asked.iter().enumerate() {
        let text = one.get("question")?.as_str()?;
        if !texts.insert(text) {
            return None;
        }
        let mut labels = BTreeSet::new();
        let mut options = Vec::new();
        for option in one.get("options")?.as_array()? {
            let label = option.get("label")?.as_str()?;
            if !labels.insert(label) {
                return None;
            }
            let description = option.get("description").and_then(Value::as_str).filter(|d| !d.is_empty());
            options.push(Choice {
                value: label.to_owned(),
                label: label.to_owned(),
                description: description.map(str::to_owned),
            });
        }
        if options.is_empty() {
            return None;
        }
        questions.push(Question {
            id: format!("q{}", index + 1),
            header: one.get("header").and_then(Value::as_str).unwrap_or_default().to_owned(),
            question: text.to_owned(),
            multi: one.get("multiSelect").and_then(Value::as_bool).unwrap_or(false),
            allow_text: true,
            options,
        });
    }
    Some(Input { questions: Some(questions), ..bare(InputType::Questions) })
}

fn bare(kind: InputType) -> Input {
    Input { kind, options: None, allow_text: None, min: None, max: None, placeholder: None, questions: None }
}

/// The input that answers an AskUserQuestion: its questions verbatim, and the answers by exact
/// question text. A single choice is its label or the text; several are a list with the text last.
pub(crate) fn updated_input(tool_input: &Value, input: &Input, answer: &AnswerBody) -> Value {
    let mut answers = Map::new();
    for question in input.questions.as_deref().unwrap_or_default() {
        let Some(given) = answer.answers.as_ref().and_then(|all| all.get(&question.id)) else { continue };
        answers.insert(question.question.clone(), one(question, given));
    }
    json!({ "questions": tool_input.get("questions").cloned().unwrap_or(Value::Null), "answers": answers })
}

fn one(question: &Question, given: &QuestionAnswer) -> Value {
    if !question.multi {
        return given.values.first().unwrap_or(&given.text).as_str().into();
    }
    let text = (!given.text.is_empty()).then_some(&given.text);
    given.values.iter().chain(text).map(String::as_str).collect()
}

/// The buttons of a permission prompt.
pub(crate) fn allow_or_deny() -> Input {
    let choice =
        |value: &str, label: &str| Choice { value: value.into(), label: label.into(), description: None };
    Input {
        options: Some(vec![choice("allow", "Allow"), choice("deny", "Deny")]),
        ..bare(InputType::Buttons)
    }
}

/// What a tool is about to do, in one line: the command, path or URL, cut to 200 characters, with every
/// character that could hide something shown as its code.
pub(crate) fn summary(tool: &str, input: &Value) -> String {
    let keys =
        ["command", "file_path", "path", "notebook_path", "url", "pattern", "query", "description", "prompt"];
    let text = keys.iter().find_map(|key| input.get(key).and_then(Value::as_str));
    let whole = match text {
        Some(text) => text.to_owned(),
        None if input.as_object().is_none_or(Map::is_empty) => tool.to_owned(),
        None => input.to_string(),
    };
    let mut out = String::new();
    let mut count = 0;
    for c in whole.chars() {
        let shown = escaped(c);
        let length = shown.chars().count();
        if count + length > MAX_SUMMARY - 1 {
            out.push('…');
            break;
        }
        count += length;
        out.push_str(&shown);
    }
    out
}

/// A character as a person can see it. Look-alike quotes are shown by their code too: a command that
/// seems quoted and is not is another command.
fn escaped(c: char) -> String {
    let look_alike = matches!(c, '\u{2018}'..='\u{201f}' | '\u{2032}'..='\u{2036}' | '\u{ff02}' | '\u{ff07}' | '\u{2b9}'..='\u{2bc}');
    let blank = c.is_whitespace() && c != ' ';
    if c.is_control() || leo_ipc::prompt::is_invisible(c) || look_alike || blank {
        format!("\\u{{{:x}}}", u32::from(c))
    } else {
        c.to_string()
    }
}

/// The whole input for a card, and whether it was too large to keep.
pub(crate) fn kept_input(input: &Value) -> (Option<Value>, bool) {
    if input.to_string().len() > MAX_INPUT { (None, true) } else { (Some(input.clone()), false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str, labels: &[&str], multi: bool) -> Value {
        let options: Vec<Value> = labels.iter().map(|l| json!({"label": l, "description": ""})).collect();
        json!({"question": text, "header": "H", "multiSelect": multi, "options": options})
    }

    #[test]
    fn which_questions_fit_a_card() {
        let fits = |questions: Vec<Value>| super::questions(&json!({ "questions": questions })).is_some();
        let q = |text: &str| question(text, &["a", "b"], false);
        assert!(fits(vec![q("1")]));
        assert!(fits(vec![q("1"), q("2"), q("3"), q("4")]));
        assert!(!fits(vec![q("1"), q("2"), q("3"), q("4"), q("5")]), "more than 4 questions");
        assert!(!fits(vec![q("1"), q("1")]), "duplicate question text");
        assert!(!fits(vec![question("1", &["a", "a"], false)]), "duplicate labels");
        assert!(!fits(vec![question("1", &[], false)]), "no options");
        assert!(!fits(vec![]), "no questions");
    }

    #[test]
    fn the_answer_repeats_the_questions_and_names_them_by_text() {
        let tool_input = json!({"questions": [
            question("Which size, \"exactly\"?", &["L, large", "M"], false),
            question("Which toppings?", &["Ham", "Egg 🥚\nfried"], true),
            question("Else?", &["x"], true),
        ]});
        let input = questions(&tool_input).unwrap();
        let answer: AnswerBody = serde_json::from_value(json!({"answers": {
            "q1": {"values": ["L, large"]},
            "q2": {"values": ["Ham", "Egg 🥚\nfried"], "text": "and cheese"},
            "q3": {"text": "only text"},
        }}))
        .unwrap();
        let updated = updated_input(&tool_input, &input, &answer);
        assert_eq!(updated["questions"], tool_input["questions"], "verbatim");
        assert_eq!(updated["answers"]["Which size, \"exactly\"?"], "L, large");
        assert_eq!(updated["answers"]["Which toppings?"], json!(["Ham", "Egg 🥚\nfried", "and cheese"]));
        assert_eq!(updated["answers"]["Else?"], json!(["only text"]));
    }

    #[test]
    fn hidden_characters_show_in_the_summary() {
        let of = |command: &str| summary("Bash", &json!({ "command": command }));
        assert_eq!(of("rm -rf /\u{202e}x\u{200b}"), "rm -rf /\\u{202e}x\\u{200b}");
        assert_eq!(of("a\tb\nc"), "a\\u{9}b\\u{a}c");
        assert_eq!(of("echo \u{201d}x\u{2019}"), "echo \\u{201d}x\\u{2019}");
        assert_eq!(summary("WebFetch", &json!({"url": "https://e.example"})), "https://e.example");
        assert_eq!(summary("Odd", &json!({})), "Odd");
        let long = of(&"x".repeat(500));
        assert!(long.chars().count() <= MAX_SUMMARY && long.ends_with('…'));
    }
}

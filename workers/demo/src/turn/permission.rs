//! What a turn asks a person: whether a command may run, and questions. The dialog in the terminal and
//! the hook are open at the same time, and whoever answers first settles it, as with Claude.

use super::{PAUSE, Turns, run};
use crate::{
    app::{Block, TurnEvent},
    dialog::{Answer, Body, Question, Questions, Settled},
    hooks::Verdict,
    session::{Status, new_id},
};
use serde_json::{Map, Value, json};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};

impl Turns {
    /// Asks, then runs a command between its hooks; false when a person said no or interrupted it.
    pub(super) fn command(&self, prompt_id: &str, command: &str) -> bool {
        let mut fields = json!({
            "tool_name": "Bash", "tool_input": { "command": command }, "tool_use_id": new_id()
        });
        self.print(Block::Tool { name: "run".to_owned(), detail: command.to_owned() });
        self.fire("PreToolUse", Some(prompt_id), &fields);
        let body = Body::Command { command: command.to_owned(), no_chosen: false };
        match self.settle(prompt_id, &fields, Status::Waiting, body, |_| true) {
            Settled::Terminal(Answer::Yes) => {}
            Settled::Terminal(_) => return false,
            Settled::Hook(Verdict::Deny(message)) => {
                self.denied(prompt_id, &fields, message);
                return true;
            }
            Settled::Hook(Verdict::Allow(input)) => {
                self.print(Block::Note("allowed from the chat".to_owned()));
                if let Some(input) = input {
                    fields["tool_input"] = input;
                }
            }
        }
        let command = fields["tool_input"]["command"].as_str().unwrap_or(command).to_owned();
        let Some((code, output)) = run(&command, &self.stop) else { return false };
        let text = if output.trim().is_empty() { "(no output)".to_owned() } else { output.clone() };
        self.print(Block::Output(text));
        if code == Some(0) {
            let response = json!({ "stdout": output, "stderr": "", "interrupted": false });
            self.used(prompt_id, &fields, response);
        } else {
            let error =
                code.map_or_else(|| "Killed by a signal".to_owned(), |code| format!("Exit code {code}"));
            self.print(Block::Error(error.clone()));
            self.failed(prompt_id, &fields, error);
        }
        true
    }

    /// Asks questions between their hooks; false when a person declined to answer them.
    pub(super) fn questions(&self, prompt_id: &str, list: &Value) -> bool {
        let Some(questions) = Question::list(list) else { return true };
        let mut fields = json!({
            "tool_name": "AskUserQuestion", "tool_input": { "questions": list }, "tool_use_id": new_id()
        });
        let asked: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
        self.print(Block::Tool { name: "questions".to_owned(), detail: asked.join(" ") });
        self.fire("PreToolUse", Some(prompt_id), &fields);
        let body = Body::Questions(Questions::new(questions.clone()));
        let answers = match self.settle(prompt_id, &fields, Status::Asking, body, answers_questions) {
            Settled::Terminal(Answer::Chosen(chosen)) => chosen_labels(&questions, &chosen),
            Settled::Terminal(_) => {
                self.print(Block::Note("Declined to answer the questions.".to_owned()));
                return false;
            }
            Settled::Hook(Verdict::Deny(message)) => {
                self.denied(prompt_id, &fields, message);
                return true;
            }
            Settled::Hook(Verdict::Allow(input)) => {
                self.print(Block::Note("answered from the chat".to_owned()));
                input.map(|mut input| input["answers"].take()).unwrap_or_default()
            }
        };
        self.print(Block::Output(worded(&questions, &answers)));
        fields["tool_input"]["answers"] = answers.clone();
        let response = json!({ "questions": list, "answers": answers, "annotations": {} });
        self.used(prompt_id, &fields, response);
        true
    }

    /// Opens a dialog and asks the hook beside it, and returns what was first. A verdict that `counts`
    /// says no to leaves the dialog open.
    fn settle(
        &self,
        prompt_id: &str,
        tool: &Value,
        status: Status,
        body: Body,
        counts: fn(&Verdict) -> bool,
    ) -> Settled {
        // One place for each side, so that neither ever waits for the other.
        let (answer, answers) = sync_channel(2);
        self.session.set_status(status);
        let by_hook = answer.clone();
        let fields = json!({ "tool_name": tool["tool_name"], "tool_input": tool["tool_input"] });
        let hook = self.hooks.ask(&self.session, prompt_id, &fields, move |verdict| {
            let _ = by_hook.try_send(Settled::Hook(verdict));
        });
        let asked = self.ui.send(TurnEvent::Ask { body, answer });
        let settled = loop {
            // A dialog that can no longer be answered was not allowed.
            if asked.is_err() || self.stop.is_set() {
                break Settled::Terminal(Answer::No);
            }
            match answers.recv_timeout(PAUSE) {
                Ok(Settled::Hook(verdict)) if !counts(&verdict) => {}
                Ok(settled) => break settled,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break Settled::Terminal(Answer::No),
            }
        };
        match &settled {
            // The turn ends here, and with it the status.
            Settled::Terminal(Answer::No) => {
                if let Some(hook) = hook {
                    hook.end();
                }
            }
            // The hook is left running, as Claude does: it is told by what happens next.
            Settled::Terminal(_) => self.session.set_status(Status::Busy),
            Settled::Hook(_) => {
                let _ = self.ui.send(TurnEvent::Settled);
                self.session.set_status(Status::Busy);
            }
        }
        settled
    }

    /// A hook has said no: the model is told, and the turn goes on.
    fn denied(&self, prompt_id: &str, fields: &Value, message: Option<String>) {
        let message = message.unwrap_or_else(|| "Permission denied by hook".to_owned());
        self.print(Block::Error(format!("denied: {message}")));
        self.batch(prompt_id, fields, &Value::from(message));
    }
}

/// A verdict without answers leaves the questions to the terminal, as with Claude.
fn answers_questions(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Allow(input) => {
            input.as_ref().is_some_and(|input| input.get("answers").is_some_and(Value::is_object))
        }
        Verdict::Deny(_) => true,
    }
}

/// The answers of the terminal, by question.
fn chosen_labels(questions: &[Question], chosen: &[Vec<usize>]) -> Value {
    let labels = |question: &Question, chosen: &[usize]| {
        let labels: Vec<&str> =
            chosen.iter().filter_map(|i| question.options.get(*i)).map(|(label, _)| label.as_str()).collect();
        Value::from(labels.join(", "))
    };
    let answers = questions.iter().zip(chosen).map(|(q, chosen)| (q.text.clone(), labels(q, chosen)));
    Value::Object(answers.collect::<Map<_, _>>())
}

/// The answers as Claude tells them to its model.
fn worded(questions: &[Question], answers: &Value) -> String {
    let mut free = false;
    let mut told = Vec::new();
    for question in questions {
        let given: Vec<&str> = match answers.get(&question.text) {
            Some(Value::String(answer)) => vec![answer],
            Some(Value::Array(answers)) => answers.iter().filter_map(Value::as_str).collect(),
            _ => continue,
        };
        let is_label = |text: &str| question.options.iter().any(|(label, _)| label == text);
        let joined = given.join(", ");
        free |= !given.iter().all(|text| is_label(text) || joined.split(", ").all(is_label));
        told.push(format!("\"{}\"=\"{joined}\"", question.text));
    }
    let told = told.join(", ");
    if free {
        format!("The user answered: {told}. Read the answers carefully before you go on.")
    } else {
        format!("Your questions have been answered: {told}. You can now continue with these answers in mind.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions() -> Vec<Question> {
        Question::list(&json!([
            {"question": "Which size?", "options": [{"label": "S"}, {"label": "L"}]},
            {"question": "Toppings?", "multiSelect": true, "options": [{"label": "Ham"}, {"label": "Egg, raw"}]}
        ]))
        .unwrap()
    }

    #[test]
    fn answers_in_claudes_words() {
        for (answers, says) in [
            (
                json!({"Which size?": "L", "Toppings?": ["Ham", "Egg, raw"]}),
                r#"Your questions have been answered: "Which size?"="L", "Toppings?"="Ham, Egg, raw". You"#,
            ),
            (
                json!({"Which size?": "huge, please", "Toppings?": ["Ham", "cheese"]}),
                r#"The user answered: "Which size?"="huge, please", "Toppings?"="Ham, cheese". Read"#,
            ),
            (json!({"Toppings?": ["Ham"]}), r#"Your questions have been answered: "Toppings?"="Ham". You"#),
        ] {
            let text = worded(&questions(), &answers);
            assert!(text.starts_with(says), "{text}");
        }
        let chosen = chosen_labels(&questions(), &[vec![1], vec![0]]);
        assert_eq!(chosen, json!({"Which size?": "L", "Toppings?": "Ham"}));
    }

    #[test]
    fn only_answers_answer_questions() {
        assert!(answers_questions(&Verdict::Allow(Some(json!({"questions": [], "answers": {}})))));
        assert!(answers_questions(&Verdict::Deny(None)));
        assert!(!answers_questions(&Verdict::Allow(None)));
        assert!(!answers_questions(&Verdict::Allow(Some(json!({"questions": []})))));
    }
}

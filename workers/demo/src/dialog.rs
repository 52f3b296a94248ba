//! Dialogs: what a person is asked in the terminal, and what their keys mean. Pure.

use crate::hooks::Verdict;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;
use std::sync::mpsc::SyncSender;

/// What was answered in the terminal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// The command may run.
    Yes,
    /// No, or Esc.
    No,
    /// The chosen options' places, question by question.
    Chosen(Vec<Vec<usize>>),
}

/// What settled a dialog: whoever was first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Settled {
    /// A person at the terminal.
    Terminal(Answer),
    /// The hook.
    Hook(Verdict),
}

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// The question.
    pub(crate) text: String,
    /// A word or two above it.
    pub(crate) header: String,
    /// Whether several options may be chosen.
    pub(crate) multi: bool,
    /// Labels and descriptions.
    pub(crate) options: Vec<(String, String)>,
}

impl Question {
    /// Reads Claude's `questions`; `None` when that is not what it is.
    pub(crate) fn list(json: &Value) -> Option<Vec<Question>> {
        let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
        let one = |json: &Value| {
            let options = json.get("options").and_then(Value::as_array).into_iter().flatten();
            Some(Question {
                text: text(json, "question")?,
                header: text(json, "header").unwrap_or_default(),
                multi: json.get("multiSelect").and_then(Value::as_bool).unwrap_or(false),
                options: options
                    .map(|o| Some((text(o, "label")?, text(o, "description").unwrap_or_default())))
                    .collect::<Option<_>>()?,
            })
        };
        json.as_array().filter(|list| !list.is_empty())?.iter().map(one).collect()
    }
}

/// What a dialog asks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    /// Whether a command may run.
    Command {
        /// The command.
        command: String,
        /// Whether `No` is under the cursor; `Yes` is at first, as in Claude.
        no_chosen: bool,
    },
    /// Questions, one after the other.
    Questions(Questions),
}

/// How far the questions are answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Questions {
    list: Vec<Question>,
    /// The option under the cursor.
    pub(crate) cursor: usize,
    /// The options that are ticked, of a question that takes several.
    pub(crate) ticked: Vec<usize>,
    chosen: Vec<Vec<usize>>,
}

impl Questions {
    /// Questions of which none is answered.
    pub(crate) fn new(list: Vec<Question>) -> Questions {
        Questions { list, cursor: 0, ticked: Vec::new(), chosen: Vec::new() }
    }

    /// The question that is asked now, its number from one, and how many there are.
    pub(crate) fn current(&self) -> Option<(&Question, usize, usize)> {
        let place = self.chosen.len();
        self.list.get(place).map(|question| (question, place + 1, self.list.len()))
    }

    fn choose(&mut self, options: Vec<usize>) -> Option<Answer> {
        self.chosen.push(options);
        self.cursor = 0;
        self.ticked.clear();
        (self.chosen.len() == self.list.len()).then(|| Answer::Chosen(std::mem::take(&mut self.chosen)))
    }

    fn tick(&mut self, option: usize) {
        match self.ticked.iter().position(|ticked| *ticked == option) {
            Some(place) => drop(self.ticked.remove(place)),
            None => self.ticked.push(option),
        }
        self.ticked.sort_unstable();
    }

    fn key(&mut self, code: KeyCode) -> Option<Answer> {
        let (question, ..) = self.current()?;
        let (count, multi) = (question.options.len(), question.multi);
        match code {
            KeyCode::Up => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Down => self.cursor = (self.cursor + 1).min(count.saturating_sub(1)),
            KeyCode::Char(' ') if multi && self.cursor < count => self.tick(self.cursor),
            KeyCode::Char(c) => {
                let number = c.to_digit(10).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                let option = number.checked_sub(1).filter(|option| *option < count)?;
                if !multi {
                    return self.choose(vec![option]);
                }
                self.cursor = option;
                self.tick(option);
            }
            KeyCode::Enter if multi && !self.ticked.is_empty() => {
                let ticked = self.ticked.clone();
                return self.choose(ticked);
            }
            KeyCode::Enter if !multi && self.cursor < count => return self.choose(vec![self.cursor]),
            _ => {}
        }
        None
    }
}

/// An open dialog.
#[derive(Debug)]
pub(crate) struct Dialog {
    /// What it asks.
    pub(crate) body: Body,
    answer: SyncSender<Settled>,
}

impl Dialog {
    /// A dialog whose answer goes to `answer`.
    pub(crate) fn new(body: Body, answer: SyncSender<Settled>) -> Dialog {
        Dialog { body, answer }
    }

    /// Takes in a key; the answer when it was the last.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<Answer> {
        if key.code == KeyCode::Esc
            || (key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL))
        {
            return Some(Answer::No);
        }
        match &mut self.body {
            Body::Questions(questions) => questions.key(key.code),
            Body::Command { no_chosen, .. } => match key.code {
                KeyCode::Up | KeyCode::Down | KeyCode::Tab => {
                    *no_chosen = !*no_chosen;
                    None
                }
                KeyCode::Enter => Some(if *no_chosen { Answer::No } else { Answer::Yes }),
                KeyCode::Char('1' | 'y') => Some(Answer::Yes),
                KeyCode::Char('2' | 'n') => Some(Answer::No),
                _ => None,
            },
        }
    }

    /// Gives the answer to the turn.
    pub(crate) fn settle(self, answer: Answer) {
        // Nobody listens when the turn has ended, or the hook was first.
        let _ = self.answer.try_send(Settled::Terminal(answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn questions() -> Questions {
        let json = json!([
            {"question": "Which size?", "header": "Size", "options": [{"label": "S"}, {"label": "L"}]},
            {"question": "Toppings?", "multiSelect": true,
             "options": [{"label": "Ham"}, {"label": "Egg", "description": "fresh"}, {"label": "Fig"}]},
        ]);
        Questions::new(Question::list(&json).unwrap())
    }

    fn play(keys: &[KeyCode]) -> Option<Answer> {
        let mut questions = questions();
        keys.iter().find_map(|code| questions.key(*code))
    }

    #[test]
    fn questions_are_answered_one_after_the_other() {
        use KeyCode::{Char, Down, Enter};
        let chosen =
            |first: usize, second: &[usize]| Some(Answer::Chosen(vec![vec![first], second.to_vec()]));
        for (keys, answer) in [
            (&[Char('2'), Char('3'), Char('1'), Enter][..], chosen(1, &[0, 2])),
            (&[Down, Enter, Char(' '), Down, Char(' '), Enter], chosen(1, &[0, 1])),
            (&[Enter, Char('1'), Char('1'), Char('2'), Enter], chosen(0, &[1])),
            // Nothing ticked, no such option, not the last question.
            (&[Char('1'), Enter], None),
            (&[Char('9'), Char('0'), Char('x')], None),
            (&[Char('1')], None),
        ] {
            assert_eq!(play(keys), answer, "{keys:?}");
        }
    }

    #[test]
    fn what_is_no_list_of_questions() {
        for bad in
            [json!({}), json!([]), json!([{"header": "x"}]), json!([{"question": "?", "options": [1]}])]
        {
            assert_eq!(Question::list(&bad), None, "{bad}");
        }
        assert_eq!(Question::list(&json!([{"question": "?"}])).map(|list| list.len()), Some(1));
    }
}

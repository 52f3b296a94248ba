//! An open question of an agent, a permission prompt or a questions card, and what keys make of its
//! answer. Pure: which answers are good is the daemon's to say, and its refusal is shown.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use leo_ipc::{
    ask::{AnswerBody, Choice, InputType, MAX_ANSWER_TEXT, QuestionAnswer},
    chat::{Message, MessageKind, MessageState},
};
use std::collections::BTreeSet;
use unicode_segmentation::UnicodeSegmentation;

/// What a permission prompt is answered with.
const ALLOW: &str = "allow";
const DENY: &str = "deny";

/// How one question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// A key answers at once.
    Tap,
    /// One is picked.
    One,
    /// Several are ticked.
    Several,
    /// Text only.
    Write,
}

/// One question of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Its id on a questions card.
    id: Option<String>,
    /// How it is answered.
    pub(super) manner: Manner,
    /// Its options.
    pub(super) options: Vec<Choice>,
    /// Whether text is an answer.
    pub(super) takes_text: bool,
    /// Where the cursor is: an option, or behind the last one the text; `None` before the first key.
    pub(super) at: Option<usize>,
    /// Ticked options.
    pub(super) ticked: BTreeSet<usize>,
    /// What was written.
    pub(super) text: String,
}

impl Part {
    /// Whether keys write text.
    pub(super) fn is_writing(&self) -> bool {
        self.takes_text && self.at == Some(self.options.len())
    }

    fn rows(&self) -> usize {
        self.options.len() + usize::from(self.takes_text)
    }

    fn step(&mut self, down: bool) {
        let last = self.rows().saturating_sub(1);
        self.at = Some(match (self.at, down) {
            (None, true) => 0,
            (None, false) => last,
            (Some(at), true) => (at + 1).min(last),
            (Some(at), false) => at.saturating_sub(1),
        });
    }

    /// Values and text as they would be sent; `None` when nothing was chosen yet.
    fn chosen(&self) -> Option<QuestionAnswer> {
        let value = |i: usize| self.options.get(i).map(|option| option.value.clone());
        let text = self.text.trim();
        let (values, text): (Vec<String>, &str) = match self.manner {
            Manner::Write => (Vec::new(), text),
            Manner::Several => (self.ticked.iter().filter_map(|i| value(*i)).collect(), text),
            Manner::Tap | Manner::One if self.is_writing() => (Vec::new(), text),
            Manner::Tap | Manner::One => (self.at.and_then(value).into_iter().collect(), ""),
        };
        (!values.is_empty() || !text.is_empty()).then(|| QuestionAnswer { values, text: text.to_owned() })
    }

    fn write(&mut self, text: &str) {
        let room = MAX_ANSWER_TEXT.saturating_sub(self.text.chars().count());
        let plain = text.replace("\r\n", "\n").replace('\r', "\n");
        self.text.extend(plain.chars().filter(|c| !c.is_control() || *c == '\n').take(room));
    }
}

/// What was chosen and written on a card so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    /// Its questions: one, or those of a questions card. Of a permission prompt the text for `deny`.
    pub(super) parts: Vec<Part>,
    /// The question that keys go to.
    pub(super) part: usize,
    /// A permission prompt, and whether its whole input is shown.
    pub(super) permission: Option<bool>,
    /// Whether an answer is on its way.
    pub(super) sending: bool,
    /// Why the last answer was not taken.
    pub(super) problem: Option<String>,
}

/// What a key leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing outside the card.
    Stay,
    /// Back to the composer.
    Leave,
    /// Send this answer.
    Send(AnswerBody),
    /// Close the card without an answer.
    Dismiss,
    /// The key is not the card's.
    Pass,
}

/// Whether a message waits for an answer that can be given here.
pub(super) fn is_open(message: &Message) -> bool {
    matches!(message.kind, MessageKind::Ask | MessageKind::Permission)
        && message.state == MessageState::Open
        && Form::of(message).is_some()
}

impl Form {
    /// An empty form; `None` when the message asks for nothing, or in a way that only a newer build knows.
    pub(super) fn of(message: &Message) -> Option<Form> {
        let form = |parts, permission| Form { parts, part: 0, permission, sending: false, problem: None };
        let part = |id, manner, options: Vec<Choice>, takes_text| Part {
            id,
            at: (manner == Manner::Write).then_some(options.len()),
            manner,
            options,
            takes_text,
            ticked: BTreeSet::new(),
            text: String::new(),
        };
        if message.permission.is_some() {
            let mut reason = part(None, Manner::Write, Vec::new(), true);
            reason.at = None;
            return Some(form(vec![reason], Some(false)));
        }
        let input = message.input.as_ref()?;
        let one = |manner| {
            let options = input.options.clone().unwrap_or_default();
            Some(form(vec![part(None, manner, options, input.allow_text == Some(true))], None))
        };
        match input.kind {
            InputType::Buttons => one(Manner::Tap),
            InputType::Radio => one(Manner::One),
            InputType::Checkboxes => one(Manner::Several),
            InputType::Text => Some(form(vec![part(None, Manner::Write, Vec::new(), true)], None)),
            InputType::Questions => {
                let questions = input.questions.as_ref().filter(|questions| !questions.is_empty())?;
                let parts = questions.iter().map(|q| {
                    let manner = if q.multi { Manner::Several } else { Manner::One };
                    part(Some(q.id.clone()), manner, q.options.clone(), q.allow_text)
                });
                Some(form(parts.collect(), None))
            }
            InputType::Unknown => None,
        }
    }

    /// Whether it is a questions card.
    pub(super) fn is_questions(&self) -> bool {
        self.parts.iter().any(|part| part.id.is_some())
    }

    /// Whether keys write text.
    pub(super) fn is_writing(&self) -> bool {
        self.parts.get(self.part).is_some_and(Part::is_writing)
    }

    /// Text was pasted.
    pub(super) fn paste(&mut self, text: &str) {
        if let Some(part) = self.parts.get_mut(self.part).filter(|part| part.is_writing()) {
            part.write(text);
        }
    }

    /// A key was pressed while the card has the keys.
    pub(super) fn press(&mut self, key: KeyEvent) -> Then {
        if self.sending {
            return if key.code == KeyCode::Esc { Then::Leave } else { Then::Pass };
        }
        self.problem = None;
        if self.is_writing() {
            return self.text_key(key);
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return Then::Pass;
        }
        match self.permission {
            Some(shown) => self.permission_key(key.code, shown),
            None => self.choice_key(key.code),
        }
    }

    fn permission_key(&mut self, code: KeyCode, shown: bool) -> Then {
        match code {
            KeyCode::Char('a') => Then::Send(answer(ALLOW, "")),
            KeyCode::Char('x') => {
                if let Some(reason) = self.parts.first_mut() {
                    reason.at = Some(0);
                }
                Then::Stay
            }
            KeyCode::Char('i') => {
                self.permission = Some(!shown);
                Then::Stay
            }
            KeyCode::Esc => Then::Leave,
            _ => Then::Pass,
        }
    }

    fn choice_key(&mut self, code: KeyCode) -> Then {
        let questions = self.is_questions();
        let (at_part, last) = (self.part, self.parts.len().saturating_sub(1));
        let Some(part) = self.parts.get_mut(at_part) else { return Then::Leave };
        match code {
            KeyCode::Esc => return Then::Leave,
            KeyCode::Char('d') if questions => return Then::Dismiss,
            KeyCode::Char('t') if part.takes_text => part.at = Some(part.options.len()),
            KeyCode::Up => part.step(false),
            KeyCode::Down => part.step(true),
            KeyCode::Left if questions => self.part = at_part.saturating_sub(1),
            KeyCode::Right if questions => self.part = (at_part + 1).min(last),
            KeyCode::Char(' ') => {
                if let Some(at) =
                    part.at.filter(|at| part.manner == Manner::Several && *at < part.options.len())
                    && !part.ticked.remove(&at)
                {
                    part.ticked.insert(at);
                }
            }
            KeyCode::Char(digit @ '1'..='9') => return self.digit(digit),
            KeyCode::Enter => return self.submit(),
            _ => return Then::Pass,
        }
        Then::Stay
    }

    fn digit(&mut self, digit: char) -> Then {
        let Some(part) = self.parts.get_mut(self.part) else { return Then::Stay };
        let chosen = digit.to_digit(10).and_then(|d| usize::try_from(d).ok()).and_then(|d| d.checked_sub(1));
        let Some(chosen) = chosen.filter(|i| *i < part.options.len()) else { return Then::Stay };
        part.at = Some(chosen);
        match part.manner {
            Manner::Tap => return self.submit(),
            Manner::Several if !part.ticked.remove(&chosen) => {
                part.ticked.insert(chosen);
            }
            Manner::Several | Manner::One | Manner::Write => {}
        }
        Then::Stay
    }

    fn text_key(&mut self, key: KeyEvent) -> Then {
        let permission = self.permission.is_some();
        let Some(part) = self.parts.get_mut(self.part) else { return Then::Leave };
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let breaks = key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Enter if breaks => part.write("\n"),
            KeyCode::Char('j') if control => part.write("\n"),
            KeyCode::Char('u') if control => part.text.clear(),
            KeyCode::Enter if permission => return Then::Send(answer(DENY, part.text.trim())),
            KeyCode::Enter => return self.submit(),
            KeyCode::Esc if permission => part.at = None,
            KeyCode::Esc => return Then::Leave,
            KeyCode::Up if !permission && !part.options.is_empty() => part.step(false),
            KeyCode::Backspace => {
                let last = part.text.graphemes(true).next_back().map_or(0, str::len);
                part.text.truncate(part.text.len() - last);
            }
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                part.write(c.encode_utf8(&mut [0; 4]));
            }
            _ => return Then::Pass,
        }
        Then::Stay
    }

    /// Sends what was chosen; on a questions card only when every question has its answer, and goes to
    /// the next one without otherwise.
    fn submit(&mut self) -> Then {
        let nothing = |part: &Part| match part.manner {
            Manner::Write => "write something first",
            _ if part.takes_text => "choose first, or write your own answer with t",
            _ => "choose first",
        };
        if !self.is_questions() {
            let Some(part) = self.parts.first() else { return Then::Leave };
            return match part.chosen() {
                Some(QuestionAnswer { values, text }) => {
                    Then::Send(AnswerBody { values, text, ..AnswerBody::default() })
                }
                // Ticking nothing is an answer; whether it is a good one the daemon says.
                None if part.manner == Manner::Several => Then::Send(AnswerBody::default()),
                None => {
                    self.problem = Some(nothing(part).to_owned());
                    Then::Stay
                }
            };
        }
        let count = self.parts.len();
        let here = self.part;
        if let Some(part) = self.parts.get(here).filter(|part| part.chosen().is_none()) {
            self.problem = Some(nothing(part).to_owned());
            return Then::Stay;
        }
        let next = (1..count).map(|i| (here + i) % count);
        let open = |i: &usize| self.parts.get(*i).is_some_and(|part| part.chosen().is_none());
        if let Some(next) = next.into_iter().find(open) {
            self.part = next;
            return Then::Stay;
        }
        let answers = self.parts.iter().filter_map(|part| Some((part.id.clone()?, part.chosen()?)));
        Then::Send(AnswerBody { answers: Some(answers.collect()), ..AnswerBody::default() })
    }
}

fn answer(value: &str, text: &str) -> AnswerBody {
    AnswerBody { values: vec![value.to_owned()], text: text.to_owned(), ..AnswerBody::default() }
}

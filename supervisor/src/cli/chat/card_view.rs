//! A card as rows: the question's options, its countdown, and how it ended. Pure.

use super::{
    cards::{Form, Manner, Part},
    layout::style,
    plain::{clean, clean_line, exact, width, wrap},
    words::{self, Tone},
};
use leo_ipc::{
    Time,
    ask::{Permission, QuestionAnswer},
    chat::{Message, MessageState},
};
use ratatui::{
    style::{Modifier, Style},
    text::{Line, Span},
};

const INDENT: &str = "  ";
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Most rows of a permission's whole input: what is longer is for an editor.
const MAX_INPUT_ROWS: usize = 400;

/// How a card is drawn.
pub(super) struct How<'a> {
    /// What was chosen so far, when something was.
    pub(super) form: Option<&'a Form>,
    /// Whether keys go to it.
    pub(super) focused: bool,
    /// The time.
    pub(super) now: Time,
    /// Columns of its text.
    pub(super) columns: usize,
}

/// The rows below a card's question, and which of them the cursor is in.
pub(super) fn rows(message: &Message, how: &How<'_>) -> (Vec<Line<'static>>, Option<usize>) {
    let mut out = Rows { lines: Vec::new(), cursor: None, columns: how.columns };
    let fresh = Form::of(message);
    let form = how.form.or(fresh.as_ref());
    if let Some(permission) = &message.permission {
        out.permission(permission, form.is_some_and(|form| form.permission == Some(true)));
    }
    match message.state {
        MessageState::Open => {
            if let Some(form) = form {
                out.open(message, form, how);
            } else {
                out.push("This build of leo cannot answer it.", style(Tone::Alert));
            }
        }
        MessageState::Answered => out.answered(message),
        MessageState::Expired => {
            let permission = message.permission.is_some();
            out.push(&format!("✗ {}", words::closed(message.closed_reason, permission)), DIM);
        }
        _ => {}
    }
    (out.lines, out.cursor)
}

/// Time left, in whole seconds and from two minutes on in whole minutes.
pub(super) fn left(deadline: Time, now: Time) -> String {
    let seconds = (deadline.millis() - now.millis()).max(0).unsigned_abs().div_ceil(1000);
    match seconds {
        0 => "time is up".to_owned(),
        1..120 => format!("{seconds} s left"),
        more => format!("{} min left", more / 60),
    }
}

struct Rows {
    lines: Vec<Line<'static>>,
    cursor: Option<usize>,
    columns: usize,
}

impl Rows {
    fn push(&mut self, clean: &str, style: Style) {
        for row in wrap(clean, self.columns) {
            self.lines.push(Line::from(vec![Span::raw(INDENT), Span::styled(row, style)]));
        }
    }

    /// Text behind a mark, its further rows below its first letter.
    fn hang(&mut self, mark: &str, clean: &str, first: Style, rest: Style) {
        let by = width(mark);
        for (i, row) in wrap(clean, self.columns.saturating_sub(by).max(2)).into_iter().enumerate() {
            let lead = if i == 0 { mark.to_owned() } else { " ".repeat(by) };
            self.lines.push(Line::from(vec![
                Span::raw(INDENT),
                Span::styled(lead, first),
                Span::styled(row, rest),
            ]));
        }
    }

    fn permission(&mut self, permission: &Permission, whole: bool) {
        let who = permission.agent_type.as_deref().filter(|who| !who.is_empty());
        let wants = match who {
            Some(who) => format!("Its subagent {} wants to use ", clean_line(who)),
            None => "Wants to use ".to_owned(),
        };
        self.push(&format!("{wants}{}", exact(&permission.tool).replace('\n', " ")), BOLD);
        self.hang("│ ", &exact(&permission.summary), DIM, Style::new());
        if whole && let Some(input) = &permission.input {
            let text = serde_json::to_string_pretty(input).unwrap_or_default();
            let before = self.lines.len();
            self.push(&exact(&text), DIM);
            self.lines.truncate(before + MAX_INPUT_ROWS);
        }
        if whole && permission.truncated {
            self.push("The input was too large to keep whole.", style(Tone::Alert));
        }
        if !permission.in_terminal {
            self.push("There is no dialog in the terminal while this is open.", DIM);
        }
    }

    fn open(&mut self, message: &Message, form: &Form, how: &How<'_>) {
        let many = form.parts.len() > 1 || form.is_questions();
        let questions =
            message.input.as_ref().and_then(|input| input.questions.as_deref()).unwrap_or_default();
        for (i, part) in form.parts.iter().enumerate() {
            let current = how.focused && i == form.part;
            if many && let Some(question) = questions.get(i) {
                if i > 0 {
                    self.lines.push(Line::default());
                }
                let mark = format!("{}{}. ", if current { "▸ " } else { "" }, i + 1);
                let header = exact(&question.header).replace('\n', " ");
                self.hang(&mark, &format!("{header}: {}", clean(&question.question)), BOLD, BOLD);
            }
            self.part(part, current, form.permission.is_some(), message);
        }
        if let Some(problem) = &form.problem {
            self.push(&clean_line(problem), style(Tone::Bad));
        }
        let left = message.deadline.map(|deadline| format!(" · {}", left(deadline, how.now)));
        let state = match (form.sending, how.focused) {
            (true, _) => "sending your answer…",
            (false, true) => "open",
            (false, false) => "open: Tab goes to it",
        };
        self.push(&format!("{state}{}", left.unwrap_or_default()), style(Tone::Alert));
    }

    fn part(&mut self, part: &Part, current: bool, permission: bool, message: &Message) {
        for (i, option) in part.options.iter().enumerate() {
            let here = part.at == Some(i);
            let cursor = if current && here { "›" } else { " " };
            let chosen = match part.manner {
                Manner::Several if part.ticked.contains(&i) => "[x] ",
                Manner::Several => "[ ] ",
                Manner::One if here => "(•) ",
                Manner::One => "( ) ",
                Manner::Tap | Manner::Write => "",
            };
            let number = if i < 9 { format!("{} ", i + 1) } else { "  ".to_owned() };
            let tone = if current && here { BOLD } else { Style::new() };
            if current && here {
                self.cursor = Some(self.lines.len());
            }
            let mark = format!("{cursor}{number}{chosen}");
            let by = " ".repeat(width(&mark));
            self.hang(&mark, &exact(&option.label), tone, tone);
            if let Some(description) = option.description.as_deref().filter(|d| !d.is_empty()) {
                self.hang(&by, &clean(description), DIM, DIM);
            }
        }
        let writing = current && part.is_writing();
        if permission && !writing {
            return;
        }
        if part.takes_text {
            let cursor = if writing { "›" } else { " " };
            let hint = message.input.as_ref().and_then(|input| input.placeholder.as_deref());
            let caption = match (permission, part.options.is_empty()) {
                (true, _) => "Deny, telling the agent (may be empty): ",
                (false, true) => "",
                (false, false) => "Other: ",
            };
            if writing {
                self.cursor = Some(self.lines.len());
            }
            let mark = format!("{cursor}✎ {caption}");
            if part.text.is_empty() && !writing {
                let hint = hint.map(clean_line).unwrap_or_default();
                self.hang(&mark, &hint, DIM, DIM);
            } else {
                let caret = if writing { "▏" } else { "" };
                self.hang(&mark, &format!("{}{caret}", clean(&part.text)), DIM, Style::new());
            }
        }
    }

    fn answered(&mut self, message: &Message) {
        let Some(answer) = &message.answer else {
            return self.push("✓ answered", style(Tone::Calm));
        };
        let by = words::answered_by(message);
        let good = style(Tone::Busy);
        let answers = answer.answers.as_ref().filter(|answers| !answers.is_empty());
        let Some(answers) = answers else {
            let terminal = answer.values == ["terminal"];
            let text = if terminal {
                "answered".to_owned()
            } else if message.permission.is_some() {
                let what = if answer.values.iter().any(|v| v == "allow") { "allowed" } else { "denied" };
                let why = clean(answer.text.trim());
                if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
            } else {
                words::chosen(answer.labels.as_ref().unwrap_or(&answer.values), &answer.text)
            };
            return self.hang("✓ ", &format!("{text}{by}"), good, Style::new());
        };
        let questions =
            message.input.as_ref().and_then(|input| input.questions.as_deref()).unwrap_or_default();
        for question in questions {
            let QuestionAnswer { values, text } = answers.get(&question.id).cloned().unwrap_or_default();
            self.push(&clean(&question.question), DIM);
            self.hang("✓ ", &words::chosen(&values, &text), good, Style::new());
        }
        self.push(&format!("answered{by}"), DIM);
    }
}

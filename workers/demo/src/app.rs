//! What the terminal shows and what keys do. Pure: events in, effects out.

use crate::{
    composer::Composer,
    dialog::{Answer, Body, Dialog, Settled},
};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::{collections::VecDeque, sync::mpsc::SyncSender, time::Duration};

/// Most prompts that wait for the running turn; another is refused.
const MAX_QUEUE: usize = 32;

/// Prompts kept for the arrow keys.
const MAX_HISTORY: usize = 100;

/// A second Ctrl-C within this time quits.
const QUIT_WITHIN: Duration = Duration::from_secs(2);

/// Something for the transcript.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// What a person sent.
    User(String),
    /// What the agent said.
    Agent(String),
    /// A tool that is being used.
    Tool {
        /// Its name.
        name: String,
        /// What with.
        detail: String,
    },
    /// What a tool gave.
    Output(String),
    /// A remark of the program's.
    Note(String),
    /// Something went wrong.
    Error(String),
}

/// From the turn thread.
#[derive(Debug)]
pub(crate) enum TurnEvent {
    /// Show this.
    Print(Block),
    /// Ask the person.
    Ask {
        /// What.
        body: Body,
        /// Where the answer goes.
        answer: SyncSender<Settled>,
    },
    /// Something else has settled what was asked.
    Settled,
    /// The job is done.
    Done,
}

/// What has happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key.
    Key(KeyEvent),
    /// A bracketed paste.
    Paste(String),
    /// From the turn thread.
    Turn(TurnEvent),
    /// SIGHUP or SIGTERM, or the terminal is gone.
    Hangup,
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Add to the transcript.
    Print(Block),
    /// Give the turn thread a prompt.
    Prompt(String),
    /// Have it begin a new session.
    Clear,
    /// Wish the running turn's end.
    Interrupt,
    /// Quit, with the reason that the hooks are told.
    Quit(&'static str),
}

/// The terminal's state.
#[derive(Debug, Default)]
pub(crate) struct App {
    /// What is being written.
    pub(crate) composer: Composer,
    /// Since when the turn thread is busy.
    pub(crate) busy_since: Option<Duration>,
    /// Whether the turn was interrupted and is about to end.
    pub(crate) stopping: bool,
    /// The open dialog.
    pub(crate) dialog: Option<Dialog>,
    /// Prompts that wait.
    pub(crate) queue: VecDeque<String>,
    /// When Ctrl-C was pressed for the first time.
    quit_armed: Option<Duration>,
    history: Vec<String>,
    /// Place in the history, counted from its end; 0 is the composer's own text.
    recalled: usize,
}

impl App {
    /// Takes in an event at `now`, a time since any fixed moment.
    pub(crate) fn step(&mut self, event: Event, now: Duration) -> Vec<Effect> {
        match event {
            Event::Hangup => vec![Effect::Quit("other")],
            Event::Turn(event) => self.turn(event, now),
            // A paste into a dialog is ignored, as in Claude.
            Event::Paste(text) => {
                if self.dialog.is_none() {
                    self.composer.insert(&text);
                }
                Vec::new()
            }
            Event::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
            Event::Key(key) if self.dialog.is_some() => self.dialog_key(key),
            Event::Key(key) => self.key(key, now),
        }
    }

    /// Whether a second Ctrl-C would quit.
    pub(crate) fn is_quit_armed(&self, now: Duration) -> bool {
        self.quit_armed.is_some_and(|at| now < at + QUIT_WITHIN)
    }

    /// Says that the turn thread was given something to do.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.busy_since = Some(now);
        self.stopping = false;
    }

    fn turn(&mut self, event: TurnEvent, now: Duration) -> Vec<Effect> {
        match event {
            TurnEvent::Print(block) => vec![Effect::Print(block)],
            TurnEvent::Ask { body, answer } => {
                let dialog = Dialog::new(body, answer);
                if self.stopping {
                    dialog.settle(Answer::No);
                } else {
                    self.dialog = Some(dialog);
                }
                Vec::new()
            }
            TurnEvent::Settled => {
                self.dialog = None;
                Vec::new()
            }
            TurnEvent::Done => {
                self.busy_since = None;
                self.stopping = false;
                self.dialog = None;
                match self.queue.pop_front() {
                    Some(prompt) => self.submit(prompt, now),
                    None => Vec::new(),
                }
            }
        }
    }

    fn submit(&mut self, prompt: String, now: Duration) -> Vec<Effect> {
        self.begin(now);
        vec![Effect::Print(Block::User(prompt.clone())), Effect::Prompt(prompt)]
    }

    fn dialog_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if let Some(answer) = self.dialog.as_mut().and_then(|dialog| dialog.key(key))
            && let Some(dialog) = self.dialog.take()
        {
            dialog.settle(answer);
        }
        Vec::new()
    }

    fn key(&mut self, key: KeyEvent, now: Duration) -> Vec<Effect> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return self.control_c(now);
        }
        self.quit_armed = None;
        match key.code {
            KeyCode::Char('d') if control && self.composer.is_empty() => {
                return vec![Effect::Quit("prompt_input_exit")];
            }
            KeyCode::Char('j') if control => self.composer.insert("\n"),
            KeyCode::Char('u') if control => self.composer.clear(),
            KeyCode::Char('w') if control => self.composer.delete_word(),
            KeyCode::Char('a') if control => self.composer.move_to_line_edge(false),
            KeyCode::Char('e') if control => self.composer.move_to_line_edge(true),
            KeyCode::Char(c) if !control => self.composer.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Enter if key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT) => {
                self.composer.insert("\n");
            }
            KeyCode::Enter => return self.enter(now),
            KeyCode::Backspace => self.composer.backspace(),
            KeyCode::Delete => self.composer.delete(),
            KeyCode::Left => self.composer.move_by(-1),
            KeyCode::Right => self.composer.move_by(1),
            KeyCode::Home => self.composer.move_to_line_edge(false),
            KeyCode::End => self.composer.move_to_line_edge(true),
            KeyCode::Up => self.recall(1),
            KeyCode::Down => self.recall(-1),
            KeyCode::Esc => return self.interrupt(),
            _ => {}
        }
        Vec::new()
    }

    fn interrupt(&mut self) -> Vec<Effect> {
        if self.busy_since.is_none() {
            return Vec::new();
        }
        self.stopping = true;
        vec![Effect::Interrupt]
    }

    fn control_c(&mut self, now: Duration) -> Vec<Effect> {
        if self.is_quit_armed(now) {
            return vec![Effect::Quit("prompt_input_exit")];
        }
        self.quit_armed = Some(now);
        self.composer.clear();
        self.interrupt()
    }

    fn recall(&mut self, by: isize) {
        let place = self.recalled.saturating_add_signed(by).min(self.history.len());
        if place == self.recalled {
            return;
        }
        self.recalled = place;
        let text = self.history.len().checked_sub(place).and_then(|i| self.history.get(i));
        self.composer.set(text.map_or("", String::as_str));
    }

    fn enter(&mut self, now: Duration) -> Vec<Effect> {
        let text = self.composer.take();
        let text = text.trim();
        self.recalled = 0;
        if text.is_empty() {
            return Vec::new();
        }
        if self.history.last().is_none_or(|last| last != text) {
            self.history.push(text.to_owned());
            let extra = self.history.len().saturating_sub(MAX_HISTORY);
            self.history.drain(..extra);
        }
        let note = |text: &str| vec![Effect::Print(Block::Note(text.to_owned()))];
        match text {
            "/exit" | "/quit" => return vec![Effect::Quit("prompt_input_exit")],
            "/help" => return vec![Effect::Print(Block::Note(crate::script::HELP.to_owned()))],
            "/clear" if self.busy_since.is_some() => {
                return note("A turn is running: interrupt it with Esc, or wait, then /clear.");
            }
            "/clear" => {
                self.begin(now);
                return vec![Effect::Clear];
            }
            _ if text.starts_with('/') && !text.contains(char::is_whitespace) => {
                return note(&format!("Unknown command: {text}. There are /help, /clear and /exit."));
            }
            _ => {}
        }
        if self.busy_since.is_none() {
            return self.submit(text.to_owned(), now);
        }
        if self.queue.len() >= MAX_QUEUE {
            self.composer.set(text);
            return note("Too many prompts are waiting; send it when one has ended.");
        }
        self.queue.push_back(text.to_owned());
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    const NOW: Duration = Duration::ZERO;

    fn key(app: &mut App, code: KeyCode) -> Vec<Effect> {
        app.step(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), NOW)
    }

    fn control(app: &mut App, c: char, now: Duration) -> Vec<Effect> {
        app.step(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)), now)
    }

    fn send(app: &mut App, text: &str) -> Vec<Effect> {
        app.step(Event::Paste(text.into()), NOW);
        key(app, KeyCode::Enter)
    }

    fn command() -> Body {
        Body::Command { command: "x".into(), no_chosen: false }
    }

    #[test]
    fn a_dialog_that_the_hook_has_settled_is_gone() {
        let mut app = App::default();
        send(&mut app, ">>run x");
        let (answer, answered) = sync_channel(1);
        app.step(Event::Turn(TurnEvent::Ask { body: command(), answer }), NOW);
        assert!(app.step(Event::Turn(TurnEvent::Settled), NOW).is_empty());
        assert!(app.dialog.is_none());
        key(&mut app, KeyCode::Char('1'));
        assert!(answered.try_recv().is_err());
    }

    fn text_of(effect: &Effect) -> &str {
        if let Effect::Prompt(text) = effect { text } else { "" }
    }

    fn prompts(effects: &[Effect]) -> Vec<&str> {
        effects.iter().filter(|effect| matches!(effect, Effect::Prompt(_))).map(text_of).collect()
    }

    #[test]
    fn prompts_run_one_after_the_other() {
        let mut app = App::default();
        assert_eq!(prompts(&send(&mut app, "one\r\ntwo")), ["one\ntwo"]);
        assert!(send(&mut app, "next").is_empty());
        assert_eq!(app.queue, ["next"]);
        assert_eq!(prompts(&app.step(Event::Turn(TurnEvent::Done), NOW)), ["next"]);
        assert!(app.step(Event::Turn(TurnEvent::Done), NOW).is_empty());
        assert!(app.busy_since.is_none());
        assert!(send(&mut app, "  \n ").is_empty());
    }

    #[test]
    fn a_dialog_is_answered_by_its_keys_and_ignores_pastes() {
        let cases: [(&[KeyCode], bool); 6] = [
            (&[KeyCode::Enter], true),
            (&[KeyCode::Char('1')], true),
            (&[KeyCode::Char('x'), KeyCode::Down, KeyCode::Enter], false),
            (&[KeyCode::Down, KeyCode::Up, KeyCode::Enter], true),
            (&[KeyCode::Char('2')], false),
            (&[KeyCode::Esc], false),
        ];
        for (keys, allowed) in cases {
            let mut app = App::default();
            send(&mut app, ">>run x");
            let (answer, answered) = sync_channel(1);
            app.step(Event::Turn(TurnEvent::Ask { body: command(), answer }), NOW);
            app.step(Event::Paste("2 pasted".into()), NOW);
            for code in keys {
                assert!(key(&mut app, *code).is_empty());
            }
            let answer = if allowed { Answer::Yes } else { Answer::No };
            assert_eq!(answered.try_recv(), Ok(Settled::Terminal(answer)), "{keys:?}");
            assert!(app.composer.is_empty() && app.dialog.is_none());
        }
    }

    #[test]
    fn escape_interrupts_only_what_runs() {
        let mut app = App::default();
        assert!(key(&mut app, KeyCode::Esc).is_empty());
        send(&mut app, "x");
        assert_eq!(key(&mut app, KeyCode::Esc), [Effect::Interrupt]);
        // A question that comes after the wish is not put to the person.
        let (answer, answered) = sync_channel(1);
        app.step(Event::Turn(TurnEvent::Ask { body: command(), answer }), NOW);
        assert_eq!(answered.try_recv(), Ok(Settled::Terminal(Answer::No)));
    }

    #[test]
    fn two_control_c_quit_and_one_clears() {
        let mut app = App::default();
        app.step(Event::Paste("draft".into()), NOW);
        assert!(control(&mut app, 'c', NOW).is_empty());
        assert!(app.composer.is_empty());
        assert!(control(&mut app, 'c', QUIT_WITHIN).is_empty(), "too late");
        assert_eq!(control(&mut app, 'c', QUIT_WITHIN), [Effect::Quit("prompt_input_exit")]);
        assert_eq!(App::default().step(Event::Hangup, NOW), [Effect::Quit("other")]);
    }

    #[test]
    fn commands() {
        let mut app = App::default();
        assert_eq!(send(&mut app, "/exit"), [Effect::Quit("prompt_input_exit")]);
        assert_eq!(send(&mut app, "/clear"), [Effect::Clear]);
        let [Effect::Print(Block::Note(_))] = &send(&mut app, "/clear")[..] else { panic!("busy") };
        app.step(Event::Turn(TurnEvent::Done), NOW);
        let [Effect::Print(Block::Note(text))] = &send(&mut app, "/nosuch")[..] else { panic!("unknown") };
        assert!(text.contains("/nosuch"));
        assert_eq!(prompts(&send(&mut app, "/etc/hosts is a file")), ["/etc/hosts is a file"]);
    }

    #[test]
    fn the_arrows_bring_earlier_prompts_back() {
        let mut app = App::default();
        for text in ["a", "b", "b"] {
            send(&mut app, text);
        }
        let recall = |app: &mut App, code| {
            key(app, code);
            app.composer.layout(80, 1).0.concat()
        };
        assert_eq!(recall(&mut app, KeyCode::Up), "b");
        assert_eq!(recall(&mut app, KeyCode::Up), "a");
        assert_eq!(recall(&mut app, KeyCode::Up), "a");
        assert_eq!(recall(&mut app, KeyCode::Down), "b");
        assert_eq!(recall(&mut app, KeyCode::Down), "");
    }
}

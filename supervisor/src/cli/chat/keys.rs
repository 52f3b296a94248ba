//! What keys and commands do. Pure.

use super::{
    cards::{Form, Then},
    files, layout, reminders,
    state::{Action, Overlay, Scroll, State},
    view,
    words::Tone,
};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use leo_ipc::{AgentName, chat::MessageKind};
use std::path::PathBuf;

/// Keys and commands, for the help.
pub(super) const HELP: [(&str, &str); 23] = [
    ("Enter", "send"),
    ("Alt-Enter, Ctrl-J", "new line"),
    ("Tab", "to an open question, to the next one, and back"),
    ("1–9, Space, t, d, a, x, i", "on a question: see the last line"),
    ("Up, Down, PgUp, PgDn", "move in the text, then through the history"),
    ("Ctrl-Home, Ctrl-End", "to the earliest fetched message, to the newest"),
    ("Ctrl-A, Ctrl-E", "start and end of the line"),
    ("Ctrl-W, Ctrl-U, Ctrl-K", "delete a word, to the line's start, to its end"),
    ("Ctrl-R, /retry", "send the last failed message again"),
    ("/file PATH [TEXT]", "send a file, a recording too"),
    ("/asfile", "send the last voice note that failed as a file"),
    ("/cancel", "take back the last message that still waits"),
    ("/reminders", "what the agent will remind you of; x takes one back"),
    ("/interrupt", "interrupt what the agent is doing"),
    ("/clear, /compact [KEEP]", "empty or summarise what the agent has in mind"),
    ("/start, /stop, /restart", "the agent's process"),
    ("Ctrl-T, /agents, /agent NAME", "another thread"),
    ("/attach", "how to open the agent's own terminal"),
    ("?, /help", "this, when nothing is written"),
    ("Ctrl-C", "clear what is written; when nothing is, leave"),
    ("/quit, Ctrl-D", "leave"),
    ("", ""),
    ("", "The agent goes on when you leave. A space before / sends it as text."),
];

/// A key was pressed.
pub(super) fn press(state: &mut State, key: KeyEvent) -> Vec<Action> {
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    match state.overlay {
        Overlay::Help(first) => help_key(state, key, first),
        Overlay::Threads(selected) => threads_key(state, key, selected),
        Overlay::Reminders(selected) => reminders::key(state, key, selected),
        Overlay::None => {
            let actions = if state.focused().is_some() { card_key(state, key) } else { None };
            actions.unwrap_or_else(|| chat_key(state, key))
        }
    }
}

/// A key while a card has the keys; `None` when it is one that scrolls or leaves, which works everywhere.
fn card_key(state: &mut State, key: KeyEvent) -> Option<Vec<Action>> {
    if key.code == KeyCode::Tab {
        return Some(next_card(state));
    }
    if is_ctrl(key, 'c') {
        state.focus = None;
        return Some(Vec::new());
    }
    let message = state.focused()?.clone();
    let mut form = state.forms.remove(&message.id).or_else(|| Form::of(&message))?;
    let then = form.press(key);
    form.sending |= matches!(then, Then::Send(_) | Then::Dismiss);
    state.forms.insert(message.id.clone(), form);
    let (agent, id) = (state.agent.clone(), message.id);
    let actions = match then {
        Then::Pass => {
            let everywhere = is_ctrl(key, 't') || is_ctrl(key, 'l');
            return if everywhere || matches!(key.code, KeyCode::PageUp | KeyCode::PageDown) {
                None
            } else {
                Some(Vec::new())
            };
        }
        Then::Stay => Vec::new(),
        Then::Leave => {
            state.focus = None;
            state.scroll = Scroll::End;
            return Some(Vec::new());
        }
        Then::Send(answer) => {
            let client_msg_id = state.fresh_id();
            vec![Action::Answer { agent, id, answer, client_msg_id }]
        }
        Then::Dismiss => vec![Action::Dismiss(agent, id)],
    };
    state.scroll = layout::at_card(state);
    Some(actions)
}

/// Gives the keys to the newest open card, from there to older ones, and from the last back to the
/// composer.
fn next_card(state: &mut State) -> Vec<Action> {
    let focus = state.focused().map(|message| message.id.clone());
    let next = match focus {
        None => state.log.open_cards().next(),
        Some(id) => state.log.open_cards().find(|message| message.id < id),
    };
    let next = next.cloned();
    state.focus = next.as_ref().map(|message| message.id.clone());
    if let Some(message) = next
        && let Some(form) = Form::of(&message)
    {
        state.forms.entry(message.id).or_insert(form);
    }
    state.scroll = layout::at_card(state);
    Vec::new()
}

fn help_key(state: &mut State, key: KeyEvent, first: usize) -> Vec<Action> {
    let last = HELP.len().saturating_sub(view::help_rows(state));
    state.overlay = match key.code {
        KeyCode::Up | KeyCode::Char('k') => Overlay::Help(first.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => Overlay::Help((first + 1).min(last)),
        KeyCode::PageUp | KeyCode::Home => Overlay::Help(0),
        KeyCode::PageDown | KeyCode::End | KeyCode::Char(' ') => Overlay::Help(last),
        _ => Overlay::None,
    };
    if is_ctrl(key, 'c') {
        state.quit = true;
    }
    Vec::new()
}

fn threads_key(state: &mut State, key: KeyEvent, selected: usize) -> Vec<Action> {
    let last = state.threads.len().saturating_sub(1);
    match key.code {
        KeyCode::Up | KeyCode::Char('k') => state.overlay = Overlay::Threads(selected.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => state.overlay = Overlay::Threads((selected + 1).min(last)),
        KeyCode::Home => state.overlay = Overlay::Threads(0),
        KeyCode::End => state.overlay = Overlay::Threads(last),
        KeyCode::Enter => {
            let chosen = state.threads.get(selected).map(|thread| thread.agent.clone());
            state.overlay = Overlay::None;
            if let Some(agent) = chosen {
                return state.open(agent);
            }
        }
        _ => state.overlay = Overlay::None,
    }
    Vec::new()
}

fn is_ctrl(key: KeyEvent, c: char) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char(c)
}

fn chat_key(state: &mut State, key: KeyEvent) -> Vec<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return ctrl_key(state, key.code);
    }
    if key.modifiers.contains(KeyModifiers::ALT) {
        match key.code {
            KeyCode::Enter => insert(state, "\n"),
            KeyCode::Char('b') | KeyCode::Left => state.composer.left_word(),
            KeyCode::Char('f') | KeyCode::Right => state.composer.right_word(),
            KeyCode::Backspace => state.composer.delete_word_left(),
            _ => {}
        }
        return Vec::new();
    }
    let columns = layout::composer_columns(state.size.0);
    match key.code {
        KeyCode::Enter if key.modifiers.contains(KeyModifiers::SHIFT) => insert(state, "\n"),
        KeyCode::Enter => return enter(state),
        KeyCode::Char('?') if state.composer.is_empty() => state.overlay = Overlay::Help(0),
        KeyCode::Char(c) => insert(state, c.encode_utf8(&mut [0; 4])),
        KeyCode::Tab if state.log.open_cards().next().is_some() => return next_card(state),
        KeyCode::Tab => insert(state, "\t"),
        KeyCode::Backspace => state.composer.backspace(),
        KeyCode::Delete => state.composer.delete_right(),
        KeyCode::Left => state.composer.left(),
        KeyCode::Right => state.composer.right(),
        KeyCode::Home => state.composer.home(),
        KeyCode::End => state.composer.end(),
        KeyCode::Up if state.scroll != Scroll::End || !state.composer.up(columns) => {
            return state.scroll_by(1);
        }
        KeyCode::Down if state.scroll != Scroll::End || !state.composer.down(columns) => {
            return state.scroll_by(-1);
        }
        KeyCode::PageUp => return state.scroll_by(page(state)),
        KeyCode::PageDown => return state.scroll_by(-page(state)),
        KeyCode::Esc => state.scroll = Scroll::End,
        _ => {}
    }
    Vec::new()
}

fn page(state: &State) -> isize {
    let rows = layout::areas(state).history.height.saturating_sub(2).max(1);
    isize::try_from(rows).unwrap_or(1)
}

fn ctrl_key(state: &mut State, code: KeyCode) -> Vec<Action> {
    match code {
        KeyCode::Char('c') if state.composer.is_empty() => state.quit = true,
        KeyCode::Char('c') => {
            state.composer.take();
        }
        KeyCode::Char('d') if state.composer.is_empty() => state.quit = true,
        KeyCode::Char('d') => state.composer.delete_right(),
        KeyCode::Char('j') | KeyCode::Enter => insert(state, "\n"),
        KeyCode::Char('a') => state.composer.home(),
        KeyCode::Char('e') => state.composer.end(),
        KeyCode::Char('b') => state.composer.left(),
        KeyCode::Char('f') => state.composer.right(),
        KeyCode::Char('h') => state.composer.backspace(),
        KeyCode::Char('k') => state.composer.delete_to_end(),
        KeyCode::Char('u') => state.composer.delete_to_start(),
        KeyCode::Char('w') | KeyCode::Backspace => state.composer.delete_word_left(),
        KeyCode::Left => state.composer.left_word(),
        KeyCode::Right => state.composer.right_word(),
        KeyCode::Char('r') => return retry(state),
        KeyCode::Char('t') => show_threads(state),
        KeyCode::Char('l') => return vec![Action::Redraw],
        KeyCode::Home => return state.scroll_by(isize::MAX / 2),
        KeyCode::End => state.scroll = Scroll::End,
        _ => {}
    }
    Vec::new()
}

/// Text was pasted: into the card that has the keys, or into the composer.
pub(super) fn paste(state: &mut State, text: &str) {
    let Some(id) = state.focused().map(|message| message.id.clone()) else {
        return insert(state, text);
    };
    if let Some(form) = state.forms.get_mut(&id) {
        form.paste(text);
    }
}

/// Puts text into the composer.
pub(super) fn insert(state: &mut State, text: &str) {
    if !state.composer.insert(text) {
        let most = leo_ipc::chat::MAX_TEXT / 1024;
        state.notify(Tone::Bad, format!("a message has at most {most} KiB: this does not fit in any more"));
    }
}

fn enter(state: &mut State) -> Vec<Action> {
    let text = state.composer.text();
    if text.trim().is_empty() {
        return Vec::new();
    }
    if let Some(command) = text.strip_prefix('/')
        && !text.contains('\n')
        && is_command(command)
    {
        let command = command.to_owned();
        state.composer.take();
        return run(state, command.trim());
    }
    if state.current().is_none() {
        let name = state.agent.clone();
        state.notify(Tone::Bad, format!("{name} was removed: this thread can only be read"));
        return Vec::new();
    }
    let text = state.composer.take();
    state.send(text, Vec::new())
}

/// Whether what follows a slash is meant as a command: a path such as `/etc/hosts` is not.
fn is_command(rest: &str) -> bool {
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase())
}

fn run(state: &mut State, command: &str) -> Vec<Action> {
    let (verb, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    match (verb, rest.trim()) {
        ("help", "") => state.overlay = Overlay::Help(0),
        ("agents" | "threads", "") => show_threads(state),
        ("agent", name) if !name.is_empty() => return go_to(state, name),
        ("reminders" | "reminder", "") => reminders::show(state),
        ("retry", "") => return retry(state),
        ("file", rest) => return file(state, rest),
        ("asfile", "") => return as_file(state),
        ("cancel", "") => return cancel(state),
        ("interrupt", "") => return vec![Action::Tell(state.agent.clone(), "interrupt")],
        ("clear", "") => return vec![Action::Tell(state.agent.clone(), "clear")],
        ("compact", keep) => {
            let keep = Some(keep.to_owned()).filter(|keep| !keep.is_empty());
            return vec![Action::Compact(state.agent.clone(), keep)];
        }
        ("start", "") => return vec![Action::Tell(state.agent.clone(), "start")],
        ("stop", "") => return vec![Action::Tell(state.agent.clone(), "stop")],
        ("restart", "") => return vec![Action::Tell(state.agent.clone(), "restart")],
        ("attach", "") => {
            let text = format!("in another terminal: leo agent attach {}", state.agent);
            state.notify(Tone::Calm, text);
        }
        ("quit" | "exit", "") => state.quit = true,
        _ => {
            state.composer.set(format!("/{command}"));
            state.notify(
                Tone::Bad,
                format!("there is no command /{verb}; ? shows them, a space before / sends it"),
            );
        }
    }
    Vec::new()
}

fn show_threads(state: &mut State) {
    // Sorted when the list opens and not while it is open, or a row would move away under the key.
    let newest = |t: &leo_ipc::chat::Thread| t.last_message.as_ref().map(|m| m.ts);
    state.threads.sort_by(|a, b| b.pinned.cmp(&a.pinned).then_with(|| newest(b).cmp(&newest(a))));
    let here = state.threads.iter().position(|thread| thread.agent == state.agent).unwrap_or(0);
    state.overlay = Overlay::Threads(here);
}

fn go_to(state: &mut State, name: &str) -> Vec<Action> {
    let known = name
        .parse::<AgentName>()
        .ok()
        .filter(|name| state.threads.iter().any(|thread| thread.agent == *name));
    match known {
        Some(agent) => state.open(agent),
        None => {
            show_threads(state);
            Vec::new()
        }
    }
}

fn retry(state: &mut State) -> Vec<Action> {
    let unsent = state.resend(false);
    if !unsent.is_empty() {
        return unsent;
    }
    match state.log.last_failed().map(|message| message.id.clone()) {
        Some(id) => vec![Action::Retry(state.agent.clone(), id)],
        None => {
            state.notify(Tone::Calm, "no message failed");
            Vec::new()
        }
    }
}

fn file(state: &mut State, named: &str) -> Vec<Action> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match files::path_and_rest(named, home.as_deref()) {
        Some((path, text)) if state.current().is_some() => {
            // Where this program was started, which is where the person is.
            let path = std::path::absolute(&path).unwrap_or(path);
            state.send(text, vec![path])
        }
        _ => {
            state.composer.set(format!("/file {named}"));
            state.notify(Tone::Bad, "which file? /file PATH, with quotes around a path that has spaces");
            Vec::new()
        }
    }
}

fn as_file(state: &mut State) -> Vec<Action> {
    let failed = state.log.last_failed().filter(|message| message.kind == MessageKind::Voice);
    match failed.map(|message| message.id.clone()) {
        Some(id) => vec![Action::AsFile(state.agent.clone(), id)],
        None => {
            state.notify(Tone::Calm, "no voice note failed");
            Vec::new()
        }
    }
}

fn cancel(state: &mut State) -> Vec<Action> {
    match state.log.last_pending().map(|message| message.id.clone()) {
        Some(id) => vec![Action::Cancel(state.agent.clone(), id)],
        None => {
            state.notify(Tone::Calm, "no message waits");
            Vec::new()
        }
    }
}

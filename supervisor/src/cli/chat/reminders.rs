//! The open thread's reminders: how many the head says there are, the list of them, and taking one back.
//! Pure.

use super::{
    layout::Areas,
    plain::{clean_line, cut, width},
    state::{Action, Overlay, State},
    view::boxed,
    words::Tone,
};
use crate::cli::reminder::when;
use crossterm::event::{KeyCode, KeyEvent};
use leo_ipc::{AgentName, reminder::Reminder};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
    text::{Line, Span},
};

/// What the head says of them; nothing while there are none.
pub(super) fn said(state: &State) -> String {
    match state.reminders.len() {
        0 => String::new(),
        1 => "  · 1 reminder (/reminders)".to_owned(),
        n => format!("  · {n} reminders (/reminders)"),
    }
}

/// A reminder of some thread was left, posted or taken back.
pub(super) fn changed(state: &State, agent: AgentName) -> Vec<Action> {
    if agent == state.agent { vec![Action::Reminders(agent)] } else { Vec::new() }
}

/// The open reminders of a thread were fetched.
pub(super) fn came(state: &mut State, agent: &AgentName, reminders: Vec<Reminder>) {
    if *agent != state.agent {
        return;
    }
    state.reminders = reminders;
    if let Overlay::Reminders(selected) = state.overlay {
        state.overlay = Overlay::Reminders(selected.min(state.reminders.len().saturating_sub(1)));
    }
}

/// Opens the list.
pub(super) fn show(state: &mut State) {
    if state.reminders.is_empty() {
        let text = format!("{} has left no reminders; ask it to remind you of something", state.agent);
        state.notify(Tone::Calm, text);
    } else {
        state.overlay = Overlay::Reminders(0);
    }
}

/// A key while the list is open.
pub(super) fn key(state: &mut State, key: KeyEvent, selected: usize) -> Vec<Action> {
    let last = state.reminders.len().saturating_sub(1);
    match key.code {
        KeyCode::Up | KeyCode::Char('k') => state.overlay = Overlay::Reminders(selected.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => state.overlay = Overlay::Reminders((selected + 1).min(last)),
        KeyCode::Char('x') | KeyCode::Delete => {
            // The row goes when the daemon says that it is gone.
            let chosen = state.reminders.get(selected).map(|reminder| reminder.id.clone());
            return chosen.map(|id| Action::CancelReminder(state.agent.clone(), id)).into_iter().collect();
        }
        _ => state.overlay = Overlay::None,
    }
    Vec::new()
}

/// Draws the list.
pub(super) fn draw(state: &State, areas: Areas, selected: usize, buffer: &mut Buffer) {
    let dim = Style::new().add_modifier(Modifier::DIM);
    let columns = usize::from(areas.head.width).saturating_sub(8).min(100);
    let rows = state.reminders.len().max(1);
    let inside = boxed(areas, "Reminders: x takes one back, Esc closes", columns, rows, buffer);
    if state.reminders.is_empty() {
        buffer.set_line(inside.x, inside.y, &Line::styled("There are none any more.", dim), inside.width);
    }
    let height = usize::from(inside.height).max(1);
    let first = (selected + 1).saturating_sub(height);
    let shown = state.reminders.iter().enumerate().skip(first);
    for (y, (i, reminder)) in (inside.y..inside.bottom()).zip(shown) {
        let at = when(&reminder.at, &state.zone);
        let text: String = reminder.text.trim().chars().take(200).collect();
        let text = cut(&clean_line(&text), usize::from(inside.width).saturating_sub(width(&at) + 2));
        let at = Span::styled(format!("{at}  "), Style::new().add_modifier(Modifier::BOLD));
        buffer.set_line(inside.x, y, &Line::from(vec![at, Span::raw(text)]), inside.width);
        if i == selected {
            buffer.set_style(Rect { y, height: 1, ..inside }, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            events::Event,
            tests::{contains, drawn, filled, message, name, press, tell, write},
        },
        *,
    };
    use leo_ipc::chat::{Direction, Message};

    fn reminder(id: &str, text: &str) -> Reminder {
        let at = "2026-12-01T09:00:00-05:00".to_owned();
        Reminder { id: id.into(), agent: name("assistant"), text: text.into(), at, task: None, run_id: None }
    }

    #[test]
    fn reminders_are_seen_and_taken_back() {
        let mut state = filled((80, 24), vec![message("m1", Direction::Out, "hello")]);
        write(&mut state, "/reminders");
        assert!(contains(&drawn(&state), "assistant has left no reminders"));
        let list = vec![reminder("r1", "Stand-up\n\u{1b}[31m"), reminder("r2", "Renew the certificate")];
        tell(&mut state, Event::Reminders(name("builder"), list.clone()));
        assert!(state.reminders.is_empty(), "another thread's");
        tell(&mut state, Event::Reminders(name("assistant"), list));
        assert!(contains(&drawn(&state), "idle  · 2 reminders (/reminders)"));
        write(&mut state, "/reminders");
        let rows = drawn(&state);
        assert!(contains(&rows, "Tue 1 Dec 2026 14:00  Stand-up"), "{rows:#?}");
        assert!(contains(&rows, "Tue 1 Dec 2026 14:00  Renew the certificate"), "{rows:#?}");
        press(&mut state, KeyCode::Down);
        let expected = Action::CancelReminder(name("assistant"), "r2".into());
        assert_eq!(press(&mut state, KeyCode::Char('x')), [expected]);
        let asked = tell(&mut state, Event::ReminderChanged(name("assistant")));
        assert_eq!(asked, [Action::Reminders(name("assistant"))]);
        assert!(tell(&mut state, Event::ReminderChanged(name("builder"))).is_empty());
        tell(&mut state, Event::Reminders(name("assistant"), vec![reminder("r1", "Stand-up")]));
        assert_eq!(state.overlay, Overlay::Reminders(0), "the selection stays within the list");
        assert!(contains(&drawn(&state), "1 reminder (/reminders)"));
        press(&mut state, KeyCode::Esc);
        assert_eq!(state.overlay, Overlay::None);
        state.open(name("builder"));
        assert!(state.reminders.is_empty(), "they belong to their thread");
    }

    #[test]
    fn a_client_is_named_on_both_sides() {
        let of = |id: &str, direction, sender: &str| Message {
            sender: Some(sender.into()),
            ..message(id, direction, "built")
        };
        let rows = drawn(&filled(
            (80, 24),
            vec![
                of("m1", Direction::In, "client:ci"),
                of("m2", Direction::Out, "client:ci"),
                of("m3", Direction::Out, "operator"),
            ],
        ));
        assert_eq!(
            rows.iter().filter(|row| row.starts_with(" ci (API client)  21:14")).count(),
            2,
            "{rows:#?}"
        );
        assert!(contains(&rows, " you  21:14"), "{rows:#?}");
    }
}

//! The state on the screen. Pure: it only fills a buffer.

use super::{
    cards::{Form, Manner},
    keys::HELP,
    layout::{self, Areas, PROMPT},
    plain::{clean_line, cut, width},
    reminders,
    state::{Link, Overlay, State},
    words::{self, Tone},
};
use leo_ipc::chat::{Direction, Message};
use ratatui::{
    Frame,
    buffer::Buffer,
    layout::{Position, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Widget},
};

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws the screen.
pub(super) fn draw(state: &State, frame: &mut Frame<'_>) {
    let areas = layout::areas(state);
    let buffer = frame.buffer_mut();
    head(state, areas.head, buffer);
    let more = history(state, areas.history, buffer);
    if let Some((tone, text)) = layout::alert(state) {
        let style = layout::style(tone).add_modifier(Modifier::BOLD);
        let rows = layout::alert_lines(&text, areas.alert.width);
        for (y, row) in (areas.alert.y..areas.alert.bottom()).zip(rows) {
            put(buffer, Rect { y, ..areas.alert }, &Line::styled(format!(" {row}"), style));
        }
    }
    rule(state, areas.rule, more, buffer);
    let cursor = composer(state, areas.composer, buffer);
    foot(state, areas.foot, buffer);
    match state.overlay {
        // A card draws its own cursor.
        Overlay::None if state.focused().is_some() => {}
        Overlay::None => frame.set_cursor_position(cursor),
        Overlay::Help(first) => help(areas, first, buffer),
        Overlay::Reminders(selected) => reminders::draw(state, areas, selected, buffer),
        Overlay::Threads(selected) => threads(state, areas, selected, buffer),
    }
}

fn put(buffer: &mut Buffer, area: Rect, line: &Line<'_>) {
    if area.height > 0 {
        buffer.set_line(area.x, area.y, line, area.width);
    }
}

fn head(state: &State, area: Rect, buffer: &mut Buffer) {
    let mut spans = vec![Span::raw(" ")];
    match state.current() {
        Some(agent) => {
            let (tone, doing) = words::doing(agent);
            let dot = if agent.status == leo_ipc::agent::Status::Stopped { "○" } else { "●" };
            let colour = match tone {
                Tone::Calm if dot == "●" => Style::new().fg(Color::Green),
                tone => layout::style(tone),
            };
            spans.push(Span::styled(dot, colour));
            spans.push(Span::styled(format!(" {}", agent.name), BOLD));
            spans.push(Span::styled(format!("  {}", agent.harness), DIM));
            if let Some(model) = &agent.model {
                spans.push(Span::styled(format!(" {}", clean_line(model)), DIM));
            }
            spans.push(Span::styled(format!("  {doing}"), layout::style(tone)));
        }
        None => {
            spans.push(Span::styled(state.agent.to_string(), BOLD));
            spans.push(Span::styled("  removed: this thread can only be read", DIM));
        }
    }
    spans.push(Span::styled(reminders::said(state), DIM));
    let elsewhere = match state.unread_elsewhere() {
        0 => String::new(),
        n => format!("{n} unread elsewhere (Ctrl-T) "),
    };
    let left = Line::from(spans);
    let free = usize::from(area.width).saturating_sub(left.width());
    put(buffer, area, &left);
    if area.height > 1 {
        let below = Rect { y: area.y + 1, height: 1, ..area };
        put(buffer, below, &Line::styled("─".repeat(usize::from(area.width)), DIM));
    }
    let wide = width(&elsewhere);
    if wide > 0 && wide < free {
        let x = area.right().saturating_sub(u16::try_from(wide).unwrap_or(0));
        buffer.set_string(x, area.y, &elsewhere, Style::new().fg(Color::Yellow));
    }
}

/// Draws the messages at the bottom of their area; whether there are newer ones below.
fn history(state: &State, area: Rect, buffer: &mut Buffer) -> bool {
    let (rows, more) = layout::visible(state, usize::from(area.height));
    let empty = area.height.saturating_sub(u16::try_from(rows.len()).unwrap_or(area.height));
    for (y, row) in (area.y + empty..area.bottom()).zip(rows) {
        buffer.set_line(area.x, y, &row, area.width);
    }
    more
}

fn rule(state: &State, area: Rect, more: bool, buffer: &mut Buffer) {
    put(buffer, area, &Line::styled("─".repeat(usize::from(area.width)), DIM));
    let unread = state.threads.iter().find(|t| t.agent == state.agent).map_or(0, |t| t.unread);
    let text = match (more, unread) {
        (false, _) => return,
        (true, 0) => " earlier messages · Esc goes to the newest ".to_owned(),
        (true, n) => format!(" {n} new below · Esc goes there "),
    };
    if area.height > 0 {
        buffer.set_string(area.x + 2, area.y, cut(&text, usize::from(area.width).saturating_sub(4)), BOLD);
    }
}

fn composer(state: &State, area: Rect, buffer: &mut Buffer) -> Position {
    let columns = layout::composer_columns(area.width);
    let written = state.composer.rows(columns);
    let height = usize::from(area.height).max(1);
    // The cursor's row stays in view.
    let first = (written.row + 1).saturating_sub(height);
    put(buffer, area, &Line::styled(PROMPT, Style::new().fg(Color::Blue).add_modifier(Modifier::BOLD)));
    let left = area.x + u16::try_from(width(PROMPT)).unwrap_or(0);
    if state.composer.is_empty() {
        let hint = format!("Message {}", state.agent);
        if area.height > 0 {
            buffer.set_string(left, area.y, cut(&hint, columns), DIM);
        }
    }
    for (y, row) in (area.y..area.bottom()).zip(written.rows.iter().skip(first)) {
        buffer.set_stringn(left, y, row, columns, Style::new());
    }
    let x = left + u16::try_from(written.column).unwrap_or(0);
    let y = area.y + u16::try_from(written.row - first).unwrap_or(0);
    Position { x: x.min(area.right().saturating_sub(1)), y: y.min(area.bottom().saturating_sub(1)) }
}

fn foot(state: &State, area: Rect, buffer: &mut Buffer) {
    if let Some(notice) = &state.notice {
        let text = cut(&clean_line(&notice.text), usize::from(area.width).saturating_sub(2));
        put(buffer, area, &Line::styled(format!(" {text}"), layout::style(notice.tone)));
        return;
    }
    let asked = state.log.open_cards().next().is_some();
    let card = state.focused().map(|message| keys_of(state, message));
    let text = match (&state.link, state.composer.is_empty()) {
        _ if card.is_some() => card.unwrap_or_default(),
        (Link::Up, _) if asked => "Tab goes to the open question · Enter sends · ? help · Ctrl-C leaves",
        (Link::Connecting, _) => "connecting…",
        (_, true) => "Enter sends · Alt-Enter new line · PgUp history · ? help · Ctrl-C leaves",
        (_, false) => "Enter sends · Alt-Enter new line · Ctrl-C clears",
    };
    put(
        buffer,
        area,
        &Line::styled(format!(" {}", cut(text, usize::from(area.width).saturating_sub(2))), DIM),
    );
}

/// What keys do on the card that has them.
fn keys_of(state: &State, message: &Message) -> &'static str {
    let fresh = Form::of(message);
    let Some(form) = state.forms.get(&message.id).or(fresh.as_ref()) else { return "" };
    let part = form.parts.get(form.part);
    let several = part.is_some_and(|part| part.manner == Manner::Several);
    let text = part.is_some_and(|part| part.takes_text);
    match (form.permission, form.is_writing(), form.is_questions()) {
        (Some(_), true, _) => "Enter denies · Esc goes back",
        (Some(_), false, _) => "a allows · x denies · i shows the whole input · Tab next · Esc leaves",
        (None, true, true) => "Enter next, then sends · ↑ options · Tab next · Esc leaves",
        (None, true, false) => "Enter sends · Alt-Enter new line · ↑ options · Tab next · Esc leaves",
        (None, false, true) if several => {
            "1–9, Space tick · t other · ←→ questions · Enter next · d dismisses · Esc leaves"
        }
        (None, false, true) => "1–9 choose · t other · ←→ questions · Enter next · d dismisses · Esc leaves",
        (None, false, false) if several && text => {
            "1–9, Space tick · t other · Enter sends · Tab next · Esc leaves"
        }
        (None, false, false) if several => "1–9, Space tick · Enter sends · Tab next · Esc leaves",
        (None, false, false) if text => "1–9, ↑↓ choose · t other · Enter sends · Tab next · Esc leaves",
        (None, false, false) => "1–9, ↑↓ choose · Enter sends · Tab next · Esc leaves",
    }
}

/// A box in the middle of the history, for so many columns and rows of content.
pub(super) fn boxed(areas: Areas, title: &str, columns: usize, rows: usize, buffer: &mut Buffer) -> Rect {
    let screen = areas.history;
    let wide = u16::try_from(columns + 4).unwrap_or(u16::MAX).min(screen.width);
    let high = u16::try_from(rows + 2).unwrap_or(u16::MAX).min(screen.height);
    let area = Rect {
        x: screen.x + (screen.width - wide) / 2,
        y: screen.y + (screen.height - high) / 2,
        width: wide,
        height: high,
    };
    Clear.render(area, buffer);
    Block::bordered().title(Span::styled(format!(" {title} "), BOLD)).render(area, buffer);
    Rect {
        x: area.x + 2,
        y: area.y + 1,
        width: area.width.saturating_sub(4),
        height: area.height.saturating_sub(2),
    }
}

/// Rows of the help that the screen has room for.
pub(super) fn help_rows(state: &State) -> usize {
    usize::from(layout::areas(state).history.height.saturating_sub(2))
}

fn help(areas: Areas, first: usize, buffer: &mut Buffer) {
    let room = usize::from(areas.history.height.saturating_sub(2));
    let first = first.min(HELP.len().saturating_sub(room));
    let title = match (first > 0, first + room < HELP.len()) {
        (false, false) => "Keys and commands",
        (_, true) => "Keys and commands: Down for more",
        (true, false) => "Keys and commands: Up for the first",
    };
    let keys = HELP.iter().map(|(key, _)| width(key)).max().unwrap_or(0);
    let texts =
        HELP.iter().filter(|(key, _)| !key.is_empty()).map(|(_, text)| width(text)).max().unwrap_or(0);
    let inside = boxed(areas, title, keys + 2 + texts, HELP.len(), buffer);
    for (y, (key, text)) in (inside.y..inside.bottom()).zip(HELP.into_iter().skip(first)) {
        let columns = usize::from(inside.width);
        let line = if key.is_empty() {
            Line::styled(cut(text, columns), DIM)
        } else {
            let pad = " ".repeat(keys + 2 - width(key));
            let rest = cut(text, columns.saturating_sub(keys + 2));
            Line::from(vec![Span::styled(key, BOLD), Span::raw(pad), Span::raw(rest)])
        };
        buffer.set_line(inside.x, y, &line, inside.width);
    }
}

fn threads(state: &State, areas: Areas, selected: usize, buffer: &mut Buffer) {
    let names = state.threads.iter().map(|t| width(t.agent.as_str())).max().unwrap_or(0).min(24);
    let columns = usize::from(areas.head.width).saturating_sub(8).min(100);
    let inside = boxed(areas, "Agents: Enter opens, Esc closes", columns, state.threads.len().max(1), buffer);
    if state.threads.is_empty() {
        put(buffer, inside, &Line::styled("There are none yet: leo agent add", DIM));
    }
    let height = usize::from(inside.height).max(1);
    let first = (selected + 1).saturating_sub(height);
    let shown = state.threads.iter().enumerate().skip(first);
    for (y, (i, thread)) in (inside.y..inside.bottom()).zip(shown) {
        let (tone, doing) = state.agents.get(&thread.agent).map_or((Tone::Calm, "removed"), words::doing);
        let name = cut(thread.agent.as_str(), names);
        let unread = match thread.unread {
            0 => "    ".to_owned(),
            n if n > 99 => "99+ ".to_owned(),
            n => format!("{n:<4}"),
        };
        let said = thread.last_message.as_ref().map_or_else(String::new, |message| {
            let who = if message.direction == Direction::In { "you: " } else { "" };
            format!("{who}{}", words::gist(message))
        });
        let used = names + 2 + 4 + 10;
        let line = Line::from(vec![
            Span::styled(format!("{name}{}  ", " ".repeat(names - width(&name))), BOLD),
            Span::styled(unread, Style::new().fg(Color::Yellow)),
            Span::styled(format!("{doing:<10}"), layout::style(tone)),
            Span::styled(cut(&said, usize::from(inside.width).saturating_sub(used)), DIM),
        ]);
        buffer.set_line(inside.x, y, &line, inside.width);
        if i == selected {
            let row = Rect { y, height: 1, ..inside };
            buffer.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
}

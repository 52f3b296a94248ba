//! The history as rows, where the view stands in them, and how the screen is divided. Pure.

use super::{
    card_view, cards, files,
    log::Outgoing,
    plain::{clean, clean_line, cut, width, wrap},
    state::{Link, Scroll, State},
    words::{self, Tone},
};
use leo_ipc::{
    MessageId, Time,
    chat::{Attachment, Direction, FailedReason, Message, MessageKind, MessageState},
    filename::on_disk,
};
use ratatui::{
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

/// Widest text: longer lines are hard to read.
const MAX_TEXT_COLUMNS: usize = 110;

/// Columns in front of a message's text.
const INDENT: &str = "  ";

/// Most rows of the composer, beside half of the screen.
const MAX_COMPOSER_ROWS: u16 = 12;

/// From so many rows on, a line below the head is worth its row.
const ROOMY: u16 = 20;

/// Most rows of an alert.
const MAX_ALERT_ROWS: usize = 3;

/// Columns in front of what is being written.
pub(super) const PROMPT: &str = "› ";

/// A row of the history: which message's, and which of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The message.
    pub(super) id: MessageId,
    /// The row of its block, from 0.
    pub(super) row: usize,
}

/// The parts of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Areas {
    /// Who it is and what it does, and a line below where there is room.
    pub(super) head: Rect,
    /// The messages.
    pub(super) history: Rect,
    /// What needs the person, or that the daemon is lost; empty when nothing.
    pub(super) alert: Rect,
    /// The line above the composer.
    pub(super) rule: Rect,
    /// What is being written.
    pub(super) composer: Rect,
    /// What keys do, or what just happened.
    pub(super) foot: Rect,
}

/// Columns of the composer's text on a screen of so many columns.
pub(super) fn composer_columns(columns: u16) -> usize {
    usize::from(columns).saturating_sub(width(PROMPT))
}

/// Divides the screen.
pub(super) fn areas(state: &State) -> Areas {
    let (columns, rows) = state.size;
    let written = state.composer.rows(composer_columns(columns)).rows.len();
    let most = MAX_COMPOSER_ROWS.min(rows / 2).max(1);
    let composer_rows = u16::try_from(written).unwrap_or(u16::MAX).clamp(1, most);
    let alert_rows = alert(state).map_or(0, |(_, text)| alert_lines(&text, columns).len());
    let alert_rows = u16::try_from(alert_rows).unwrap_or(u16::MAX);
    let head_rows = if rows >= ROOMY { 2 } else { 1 };
    let fixed = head_rows + alert_rows + 1 + composer_rows + 1;
    let history_rows = rows.saturating_sub(fixed);
    let mut y = 0;
    let mut next = |height: u16| {
        let height = height.min(rows.saturating_sub(y));
        let area = Rect { x: 0, y, width: columns, height };
        y += height;
        area
    };
    Areas {
        head: next(head_rows),
        history: next(history_rows),
        alert: next(alert_rows),
        rule: next(1),
        composer: next(composer_rows),
        foot: next(1),
    }
}

/// The line that a person must not miss.
pub(super) fn alert(state: &State) -> Option<(Tone, String)> {
    match &state.link {
        Link::Lost { since, why } => {
            let seconds = (state.now.millis() - since.millis()).max(0) / 1000;
            // A worker that is replaced is back before anybody could read this.
            if seconds == 0 {
                return None;
            }
            Some((Tone::Bad, format!("No connection for {seconds} s: {}", clean_line(why))))
        }
        _ => state.current().and_then(words::needs).map(|text| (Tone::Alert, text)),
    }
}

/// The rows of an alert: a few, since what it says matters more than one row of history.
pub(super) fn alert_lines(text: &str, columns: u16) -> Vec<String> {
    let mut rows = wrap(text, usize::from(columns).saturating_sub(2));
    rows.truncate(MAX_ALERT_ROWS);
    rows
}

/// The style of a tone.
pub(super) fn style(tone: Tone) -> Style {
    match tone {
        Tone::Calm => Style::new().add_modifier(Modifier::DIM),
        Tone::Busy => Style::new().fg(Color::Cyan),
        Tone::Alert => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red),
    }
}

const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// Rows of the history that fit into `height`, from the top, and whether there are rows below them.
pub(super) fn visible(state: &State, height: usize) -> (Vec<Line<'static>>, bool) {
    let mut rows: Vec<Line<'static>> = Vec::new();
    match &state.scroll {
        Scroll::End => {
            for outgoing in state.log.outgoing.iter().rev() {
                let block = outgoing_block(state, outgoing);
                rows.extend(block.into_iter().rev());
            }
            above(state, state.log.messages().rev(), &mut rows, height);
        }
        Scroll::At(place) => {
            if let Some(message) = state.log.get(&place.id) {
                let block = block(state, message);
                let end = (place.row + 1).min(block.len());
                rows.extend(block.into_iter().take(end).rev());
            }
            above(state, state.log.before(&place.id), &mut rows, height);
        }
    }
    if rows.len() < height && state.log.loaded {
        rows.extend(start_of_thread(state).into_iter().rev());
    }
    rows.truncate(height);
    rows.reverse();
    (rows, state.scroll != Scroll::End)
}

fn above<'m>(
    state: &State,
    messages: impl Iterator<Item = &'m Message>,
    rows: &mut Vec<Line<'static>>,
    height: usize,
) {
    for message in messages {
        if rows.len() >= height {
            return;
        }
        rows.extend(block(state, message).into_iter().rev());
    }
}

fn start_of_thread(state: &State) -> Vec<Line<'static>> {
    let text = if state.log.has_older {
        "fetching earlier messages…"
    } else if state.log.oldest().is_none() && state.log.outgoing.is_empty() {
        "Nothing here yet. Write something and press Enter."
    } else {
        return Vec::new();
    };
    vec![Line::styled(format!(" {text}"), DIM)]
}

/// Moves the view by rows, up when positive. The new place, and whether the top of what is known came
/// into view.
pub(super) fn scrolled(state: &State, by: isize) -> (Scroll, bool) {
    let height = usize::from(areas(state).history.height);
    // Every row from the top, with its place. Outgoing rows have none: the view below them is the end.
    let mut places = Vec::new();
    for message in state.log.messages() {
        let rows = block(state, message).len();
        places.extend((0..rows).map(|row| Place { id: message.id.clone(), row }));
    }
    let tail: usize = state.log.outgoing.iter().map(|o| outgoing_block(state, o).len()).sum();
    let total = places.len() + tail;
    let last = match &state.scroll {
        Scroll::End => total.saturating_sub(1),
        Scroll::At(place) => {
            let found = places.iter().rposition(|p| p.id == place.id && p.row <= place.row);
            found.unwrap_or(total.saturating_sub(1))
        }
    };
    let highest = height.saturating_sub(1).min(total.saturating_sub(1));
    let moved = isize::try_from(last).unwrap_or(isize::MAX).saturating_sub(by);
    let moved = usize::try_from(moved).unwrap_or(0).max(highest);
    let at_top = moved <= highest + height;
    match places.get(moved) {
        Some(place) if moved + 1 < total => (Scroll::At(place.clone()), at_top),
        _ => (Scroll::End, at_top),
    }
}

/// Whether the countdown of an open card is in view.
pub(super) fn shows_deadline(state: &State) -> bool {
    let counts = |m: &Message| m.state == MessageState::Open && m.deadline.is_some();
    if !state.log.messages().any(counts) {
        return false;
    }
    let height = usize::from(areas(state).history.height);
    let newest: Box<dyn Iterator<Item = &Message>> = match &state.scroll {
        Scroll::End => Box::new(state.log.messages().rev()),
        Scroll::At(place) => {
            Box::new(state.log.get(&place.id).into_iter().chain(state.log.before(&place.id)))
        }
    };
    let mut rows = 0;
    for message in newest {
        if rows >= height {
            return false;
        }
        if counts(message) {
            return true;
        }
        rows += block(state, message).len();
    }
    false
}

/// Where the view has to stand so that the card with the keys is in it: its end where it fits, else its
/// cursor.
pub(super) fn at_card(state: &State) -> Scroll {
    let Some(card) = state.focused() else { return Scroll::End };
    let newest = state.log.outgoing.is_empty()
        && state.log.messages().next_back().is_some_and(|message| message.id == card.id);
    let height = usize::from(areas(state).history.height);
    let (rows, cursor) = cursor_block(state, card);
    let last = rows.len().saturating_sub(1);
    let row = match cursor {
        Some(cursor) if rows.len() > height => (cursor + height / 2).min(last),
        _ => last,
    };
    if newest && row == last { Scroll::End } else { Scroll::At(Place { id: card.id.clone(), row }) }
}

/// The rows of a message, with the date in front of the first one of a day.
fn block(state: &State, message: &Message) -> Vec<Line<'static>> {
    cursor_block(state, message).0
}

/// The rows of a message, and which of them the cursor of its card is in.
fn cursor_block(state: &State, message: &Message) -> (Vec<Line<'static>>, Option<usize>) {
    let before = state.log.before(&message.id).next();
    let mut rows = Vec::new();
    let today = date(state, message.ts);
    if before.is_none_or(|before| date(state, before.ts) != today) {
        rows.push(Line::default());
        rows.push(rule(state, &today));
    }
    if message.kind == MessageKind::System {
        // Notes stand close to each other.
        if before.is_none_or(|before| before.kind != MessageKind::System) {
            rows.push(Line::default());
        }
        rows.extend(note(state, message));
        return (rows, None);
    }
    rows.push(Line::default());
    let above = state.log.before(&message.id).find(|m| m.kind != MessageKind::System);
    rows.push(label(state, message, above));
    // What a permission prompt and a questions card say is in their fields; the text is for readers that
    // know no cards.
    let answers = message.answer.as_ref().is_some_and(|answer| answer.answers.is_some());
    let questions = message.input.as_ref().is_some_and(|input| input.questions.is_some())
        && (message.state == MessageState::Open || answers);
    if !message.text.is_empty() && message.permission.is_none() && !questions {
        rows.extend(body(state, &message.text));
    }
    rows.extend(message.attachments.iter().flat_map(|file| attachment(state, message, file)));
    if let Some(transcript) = &message.transcript {
        rows.extend(heard(state, transcript));
    }
    if !matches!(message.kind, MessageKind::Ask | MessageKind::Permission) {
        return (rows, None);
    }
    let how = card_view::How {
        form: state.forms.get(&message.id),
        focused: state.focus.as_ref() == Some(&message.id) && cards::is_open(message),
        now: state.now,
        columns: text_columns(state),
    };
    let before = rows.len();
    let (card, cursor) = card_view::rows(message, &how);
    rows.extend(card);
    (rows, cursor.map(|row| before + row))
}

fn text_columns(state: &State) -> usize {
    usize::from(state.size.0).saturating_sub(width(INDENT) + 1).min(MAX_TEXT_COLUMNS)
}

fn body(state: &State, text: &str) -> Vec<Line<'static>> {
    let rows = wrap(clean(text).trim_end(), text_columns(state));
    rows.into_iter().map(|row| Line::from(format!("{INDENT}{row}"))).collect()
}

/// What was heard in a voice note, set apart from what somebody wrote.
fn heard(state: &State, transcript: &str) -> Vec<Line<'static>> {
    let rows = wrap(clean(transcript).trim_end(), text_columns(state).saturating_sub(2));
    rows.into_iter()
        .map(|row| Line::from(vec![Span::styled(format!("{INDENT}▏ "), style(Tone::Busy)), Span::raw(row)]))
        .collect()
}

fn label(state: &State, message: &Message, above: Option<&Message>) -> Line<'static> {
    let colour = match (message.direction, &message.task) {
        (Direction::In, Some(_)) => Color::Yellow,
        (Direction::In, None) => Color::Blue,
        (Direction::Out, _) => Color::Magenta,
    };
    let who = words::sender(message).map_or_else(|| message.agent.to_string(), |who| clean_line(&who));
    let mut spans =
        vec![Span::styled(format!(" {who}"), Style::new().fg(colour).add_modifier(Modifier::BOLD))];
    if let (Direction::Out, Some(task)) = (message.direction, &message.task) {
        spans.push(Span::styled(format!("  task {}", clean_line(task)), DIM));
    }
    spans.push(Span::styled(format!("  {}", clock(state, message.ts)), DIM));
    if message.direction == Direction::In
        && let Some((tone, text)) = words::standing(message)
    {
        spans.push(Span::styled("  ·  ", DIM));
        spans.push(Span::styled(text, style(tone)));
        if message.failed_reason == Some(FailedReason::Transcription) {
            spans.push(Span::styled(" (/retry or /asfile)", DIM));
        }
    }
    // A reply says what it answers when that is not what stands right above it.
    if let Some(to) = message.reply_to.as_ref().and_then(|id| state.log.get(id))
        && above.is_none_or(|above| above.id != to.id && above.reply_to.as_ref() != Some(&to.id))
    {
        let line = Line::from(spans.clone());
        let free = text_columns(state).saturating_sub(line.width() + 5);
        spans.push(Span::styled(format!("  ↳ {}", cut(&words::gist(to), free)), DIM));
    }
    Line::from(spans)
}

fn note(state: &State, message: &Message) -> Vec<Line<'static>> {
    let text = format!("{}  {}", clean(&message.text).trim_end(), clock(state, message.ts));
    let italic = DIM.add_modifier(Modifier::ITALIC);
    wrap(&text, text_columns(state))
        .into_iter()
        .enumerate()
        .map(|(i, row)| Line::styled(format!(" {} {row}", if i == 0 { "·" } else { " " }), italic))
        .collect()
}

fn attachment(state: &State, message: &Message, file: &Attachment) -> Vec<Line<'static>> {
    let size = super::super::text::bytes(file.bytes);
    let name = clean_line(&file.filename);
    if !file.available {
        return vec![Line::styled(format!("{INDENT}[{name}, {size}, no longer kept]"), DIM)];
    }
    let path = state.attachments.join(message.agent.as_str()).join(&file.id).join(on_disk(&file.filename));
    let path = super::super::text::path(&path.display().to_string());
    let rows = wrap(&clean_line(&path), text_columns(state));
    let head = Line::from(vec![
        Span::raw(INDENT),
        Span::styled(format!("[{name}]"), Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(format!(" {size}"), DIM),
    ]);
    std::iter::once(head)
        .chain(rows.into_iter().map(|row| Line::styled(format!("{INDENT}{row}"), DIM)))
        .collect()
}

fn outgoing_block(state: &State, outgoing: &Outgoing) -> Vec<Line<'static>> {
    let standing = match &outgoing.problem {
        None => Span::styled("sending…", style(Tone::Busy)),
        // Why is in the alert below the history.
        Some(problem) if problem.unreachable => {
            Span::styled("not sent yet: it goes out when Leo is back", style(Tone::Alert))
        }
        Some(problem) => {
            let text = format!("not sent: {} (Ctrl-R tries again)", clean_line(&problem.text));
            Span::styled(text, style(Tone::Bad))
        }
    };
    let label = Line::from(vec![
        Span::styled(" you", Style::new().fg(Color::Blue).add_modifier(Modifier::BOLD)),
        Span::styled(format!("  {}", clock(state, outgoing.at)), DIM),
        Span::styled("  ·  ", DIM),
        standing,
    ]);
    let mut rows = vec![Line::default(), label];
    if !outgoing.text.is_empty() {
        rows.extend(body(state, &outgoing.text));
    }
    let name = |file| clean_line(&files::name(file));
    rows.extend(outgoing.files.iter().map(|file| {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Line::from(vec![Span::raw(INDENT), Span::styled(format!("[{}]", name(file)), bold)])
    }));
    rows
}

fn rule(state: &State, text: &str) -> Line<'static> {
    let columns = text_columns(state).saturating_sub(width(text) + 5);
    Line::styled(format!(" ── {text} {}", "─".repeat(columns.min(60))), DIM)
}

fn clock(state: &State, time: Time) -> String {
    time.timestamp().to_zoned_datetime(state.zone.clone()).strftime("%H:%M").to_string()
}

fn date(state: &State, time: Time) -> String {
    let day = time.timestamp().to_zoned_datetime(state.zone.clone());
    let this_year = state.now.timestamp().to_zoned_datetime(state.zone.clone()).year() == day.year();
    let format = if this_year { "%A, %-d %B" } else { "%A, %-d %B %Y" };
    day.strftime(format).to_string()
}

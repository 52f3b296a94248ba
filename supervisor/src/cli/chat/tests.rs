//! The screen as a person sees it, drawn into a buffer, and what keys lead to.

use super::{
    log::Problem,
    state::{Action, Event, Link, Overlay, Scroll, State, update},
    view,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use leo_ipc::{
    AgentName, MessageId, Time,
    agent::{Activity, Agent, Status},
    chat::{
        Attachment, DeliveryInfo, Direction, FailedReason, Message, MessageKind, MessagePage, MessageState,
        Thread, WaitingFor,
    },
    config::Harness,
    event::{Resume, State as Snapshot, StateMeta},
};
use ratatui::{Terminal, backend::TestBackend};

/// 2026-11-29T21:14:30Z, a Sunday.
pub(super) fn at() -> Time {
    Time::from_millis(1_795_986_870_000)
}

pub(super) fn name(text: &str) -> AgentName {
    text.parse().unwrap()
}

pub(super) fn message(id: &str, direction: Direction, text: &str) -> Message {
    Message {
        text: text.into(),
        state: if direction == Direction::In { MessageState::Delivered } else { MessageState::None },
        ts: at(),
        ..Message::bare(MessageId(id.into()), name("assistant"), direction)
    }
}

fn agent(called: &str, status: Status, activity: Activity) -> Agent {
    Agent {
        name: name(called),
        harness: Harness::Claude,
        workspace: "/w".into(),
        model: None,
        status,
        wake_on_message: true,
        suspended: false,
        activity,
        waiting_for: None,
        session_id: None,
        tmux_socket: "leo".into(),
        tmux_pane: String::new(),
        restarts: 0,
        started_at: None,
        last_activity_at: None,
        route: None,
        unread: 0,
    }
}

fn thread(called: &str, unread: u64) -> Thread {
    Thread {
        agent: name(called),
        last_message: Some(message("m0", Direction::Out, "the last words")),
        unread,
        pinned: called == "assistant",
        harness: Some(Harness::Claude),
        status: Some(Status::Running),
        activity: Some(Activity::Idle),
    }
}

fn state(size: (u16, u16)) -> State {
    let snapshot = Snapshot {
        meta: StateMeta { epoch: "e".into(), seq: 1 },
        agents: vec![
            agent("assistant", Status::Running, Activity::Idle),
            agent("builder", Status::Stopped, Activity::Unknown),
        ],
        threads: vec![thread("assistant", 0), thread("builder", 3)],
    };
    let mut state =
        State::new(name("assistant"), snapshot, at(), TimeZone::UTC, "/h/attachments".into(), "c".into());
    state.size = size;
    state.link = Link::Up;
    state
}

pub(super) fn filled(size: (u16, u16), messages: Vec<Message>) -> State {
    let mut state = state(size);
    let page = MessagePage { messages, has_more: false };
    tell(&mut state, Event::Page { agent: name("assistant"), older: false, page: Ok(page) });
    state
}

pub(super) fn tell(state: &mut State, event: Event) -> Vec<Action> {
    update(state, event, at())
}

pub(super) fn press(state: &mut State, code: KeyCode) -> Vec<Action> {
    tell(state, Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

pub(super) fn ctrl(state: &mut State, c: char) -> Vec<Action> {
    tell(state, Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)))
}

pub(super) fn write(state: &mut State, text: &str) -> Vec<Action> {
    for c in text.chars() {
        press(state, KeyCode::Char(c));
    }
    press(state, KeyCode::Enter)
}

/// The screen's rows, without spaces at their ends.
pub(super) fn drawn(state: &State) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(state.size.0, state.size.1)).unwrap();
    terminal.draw(|frame| view::draw(state, frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    (0..buffer.area.height)
        .map(|y| {
            let mut row = String::new();
            let mut x = 0;
            while x < buffer.area.width {
                let symbol = buffer[(x, y)].symbol();
                row.push_str(symbol);
                x += u16::try_from(super::plain::width(symbol).max(1)).unwrap();
            }
            row.trim_end().to_owned()
        })
        .collect()
}

pub(super) fn contains(rows: &[String], text: &str) -> bool {
    rows.iter().any(|row| row.contains(text))
}

#[test]
fn a_thread_at_80_by_24() {
    let file = Attachment {
        id: "a1".into(),
        filename: "日本.png".into(),
        mime: "image/png".into(),
        bytes: 2048,
        available: true,
    };
    let rows = drawn(&filled(
        (80, 24),
        vec![
            message("m1", Direction::In, "hello 👩\u{200d}👩\u{200d}👧 日本語"),
            Message { kind: MessageKind::System, ..message("m2", Direction::Out, "Starting…") },
            Message { attachments: vec![file], ..message("m3", Direction::Out, "Two\nlines \u{1b}[31mred") },
        ],
    ));
    let expected = "
 ● assistant  claude  idle                          3 unread elsewhere (Ctrl-T)
────────────────────────────────────────────────────────────────────────────────







 ── Sunday, 29 November ─────────────────────────────────────────────────────

 you  21:14  ·  delivered
  hello 👩👩👧 日本語

 · Starting…  21:14

 assistant  21:14
  Two
  lines \\u{1b}[31mred
  [日本.png] 2.0 kB
  /h/attachments/assistant/a1/日本.png
────────────────────────────────────────────────────────────────────────────────
› Message assistant
 Enter sends · Alt-Enter new line · PgUp history · ? help · Ctrl-C leaves";
    assert_eq!(rows.join("\n"), expected.trim_start_matches('\n'));
}

#[test]
fn every_standing_is_said() {
    let waiting = |waiting_for| Message {
        state: MessageState::Pending,
        delivery: Some(DeliveryInfo { route: None, attempts: 0, at: None, waiting_for: Some(waiting_for) }),
        ..message("m1", Direction::In, "x")
    };
    let failed = |reason| Message {
        state: MessageState::Failed,
        failed_reason: Some(reason),
        ..message("m1", Direction::In, "x")
    };
    for (message, text) in [
        (waiting(WaitingFor::Turn), "waits for the running turn to end"),
        (waiting(WaitingFor::Dialog), "waits for a dialog in the agent's terminal"),
        (waiting(WaitingFor::Draft), "waits for a draft"),
        (failed(FailedReason::Unproven), "unproven: handed over, and it may have been read"),
        (failed(FailedReason::Cancelled), "taken back"),
    ] {
        let rows = drawn(&filled((160, 50), vec![message]));
        assert!(contains(&rows, text), "{text}: {rows:#?}");
    }
}

#[test]
fn sends_and_replaces_what_it_drew_by_the_row() {
    let mut state = filled((80, 24), vec![]);
    assert!(contains(&drawn(&state), "Nothing here yet"));
    let actions = write(&mut state, "hi there");
    let Some(Action::Send { text, client_msg_id, .. }) = actions.first() else { panic!("{actions:?}") };
    assert_eq!(text, "hi there");
    assert!(contains(&drawn(&state), "sending…"));
    let row = Message {
        client_msg_id: Some(client_msg_id.clone()),
        state: MessageState::Pending,
        ..message("m1", Direction::In, "hi there")
    };
    let newer = Message { state: MessageState::Delivered, ..row.clone() };
    tell(&mut state, Event::Message { message: Box::new(newer), new: true });
    // The answer to the request is older than what the stream brought.
    let (agent, client_msg_id) = (name("assistant"), client_msg_id.clone());
    tell(&mut state, Event::Sent { agent, client_msg_id, result: Ok(Box::new(row)) });
    let rows = drawn(&state);
    assert!(contains(&rows, "delivered") && !contains(&rows, "sending"), "{rows:#?}");
    assert_eq!(rows.iter().filter(|row| row.contains("hi there")).count(), 1);
}

#[test]
fn what_could_not_be_sent_is_sent_after_the_reconnect() {
    let mut state = filled((80, 24), vec![]);
    let actions = write(&mut state, "one");
    let Some(Action::Send { client_msg_id, .. }) = actions.first().cloned() else { panic!() };
    tell(&mut state, Event::Lost("gone".into()));
    let problem = Problem { text: "no daemon".into(), unreachable: true };
    tell(
        &mut state,
        Event::Sent { agent: name("assistant"), client_msg_id: client_msg_id.clone(), result: Err(problem) },
    );
    state.now = Time::from_millis(at().millis() + 5000);
    let rows = drawn(&state);
    assert!(contains(&rows, "not sent yet: it goes out when Leo is back"), "{rows:#?}");
    assert!(contains(&rows, "No connection for 5 s: gone"), "{rows:#?}");
    assert_eq!(state.not_sent().count(), 1);
    let again = tell(&mut state, Event::Connected(Resume::Ok));
    assert!(
        matches!(again.first(), Some(Action::Send { client_msg_id: id, .. }) if *id == client_msg_id),
        "{again:?}"
    );
    // After a gap everything is fetched anew, and what was written stays.
    let after_gap = tell(&mut state, Event::Connected(Resume::Gap));
    assert!(after_gap.contains(&Action::Snapshot));
    assert_eq!(state.not_sent().count(), 1);
}

fn many(n: usize) -> Vec<Message> {
    (0..n).map(|i| message(&format!("m{i:04}"), Direction::Out, &format!("message number {i}"))).collect()
}

#[test]
fn scrolls_and_pages_in() {
    let mut state = filled((80, 24), many(40));
    state.log.has_older = true;
    assert!(contains(&drawn(&state), "message number 39"));
    press(&mut state, KeyCode::Up);
    let moved = drawn(&state);
    assert!(!contains(&moved, "message number 39") && contains(&moved, "message number 38"), "{moved:#?}");
    assert!(contains(&moved, "earlier messages"));

    // What comes meanwhile moves nothing.
    let new = message("m9999", Direction::Out, "newer");
    tell(&mut state, Event::Message { message: Box::new(new), new: true });
    let rows = drawn(&state);
    assert_eq!(rows[1..20], moved[1..20]);
    assert!(contains(&rows, "1 new below"), "{rows:#?}");

    let mut asked = Vec::new();
    for _ in 0..10 {
        asked.extend(press(&mut state, KeyCode::PageUp));
    }
    let before = Some(MessageId("m0000".into()));
    assert_eq!(asked, [Action::Page { agent: name("assistant"), before }], "asked once");
    let top = drawn(&state);
    assert!(contains(&top, "message number 0"), "{top:#?}");
    let older = MessagePage { messages: vec![message("a1", Direction::Out, "ancient")], has_more: false };
    tell(&mut state, Event::Page { agent: name("assistant"), older: true, page: Ok(older) });
    assert!(contains(&drawn(&state), "message number 0"), "the view stays where it was");
    press(&mut state, KeyCode::PageUp);
    assert!(contains(&drawn(&state), "ancient"));

    let read = press(&mut state, KeyCode::Esc);
    assert_eq!(state.scroll, Scroll::End);
    assert_eq!(read, [Action::Read(name("assistant"), MessageId("m9999".into()))]);
}

#[test]
fn composer_grows_and_a_paste_keeps_its_lines() {
    let mut state = filled((40, 24), vec![]);
    tell(&mut state, Event::Paste("first\r\nsecond 日本\r\nthird".into()));
    let rows = drawn(&state);
    assert_eq!(rows[20..23], ["› first", "  second 日本", "  third"], "{rows:#?}");
    let actions = press(&mut state, KeyCode::Enter);
    assert!(matches!(&actions[0], Action::Send { text, .. } if text == "first\nsecond 日本\nthird"));
    tell(&mut state, Event::Paste("x\n".repeat(100)));
    assert!(drawn(&state)[23].contains("Alt-Enter new line · "));
    ctrl(&mut state, 'c');
    assert!(state.composer.is_empty() && !state.quit);
    ctrl(&mut state, 'c');
    assert!(state.quit);
}

#[test]
fn commands() {
    let failed = Message { state: MessageState::Failed, ..message("m2", Direction::In, "x") };
    let pending = Message { state: MessageState::Pending, ..message("m3", Direction::In, "x") };
    let mut state = filled((80, 24), vec![failed, pending]);
    let me = name("assistant");
    assert_eq!(write(&mut state, "/retry"), [Action::Retry(me.clone(), "m2".into())]);
    assert_eq!(ctrl(&mut state, 'r'), [Action::Retry(me.clone(), "m2".into())]);
    assert_eq!(write(&mut state, "/cancel"), [Action::Cancel(me.clone(), "m3".into())]);
    assert_eq!(write(&mut state, "/interrupt"), [Action::Tell(me.clone(), "interrupt")]);
    assert_eq!(write(&mut state, "/clear"), [Action::Tell(me.clone(), "clear")]);
    assert_eq!(write(&mut state, "/compact"), [Action::Compact(me.clone(), None)]);
    assert_eq!(write(&mut state, "/compact the plan"), [Action::Compact(me, Some("the plan".to_owned()))]);
    write(&mut state, "/attach");
    assert!(contains(&drawn(&state), "leo agent attach assistant"));
    write(&mut state, "/nonsense");
    assert!(contains(&drawn(&state), "there is no command /nonsense"));
    ctrl(&mut state, 'c');
    for text in ["/etc/hosts is a file", " /retry", "/ alone"] {
        let sent = write(&mut state, text);
        assert!(matches!(&sent[0], Action::Send { text: sent, .. } if sent == text), "{sent:?}");
    }
    press(&mut state, KeyCode::Char('?'));
    assert_eq!(state.overlay, Overlay::Help(0));
    assert!(contains(&drawn(&state), "Keys and commands: Down for more"));
    assert!(!contains(&drawn(&state), "/quit"));
    for _ in 0..30 {
        press(&mut state, KeyCode::Down);
    }
    assert!(contains(&drawn(&state), "/quit") && contains(&drawn(&state), "Up for the first"));
    press(&mut state, KeyCode::Up);
    press(&mut state, KeyCode::Home);
    assert!(contains(&drawn(&state), "Down for more"));
    press(&mut state, KeyCode::Esc);
    write(&mut state, "/quit");
    assert!(state.quit);
}

#[test]
fn another_thread_and_back() {
    let mut state = filled((80, 24), vec![message("m1", Direction::In, "in assistant")]);
    tell(&mut state, Event::Paste("a draft".into()));
    ctrl(&mut state, 't');
    let rows = drawn(&state);
    assert!(contains(&rows, "builder    3   stopped"), "{rows:#?}");
    press(&mut state, KeyCode::Down);
    let actions = press(&mut state, KeyCode::Enter);
    assert_eq!(actions, [Action::Page { agent: name("builder"), before: None }]);
    let rows = drawn(&state);
    assert!(contains(&rows, "○ builder") && !contains(&rows, "in assistant") && !contains(&rows, "a draft"));
    write(&mut state, "/agent assistant");
    assert!(contains(&drawn(&state), "a draft"));
    // A page that was asked for before comes too late.
    let page = MessagePage { messages: many(1), has_more: false };
    tell(&mut state, Event::Page { agent: name("builder"), older: false, page: Ok(page) });
    assert!(!contains(&drawn(&state), "message number 0"));
}

#[test]
fn a_reply_says_what_it_answers_when_that_is_not_above_it() {
    let to = |id: &str, reply: &str| Message {
        reply_to: Some(MessageId(id.into())),
        ..message(reply, Direction::Out, "answer")
    };
    let rows = drawn(&filled(
        (80, 24),
        vec![
            message("m1", Direction::In, "first question"),
            message("m2", Direction::In, "second\nquestion"),
            to("m2", "m3"),
            to("m1", "m4"),
            to("m1", "m5"),
        ],
    ));
    assert_eq!(rows.iter().filter(|row| row.contains('↳')).count(), 1, "{rows:#?}");
    assert!(contains(&rows, "assistant  21:14  ↳ first question"), "{rows:#?}");
}

#[test]
fn what_needs_a_person_is_shown() {
    let mut state = filled((80, 24), vec![]);
    let mut needy = agent("assistant", Status::Running, Activity::NeedsInput);
    needy.waiting_for = Some("a permission prompt is open\u{1b}".into());
    tell(&mut state, Event::Agent(Box::new(needy)));
    let rows = drawn(&state);
    assert!(
        contains(&rows, "Needs you: a permission prompt is open\\u{1b} (leo agent attach assistant)"),
        "{rows:#?}"
    );
    let removed = Snapshot {
        meta: StateMeta { epoch: "e".into(), seq: 2 },
        agents: vec![],
        threads: vec![thread("assistant", 0)],
    };
    tell(&mut state, Event::Snapshot(Box::new(removed)));
    assert!(contains(&drawn(&state), "removed: this thread can only be read"));
    assert!(write(&mut state, "hello?").is_empty());
}

#[test]
fn every_size_is_drawn() {
    for size in [(1, 1), (2, 3), (10, 4), (20, 6), (79, 23), (160, 50), (300, 100)] {
        let mut state = filled(size, many(30));
        for code in [KeyCode::PageUp, KeyCode::Char('日'), KeyCode::PageDown, KeyCode::Up] {
            press(&mut state, code);
            drawn(&state);
        }
        for overlay in [Overlay::Help(0), Overlay::Help(99), Overlay::Threads(1)] {
            state.overlay = overlay;
            drawn(&state);
        }
    }
}

//! Cards as a person sees and answers them.

use super::{
    cards::{Form, is_open},
    state::{Action, Event, NotTaken, Scroll, State},
    tests::{at, contains, ctrl, drawn, filled, message, name, press, tell},
};
use crossterm::event::KeyCode;
use leo_ipc::{
    Time,
    ask::{
        AnswerBody, Choice, ClosedReason, Input, InputType, MAX_ANSWER_TEXT, Permission, Question,
        QuestionAnswer,
    },
    chat::{Direction, Message, MessageKind, MessageState},
};
use serde_json::json;

fn choice(value: &str, label: &str, description: Option<&str>) -> Choice {
    Choice { value: value.into(), label: label.into(), description: description.map(Into::into) }
}

fn input(kind: InputType) -> Input {
    let text_only = kind == InputType::Text;
    let options = || vec![choice("y", "Yes", Some("ship it now")), choice("n", "No", None)];
    Input {
        kind,
        options: (!text_only).then(options),
        allow_text: None,
        min: None,
        max: None,
        placeholder: None,
        questions: None,
    }
}

fn ask(id: &str, input: Input) -> Message {
    Message {
        kind: MessageKind::Ask,
        state: MessageState::Open,
        input: Some(input),
        ..message(id, Direction::Out, "Ship it?")
    }
}

fn permission(id: &str) -> Message {
    let permission = Permission {
        tool: "Bash".into(),
        summary: "rm -rf \u{202e}x\u{200b}\ty".into(),
        input: Some(json!({"command": "rm -rf \u{202e}x", "description": "clean"})),
        truncated: false,
        agent_type: None,
        in_terminal: true,
    };
    Message {
        kind: MessageKind::Permission,
        permission: Some(permission),
        deadline: Some(Time::from_millis(at().millis() + 95_000)),
        ..ask(id, input(InputType::Buttons))
    }
}

fn questions(id: &str) -> Message {
    let question = |id: &str, text: &str, multi| Question {
        id: id.into(),
        header: "Size".into(),
        question: text.into(),
        multi,
        allow_text: true,
        options: vec![choice("L", "L", Some("large")), choice("S", "S", None)],
    };
    let questions = vec![question("q1", "Which size?", false), question("q2", "Which extras?", true)];
    ask(id, Input { options: None, questions: Some(questions), ..input(InputType::Questions) })
}

fn keys(state: &mut State, text: &str) -> Vec<Action> {
    text.chars()
        .flat_map(|c| {
            press(
                state,
                match c {
                    '\t' => KeyCode::Tab,
                    '\n' => KeyCode::Enter,
                    '↓' => KeyCode::Down,
                    '↑' => KeyCode::Up,
                    '→' => KeyCode::Right,
                    '⎋' => KeyCode::Esc,
                    c => KeyCode::Char(c),
                },
            )
        })
        .collect()
}

/// The only answer among what is to be done.
fn sent(actions: &[Action]) -> &AnswerBody {
    match actions {
        [Action::Answer { answer, .. }] => answer,
        other => panic!("{other:?}"),
    }
}

fn plain(values: &[&str], text: &str) -> AnswerBody {
    let values = values.iter().map(|v| (*v).to_owned()).collect();
    AnswerBody { values, text: text.into(), ..AnswerBody::default() }
}

#[test]
fn an_ask_at_80_by_24() {
    let mut state = filled((80, 24), vec![ask("m1", input(InputType::Buttons))]);
    let expected = "
 assistant  21:14
  Ship it?
   1 Yes
     ship it now
   2 No
  open: Tab goes to it
────────────────────────────────────────────────────────────────────────────────
› Message assistant
 Tab goes to the open question · Enter sends · ? help · Ctrl-C leaves";
    assert_eq!(drawn(&state)[15..].join("\n"), expected.trim_start_matches('\n'));
    keys(&mut state, "\t↓↓");
    let rows = drawn(&state);
    assert!(contains(&rows, "  ›2 No") && contains(&rows, " 1–9, ↑↓ choose · Enter sends"), "{rows:#?}");
}

#[test]
fn every_kind_is_answered_by_keys() {
    let with_text = |kind| Input { allow_text: Some(true), ..input(kind) };
    let table: Vec<(Input, &str, AnswerBody)> = vec![
        (input(InputType::Buttons), "\t2", plain(&["n"], "")),
        (input(InputType::Buttons), "\t↓\n", plain(&["y"], "")),
        (with_text(InputType::Buttons), "\ttno 1\n", plain(&[], "no 1")),
        (input(InputType::Radio), "\t21\n", plain(&["y"], "")),
        (with_text(InputType::Radio), "\t1tx↑\n", plain(&["n"], "")),
        (input(InputType::Checkboxes), "\t21\n", plain(&["y", "n"], "")),
        (input(InputType::Checkboxes), "\t↓ ↓ ↑ \n", plain(&["n"], "")),
        (input(InputType::Checkboxes), "\t\n", plain(&[], "")),
        (with_text(InputType::Checkboxes), "\t1tand more\n", plain(&["y"], "and more")),
        (input(InputType::Text), "\t d1 \n", plain(&[], "d1")),
    ];
    for (input, pressed, answer) in table {
        let mut state = filled((80, 24), vec![ask("m1", input.clone())]);
        let actions = keys(&mut state, pressed);
        assert_eq!(*sent(&actions), answer, "{input:?} {pressed:?}");
        assert!(contains(&drawn(&state), "sending your answer…"));
        assert!(keys(&mut state, "1\n").is_empty(), "one answer at a time");
    }
}

#[test]
fn nothing_is_answered_without_a_choice() {
    for (kind, problem) in [
        (InputType::Buttons, "choose first"),
        (InputType::Radio, "choose first"),
        (InputType::Text, "write something first"),
    ] {
        let mut state = filled((80, 24), vec![ask("m1", input(kind))]);
        assert!(keys(&mut state, "\t\n9").is_empty() || kind == InputType::Text);
        keys(&mut state, "\n");
        assert!(kind == InputType::Text || contains(&drawn(&state), problem));
    }
    let unknown = ask("m1", input(InputType::Unknown));
    assert!(!is_open(&unknown));
    let rows = drawn(&filled((80, 24), vec![unknown]));
    assert!(contains(&rows, "Ship it?") && contains(&rows, "cannot answer it"), "{rows:#?}");
}

#[test]
fn a_permission_is_shown_exactly_and_decided() {
    let mut state = filled((160, 50), vec![permission("m1")]);
    let rows = drawn(&state);
    assert!(contains(&rows, "Wants to use Bash"), "{rows:#?}");
    assert!(
        contains(&rows, "│ rm -rf \\u{202e}x\\u{200b}\\u{9}y") && contains(&rows, "95 s left"),
        "{rows:#?}"
    );
    assert!(!contains(&rows, "\"description\""));
    keys(&mut state, "\ti");
    let rows = drawn(&state);
    assert!(
        contains(&rows, "\"description\": \"clean\"") && contains(&rows, "a allows · x denies"),
        "{rows:#?}"
    );
    assert!(contains(&rows, "\"command\": \"rm -rf \\u{202e}x\""), "{rows:#?}");
    // Other keys do nothing: nobody allows by accident.
    assert!(keys(&mut state, "1\ny ").is_empty());
    assert_eq!(*sent(&keys(&mut state.clone(), "a")), plain(&["allow"], ""));
    assert_eq!(*sent(&keys(&mut state.clone(), "x\n")), plain(&["deny"], ""));
    assert_eq!(*sent(&keys(&mut state.clone(), "x⎋xask first a\n")), plain(&["deny"], "ask first a"));

    let mut hidden = permission("m2");
    let about = hidden.permission.as_mut().unwrap();
    (about.agent_type, about.in_terminal) = (Some("Explore".into()), false);
    let rows = drawn(&filled((80, 24), vec![hidden]));
    assert!(contains(&rows, "Its subagent Explore wants to use Bash"), "{rows:#?}");
    assert!(contains(&rows, "no dialog in the terminal while this is open"), "{rows:#?}");
}

#[test]
fn a_questions_card_is_answered_question_by_question_or_dismissed() {
    let state = filled((80, 24), vec![questions("m1")]);
    let expected = "
 assistant  21:14
  1. Size: Which size?
   1 ( ) L
         large
   2 ( ) S
   ✎ Other:

  2. Size: Which extras?
   1 [ ] L
         large
   2 [ ] S
   ✎ Other:
  open: Tab goes to it
────────────────────────────────────────────────────────────────────────────────";
    assert_eq!(drawn(&state)[8..22].join("\n"), expected.trim_start_matches('\n'));
    let mut done = state.clone();
    let actions = keys(&mut done, "\t1\n12tsalt\n");
    let answer = |values: &[&str], text: &str| QuestionAnswer {
        values: values.iter().map(|v| (*v).to_owned()).collect(),
        text: text.into(),
    };
    let answers = sent(&actions).answers.clone().unwrap();
    assert_eq!((&answers["q1"], &answers["q2"]), (&answer(&["L"], ""), &answer(&["L", "S"], "salt")));

    let mut back = state.clone();
    assert!(keys(&mut back, "\t→1\n").is_empty(), "goes to what has no answer yet");
    assert_eq!(sent(&keys(&mut back, "tmy own\n")).answers.clone().unwrap()["q1"], answer(&[], "my own"));

    let mut dismissed = state;
    let actions = keys(&mut dismissed, "\td");
    assert_eq!(actions, [Action::Dismiss(name("assistant"), "m1".into())]);
}

#[test]
fn tab_goes_from_card_to_card_and_back() {
    let mut state =
        filled((80, 24), vec![ask("m1", input(InputType::Text)), questions("m2"), permission("m3")]);
    tell(&mut state, Event::Paste("a draft".into()));
    let focus = |state: &State| state.focused().map(|message| message.id.0.clone());
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(focus(&state));
        keys(&mut state, "\t");
    }
    assert_eq!(seen, [None, Some("m3".into()), Some("m2".into()), Some("m1".into())]);
    assert_eq!((focus(&state), state.scroll.clone()), (None, Scroll::End));
    assert_eq!(state.composer.text(), "a draft");
    keys(&mut state, "\t\t\t");
    assert!(contains(&drawn(&state), "Enter sends · Alt-Enter new line"));
    tell(&mut state, Event::Paste("x\u{1b}".repeat(MAX_ANSWER_TEXT)));
    let form = &state.forms[&"m1".into()];
    assert_eq!(form.parts[0].text, "x".repeat(MAX_ANSWER_TEXT));
    ctrl(&mut state, 'c');
    assert!(focus(&state).is_none() && !state.quit);
    // Without an open card it is a character again.
    let mut plain = filled((80, 24), vec![]);
    keys(&mut plain, "\t");
    assert_eq!(plain.composer.text(), "\t");
}

fn settled_by(message: Message, by: &str, answer: AnswerBody) -> Message {
    let (state, answered_by) = (MessageState::Answered, Some(by.to_owned()));
    Message { state, answered_by, answer: Some(answer), ..message }
}

#[test]
fn what_another_surface_answered_shows_at_once() {
    let mut state = filled((80, 24), vec![ask("m1", input(InputType::Text))]);
    keys(&mut state, "\thalf an ans");
    let theirs = settled_by(ask("m1", input(InputType::Text)), "app:phone", plain(&[], "done"));
    tell(&mut state, Event::Message { message: Box::new(theirs), new: false });
    let rows = drawn(&state);
    assert!(contains(&rows, "✓ done · in the app on phone"), "{rows:#?}");
    assert!(contains(&rows, " answered: done · in the app on phone"), "{rows:#?}");
    assert!(state.focused().is_none() && state.forms.is_empty() && state.composer.is_empty());
}

#[test]
fn a_late_answer_hears_who_was_first() {
    let mut state = filled((80, 24), vec![permission("m1")]);
    keys(&mut state, "\ta");
    let first = settled_by(permission("m1"), "terminal", plain(&["terminal"], ""));
    let result = Err(NotTaken { problem: "late".into(), settled: Some(Box::new(first)) });
    tell(&mut state, Event::Settled { agent: name("assistant"), id: "m1".into(), result });
    let rows = drawn(&state);
    assert!(contains(&rows, "somebody was first: answered · in the agent's terminal"), "{rows:#?}");
    assert!(contains(&rows, "✓ answered · in the agent's terminal"), "{rows:#?}");

    // What we answered ourselves is on the card, and nothing hides what keys do.
    let mut ours = filled((80, 24), vec![permission("m1")]);
    keys(&mut ours, "\ta");
    let answered = Box::new(settled_by(permission("m1"), "operator", plain(&["allow"], "")));
    tell(&mut ours, Event::Message { message: answered.clone(), new: false });
    tell(&mut ours, Event::Settled { agent: name("assistant"), id: "m1".into(), result: Ok(answered) });
    assert!(ours.notice.is_none() && contains(&drawn(&ours), "✓ allowed"));

    let mut refused = filled((80, 24), vec![ask("m1", input(InputType::Checkboxes))]);
    keys(&mut refused, "\t\n");
    let result = Err(NotTaken { problem: "at least 1 must be chosen".into(), settled: None });
    tell(&mut refused, Event::Settled { agent: name("assistant"), id: "m1".into(), result });
    assert!(contains(&drawn(&refused), "  at least 1 must be chosen"));
    assert_eq!(sent(&keys(&mut refused, "1\n")).values, ["y"]);
}

#[test]
fn every_end_is_said() {
    let expired =
        |message: Message, closed_reason| Message { state: MessageState::Expired, closed_reason, ..message };
    let ask = || ask("m1", input(InputType::Buttons));
    let labels = Some(vec!["Yes".to_owned()]);
    let answers = [("q1", plain(&["L"], "")), ("q2", plain(&["L", "S"], "salt"))]
        .map(|(id, a)| (id.to_owned(), QuestionAnswer { values: a.values, text: a.text }));
    let card = AnswerBody { answers: Some(answers.into()), ..AnswerBody::default() };
    for (message, text) in [
        (expired(ask(), Some(ClosedReason::Timeout)), "✗ expired: nobody answered in time"),
        (expired(ask(), Some(ClosedReason::Withdrawn)), "✗ expired: the agent took it back"),
        (expired(ask(), Some(ClosedReason::AgentGone)), "✗ expired: the agent was stopped or removed"),
        (expired(questions("m1"), Some(ClosedReason::Dismissed)), "✗ dismissed"),
        (expired(permission("m1"), None), "✗ expired: the agent's terminal has the question now"),
        (
            settled_by(ask(), "operator", AnswerBody { labels, ..plain(&["y"], "") }),
            "✓ Yes · by you, the operator",
        ),
        (settled_by(permission("m1"), "operator", plain(&["allow"], "")), "✓ allowed · by you"),
        (settled_by(permission("m1"), "operator", plain(&["deny"], "no\u{202e}")), "✓ denied: no\\u{202e}"),
        (settled_by(questions("m1"), "operator", card), "✓ L, S · salt"),
    ] {
        let rows = drawn(&filled((160, 50), vec![message]));
        assert!(contains(&rows, text), "{text}: {rows:#?}");
        assert!(!contains(&rows, "Tab goes"), "{rows:#?}");
    }
}

#[test]
fn the_countdown_ticks_only_while_it_is_shown() {
    let left = |seconds: i64| {
        let deadline = Some(Time::from_millis(at().millis() + seconds * 1000));
        let state = filled((80, 24), vec![Message { deadline, ..ask("m1", input(InputType::Buttons)) }]);
        assert!(state.is_timed());
        drawn(&state).into_iter().find(|row| row.contains("open: ")).unwrap()
    };
    for (seconds, shown) in [(1, "1 s left"), (119, "119 s left"), (120, "2 min left"), (3599, "59 min left")]
    {
        assert!(left(seconds).ends_with(shown), "{seconds}");
    }
    assert!(left(-5).ends_with("time is up"));
    assert!(!filled((80, 24), vec![ask("m1", input(InputType::Buttons))]).is_timed());
    let below = (0..40).map(|i| message(&format!("m2{i:02}"), Direction::Out, "text"));
    let mut messages = vec![permission("m1")];
    messages.extend(below);
    assert!(!filled((80, 24), messages).is_timed(), "out of view");
}

#[test]
fn a_long_card_keeps_its_cursor_in_view() {
    let options = (0..20).map(|i| choice(&i.to_string(), &format!("option {i}"), Some("about it"))).collect();
    let long = Input { options: Some(options), ..input(InputType::Radio) };
    for size in [(80, 24), (30, 10), (160, 50)] {
        let mut state = filled(size, vec![ask("m1", long.clone()), message("m2", Direction::Out, "after")]);
        keys(&mut state, "\t");
        for i in 0..20 {
            keys(&mut state, "↓");
            assert!(contains(&drawn(&state), &format!("(•) option {i}")), "{size:?} {i}");
        }
        keys(&mut state, "⎋");
        assert_eq!(state.scroll, Scroll::End);
    }
    for size in [(1, 1), (2, 3), (10, 4), (300, 100)] {
        let mut state = filled(size, vec![questions("m1"), permission("m2")]);
        for key in ["\t", "i", "x", "日", "⎋", "\t", "t", "x"] {
            keys(&mut state, key);
            drawn(&state);
        }
    }
}

#[test]
fn forms_follow_their_messages() {
    assert!(Form::of(&message("m1", Direction::Out, "text")).is_none());
    let empty = ask("m1", Input { options: None, questions: Some(vec![]), ..input(InputType::Questions) });
    assert!(Form::of(&empty).is_none());
    assert!(!is_open(&Message { state: MessageState::Expired, ..ask("m1", input(InputType::Text)) }));
}

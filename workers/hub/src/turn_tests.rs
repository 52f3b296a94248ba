//! Tables for the decision in `turn.rs`.

use super::*;

const PROMPT: &str = "[Leo Chat] hello\nsecond line\nthird\nfourth";

fn event(name: &str, prompt_id: Option<&str>) -> HookEvent {
    HookEvent { name: name.into(), prompt_id: prompt_id.map(Into::into), ..HookEvent::default() }
}

fn turn(prompt_id: &str, message: Option<&str>, state: TurnState, posted: bool) -> Turn {
    Turn { prompt_id: prompt_id.into(), message_id: message.map(MessageId::from), state, posted }
}

fn handed() -> Option<Handed> {
    Some(Handed { message_id: "m1".into(), prompt: PROMPT.into() })
}

fn submit(prompt_id: &str, text: &str) -> HookEvent {
    HookEvent { prompt: Some(text.into()), ..event("UserPromptSubmit", Some(prompt_id)) }
}

fn stop(prompt_id: &str, text: Option<&str>) -> HookEvent {
    HookEvent { last_assistant_message: text.map(Into::into), ..event("Stop", Some(prompt_id)) }
}

#[test]
fn our_prompt_starts_its_turn_and_is_delivered() {
    let scene = Scene { handed: handed(), ..Scene::default() };
    let wrapped = format!("\n\n<pasted_content id=\"fa73\">\n{PROMPT}\n</pasted_content id=\"fa73\">\n");
    for text in [PROMPT.to_owned(), wrapped, format!("a draft {PROMPT}")] {
        let actions = step(&scene, &submit("p1", &text));
        assert_eq!(
            actions,
            [
                Action::Activity(Activity::Working),
                Action::Begin { prompt_id: "p1".into(), message_id: Some("m1".into()) },
                Action::Deliver { message_id: "m1".into(), bound: true },
            ],
            "{text}"
        );
    }
}

#[test]
fn a_persons_prompt_is_no_evidence_for_ours() {
    let scene = Scene { handed: handed(), ..Scene::default() };
    let actions = step(&scene, &submit("p1", "something else"));
    assert!(!actions.iter().any(|a| matches!(a, Action::Deliver { .. })), "{actions:?}");
    assert!(actions.contains(&Action::Begin { prompt_id: "p1".into(), message_id: None }));
}

#[test]
fn queued_behind_a_persons_turn_it_is_delivered_without_a_turn_of_its_own() {
    let running = Some(turn("p0", None, TurnState::Running, false));
    let scene = Scene { running, handed: handed(), ..Scene::default() };
    let actions = step(&scene, &submit("p0", PROMPT));
    assert_eq!(
        actions,
        [Action::Activity(Activity::Working), Action::Deliver { message_id: "m1".into(), bound: false }]
    );
}

#[test]
fn a_new_turn_ends_the_one_whose_end_was_not_seen() {
    let running = Some(turn("p0", Some("m0"), TurnState::Running, false));
    let scene = Scene { running, handed: handed(), ..Scene::default() };
    let actions = step(&scene, &submit("p1", PROMPT));
    assert!(actions.contains(&Action::End { prompt_id: "p0".into(), state: TurnState::Interrupted }));
}

#[test]
fn replies() {
    use TurnState::{Completed, Interrupted, Running};
    // (turn, last words, is there a reply)
    let cases = [
        (turn("p", Some("m"), Running, false), Some("done"), true),
        (turn("p", Some("m"), Interrupted, false), Some("late but true"), true),
        (turn("p", Some("m"), Completed, false), Some("a stop hook made it go on"), true),
        (turn("p", Some("m"), Running, true), Some("it posted by itself"), false),
        (turn("p", Some("m"), Running, false), Some(" \n"), false),
        (turn("p", Some("m"), Running, false), None, false),
        (turn("p", None, Running, false), Some("a person's turn"), false),
    ];
    for (named, words, expected) in cases {
        let scene = Scene { running: Some(named.clone()), named: Some(named.clone()), ..Scene::default() };
        let actions = step(&scene, &stop("p", words));
        let replied = actions.iter().any(|a| matches!(a, Action::Reply { .. }));
        assert_eq!(replied, expected, "{named:?} {words:?} {actions:?}");
        assert!(actions.contains(&Action::End { prompt_id: "p".into(), state: Completed }));
    }
}

#[test]
fn another_prompts_stop_gives_no_reply() {
    let running = Some(turn("p1", Some("m1"), TurnState::Running, false));
    let scene = Scene { running, named: None, unbound: false, ..Scene::default() };
    let actions = step(&scene, &stop("task-notification", Some("text")));
    assert!(!actions.iter().any(|a| matches!(a, Action::Reply { .. } | Action::End { .. })), "{actions:?}");
    assert!(actions.contains(&Action::Keep { prompt_id: "task-notification".into(), answer: None }));
}

#[test]
fn an_unknown_turns_answer_is_kept_while_a_message_may_claim_it() {
    let scene = Scene { unbound: true, ..Scene::default() };
    let actions = step(&scene, &stop("p7", Some("text")));
    assert!(actions.contains(&Action::Keep { prompt_id: "p7".into(), answer: Some("text".into()) }));
}

#[test]
fn subagents_say_nothing_of_turns() {
    let running = Some(turn("p", Some("m"), TurnState::Running, false));
    let scene = Scene { running: running.clone(), named: running, handed: handed(), ..Scene::default() };
    for name in ["Stop", "PreToolUse", "UserPromptSubmit", "SessionEnd"] {
        let event = HookEvent { agent_id: Some("sub".into()), ..stop("p", Some("x")) };
        assert!(step(&scene, &HookEvent { name: name.into(), ..event }).is_empty());
    }
}

#[test]
fn a_failed_turn_says_so_once_a_message_started_it() {
    let failure = HookEvent { error: Some("API Error: 400".into()), ..event("StopFailure", Some("p")) };
    let of =
        |message| Scene { named: Some(turn("p", message, TurnState::Running, false)), ..Scene::default() };
    assert!(
        step(&of(Some("m")), &failure)
            .iter()
            .any(|a| matches!(a, Action::FailureNote { error, .. } if error.contains("400")))
    );
    assert!(!step(&of(None), &failure).iter().any(|a| matches!(a, Action::FailureNote { .. })));
}

#[test]
fn a_cleared_session_ends_its_turn_and_compaction_does_not() {
    let scene = Scene { running: Some(turn("p", Some("m"), TurnState::Running, false)), ..Scene::default() };
    let start = |source: &str| HookEvent { source: Some(source.into()), ..event("SessionStart", None) };
    assert_eq!(step(&scene, &start("clear")).len(), 1);
    assert!(step(&scene, &start("compact")).is_empty());
    assert!(step(&scene, &start("resume")).is_empty());
}

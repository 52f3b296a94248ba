//! The life of an ask: one state machine for questions, permission prompts and question cards. Pure:
//! what is open, what happened, what it becomes.

use leo_ipc::{Fault, ask::ClosedReason};
use serde::{Deserialize, Serialize};

/// What kind of ask it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A question of the agent's.
    Ask,
    /// A permission prompt of its harness.
    Permission,
    /// A card of AskUserQuestion.
    Questions,
}

/// Where an ask stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Open,
    Answered,
    Expired,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A person answered from an app; the answer was found valid.
    Answer,
    /// The harness shows that the terminal settled it.
    Terminal,
    /// Its deadline passed.
    Deadline,
    /// The agent took it back.
    Withdraw,
    /// A person closed the card.
    Dismiss,
    /// A person stopped the agent, or removed it.
    AgentGone,
    /// Its hook went away and did not come back.
    HookLost,
}

/// What an open ask becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Answered from an app.
    Answered,
    /// Answered in the terminal.
    AnsweredThere,
    /// Closed without an answer; the reason is shown on everything but permission prompts.
    Expired(Option<ClosedReason>),
    /// It stays as it is.
    Same,
}

/// Decides what becomes of an ask.
///
/// # Errors
/// What the person or agent who tried is told.
pub(crate) fn step(kind: Kind, state: State, event: Event) -> Result<Next, Fault> {
    if event == Event::Dismiss && kind != Kind::Questions {
        return Err(Fault::new("not_a_questions_card", "only a questions card can be dismissed"));
    }
    if state != State::Open {
        return match event {
            // Whoever asked is told who was first; the caller adds the settled message.
            Event::Answer | Event::Dismiss => Err(Fault::new("already_settled", "it was settled before")),
            Event::Withdraw => Err(Fault::new("not_open", "that ask is no longer open")),
            _ => Ok(Next::Same),
        };
    }
    let reason = |reason| Next::Expired((kind != Kind::Permission).then_some(reason));
    Ok(match (event, kind) {
        (Event::Answer, _) => Next::Answered,
        // An agent's own ask has no dialog in the terminal: what the harness does says nothing of it.
        (Event::Terminal | Event::HookLost, Kind::Ask) => Next::Same,
        (Event::Terminal, _) => Next::AnsweredThere,
        (Event::Withdraw, Kind::Ask) => reason(ClosedReason::Withdrawn),
        (Event::Withdraw, _) => {
            return Err(Fault::new("not_your_ask", "only an ask of your own can be withdrawn"));
        }
        (Event::Deadline, _) => reason(ClosedReason::Timeout),
        (Event::Dismiss, _) => reason(ClosedReason::Dismissed),
        (Event::AgentGone | Event::HookLost, _) => reason(ClosedReason::AgentGone),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ClosedReason::{AgentGone, Dismissed, Timeout, Withdrawn};
    use Event as E;
    use Kind::{Ask, Permission, Questions};

    #[test]
    fn an_open_ask_becomes() {
        let cases = [
            ("a person answers a question", Ask, E::Answer, Next::Answered),
            ("a person answers a permission prompt", Permission, E::Answer, Next::Answered),
            ("answered in the terminal first: values terminal", Permission, E::Terminal, Next::AnsweredThere),
            ("a card answered in the terminal first", Questions, E::Terminal, Next::AnsweredThere),
            ("what the harness does says nothing of an agent's ask", Ask, E::Terminal, Next::Same),
            ("no hook holds an agent's ask", Ask, E::HookLost, Next::Same),
            ("a timed-out ask is expired", Ask, E::Deadline, Next::Expired(Some(Timeout))),
            ("closed_reason is never on a permission prompt", Permission, E::Deadline, Next::Expired(None)),
            (
                "a timeout of a card is expired with timeout",
                Questions,
                E::Deadline,
                Next::Expired(Some(Timeout)),
            ),
            ("withdrawn", Ask, E::Withdraw, Next::Expired(Some(Withdrawn))),
            (
                "dismissed, the last only for a questions card",
                Questions,
                E::Dismiss,
                Next::Expired(Some(Dismissed)),
            ),
            (
                "leo agent stop closes its open asks as agent_gone",
                Ask,
                E::AgentGone,
                Next::Expired(Some(AgentGone)),
            ),
            ("a permission prompt of a stopped agent", Permission, E::AgentGone, Next::Expired(None)),
            ("a hook that does not come back", Permission, E::HookLost, Next::Expired(None)),
        ];
        for (what, kind, event, expected) in cases {
            assert_eq!(step(kind, State::Open, event), Ok(expected), "{what}");
        }
    }

    #[test]
    fn refusals() {
        let code = |kind, state, event| step(kind, state, event).unwrap_err().code;
        assert_eq!(code(Ask, State::Open, E::Dismiss), "not_a_questions_card");
        assert_eq!(code(Permission, State::Answered, E::Dismiss), "not_a_questions_card");
        assert_eq!(code(Permission, State::Open, E::Withdraw), "not_your_ask");
        for state in [State::Answered, State::Expired] {
            assert_eq!(code(Ask, state, E::Answer), "already_settled");
            assert_eq!(code(Questions, state, E::Dismiss), "already_settled");
            assert_eq!(code(Ask, state, E::Withdraw), "not_open");
            for event in [E::Terminal, E::Deadline, E::AgentGone, E::HookLost] {
                assert_eq!(step(Questions, state, event), Ok(Next::Same), "a settled one stays settled");
            }
        }
    }
}

//! What can be seen of a running harness, and whether a prompt may be handed to it now. Pure.

use leo_ipc::{AgentName, prompt};
use std::path::PathBuf;

/// What a harness's session file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Session {
    /// Its state.
    pub(crate) status: Status,
    /// The harness's session id.
    pub(crate) id: Option<String>,
    /// The transcript, where the file names it.
    pub(crate) transcript: Option<PathBuf>,
    /// What the composer holds, where the file says so.
    pub(crate) composer: Option<Composer>,
    /// When the state became what it is, in milliseconds since 1970.
    pub(crate) changed_at_ms: Option<i64>,
    /// The harness's version, where the file names it.
    pub(crate) version: Option<[u32; 3]>,
    /// Its peer inbox, where it has one.
    pub(crate) inbox: Option<PathBuf>,
}

/// The state of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Status {
    /// No session file yet (or no longer).
    #[default]
    Absent,
    /// The file is there, the session not ready.
    Starting,
    /// Waits for a prompt.
    Idle,
    /// A turn runs.
    Busy,
    /// A dialog is open; what for, in the harness's words.
    Waiting(String),
}

/// What the composer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Composer {
    /// No composer is shown: something covers it.
    Absent,
    /// Nothing, hints aside.
    Empty,
    /// This text.
    Text(String),
    /// Something; its text cannot be seen.
    Something,
}

/// A screen that stands between a prompt and the composer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialog {
    /// Whether to trust the folder.
    Trust,
    /// Whether to use an API key from the environment.
    ApiKey,
    /// First start: theme and log-in.
    Onboarding,
    /// Log-in.
    Login,
    /// The warning of the bypass mode.
    Bypass,
    /// Whether to use a project's MCP server.
    McpChoice,
    /// An offer to try another renderer.
    Fullscreen,
    /// How to resume a long session.
    Resume,
    /// Running, but without an account.
    NotLoggedIn,
    /// The harness cannot reach its service.
    Offline,
}

/// A captured pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Screen {
    /// What the composer holds.
    pub(crate) composer: Composer,
    /// A dialog that was recognised.
    pub(crate) dialog: Option<Dialog>,
    /// Only background agents are at work: a prompt starts a turn of its own at once, although the
    /// session says that it is busy.
    pub(crate) resting: bool,
}

/// Whether a prompt may be handed over now, and what is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It is starting.
    Starting,
    /// Yes.
    Open,
    /// A turn runs.
    Turn,
    /// A dialog is open; what a person has to do.
    Dialog(String),
    /// The composer holds a person's text.
    Draft,
    /// It cannot go on without a person; what they have to do.
    Person(String),
}

/// What the composer holds of a prompt of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// It cannot be seen.
    Unseen,
    /// Nothing.
    Nothing,
    /// All of it, or what is left of it, and nothing else.
    Ours,
    /// Ours and something else.
    Mixed,
    /// Something else.
    Other,
}

impl Dialog {
    /// Whether it asks something that a person may say no to, which ends the harness.
    pub(crate) fn is_question(self) -> bool {
        !matches!(self, Dialog::Offline | Dialog::NotLoggedIn)
    }

    /// What a person has to do, in a sentence.
    pub(crate) fn sentence(self, agent: &AgentName) -> String {
        let what = match self {
            Dialog::Trust => "Claude asks whether to trust the workspace",
            Dialog::ApiKey => "Claude asks whether to use the API key from the environment",
            Dialog::Onboarding => "Claude wants to be set up for its first start",
            Dialog::Login => "Claude asks how to log in",
            Dialog::Bypass => "Claude asks to accept the bypass-permissions mode",
            Dialog::McpChoice => "Claude asks whether to use an MCP server of the project",
            Dialog::Fullscreen => "Claude offers its fullscreen renderer",
            Dialog::Resume => "Claude asks how to resume the session",
            Dialog::NotLoggedIn => "Claude is not logged in: run /login there",
            Dialog::Offline => "Claude cannot reach its service",
        };
        format!("{what}. {}", attach_hint(agent))
    }
}

/// How a person gets to the terminal.
pub(crate) fn attach_hint(agent: &AgentName) -> String {
    format!("Run `leo agent attach {agent}` to see it.")
}

/// What a person has to do about an open dialog, from the harness's own words for it.
pub(crate) fn waiting_sentence(agent: &AgentName, title: &str, waiting_for: &str) -> String {
    let what = match waiting_for {
        "permission prompt" => format!("{title} asks for permission"),
        "input needed" => format!("{title} asks a question"),
        "dialog open" | "" => format!("{title} has a dialog open"),
        other => {
            let words: String =
                crate::tmux::clean_words(other).chars().filter(|c| *c != '\n').take(80).collect();
            format!("{title} waits ({words})")
        }
    };
    format!("{what} in its terminal. {}", attach_hint(agent))
}

/// Whether a prompt may be handed over. Without a screen the composer is taken from the session; when
/// neither shows it, it is not open.
pub(crate) fn gate(agent: &AgentName, title: &str, session: &Session, screen: Option<&Screen>) -> Gate {
    let dialog = screen.and_then(|s| s.dialog);
    match &session.status {
        Status::Absent | Status::Starting => match dialog {
            Some(dialog) => Gate::Person(dialog.sentence(agent)),
            None => Gate::Starting,
        },
        Status::Busy if !is_resting(session, screen) => Gate::Turn,
        Status::Waiting(what) => Gate::Dialog(match dialog {
            Some(dialog) => dialog.sentence(agent),
            None => waiting_sentence(agent, title, what),
        }),
        Status::Idle | Status::Busy => match (dialog, composer(session, screen)) {
            (Some(dialog), _) => Gate::Person(dialog.sentence(agent)),
            (None, Some(Composer::Empty)) => Gate::Open,
            (None, Some(Composer::Text(_) | Composer::Something)) => Gate::Draft,
            (None, Some(Composer::Absent) | None) => {
                Gate::Dialog(waiting_sentence(agent, title, "dialog open"))
            }
        },
    }
}

/// The same for a route that hands the prompt over as data: a draft stays as it is, a panel over the
/// composer too, and the screen need not be looked at.
pub(crate) fn gate_for_data(gate: Gate, session: &Session) -> Gate {
    match gate {
        Gate::Draft => Gate::Open,
        Gate::Dialog(_) if session.status == Status::Idle => Gate::Open,
        gate => gate,
    }
}

/// Whether the session is busy with nothing but background agents.
pub(crate) fn is_resting(session: &Session, screen: Option<&Screen>) -> bool {
    session.status == Status::Busy && screen.is_some_and(|s| s.resting)
}

/// What the composer holds, from the screen or else the session.
pub(crate) fn composer(session: &Session, screen: Option<&Screen>) -> Option<Composer> {
    screen.map(|s| s.composer.clone()).or_else(|| session.composer.clone())
}

/// What the composer holds of `pasted`.
pub(crate) fn holding(composer: Option<&Composer>, pasted: &str) -> Holding {
    let text = match composer {
        None | Some(Composer::Absent) => return Holding::Unseen,
        Some(Composer::Empty) => return Holding::Nothing,
        // It was empty before our paste, so this is taken to be ours; where it matters, the harness's
        // evidence decides.
        Some(Composer::Something) => return Holding::Ours,
        Some(Composer::Text(text)) => text,
    };
    let (shown, placeholders) = without_placeholders(&prompt::normalise(text));
    let (rest, ours) = (drawable(&shown), drawable(&prompt::normalise(pasted)));
    match (rest.is_empty(), placeholders) {
        (true, 0) => Holding::Nothing,
        (true, 1) => Holding::Ours,
        (_, 0) if ours.starts_with(&rest) => Holding::Ours,
        (_, 0) if rest.contains(&ours) => Holding::Mixed,
        (_, 0) => Holding::Other,
        _ => Holding::Mixed,
    }
}

/// The characters that every terminal draws as they are. tmux loses parts of joined emoji and of what
/// its width tables do not know, so a screen is compared without them.
fn drawable(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric() || c.is_ascii_punctuation()).collect()
}

/// Removes `[Pasted text #1 +4 lines]`, which stands for a collapsed paste (white space is gone).
fn without_placeholders(text: &str) -> (String, usize) {
    let (mut rest, mut out, mut found) = (text, String::new(), 0);
    while let Some(at) = rest.find("[Pastedtext#") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match from.find(']') {
            Some(end) => {
                found += 1;
                rest = from.get(end + 1..).unwrap_or_default();
            }
            None => {
                out.push_str(from);
                rest = "";
            }
        }
    }
    out.push_str(rest);
    (out, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(status: Status) -> Session {
        Session { status, ..Session::default() }
    }

    #[test]
    fn a_prompt_passes_only_an_idle_session_with_an_empty_composer() {
        let agent: AgentName = "a".parse().unwrap();
        let empty = Screen { composer: Composer::Empty, dialog: None, resting: false };
        let draft = Screen { composer: Composer::Text("x".to_owned()), dialog: None, resting: false };
        let none = Screen { composer: Composer::Absent, dialog: None, resting: false };
        let trust = Screen { composer: Composer::Absent, dialog: Some(Dialog::Trust), resting: false };
        let resting = Screen { resting: true, ..empty.clone() };
        let logged_out =
            Screen { composer: Composer::Empty, dialog: Some(Dialog::NotLoggedIn), resting: false };
        let statuses = [
            Status::Absent,
            Status::Starting,
            Status::Idle,
            Status::Busy,
            Status::Waiting("permission prompt".to_owned()),
        ];
        for status in statuses {
            for screen in [
                None,
                Some(&empty),
                Some(&draft),
                Some(&none),
                Some(&trust),
                Some(&logged_out),
                Some(&resting),
            ] {
                let gate = gate(&agent, "Claude", &session(status.clone()), screen);
                let open = match status {
                    Status::Idle => {
                        screen.is_some_and(|s| s.composer == Composer::Empty && s.dialog.is_none())
                    }
                    Status::Busy => screen == Some(&resting),
                    _ => false,
                };
                assert_eq!(gate == Gate::Open, open, "{status:?} {screen:?} {gate:?}");
            }
        }
        assert!(
            matches!(gate(&agent, "Claude", &session(Status::Absent), Some(&trust)), Gate::Person(s) if s.contains("trust"))
        );
        assert_eq!(gate(&agent, "Claude", &session(Status::Absent), Some(&none)), Gate::Starting);
    }

    #[test]
    fn what_is_ours_in_the_composer() {
        let ours = "[Leo Chat] one\ntwo ";
        let text = |t: &str| Some(Composer::Text(t.to_owned()));
        for (composer, expected) in [
            (None, Holding::Unseen),
            (Some(Composer::Absent), Holding::Unseen),
            (Some(Composer::Empty), Holding::Nothing),
            (Some(Composer::Something), Holding::Ours),
            (text("[Leo Chat] one\n  two"), Holding::Ours),
            (text("[Leo Chat] o"), Holding::Ours),
            (text("[Leo Chat] one 👩 two"), Holding::Ours),
            (text("[Pasted text #1 +4 lines]"), Holding::Ours),
            (text("[Pasted text #1 +4 lines] and"), Holding::Mixed),
            (text("[Pasted text #1 +4 lines][Pasted text #2]"), Holding::Mixed),
            (text("draft [Leo Chat] one two"), Holding::Mixed),
            (text("[Leo Chat] one two three"), Holding::Mixed),
            (text("draft"), Holding::Other),
        ] {
            assert_eq!(holding(composer.as_ref(), ours), expected, "{composer:?}");
        }
    }
}

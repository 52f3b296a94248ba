//! Sessions and panes: one session per agent, whose launch id is kept in a session option, so that
//! what is ours can be told from what only has our name.

use super::{Tmux, TmuxError};
use std::{path::Path, time::Duration};
use tmux_interface::{
    CapturePane, DisplayMessage, KillSession, ListPanes, NewSession as New, SetOption, TmuxCommand,
};

/// Size of a pane nobody is attached to: Claude's dialogs hide choices in smaller ones.
const WIDTH: usize = 160;
const HEIGHT: usize = 50;

/// Lines of history that a pane keeps, for `leo agent logs`.
const HISTORY: &str = "10000";

/// Tries to make a session while the server is ending, and the pause between them.
const MAX_TRIES: u32 = 10;
const AFTER_ENDING: Duration = Duration::from_millis(50);

/// The session option that holds the launch id.
const LAUNCH_OPTION: &str = "@leo_launch";

/// One line per pane. The name comes last since it may hold anything; no field before it can hold a
/// blank. Tabs are not used: some locales turn them into `_`.
const PANE_FORMAT: &str = "#{pane_id} #{session_id} #{pane_pid} d#{pane_dead} s#{pane_dead_status} g#{pane_dead_signal} l#{@leo_launch} #{session_name}";

/// A session to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewSession<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The launch it is made for.
    pub(crate) launch: &'a str,
    /// The folder its program starts in.
    pub(crate) folder: &'a Path,
    /// Program and arguments. They are visible to every user of the machine, so nothing secret.
    pub(crate) argv: &'a [String],
}

/// A pane as tmux describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaneInfo {
    /// `%3`.
    pub(crate) id: String,
    /// `$1`, its session.
    pub(crate) session_id: String,
    /// The process that was started in it.
    pub(crate) pid: u32,
    /// Whether that process has ended.
    pub(crate) dead: bool,
    /// Its exit status, when it exited and tmux knows it already.
    pub(crate) exit_status: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Launch id of its session; empty when the session is not ours.
    pub(crate) launch: String,
    /// Its session's name.
    pub(crate) session: String,
}

impl Tmux {
    /// Makes a session and says which pane its program runs in. The launch id is set in the same
    /// invocation, so that no session of ours exists without it.
    ///
    /// # Errors
    /// [`TmuxError::is_duplicate`] when a session has that name; others as [`TmuxError`] says.
    pub(crate) async fn new_session(&self, new: NewSession<'_>) -> Result<(String, u32), TmuxError> {
        // Global options first: a program that ends at once must still leave its last words.
        let global = |name: &'static str, value: &'static str| {
            SetOption::new().global().option(name).value(value).build()
        };
        // A person's terminal makes a pane as small as itself for as long as it is attached.
        let hook = |name: &'static str, command: String| {
            let mut hook = TmuxCommand::new();
            hook.name("set-hook").push_flag("-g").push_param(name).push_param(command);
            hook
        };
        let mut start = New::new()
            .detached()
            .print()
            .format("#{pane_id} #{pane_pid}")
            .session_name(new.name)
            .start_directory(new.folder.to_string_lossy().into_owned())
            .width(WIDTH)
            .height(HEIGHT)
            .build();
        for arg in new.argv {
            start.push_param(arg.as_str());
        }
        let target = format!("={}:", new.name);
        let mut no_status = TmuxCommand::new();
        no_status.name("start-server");
        let commands = [
            no_status,
            global("default-terminal", "screen-256color"),
            global("history-limit", HISTORY),
            SetOption::new().global().window().option("remain-on-exit").value("on").build(),
            hook("client-attached", "set-option -wu window-size".to_owned()),
            hook(
                "client-detached",
                format!(
                    "if-shell -F '#{{==:#{{session_attached}},0}}' 'resize-window -x {WIDTH} -y {HEIGHT}'"
                ),
            ),
            start,
            SetOption::new().target_pane(target.as_str()).option(LAUNCH_OPTION).value(new.launch).build(),
        ];
        let mut tries = 1;
        let out = loop {
            match self.run(&commands, None).await {
                // A server that just lost its last session makes room for a new one in a moment.
                Err(e) if e.is_ending() && tries < MAX_TRIES => tries += 1,
                other => break other?,
            }
            tokio::time::sleep(AFTER_ENDING).await;
        };
        let odd =
            || TmuxError::Output { command: "new-session".to_owned(), found: out.chars().take(80).collect() };
        let (pane, pid) = out.trim().split_once(' ').ok_or_else(odd)?;
        Ok((pane.to_owned(), pid.parse().map_err(|_| odd())?))
    }

    /// All panes of the server; none when it does not run.
    ///
    /// # Errors
    /// As [`TmuxError`] says.
    pub(crate) async fn panes(&self) -> Result<Vec<PaneInfo>, TmuxError> {
        match self.run(&[ListPanes::new().all().format(PANE_FORMAT).build()], None).await {
            Ok(out) => Ok(out.lines().filter_map(parse_pane).collect()),
            Err(e) if e.is_absent() => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// Whether there is a session of this name, ours or not.
    ///
    /// # Errors
    /// As [`TmuxError`] says.
    #[cfg(test)]
    pub(crate) async fn has_session(&self, name: &str) -> Result<bool, TmuxError> {
        match self
            .run(&[tmux_interface::HasSession::new().target_session(format!("={name}")).build()], None)
            .await
        {
            Ok(_) => Ok(true),
            Err(e) if e.is_absent() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Ends a session of ours: its processes get SIGHUP. One that is not there is ended already.
    /// A session of the same name that belongs to another launch is left alone.
    ///
    /// # Errors
    /// As [`TmuxError`] says.
    pub(crate) async fn kill_session(&self, name: &str, launch: &str) -> Result<(), TmuxError> {
        let panes = self.panes().await?;
        let Some(ours) = panes.into_iter().find(|p| p.session == name && p.launch == launch) else {
            return Ok(());
        };
        // The session's id, not its name: between looking and killing, the name may pass to another.
        match self.run(&[KillSession::new().target_session(ours.session_id).build()], None).await {
            Err(e) if !e.is_absent() => Err(e),
            _ => Ok(()),
        }
    }

    /// Makes the server collect children that have ended: it sometimes misses the end of one until the
    /// next one ends, and then neither shows its exit status nor lets its process go.
    pub(crate) async fn collect(&self) {
        let mut nothing = TmuxCommand::new();
        nothing.name("run-shell").push_flag("-b").push_param(":");
        // Without a server there is nothing to collect.
        if let Err(e) = self.run(&[nothing], None).await {
            tracing::debug!(error = %e, "tmux has no children to collect");
        }
    }

    /// Whether a terminal is attached to a pane's session.
    ///
    /// # Errors
    /// As [`TmuxError`] says.
    pub(crate) async fn is_attached(&self, pane: &str) -> Result<bool, TmuxError> {
        let attached = DisplayMessage::new().print().target_pane(pane).message("#{session_attached}").build();
        Ok(self.run(&[attached], None).await?.trim() != "0")
    }

    /// What a pane shows, with its colours (SGR sequences).
    ///
    /// # Errors
    /// As [`TmuxError`] says.
    pub(crate) async fn capture(&self, pane: &str) -> Result<String, TmuxError> {
        self.run(&[CapturePane::new().stdout().escape_sequences().target_pane(pane).build()], None).await
    }

    /// The last `lines` lines of a pane and its history, as plain text.
    ///
    /// # Errors
    /// As [`TmuxError`] says.
    pub(crate) async fn history(&self, pane: &str, lines: u32) -> Result<String, TmuxError> {
        let capture =
            CapturePane::new().stdout().join().start_line(format!("-{lines}")).target_pane(pane).build();
        self.run(&[capture], None).await
    }
}

fn parse_pane(line: &str) -> Option<PaneInfo> {
    let mut fields = line.splitn(8, ' ');
    let id = fields.next().filter(|id| id.starts_with('%'))?.to_owned();
    let session_id = fields.next().filter(|id| id.starts_with('$'))?.to_owned();
    let pid = fields.next()?.parse().ok()?;
    let dead = fields.next()?.strip_prefix('d')? == "1";
    let exit_status = fields.next()?.strip_prefix('s')?.parse().ok();
    let signal = fields.next()?.strip_prefix('g')?.parse().ok().filter(|s| *s > 0);
    let launch = fields.next()?.strip_prefix('l')?.to_owned();
    let session = fields.next()?.to_owned();
    Some(PaneInfo { id, session_id, pid, dead, exit_status, signal, launch, session })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes() {
        let live = parse_pane("%3 $1 1234 d s g l0f assistant").unwrap();
        assert_eq!((live.id.as_str(), live.pid, live.dead, live.exit_status), ("%3", 1234, false, None));
        assert_eq!((live.launch.as_str(), live.session.as_str()), ("0f", "assistant"));
        let dead = parse_pane("%4 $2 1234 d1 s0 g0 l a person's own").unwrap();
        assert_eq!((dead.dead, dead.exit_status, dead.signal), (true, Some(0), None));
        assert_eq!((dead.launch.as_str(), dead.session.as_str()), ("", "a person's own"));
        assert_eq!(parse_pane("%4 $2 1 d1 s g9 lx y").unwrap().signal, Some(9));
        for bad in ["", "%1", "3 $1 1 d s g l x", "%3 $1 x d s g l x"] {
            assert!(parse_pane(bad).is_none(), "{bad}");
        }
    }
}

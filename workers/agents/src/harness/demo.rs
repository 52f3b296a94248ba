//! The built-in agent, which needs no account. Its session file says everything, so its pane is never
//! looked at.

use super::{
    Composer, ContextCommands, Harness, LaunchContext, LaunchPlan, Place, PlanError, Screen, Session, Status,
    launch,
};
use leo_launch::{Env, for_agent};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The adapter.
#[derive(Debug)]
pub(crate) struct Demo;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    pid: u32,
    session_id: Option<String>,
    status: Option<String>,
    waiting_for: Option<String>,
    #[serde(default)]
    draft: bool,
    transcript: Option<PathBuf>,
    status_updated_at: Option<i64>,
}

impl Harness for Demo {
    fn title(&self) -> &'static str {
        "The demo agent"
    }

    fn plan(&self, context: &LaunchContext<'_>) -> Result<LaunchPlan, PlanError> {
        let ties = context.ties;
        let folder = launch::workspace(&context.config.workspace)?;
        let mut env = for_agent(context.base, &context.config.env);
        env.extend(ties.vars());
        let session = session_file(&ties.home.agent_dir(&ties.agent));
        env.insert("LEO_DEMO_SESSION".to_owned(), session.display().to_string());
        let mut argv = vec![ties.program.clone(), "demo-agent".to_owned()];
        argv.extend(context.config.args.iter().cloned());
        Ok(LaunchPlan { argv, env, folder, files: Vec::new() })
    }

    fn harness_dir(&self, _env: &Env) -> PathBuf {
        PathBuf::new()
    }

    fn session(&self, place: &Place) -> Session {
        let bytes = std::fs::read(session_file(&place.agent_dir)).unwrap_or_default();
        parse(&bytes, place.pid).unwrap_or_default()
    }

    fn needs_screen(&self) -> bool {
        false
    }

    fn screen(&self, _capture: &str) -> Screen {
        Screen { composer: Composer::Absent, dialog: None, resting: false }
    }

    fn context_commands(&self) -> ContextCommands {
        // It remembers nothing that could be summarised.
        ContextCommands { clear: Some("/clear"), compact: None }
    }

    fn exit_command(&self) -> Option<&'static str> {
        None
    }
}

/// Where the demo agent of this folder shows its state.
fn session_file(agent_dir: &Path) -> PathBuf {
    agent_dir.join("demo-session.json")
}

fn parse(bytes: &[u8], pid: u32) -> Option<Session> {
    let file: File = serde_json::from_slice(bytes).ok()?;
    if file.pid != pid {
        return None;
    }
    let status = match file.status.as_deref() {
        None => Status::Starting,
        Some("idle") => Status::Idle,
        Some("waiting") => Status::Waiting(file.waiting_for.unwrap_or_default()),
        Some(_) => Status::Busy,
    };
    let composer = Some(if file.draft { Composer::Something } else { Composer::Empty });
    Some(Session {
        status,
        id: file.session_id,
        transcript: file.transcript,
        composer,
        changed_at_ms: file.status_updated_at,
        version: None,
        inbox: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states() {
        let json = br#"{"pid":7,"sessionId":"s","status":"idle","draft":true,"transcript":"/t.jsonl","version":"1"}"#;
        let session = parse(json, 7).unwrap();
        assert_eq!((session.status, session.composer), (Status::Idle, Some(Composer::Something)));
        assert_eq!(session.transcript, Some(PathBuf::from("/t.jsonl")));
        assert!(parse(json, 8).is_none());
        let waiting = parse(br#"{"pid":7,"status":"waiting","waitingFor":"permission prompt"}"#, 7).unwrap();
        assert_eq!(waiting.status, Status::Waiting("permission prompt".to_owned()));
        assert_eq!(waiting.composer, Some(Composer::Empty));
    }
}

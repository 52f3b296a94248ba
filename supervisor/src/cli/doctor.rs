//! `leo doctor`: looks for what would keep Leo from working on this machine, and says what to do.
//! It changes nothing.

mod machine;
mod place;
mod voice;

use super::{
    failure::Failure,
    harness,
    out::{self, Paint},
    text,
    worker::wrap,
};
use leo_ipc::{ExitCode, paths::Home};
use serde::Serialize;

pub(crate) use machine::tmux_for_up;

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    /// As it should be.
    Ok,
    /// Works, with something missing.
    Warn,
    /// Leo does not work like this.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
struct Check {
    name: &'static str,
    level: Level,
    /// What was found.
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, level: Level::Ok, found: found.into(), hint: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, hint: impl Into<String>) -> Check {
        Check { name, level: Level::Warn, found: found.into(), hint: Some(hint.into()) }
    }

    fn fail(name: &'static str, found: impl Into<String>, hint: impl Into<String>) -> Check {
        Check { name, level: Level::Fail, found: found.into(), hint: Some(hint.into()) }
    }
}

/// Looks at everything. Fails when something would keep Leo from working.
pub(crate) async fn run(json: bool) -> Result<ExitCode, Failure> {
    let mut checks = vec![machine::tmux().await, machine::locale(), machine::service_path()];
    checks.extend(machine::claude().await);
    match Home::from_env() {
        Ok(home) => {
            checks.extend(place::all(&home).await);
            checks.extend(voice::all(&home));
        }
        Err(e) => checks.push(Check::fail("home", e.to_string(), "set LEO_HOME to an absolute path")),
    }
    let failed = checks.iter().any(|c| c.level == Level::Fail);
    if json {
        out::json(&serde_json::json!({ "ok": !failed, "checks": checks }));
    } else {
        print(&checks);
    }
    Ok(if failed { ExitCode::Failure } else { ExitCode::Ok })
}

fn print(checks: &[Check]) {
    let (paint, width) = (Paint::stdout(), out::width());
    for check in checks {
        let mark = match check.level {
            Level::Ok => paint.green("✓"),
            Level::Warn => paint.yellow("!"),
            Level::Fail => paint.red("✗"),
        };
        let head = format!("{:<10}", check.name);
        let mut lines = wrap(&text::visible(&check.found), width.saturating_sub(14));
        out::line(&format!("{mark} {} {}", paint.bold(&head), lines.next().unwrap_or_default()));
        lines.for_each(|line| out::line(&format!("             {line}")));
        for line in check.hint.iter().flat_map(|h| wrap(&text::visible(h), width.saturating_sub(16))) {
            out::line(&format!("             {}", paint.dim(&line)));
        }
    }
    let count = |level| checks.iter().filter(|c| c.level == level).count();
    out::line("");
    out::line(&match (count(Level::Fail), count(Level::Warn)) {
        (0, 0) => paint.green("Everything is well."),
        (0, warnings) => format!("It works; {warnings} of these could be better."),
        (failures, _) => paint.red(&format!("{failures} of these must be mended first.")),
    });
}

/// A program's version as it says it, for a check that only shows it.
async fn version_of(program: &std::path::Path) -> Result<String, String> {
    harness::run(program, &["--version"]).await
}

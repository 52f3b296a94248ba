//! The built-in demo agent: a small terminal program that behaves as a harness, so that the whole
//! system can be tried with no account. It calls the same hooks with the same JSON as Claude Code,
//! starts the same MCP server, and asks before it runs something. It holds no other logic of Leo's.

mod app;
mod composer;
mod dialog;
mod headless;
mod hooks;
mod mcp;
mod screen;
mod script;
mod session;
mod turn;
mod ui;

use leo_ipc::ExitCode;
use std::path::PathBuf;

/// What the command line and the environment say.
struct Settings {
    /// The session to resume.
    resume: Option<String>,
    /// Where the daemon looks for our state.
    session_file: Option<PathBuf>,
    /// The program with the hook and the MCP server.
    program: Option<PathBuf>,
}

/// Runs the demo agent: `leo demo-agent [--resume SESSION]` in this terminal, `leo demo-agent -p` without
/// one.
pub fn main() -> std::process::ExitCode {
    if std::env::args().nth(2).as_deref() == Some("-p") {
        let program = std::env::var_os("LEO_PROGRAM").filter(|v| !v.is_empty());
        return headless::run(program.map(PathBuf::from).as_deref());
    }
    let code = match settings(std::env::args().skip(2)) {
        Ok(settings) => match ui::run(settings) {
            Ok(()) => ExitCode::Ok,
            Err(e) => complain(&format!("the terminal cannot be used: {e}"), ExitCode::Failure),
        },
        Err(why) => complain(&why, ExitCode::Usage),
    };
    code.into()
}

fn settings(mut args: impl Iterator<Item = String>) -> Result<Settings, String> {
    let path = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut settings =
        Settings { resume: None, session_file: path("LEO_DEMO_SESSION"), program: path("LEO_PROGRAM") };
    while let Some(arg) = args.next() {
        let id = match arg.as_str() {
            "--resume" => args.next(),
            other => other.strip_prefix("--resume=").map(str::to_owned),
        };
        // The id names a file, so it must not be a path.
        let good = |id: &String| {
            !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        settings.resume =
            Some(id.filter(good).ok_or_else(|| format!("{arg}: usage: leo demo-agent [--resume SESSION]"))?);
    }
    Ok(settings)
}

#[expect(clippy::print_stderr, reason = "a person has started this program in a terminal")]
fn complain(what: &str, code: ExitCode) -> ExitCode {
    eprintln!("leo demo-agent: {what}");
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let of = |args: &[&str]| settings(args.iter().map(|arg| (*arg).to_owned()));
        assert_eq!(of(&[]).ok().map(|s| s.resume), Some(None));
        assert_eq!(of(&["--resume", "a-1"]).ok().and_then(|s| s.resume).as_deref(), Some("a-1"));
        assert_eq!(of(&["--resume=a-1"]).ok().and_then(|s| s.resume).as_deref(), Some("a-1"));
        for bad in [&["--resume"][..], &["--resume", "../x"], &["--what"], &["--resume="]] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }
}

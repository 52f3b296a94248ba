//! `leo demo-agent -p`: one prompt from standard input, carried out without a terminal, so that tasks can
//! be tried with no account. It plays the same scripts, calls the same tools and prints the last answer.

use crate::{
    mcp::Mcp,
    script::{self, HELP, Prompt, Step},
    turn::Stop,
};
use leo_ipc::ExitCode;
use std::{
    io::{Read, Write},
    path::Path,
    time::Duration,
};

/// Largest prompt: as long as a message may be.
const MAX_PROMPT: u64 = leo_ipc::chat::MAX_TEXT as u64;

/// Carries out the prompt on standard input.
pub(crate) fn run(program: Option<&Path>) -> std::process::ExitCode {
    let mut text = String::new();
    if let Err(e) = std::io::stdin().lock().take(MAX_PROMPT).read_to_string(&mut text) {
        return fail(&format!("the prompt cannot be read: {e}"));
    }
    match script::parse(&text) {
        Prompt::Help => say(HELP),
        Prompt::Text(text) => say(&format!("echo: {text}")),
        Prompt::Script(steps) => return play(steps, program),
    }
    ExitCode::Ok.into()
}

fn play(steps: Vec<Step>, program: Option<&Path>) -> std::process::ExitCode {
    let mut server: Option<Mcp> = None;
    for step in steps {
        match step {
            Step::Say(text) => say(&text),
            Step::Sleep(seconds) => std::thread::sleep(Duration::from_secs_f64(seconds)),
            Step::Tool { name, arguments } => {
                if server.is_none() {
                    let Some(program) = program else {
                        return fail("LEO_PROGRAM is not set, so there are no tools");
                    };
                    match Mcp::start(program) {
                        Ok(started) => server = Some(started),
                        Err(e) => return fail(&format!("the MCP server cannot be started: {e}")),
                    }
                }
                let Some(server) = &server else { continue };
                match server.call(&name, &arguments, &Stop::default()) {
                    Ok(result) => say(&format!("{name}: {result}")),
                    Err(e) => return fail(&format!("{name}: {e}")),
                }
            }
            Step::Run(_) => return fail("nobody is here to allow a command"),
            Step::Questions(_) => return fail("nobody is here to answer questions; use >>ask"),
            Step::Fail(why) => return fail(&why),
            Step::Crash(code) => return std::process::ExitCode::from(code),
            Step::Bad(why) => return fail(&why),
        }
    }
    ExitCode::Ok.into()
}

fn say(text: &str) {
    // Whoever does not read any more wants no answer.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

#[expect(clippy::print_stderr, reason = "standard error is the run's log")]
fn fail(what: &str) -> std::process::ExitCode {
    eprintln!("{what}");
    ExitCode::Failure.into()
}

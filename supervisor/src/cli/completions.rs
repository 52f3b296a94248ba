//! `leo completions SHELL`

use super::{Cli, failure::Failure, out};
use clap::{Args, CommandFactory};
use leo_ipc::ExitCode;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Which shell.
    shell: clap_complete::Shell,
}

/// Prints the script.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "leo", &mut script);
    out::raw(&script);
    Ok(ExitCode::Ok)
}

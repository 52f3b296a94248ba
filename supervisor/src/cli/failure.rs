//! How a command fails: one sentence for a person, and an exit code for a script (WIRE.md §9).

use super::{api::ApiError, out};
use crate::{daemon::StartError, token::TokenError};
use leo_ipc::{ExitCode, IpcError, paths::Home};
use std::{error::Error, io::ErrorKind};

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// How the process ends.
    pub(crate) code: ExitCode,
    message: String,
}

impl Failure {
    /// A failure with its sentence, which says what to do where something can be done.
    pub(crate) fn new(code: ExitCode, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    /// What went wrong when the supervisor was asked something.
    pub(crate) fn of_control(home: &Home, error: IpcError) -> Failure {
        match error {
            IpcError::Connect { ref source, .. }
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                Failure::not_running(home)
            }
            IpcError::Fault(fault) => {
                let code = match fault.code.as_str() {
                    "bad_config" => ExitCode::Config,
                    "timeout" => ExitCode::Temporary,
                    _ => ExitCode::Failure,
                };
                Failure::new(code, fault.message)
            }
            IpcError::Deadline { .. } => Failure::new(
                ExitCode::Temporary,
                "the supervisor does not answer: look at its log under state/logs, or restart it",
            ),
            other => Failure::new(ExitCode::Failure, chain(&other)),
        }
    }

    /// Nobody serves this home.
    pub(crate) fn not_running(home: &Home) -> Failure {
        Failure::from(ApiError::NotRunning { home: home.root().to_owned() })
    }

    /// Says it on standard error.
    pub(crate) fn print(&self) {
        out::error(&self.message);
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Failure {
        Failure { code: error.exit_code(), message: chain(&error) }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        Failure { code: error.exit_code(), message: error.to_string() }
    }
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Failure {
        Failure { code: ExitCode::Config, message: error.to_string() }
    }
}

/// An error with its causes, which say what the system said.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

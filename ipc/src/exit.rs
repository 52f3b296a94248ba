//! Exit codes shared by every process: a contract between the workers, the supervisor and whoever
//! runs `leo` from a script (WIRE.md §9).

/// How a process of ours ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done, or stopped because it was asked to.
    Ok = 0,
    /// An error that a restart may cure.
    Failure = 1,
    /// The command line was wrong (user commands).
    Usage = 2,
    /// The command line was wrong (workers): a restart cannot cure it.
    WorkerUsage = 64,
    /// No daemon is running for this home.
    NotRunning = 69,
    /// A resource is busy or missing for now.
    Temporary = 75,
    /// Configuration, database or home is unusable until a person changes it.
    Config = 78,
}

impl ExitCode {
    /// Whether a worker that ended with this status must not be started again by itself.
    pub fn is_permanent(status: i32) -> bool {
        status == ExitCode::WorkerUsage as i32 || status == ExitCode::Config as i32
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        std::process::ExitCode::from(code as u8)
    }
}

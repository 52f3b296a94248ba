//! Waiting for a condition, never for a time.

use anyhow::{Result, bail};
use std::{future::Future, time::Duration};
use tokio::time::Instant;

/// How long a condition may take on a busy machine before the test fails. Wide on purpose: a passing
/// test never waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until `look` gives a value and returns it.
///
/// # Errors
/// When it gives none for [`PATIENCE`]; the error names `what`.
pub async fn wait_for<T, F, Fut>(what: &str, look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    wait_within(PATIENCE, what, look).await
}

/// As [`wait_for`], with a bound of the caller's.
///
/// # Errors
/// When there is no value within `patience`.
pub async fn wait_within<T, F, Fut>(patience: Duration, what: &str, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + patience;
    loop {
        if let Some(value) = look().await {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("waited {patience:?} for {what}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

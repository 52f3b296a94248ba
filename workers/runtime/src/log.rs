//! Logs: JSON lines on standard error, which the supervisor reads. No message bodies.

use tracing_subscriber::{EnvFilter, fmt, prelude::*};

/// Starts logging. `LEO_LOG` chooses the level (`info` by default), in tracing's filter syntax.
pub(crate) fn init(kind: &'static str) {
    let filter = EnvFilter::try_from_env("LEO_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let layer = fmt::layer().json().flatten_event(true).with_current_span(false).with_writer(std::io::stderr);
    // Fails only when logging was started before, which then goes on.
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(worker = kind, place, "panic");
        default(info);
    }));
}

//! `leo web`

use super::{Json, failure::Failure, out, rpc};
use crate::token;
use clap::Subcommand;
use leo_ipc::{
    ExitCode,
    control::{GetStatus, SupervisorStatus},
    paths::Home,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Print a link that logs a browser in. Whoever has it is you, so do not pass it on.
    LoginUrl(Json),
}

/// Runs the command.
pub(crate) async fn run(home: &Home, verb: Verb) -> Result<ExitCode, Failure> {
    let Verb::LoginUrl(Json { json }) = verb;
    let status = rpc::ask(home, GetStatus::default(), rpc::QUICK).await?;
    let url = login_url(home, &status)?;
    if json {
        out::json(&serde_json::json!({ "url": url }));
    } else {
        out::line(&url);
    }
    Ok(ExitCode::Ok)
}

/// The link that logs a browser on this machine in.
///
/// # Errors
/// When there is no TCP listener, or the token cannot be read.
pub(crate) fn login_url(home: &Home, status: &SupervisorStatus) -> Result<String, Failure> {
    let base = base_url(status).ok_or_else(|| {
        let file = super::text::path(&home.config().display().to_string());
        Failure::new(
            ExitCode::Failure,
            format!("the web app is switched off: set web.enabled to true in {file}"),
        )
    })?;
    Ok(format!("{base}/login?token={}", token::read(home)?))
}

/// Where the web app is, seen from this machine; `None` when it is switched off.
pub(crate) fn base_url(status: &SupervisorStatus) -> Option<String> {
    let bound: SocketAddr = status.tcp.as_ref()?.parse().ok()?;
    // "Every address" is none that a browser can go to.
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    Some(format!("http://{}", SocketAddr::new(ip, bound.port())))
}

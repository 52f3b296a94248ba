//! What differs between the systems: processes whose parent has ended.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(target_os = "linux")]
pub(crate) use linux::{adopt_orphans, end_descendants};
#[cfg(target_os = "macos")]
pub(crate) use macos::{adopt_orphans, end_descendants};

//! Handing messages to a harness: by the mod inside Claude, by Claude's peer inbox, or by pasting them
//! into its composer.
//!
//! Nothing here may be taken for delivered without evidence, nothing that may have been applied is
//! ever handed over again, and no key is pressed while a dialog is open.

pub(crate) mod order;
pub(crate) mod prompt;
pub(crate) mod route;
mod structured;

//! Text and keys into a pane.

use super::{Tmux, TmuxError};
use std::sync::atomic::{AtomicU64, Ordering};
use tmux_interface::{CopyMode, DeleteBuffer, LoadBuffer, PasteBuffer, SendKeys, TmuxCommand};

/// Makes buffer names unique within this process; its pid makes them unique on the server.
static BUFFERS: AtomicU64 = AtomicU64::new(0);

/// A key by its tmux name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// Submits.
    Enter,
    /// Interrupts.
    Escape,
    /// Clears the line left of the cursor.
    ClearLine,
}

impl Key {
    fn name(self) -> &'static str {
        match self {
            Key::Enter => "Enter",
            Key::Escape => "Escape",
            Key::ClearLine => "C-u",
        }
    }
}

impl Tmux {
    /// Pastes text into a pane, in brackets where its program asked for them. The text travels by
    /// standard input, never as an argument, and must have come through [`super::for_paste`]: an
    /// `ESC[201~` in it would end the brackets and turn the rest into keys.
    ///
    /// # Errors
    /// As [`TmuxError`] says; [`TmuxError::may_have_applied`] tells whether the text may have arrived.
    pub(crate) async fn paste(&self, pane: &str, text: &str) -> Result<(), TmuxError> {
        let buffer = format!("leo-{}-{}", std::process::id(), BUFFERS.fetch_add(1, Ordering::Relaxed));
        let load = LoadBuffer::new().buffer_name(buffer.as_str()).path("-").build();
        // Nothing has reached the pane before the second call, whatever happens to the first.
        match self.run(&[load], Some(text.as_bytes())).await {
            Ok(_) => {}
            Err(TmuxError::Deadline { command, ms }) => {
                let stderr = format!("no end within {ms} ms");
                return Err(TmuxError::Failed { command, stderr });
            }
            Err(e) => return Err(e),
        }
        let paste = PasteBuffer::new()
            .bracket_codes()
            .delete()
            .buffer_name(buffer.as_str())
            .target_pane(pane)
            .build();
        let result = self.run(&[leave_copy_mode(pane), paste], None).await;
        if result.is_err() {
            // The text must not stay behind in the server.
            let _ = self.run(&[DeleteBuffer::new().buffer_name(buffer.as_str()).build()], None).await;
        }
        result.map(drop)
    }

    /// Presses a key.
    ///
    /// # Errors
    /// As [`TmuxError`] says.
    pub(crate) async fn press(&self, pane: &str, key: Key) -> Result<(), TmuxError> {
        let keys = SendKeys::new().target_pane(pane).key(key.name()).build();
        self.run(&[leave_copy_mode(pane), keys], None).await.map(drop)
    }

    /// Types a word of ours and a space, without Enter. Never a person's text.
    ///
    /// # Errors
    /// As [`TmuxError`] says.
    pub(crate) async fn type_word(&self, pane: &str, word: &'static str) -> Result<(), TmuxError> {
        let keys = SendKeys::new().disable_lookup().target_pane(pane).key(word).build();
        let space = SendKeys::new().target_pane(pane).key("Space").build();
        self.run(&[leave_copy_mode(pane), keys, space], None).await.map(drop)
    }

    /// Types a short command of ours, such as `/exit`, and presses Enter. Never a person's text.
    ///
    /// # Errors
    /// As [`TmuxError`] says.
    pub(crate) async fn type_command(&self, pane: &str, command: &'static str) -> Result<(), TmuxError> {
        let keys = SendKeys::new().disable_lookup().target_pane(pane).key(command).build();
        let enter = SendKeys::new().target_pane(pane).key(Key::Enter.name()).build();
        self.run(&[leave_copy_mode(pane), keys, enter], None).await.map(drop)
    }
}

/// A pane in copy mode swallows keys, and a paste arrives in it without brackets.
fn leave_copy_mode(pane: &str) -> TmuxCommand<'_> {
    CopyMode::new().cancel().target_pane(pane).build()
}

//! Checks of what voice notes need: ffmpeg, whisper.cpp and a model. All of it is optional.

use super::Check;
use crate::config;
use leo_ipc::paths::Home;
use leo_transcribe::tools::{self, Missing};
use std::path::PathBuf;

pub(super) fn all(home: &Home) -> Vec<Check> {
    let path = std::env::var_os("PATH");
    let person = std::env::var_os("HOME").filter(|h| !h.is_empty()).map(PathBuf::from);
    // A configuration that cannot be read is another check's.
    let model = config::read(&home.config(), person.as_deref()).ok().and_then(|c| c.chat.whisper_model);
    vec![
        check("ffmpeg", tools::ffmpeg(path.as_deref())),
        check("whisper", tools::whisper(path.as_deref())),
        check("model", tools::model(model.as_deref())),
    ]
}

fn check(name: &'static str, found: Result<PathBuf, Missing>) -> Check {
    match found {
        Ok(path) => Check::ok(name, path.display().to_string()),
        Err(missing) => {
            let said = missing.to_string();
            let (what, how) = said.split_once(": ").unwrap_or((&said, ""));
            Check::warn(name, what, format!("optional, for voice notes: {how}"))
        }
    }
}

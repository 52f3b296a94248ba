//! The programs and the model that transcription needs. All are optional: without them Leo runs, and a
//! voice note says what is missing.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Folders that a service's search path lacks and package managers install to.
const ALSO: [&str; 3] = ["/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin"];

/// Names of whisper.cpp's program, newest first.
const WHISPER: [&str; 2] = ["whisper-cli", "whisper-cpp"];

/// Smallest file that can be a model: the smallest published one has 31 MB; less is an error page that
/// was downloaded under its name, or a download that broke off.
const MIN_MODEL: u64 = 1024 * 1024;

/// What is missing, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No ffmpeg.
    #[error("ffmpeg, which reads recordings, is not installed: {}", install("ffmpeg", "ffmpeg"))]
    Ffmpeg,
    /// No whisper.cpp.
    #[error(
        "whisper-cli, which turns speech into text, is not installed: {}",
        install("whisper-cpp", "whisper.cpp")
    )]
    Whisper,
    /// No model in the configuration.
    #[error("no Whisper model is set: {}, then set chat.whisper_model in leo.yaml", download())]
    ModelUnset,
    /// The model is not where the configuration says.
    #[error("the Whisper model {} is not there: {}", .0.display(), download())]
    ModelGone(PathBuf),
    /// The model is no model.
    #[error("the Whisper model {} is not one (it is too small, so its download may have broken off): {}", .0.display(), download())]
    ModelBroken(PathBuf),
}

fn install(brew: &str, debian: &str) -> String {
    if cfg!(target_os = "macos") {
        format!("brew install {brew}")
    } else {
        format!("sudo apt-get install {debian}, or brew install {brew}")
    }
}

fn download() -> &'static str {
    "mkdir -p ~/.leo/models && curl -L -o ~/.leo/models/ggml-large-v3-turbo.bin \
     https://huggingface.co/ggerganov/whisper.cpp/resolve/main/ggml-large-v3-turbo.bin"
}

/// Everything that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// ffmpeg.
    pub ffmpeg: PathBuf,
    /// whisper.cpp's program.
    pub whisper: PathBuf,
    /// The model.
    pub model: PathBuf,
}

impl Tools {
    /// Finds everything, by a search path and the model of the configuration.
    ///
    /// # Errors
    /// All that is missing; never empty.
    pub fn find(path: Option<&OsStr>, model: Option<&str>) -> Result<Tools, Vec<Missing>> {
        match (ffmpeg(path), whisper(path), self::model(model)) {
            (Ok(ffmpeg), Ok(whisper), Ok(model)) => Ok(Tools { ffmpeg, whisper, model }),
            (ffmpeg, whisper, model) => {
                Err([ffmpeg.err(), whisper.err(), model.err()].into_iter().flatten().collect())
            }
        }
    }
}

/// Finds ffmpeg.
///
/// # Errors
/// When there is none.
pub fn ffmpeg(path: Option<&OsStr>) -> Result<PathBuf, Missing> {
    program("ffmpeg", path).ok_or(Missing::Ffmpeg)
}

/// Finds whisper.cpp's program.
///
/// # Errors
/// When there is none.
pub fn whisper(path: Option<&OsStr>) -> Result<PathBuf, Missing> {
    WHISPER.iter().find_map(|name| program(name, path)).ok_or(Missing::Whisper)
}

/// Looks at the model of the configuration.
///
/// # Errors
/// When it is not set, not there, or no model.
pub fn model(configured: Option<&str>) -> Result<PathBuf, Missing> {
    let path = PathBuf::from(configured.ok_or(Missing::ModelUnset)?);
    match std::fs::metadata(&path) {
        Ok(meta) if meta.is_file() && meta.len() >= MIN_MODEL => Ok(path),
        Ok(_) => Err(Missing::ModelBroken(path)),
        Err(_) => Err(Missing::ModelGone(path)),
    }
}

fn program(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    let searched = path.into_iter().flat_map(std::env::split_paths);
    searched
        .chain(ALSO.map(PathBuf::from))
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn finds_programs_and_says_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32, size: u64| {
            let path = dir.path().join(name);
            fs::File::create(&path).unwrap().set_len(size).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let path = dir.path().as_os_str();
        assert_eq!(program("no-such-program", Some(path)), None);
        file("whisper-cli", 0o644, 1);
        let old = file("whisper-cpp", 0o755, 1);
        assert_eq!(whisper(Some(path)), Ok(old), "a file that cannot be run is no program");
        let ffmpeg_here = file("ffmpeg", 0o755, 1);
        assert_eq!(ffmpeg(Some(path)), Ok(ffmpeg_here));

        assert_eq!(model(None), Err(Missing::ModelUnset));
        let broken = file("small.bin", 0o644, 100);
        assert_eq!(model(broken.to_str()), Err(Missing::ModelBroken(broken)));
        let gone = dir.path().join("gone.bin");
        assert_eq!(model(gone.to_str()), Err(Missing::ModelGone(gone)));
        let good = file("ggml.bin", 0o644, MIN_MODEL);
        assert_eq!(model(good.to_str()), Ok(good.clone()));
        assert!(Tools::find(Some(path), good.to_str()).is_ok());
        let missing = Tools::find(Some(path), None).unwrap_err();
        assert!(missing[0].to_string().contains("curl -L -o ~/.leo/models/ggml-large-v3-turbo.bin"));
    }
}

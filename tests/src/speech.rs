//! Recordings for tests: spoken by real programs, or made up, and the programs that stand in for Whisper.

use anyhow::{Context, Result, ensure};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// A real Whisper: its program and its model, from `LEO_TEST_WHISPER_CLI` and `LEO_TEST_WHISPER_MODEL`.
pub struct Whisper {
    /// The program.
    pub program: PathBuf,
    /// The model.
    pub model: PathBuf,
}

/// The real Whisper with the programs that speak and convert, or a loud skip.
pub fn whisper_or_skip(test: &str) -> Option<Whisper> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.exists());
    let found = path("LEO_TEST_WHISPER_CLI")
        .zip(path("LEO_TEST_WHISPER_MODEL"))
        .map(|(program, model)| Whisper { program, model })
        .filter(|_| ["ffmpeg", "flite", "espeak-ng"].iter().all(|program| is_there(program)));
    if found.is_none() {
        skip(test, "Whisper and the voices are");
    }
    found
}

/// Whether ffmpeg is there, or a loud skip.
pub fn ffmpeg_or_skip(test: &str) -> bool {
    let found = is_there("ffmpeg");
    if !found {
        skip(test, "ffmpeg is");
    }
    found
}

/// Skips loudly.
///
/// # Panics
/// Under `CI=true`, where a skip is a failure.
#[expect(clippy::panic, clippy::print_stderr, reason = "a skip must be loud, and must not pass in CI")]
fn skip(test: &str, what: &str) {
    let text = format!("SKIPPED {test}: {what} not installed (see scripts/test)");
    if std::env::var("CI").is_ok_and(|ci| ci == "true") {
        panic!("{text}");
    }
    eprintln!("{text}");
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Runs a program that must end well.
///
/// # Errors
/// When it does not.
pub fn run(program: &str, args: &[&str]) -> Result<()> {
    let output = Command::new(program).args(args).output().with_context(|| program.to_owned())?;
    ensure!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// ffmpeg with what every call has.
///
/// # Errors
/// When it does not end well.
pub fn ffmpeg(args: &[&str]) -> Result<()> {
    run("ffmpeg", &[&["-nostdin", "-v", "error", "-y"], args].concat())
}

/// English, spoken by flite.
///
/// # Errors
/// When it cannot be.
pub fn say(text: &str, to: &Path) -> Result<()> {
    run("flite", &["-voice", "slt", "-t", text, "-o", &to.to_string_lossy()])
}

/// Any language, spoken by espeak-ng.
///
/// # Errors
/// When it cannot be.
pub fn say_in(language: &str, text: &str, to: &Path) -> Result<()> {
    run("espeak-ng", &["-v", language, "-s", "135", "-w", &to.to_string_lossy(), text])
}

/// A WAV file of 16 kHz with these samples, each from −1 to 1.
pub fn wav(samples: &[f32]) -> Vec<u8> {
    let bytes = u32::try_from(samples.len() * 2).unwrap_or(u32::MAX);
    let mut out = Vec::with_capacity(samples.len() * 2 + 44);
    out.extend(b"RIFF");
    out.extend((bytes + 36).to_le_bytes());
    out.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    out.extend(16_000u32.to_le_bytes());
    out.extend(32_000u32.to_le_bytes());
    out.extend(b"\x02\0\x10\0data");
    out.extend(bytes.to_le_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    out.extend(samples.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()));
    out
}

/// So many samples of a second's parts.
fn samples(seconds: f32, each: impl FnMut(f32) -> f32) -> Vec<f32> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let count = (seconds * 16_000.0) as u32;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    (0..count).map(|n| n as f32 / 16_000.0).map(each).collect()
}

/// Something like a voice: a buzz in syllables.
pub fn voice(seconds: f32, loud: f32) -> Vec<f32> {
    use std::f32::consts::TAU;
    samples(seconds, |t| {
        let tone: f32 =
            [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().map(|k| (t * 120.0 * TAU * k).sin() / k).sum();
        tone * (t * 4.0 * TAU).sin().max(0.0) * loud * 0.5
    })
}

/// White noise.
pub fn noise(seconds: f32, loud: f32) -> Vec<f32> {
    samples(seconds, |_| (rand::random::<f32>() - 0.5) * 2.0 * loud)
}

/// Quiet noise with one click in it.
pub fn click() -> Vec<f32> {
    let mut quiet = noise(1.0, 0.0001);
    quiet[8000..8040].fill(0.9);
    quiet
}

/// A program that stands in for whisper.cpp's: `body` is shell, with `$out` for the answer's path without
/// its ending and `$language`; `heard WORDS` writes an answer.
///
/// # Errors
/// When it cannot be written.
pub fn fake_whisper(dir: &Path, body: &str) -> Result<()> {
    let path = dir.join("whisper-cli");
    let script = format!(
        r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case "$1" in -of) out=$2; shift;; -l) language=$2; shift;; esac
    shift
done
heard() {{ printf '{{"result":{{"language":"%s"}},"transcription":[{{"text":" %s"}}]}}' "$language" "$1" > "$out.json"; }}
{body}
"#
    );
    let fresh = dir.join(".whisper-cli.new");
    fs::write(&fresh, script)?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
    // Renamed, so that a running one is not written to.
    fs::rename(fresh, path)?;
    Ok(())
}

/// A file that passes for a model as long as nobody reads it.
///
/// # Errors
/// When it cannot be made.
pub fn fake_model(dir: &Path) -> Result<PathBuf> {
    let path = dir.join("ggml-fake.bin");
    fs::File::create(&path)?.set_len(2 * 1024 * 1024)?;
    Ok(path)
}

//! whisper.cpp's program: how it is called and what it says. Only options that the builds of 2024 and
//! today's have are used. Its exit code says little: bad audio and unknown languages end with 0, an
//! `error:` on standard error, and nothing heard.

use crate::{
    guard::{Ended, Run},
    job::{Failure, Job},
    level::Level,
    tools::Tools,
};
use serde::Deserialize;
use std::{ffi::OsString, path::Path, time::Duration};

/// Time for the model to be loaded and for a few seconds of speech, on a machine that is busy with a
/// build.
const LEAST: Duration = Duration::from_secs(120);

/// Times the recording's length: a large model on a small machine is about that slow.
const TIMES: f32 = 12.0;

/// Longest of all, since other notes wait behind this one.
const MOST: Duration = Duration::from_secs(3600);

/// Largest answer that is read; an hour of speech with its words has about 4 MB.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;

/// What Whisper believes that it heard.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heard {
    /// The words, in the pieces that it heard them in.
    pub(crate) segments: Vec<String>,
    /// The language, as Whisper calls it.
    pub(crate) language: String,
    /// Mean probability of the words, where it says so.
    pub(crate) confidence: Option<f32>,
}

/// How long Whisper may take for a recording of so many seconds.
pub(crate) fn deadline(seconds: f32) -> Duration {
    let wanted = Duration::try_from_secs_f32(seconds.max(0.0) * TIMES).unwrap_or(MOST);
    wanted.clamp(LEAST, MOST)
}

/// Lets Whisper listen to a recording.
pub(crate) async fn hear(job: &Job<'_>, tools: &Tools, wav: &Path, level: &Level) -> Result<Heard, Failure> {
    let out = wav.with_extension("heard");
    let mut args: Vec<OsString> = vec!["-m".into(), tools.model.clone().into(), "-f".into(), wav.into()];
    // The language, nothing but errors on standard error, and an answer with every word's probability.
    args.extend(["-l", &job.chat.whisper_language, "-np", "-ojf", "-of"].map(Into::into));
    args.push(out.clone().into());
    let within = deadline(level.seconds);
    let run = Run { leo: job.leo, program: &tools.whisper, args, folder: job.folder, within };
    let ended = run.end().await.map_err(|e| Failure::Run("whisper-cli", e))?;
    let mut answer = out.into_os_string();
    answer.push(".json");
    read(&ended, &answer_at(Path::new(&answer)))
        .map_err(|why| Failure::Whisper(why.map(|why| job.shown(&why, wav))))
}

/// The answer's bytes; none when there is no answer, or one that nobody could have spoken.
fn answer_at(path: &Path) -> Vec<u8> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.len() <= MAX_ANSWER => std::fs::read(path).unwrap_or_default(),
        _ => Vec::new(),
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: Language,
    transcription: Vec<Segment>,
}

#[derive(Deserialize, Default)]
struct Language {
    #[serde(default)]
    language: String,
}

#[derive(Deserialize)]
struct Segment {
    text: String,
    #[serde(default)]
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
struct Token {
    text: String,
    p: f32,
}

/// Reads how it ended. An error is what it complained about, if it did.
fn read(ended: &Ended, answer: &[u8]) -> Result<Heard, Option<String>> {
    let complaint = || match ended.code {
        code if code >= 128 => Some(format!("signal {}", code - 128)),
        _ => ended.complaint().map(str::to_owned),
    };
    if ended.code != 0 || answer.is_empty() {
        return Err(complaint());
    }
    // A word may be cut in the middle of a character.
    let text = String::from_utf8_lossy(answer);
    let answer: Answer = match serde_json::from_str(&text) {
        Ok(answer) => answer,
        Err(e) => return Err(complaint().or_else(|| Some(format!("its answer cannot be read: {e}")))),
    };
    let silent = answer.transcription.iter().all(|segment| segment.text.trim().is_empty());
    let failed = ended.said.lines().any(|line| line.trim_start().to_ascii_lowercase().starts_with("error"));
    if silent && failed {
        return Err(complaint());
    }
    let words: Vec<f32> = answer
        .transcription
        .iter()
        .flat_map(|segment| &segment.tokens)
        .filter(|token| !token.text.starts_with("[_"))
        .map(|token| token.p)
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "a mean of probabilities")]
    let confidence = (!words.is_empty()).then(|| words.iter().sum::<f32>() / words.len() as f32);
    let segments = answer.transcription.into_iter().map(|segment| segment.text).collect();
    Ok(Heard { segments, language: answer.result.language, confidence })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, said: &str) -> Ended {
        Ended { code, said: said.into() }
    }

    const HEARD: &[u8] = br#"{"systeminfo":"x","result":{"language":"en"},"transcription":[
        {"offsets":{"from":0,"to":1},"text":" Hello","tokens":[{"text":"[_BEG_]","p":0.1,"id":1},{"text":" Hello","p":0.9}]},
        {"text":" there.","tokens":[{"text":" there","p":0.7},{"text":".","p":0.8}]}]}"#;

    #[test]
    fn what_it_says_is_read_whatever_its_exit_code() {
        let heard = read(&ended(0, ""), HEARD).unwrap();
        assert_eq!((heard.segments.concat(), heard.language.as_str()), (" Hello there.".to_owned(), "en"));
        assert!((heard.confidence.unwrap() - 0.8).abs() < 0.001);
        let empty = br#"{"result":{},"transcription":[]}"#;
        assert!(read(&ended(0, ""), empty).unwrap().segments.is_empty());
        let cut = b"{\"transcription\":[{\"text\":\" caf\xc3\"}]}";
        assert_eq!(read(&ended(0, ""), cut).unwrap().segments, [" caf\u{fffd}"]);
        // A warning beside words is no failure.
        assert!(read(&ended(0, "whisper: error correction is off"), HEARD).is_ok());
    }

    #[test]
    fn failures_are_failures() {
        let empty = br#"{"transcription":[]}"#.as_slice();
        for (code, said, answer, why) in [
            (
                0,
                "error: failed to read WAV file 'x.wav'",
                b"".as_slice(),
                Some("error: failed to read WAV file 'x.wav'"),
            ),
            (0, "error: unknown language 'xx'", empty, Some("error: unknown language 'xx'")),
            (0, "", b"", None),
            (0, "", b"\xff\x00garbage", Some("its answer cannot be read")),
            (
                3,
                "error: failed to initialize whisper context",
                HEARD,
                Some("error: failed to initialize whisper context"),
            ),
            (139, "", HEARD, Some("signal 11")),
        ] {
            let found = read(&ended(code, said), answer).unwrap_err();
            assert!(
                found.as_deref().unwrap_or_default().starts_with(why.unwrap_or_default())
                    && found.is_some() == why.is_some(),
                "{code} {said}: {found:?}"
            );
        }
    }

    #[test]
    fn deadlines_follow_the_length() {
        assert_eq!(deadline(0.0), LEAST);
        assert_eq!(deadline(60.0), Duration::from_secs(720));
        assert_eq!(deadline(3600.0), MOST);
        assert_eq!(deadline(f32::INFINITY), MOST);
    }
}

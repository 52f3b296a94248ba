//! Any recording to the one form that whisper.cpp reads: WAV, 16 kHz, mono, 16 bits.

use crate::{
    guard::{Ended, Run},
    job::{Failure, Job},
    level::{Level, Meter, RATE},
    tools::Tools,
};
use std::{ffi::OsString, io, path::Path, time::Duration};

/// Longest recording that is transcribed, in seconds.
pub(crate) const MAX_SECONDS: u16 = 3600;

/// How long ffmpeg may take: it converts an hour in about half a minute.
const DEADLINE: Duration = Duration::from_secs(180);

/// The containers that voice notes come in. Others can name further files for ffmpeg to read (playlists),
/// and a recording is somebody else's file.
const FORMATS: &str = "wav,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,ogg,mp3,flac,aac,aiff,amr,caf,w64,au";

/// Shortest recording that is given to Whisper, in samples: it says nothing about less than a second.
const SHORTEST: u32 = 2 * RATE;

/// Fewer samples of pauses than these are not worth leaving out.
const LITTLE: u64 = 2 * RATE as u64;

/// Converts a recording.
pub(crate) async fn to_wav(
    job: &Job<'_>,
    tools: &Tools,
    recording: &Path,
    wav: &Path,
) -> Result<(), Failure> {
    match std::fs::metadata(recording) {
        Ok(meta) if meta.len() == 0 => return Err(Failure::Unreadable(Some("it is empty".to_owned()))),
        Ok(_) => {}
        Err(_) => return Err(Failure::Gone),
    }
    let mut input = OsString::from("file:");
    input.push(recording);
    let limit = (u32::from(MAX_SECONDS) + 1).to_string();
    let mut args: Vec<OsString> = ["-nostdin", "-hide_banner", "-v", "error", "-y"].map(Into::into).into();
    args.extend(["-protocol_whitelist", "file", "-format_whitelist", FORMATS, "-i"].map(Into::into));
    args.push(input);
    args.extend(["-map", "0:a:0", "-t", &limit, "-ar", "16000", "-ac", "1"].map(Into::into));
    args.extend(["-c:a", "pcm_s16le", "-f", "wav"].map(Into::into));
    args.push(wav.into());
    let run = Run { leo: job.leo, program: &tools.ffmpeg, args, folder: job.folder, within: DEADLINE };
    let ended = run.end().await.map_err(|e| Failure::Run("ffmpeg", e))?;
    if ended.code != 0 || !wav.exists() {
        return Err(Failure::Unreadable(why(job, &ended, recording)));
    }
    Ok(())
}

fn why(job: &Job<'_>, ended: &Ended, recording: &Path) -> Option<String> {
    ended.complaint().map(|complaint| job.shown(complaint, recording))
}

/// Looks at a converted recording, and leaves of it what Whisper is to hear: no long pauses, and no less
/// than it needs. One that ffmpeg found nothing in has no samples.
pub(crate) fn measure(wav: &Path) -> Result<Level, Failure> {
    let broken = |e: hound::Error| match e {
        hound::Error::IoError(e) => Failure::Disk(e),
        other => Failure::Unreadable(Some(other.to_string())),
    };
    let mut meter = Meter::default();
    let mut reader = hound::WavReader::open(wav).map_err(broken)?;
    for sample in reader.samples::<i16>() {
        meter.push(sample.map_err(broken)?);
    }
    let (spec, samples) = (reader.spec(), u64::from(reader.duration()));
    drop(reader);
    let kept = meter.worth_hearing();
    let left: u64 = kept.iter().map(|range| range.end - range.start).sum();
    if left > 0 && (left < u64::from(SHORTEST) || left + LITTLE < samples) {
        let short = wav.with_extension("short.wav");
        let mut reader = hound::WavReader::open(wav).map_err(broken)?;
        let mut writer = hound::WavWriter::create(&short, spec).map_err(broken)?;
        let mut ranges = kept.into_iter().peekable();
        for (at, sample) in (0u64..).zip(reader.samples::<i16>()) {
            while ranges.next_if(|range| range.end <= at).is_some() {}
            match ranges.peek() {
                Some(range) if range.contains(&at) => {
                    writer.write_sample(sample.map_err(broken)?).map_err(broken)?;
                }
                Some(_) => {}
                None => break,
            }
        }
        (left..u64::from(SHORTEST)).try_for_each(|_| writer.write_sample(0i16)).map_err(broken)?;
        writer.finalize().map_err(broken)?;
        std::fs::rename(short, wav)?;
    }
    Ok(meter.level())
}

impl From<tokio::task::JoinError> for Failure {
    fn from(error: tokio::task::JoinError) -> Failure {
        Failure::Disk(io::Error::other(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::tests::voice;

    fn write(path: &Path, samples: &[f32]) {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: RATE,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut writer = hound::WavWriter::create(path, spec).unwrap();
        #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
        samples.iter().for_each(|s| writer.write_sample((s * 32_767.0) as i16).unwrap());
        writer.finalize().unwrap();
    }

    #[test]
    fn short_recordings_are_made_longer_without_sounding_so() {
        let dir = tempfile::tempdir().unwrap();
        let wav = dir.path().join("x.wav");
        write(&wav, &voice(0.5, 0.3));
        let level = measure(&wav).unwrap();
        assert!((0.49..0.51).contains(&level.seconds) && level.voiced_ms > 0, "{level:?}");
        assert_eq!(hound::WavReader::open(&wav).unwrap().duration(), SHORTEST);
        let pauses = [vec![0.0; 320_000], voice(1.0, 0.3), vec![0.0; 320_000]].concat();
        write(&wav, &pauses);
        assert!((40.9..41.1).contains(&measure(&wav).unwrap().seconds), "it is as long as it was said to be");
        let left = hound::WavReader::open(&wav).unwrap().duration();
        assert!((32_000..42_000).contains(&left), "{left}");
        write(&wav, &[]);
        assert_eq!(measure(&wav).unwrap().seconds, 0.0);
        std::fs::write(&wav, "RIFF").unwrap();
        assert!(measure(&wav).is_err());
    }
}

//! What can be told of a recording from its samples alone: how loud it is, how much that changes, and
//! how much of it has a pitch. Pure.

use std::ops::Range;

/// Samples of a second. The recordings that we read have been converted to it.
pub(crate) const RATE: u32 = 16_000;

/// Samples of a frame: 30 ms, in which a voice holds still.
const FRAME: usize = 480;

/// Milliseconds of a frame.
const FRAME_MS: u32 = 30;

/// How much of a sample is taken off the next one: it evens out the rumble of rooms and microphones, so
/// that every steady noise looks steady.
const EMPHASIS: f32 = 0.97;

/// What counts as no sound at all.
const NOTHING_DB: f32 = -120.0;

/// Softest sound that can be a voice, in decibels below full scale. A voice at an arm's length is at
/// −30, one across the room at −50.
pub(crate) const AUDIBLE_DB: f32 = -60.0;

/// How far above the quiet frames a frame stands that is more than background.
const ABOVE_DB: f32 = 6.0;

/// A frame with a pitch repeats itself this well, of 1.
const PERIODIC: f32 = 0.6;

/// Samples that are kept before and after what stands out: the ends of words are soft, and a pause between
/// sentences helps to hear that they are two.
const AROUND: u64 = 12_000;

/// Samples that are averaged into one before a pitch is looked for, which needs no more.
const COARSE: usize = 4;

/// Periods of voices in coarse samples: 400 to 60 Hz.
const PERIODS: std::ops::RangeInclusive<usize> = 10..=66;

/// What a recording sounds like.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Level {
    /// Its length.
    pub(crate) seconds: f32,
    /// Its loudest frame, in decibels below full scale.
    pub(crate) peak_db: f32,
    /// How far its loud frames stand above its quiet ones, in decibels.
    pub(crate) spread_db: f32,
    /// How long it stands above its background.
    pub(crate) active_ms: u32,
    /// The longest stretch of that.
    pub(crate) run_ms: u32,
    /// How much of that has a pitch, as voices and instruments do.
    pub(crate) voiced_ms: u32,
}

/// Takes samples one after the other, and holds a few bytes for each frame.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    frame: Vec<f32>,
    last: f32,
    samples: u64,
    frames: Vec<Frame>,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Loudness.
    db: f32,
    /// Loudness of what changes quickly.
    emphasised_db: f32,
    periodic: bool,
}

impl Frame {
    /// Whether it stands above the background.
    fn is_active(&self, quiet: f32) -> bool {
        self.emphasised_db > quiet + ABOVE_DB && self.db > AUDIBLE_DB
    }
}

impl Meter {
    /// Takes a sample.
    pub(crate) fn push(&mut self, sample: i16) {
        self.samples += 1;
        self.frame.push(f32::from(sample) / 32_768.0);
        if self.frame.len() == FRAME {
            let frame = std::mem::take(&mut self.frame);
            let seen = self.look(&frame);
            self.frames.push(seen);
        }
    }

    fn look(&mut self, samples: &[f32]) -> Frame {
        let mut emphasised = 0.0;
        for sample in samples {
            let changed = sample - EMPHASIS * self.last;
            self.last = *sample;
            emphasised += changed * changed;
        }
        let loud = samples.iter().map(|s| s * s).sum();
        Frame { db: db(loud), emphasised_db: db(emphasised), periodic: is_periodic(samples) }
    }

    /// How loud its quiet and its loud frames are.
    fn range(&self) -> (f32, f32) {
        let mut sorted: Vec<f32> = self.frames.iter().map(|frame| frame.emphasised_db).collect();
        sorted.sort_by(f32::total_cmp);
        let at = |percent: usize| sorted.get(sorted.len() * percent / 100).copied().unwrap_or(NOTHING_DB);
        (at(10), at(95))
    }

    /// The samples that are worth listening to: whatever stands above the background, with what is around
    /// it. Whisper makes things up about long pauses, and takes its time over them.
    pub(crate) fn worth_hearing(&self) -> Vec<Range<u64>> {
        let (quiet, _) = self.range();
        let frame = FRAME as u64;
        let mut kept: Vec<Range<u64>> = Vec::new();
        for (n, _) in self.frames.iter().enumerate().filter(|(_, frame)| frame.is_active(quiet)) {
            let start = (n as u64 * frame).saturating_sub(AROUND);
            let end = ((n as u64 + 1) * frame + AROUND).min(self.samples);
            match kept.last_mut() {
                Some(last) if start <= last.end => last.end = end,
                _ => kept.push(start..end),
            }
        }
        kept
    }

    /// What it was. A rest shorter than a frame says nothing.
    pub(crate) fn level(&self) -> Level {
        let (quiet, loud) = self.range();
        let mut level = Level {
            #[expect(clippy::cast_precision_loss, reason = "a length in seconds needs no more precision")]
            seconds: self.samples as f32 / RATE as f32,
            peak_db: self.frames.iter().map(|frame| frame.db).fold(NOTHING_DB, f32::max),
            spread_db: loud - quiet,
            ..Level::default()
        };
        let mut run = 0;
        for frame in &self.frames {
            let active = frame.is_active(quiet);
            run = if active { run + FRAME_MS } else { 0 };
            level.run_ms = level.run_ms.max(run);
            if active {
                level.active_ms += FRAME_MS;
                level.voiced_ms += if frame.periodic { FRAME_MS } else { 0 };
            }
        }
        level
    }
}

/// Decibels of a frame's energy below that of full scale.
fn db(energy: f32) -> f32 {
    let mean = energy / FRAME_LEN;
    (10.0 * mean.max(1e-12).log10()).max(NOTHING_DB)
}

/// [`FRAME`] as a number to divide by.
const FRAME_LEN: f32 = 480.0;

/// Whether a frame repeats itself at the pitch of a voice.
fn is_periodic(samples: &[f32]) -> bool {
    let coarse: Vec<f32> = samples.chunks_exact(COARSE).map(|chunk| chunk.iter().sum()).collect();
    let energy = |part: &[f32]| part.iter().map(|s| s * s).sum::<f32>();
    PERIODS.clone().any(|lag| {
        let (Some(early), Some(late)) = (coarse.get(..coarse.len().saturating_sub(lag)), coarse.get(lag..))
        else {
            return false;
        };
        let same: f32 = early.iter().zip(late).map(|(a, b)| a * b).sum();
        let scale = (energy(early) * energy(late)).sqrt();
        scale > 0.0 && same / scale > PERIODIC
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn level(samples: impl IntoIterator<Item = f32>) -> Level {
        let mut meter = Meter::default();
        #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
        samples.into_iter().for_each(|s| meter.push((s * 32_767.0) as i16));
        meter.level()
    }

    /// Samples of so many seconds.
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    fn count(seconds: f32) -> usize {
        (seconds * 16_000.0) as usize
    }

    /// Noise that is the same each time.
    pub(crate) fn noise(seconds: f32, loud: f32) -> Vec<f32> {
        let mut state = 0x2545_f491_u32;
        let samples = (0..count(seconds)).map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state as f32 / u32::MAX as f32 - 0.5) * 2.0 * loud
        });
        samples.collect()
    }

    /// Syllables: a buzz of 120 Hz with its overtones, four times a second.
    pub(crate) fn voice(seconds: f32, loud: f32) -> Vec<f32> {
        let samples = (0..count(seconds)).map(|n| {
            let t = n as f32 / 16_000.0;
            let tone: f32 =
                (1..12).map(|k| (t * 120.0 * std::f32::consts::TAU * k as f32).sin() / k as f32).sum();
            let syllable = (t * 4.0 * std::f32::consts::TAU).sin().max(0.0);
            tone * syllable * loud * 0.5
        });
        samples.collect()
    }

    #[test]
    fn silence_and_steady_noise_have_nothing_that_stands_out() {
        for samples in [vec![0.0; 80_000], noise(5.0, 0.3), noise(5.0, 0.003)] {
            let level = level(samples);
            assert_eq!((level.active_ms, level.voiced_ms), (0, 0), "{level:?}");
            assert!(level.spread_db < 3.0, "{level:?}");
        }
        assert_eq!(level([]).seconds, 0.0);
    }

    #[test]
    fn a_voice_stands_out_however_soft_and_in_noise() {
        for loud in [0.5, 0.05, 0.01] {
            let level = level(voice(2.0, loud));
            assert!(
                level.active_ms > 500 && level.voiced_ms > 400 && level.run_ms >= 90,
                "{loud}: {level:?}"
            );
        }
        let mixed: Vec<f32> = voice(2.0, 0.3).iter().zip(noise(2.0, 0.004)).map(|(a, b)| a + b).collect();
        let level = level(mixed);
        assert!(level.voiced_ms > 200 && level.run_ms >= 90, "{level:?}");
    }

    #[test]
    fn long_pauses_are_not_worth_hearing() {
        let pause = vec![0.0; 160_000];
        let samples = [pause.clone(), voice(1.0, 0.3), pause.clone(), voice(2.0, 0.3), pause].concat();
        let mut meter = Meter::default();
        #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
        samples.iter().for_each(|s| meter.push((s * 32_767.0) as i16));
        let kept = meter.worth_hearing();
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert!(kept[0].start <= 160_000 && kept[0].end >= 160_000 + 12_000, "{kept:?}");
        let sum: u64 = kept.iter().map(|range| range.end - range.start).sum();
        assert!((48_000..48_000 + 4 * AROUND + 2000).contains(&sum), "{sum}");
    }

    #[test]
    fn a_click_is_short() {
        let mut samples = noise(1.0, 0.0001);
        samples[8000..8040].fill(0.9);
        let level = level(samples);
        assert!(level.run_ms <= 60 && level.active_ms <= 60, "{level:?}");
    }

    proptest! {
        #[test]
        fn figures_agree_with_each_other(samples in proptest::collection::vec(any::<i16>(), 0..5000)) {
            let mut meter = Meter::default();
            samples.iter().for_each(|s| meter.push(*s));
            let level = meter.level();
            prop_assert!((NOTHING_DB..=0.01).contains(&level.peak_db), "{level:?}");
            prop_assert!(level.voiced_ms <= level.active_ms && level.run_ms <= level.active_ms);
            prop_assert!(level.spread_db >= 0.0);
            let kept = meter.worth_hearing();
            prop_assert!(kept.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(kept.iter().all(|range| range.start < range.end && range.end <= samples.len() as u64));
        }
    }
}

//! Whether there was speech. Whisper writes something for every sound, and its favourite sentences for
//! silence, so the recording is looked at before it and its words are after it. Pure.
//!
//! The bound towards real speech is the wider one: what is soft, short or noisy goes to Whisper, and what
//! Whisper heard is only doubted when nothing in the recording could have said it.

use crate::level::{AUDIBLE_DB, Level};

/// Shortest stretch above the background that can be a syllable. A click or a knock is shorter.
const SYLLABLE_MS: u32 = 90;

/// With less voice than this a recording has said no sentence, whatever Whisper thinks.
const SAID_SOMETHING_MS: u32 = 150;

/// Fastest speech, in characters a second of the whole recording: auctioneers speak at 25.
const MAX_CHARS_PER_SECOND: f32 = 45.0;

/// So often in a row a sentence is no emphasis but Whisper going round in circles.
const LOOP: usize = 4;

/// Words that Whisper is less sure of than this, on average, are guesses. Real speech measured 0.85 and
/// more, in noise too.
const GUESS: f32 = 0.35;

/// Whether it is worth asking Whisper.
pub(crate) fn may_hold_speech(level: &Level) -> bool {
    level.peak_db > AUDIBLE_DB && level.run_ms >= SYLLABLE_MS
}

/// What somebody said, if anybody did, from Whisper's segments; `confidence` is the mean probability of the
/// words, from 0 to 1.
pub(crate) fn speech(segments: &[String], level: &Level, confidence: Option<f32>) -> Option<String> {
    // A segment of nothing but annotations is a pause.
    let words = segments.iter().filter(|text| !plain(&without_annotations(text, &ALL)).is_empty());
    let heard: String = words.map(String::as_str).collect();
    let heard = heard.as_str();
    let plain = plain(&without_annotations(heard, &ALL));
    // Beside words, round brackets and stars may be somebody's.
    let text = without_annotations(heard, &SOUNDS);
    if plain.is_empty() || CREDITS.iter().any(|credit| plain == *credit || is_loop_of(&plain, credit)) {
        return None;
    }
    let faint = level.voiced_ms < SAID_SOMETHING_MS;
    let stock = STOCK.iter().any(|phrase| plain == *phrase || is_loop_of(&plain, phrase));
    let unsure = confidence.is_some_and(|p| p < GUESS);
    if faint && (stock || unsure || has_loop(&plain)) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of characters needs no more precision")]
    let rate = text.chars().count() as f32 / level.seconds.max(1.0);
    (rate <= MAX_CHARS_PER_SECOND).then_some(text)
}

/// What Whisper puts around sounds.
const SOUNDS: [(char, char); 3] = [('[', ']'), ('♪', '♪'), ('【', '】')];

/// What it may put around them, too.
const ALL: [(char, char); 6] = [('[', ']'), ('♪', '♪'), ('【', '】'), ('(', ')'), ('（', '）'), ('*', '*')];

/// The text without annotations: sounds, not words.
fn without_annotations(heard: &str, marks: &[(char, char)]) -> String {
    let mut out = String::with_capacity(heard.len());
    let mut rest = heard;
    while let Some(c) = rest.chars().next() {
        let closing = marks.iter().find(|(open, _)| *open == c).map(|(_, close)| *close);
        let after = &rest[c.len_utf8()..];
        rest = match closing.and_then(|end| after.find(end).map(|at| at + end.len_utf8())) {
            // A long bracket is somebody's sentence.
            Some(end) if after[..end].chars().count() <= 60 => {
                out.push(' ');
                &after[end..]
            }
            _ => {
                if !matches!(c, '♪' | '♫' | '\u{fffd}') {
                    out.push(c);
                }
                after
            }
        };
    }
    let words: Vec<&str> = out.split_whitespace().collect();
    words.join(" ")
}

/// Letters and digits in lower case, one space between words.
fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let letters: String = lower.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    letters.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a text is one phrase over and over.
fn is_loop_of(plain: &str, phrase: &str) -> bool {
    let mut rest = plain;
    while let Some(after) = rest.strip_prefix(phrase) {
        rest = after.trim_start();
        if rest.is_empty() {
            return true;
        }
    }
    false
}

/// Whether some words are repeated [`LOOP`] times on end.
fn has_loop(plain: &str) -> bool {
    let words: Vec<&str> = plain.split(' ').collect();
    (1..=words.len() / LOOP).any(|length| {
        words.windows(length * LOOP).any(|window| {
            let (first, rest) = window.split_at(length);
            rest.chunks_exact(length).all(|chunk| chunk == first)
        })
    })
}

/// What nobody says to an agent: the credits of the films that Whisper learnt from.
const CREDITS: &[&str] = &[
    "1 2 tbc",
    "amara org",
    "subtitles by the amara org community",
    "subtitles by amara org community",
    "transcription by castingwords",
    "transcribed by https otter ai",
    "thanks for watching",
    "thank you for watching",
    "thank you so much for watching",
    "thanks for watching and see you next time",
    "please subscribe to my channel",
    "please subscribe",
    "like and subscribe",
    "untertitel der amara org community",
    "untertitel von stephanie geiges",
    "untertitelung des zdf 2020",
    "untertitelung aufgrund der audioqualität nicht möglich",
    "vielen dank fürs zuschauen",
    "sous titres réalisés par la communauté d amara org",
    "sous titres réalisés para la communauté d amara org",
    "sous titrage st 501",
    "sous titrage société radio canada",
    "merci d avoir regardé cette vidéo",
    "subtítulos realizados por la comunidad de amara org",
    "subtítulos por la comunidad de amara org",
    "gracias por ver el video",
    "sottotitoli e revisione a cura di qtss",
    "sottotitoli creati dalla comunità amara org",
    "legendas pela comunidade amara org",
    "legenda adriana zanotto",
    "ondertiteld door de amara org gemeenschap",
    "ondertitels ingediend door de amara org gemeenschap",
    "napisy stworzone przez społeczność amara org",
    "titulky vytvořil johnyx",
    "субтитры сделал dimatorzok",
    "субтитры создавал dimatorzok",
    "редактор субтитров а синецкая корректор а егорова",
    "продолжение следует",
    "спасибо за просмотр",
    "дякую за перегляд",
    "altyazı m k",
    "izlediğiniz için teşekkür ederim",
    "ご視聴ありがとうございました",
    "最後までご視聴ありがとうございました",
    "字幕由amara org社区提供",
    "字幕由amara org社區提供",
    "请不吝点赞 订阅 转发 打赏支持明镜与点点栏目",
    "請不吝點贊 訂閱 轉發 打賞支持明鏡與點點欄目",
    "시청해주셔서 감사합니다",
    "mbc 뉴스 이덕영입니다",
    "teksting av nicolai winther",
    "undertekster av ai media",
    "tekstet av nicolai winther",
    "svensktextning net",
];

/// What people do say, and Whisper says to silence: only believed of a recording that has a voice in it.
const STOCK: &[&str] = &[
    "you",
    "thank you",
    "thanks",
    "thank you very much",
    "bye",
    "bye bye",
    "goodbye",
    "okay",
    "ok",
    "oh",
    "so",
    "hmm",
    "uh",
    "um",
    "yeah",
    "yes",
    "no",
    "the end",
    "i m sorry",
    "i don t know",
    "see you next time",
    "silence",
    "blank audio",
    "music",
    "vielen dank",
    "danke",
    "tschüss",
    "untertitel",
    "das war s",
    "merci",
    "au revoir",
    "gracias",
    "adiós",
    "grazie",
    "ciao",
    "obrigado",
    "tchau",
    "dank je wel",
    "bedankt",
    "dziękuję",
    "спасибо",
    "пока",
    "дякую",
    "ありがとうございました",
    "おやすみなさい",
    "谢谢",
    "謝謝",
    "謝謝大家",
    "감사합니다",
    "takk for at du så på",
    "tack",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::tests::{level, noise, voice};
    use proptest::prelude::*;

    const FAINT: Level =
        Level { seconds: 5.0, peak_db: -50.0, spread_db: 8.0, active_ms: 300, run_ms: 120, voiced_ms: 30 };
    const VOICE: Level = Level {
        seconds: 5.0,
        peak_db: -20.0,
        spread_db: 40.0,
        active_ms: 3000,
        run_ms: 900,
        voiced_ms: 2000,
    };

    fn one(heard: &str) -> [String; 1] {
        [heard.to_owned()]
    }

    #[test]
    fn pauses_between_sentences_leave_nothing() {
        let segments = [" Guten Morgen.", " * Musik *", " [Motor]", " Bitte starte neu.", " * Musik *"];
        let segments = segments.map(str::to_owned);
        assert_eq!(speech(&segments, &VOICE, None).as_deref(), Some("Guten Morgen. Bitte starte neu."));
    }

    #[test]
    fn only_what_can_be_speech_is_sent_to_whisper() {
        let click = {
            let mut samples = noise(1.0, 0.0001);
            samples[8000..8040].fill(0.9);
            samples
        };
        for (samples, may) in [
            (vec![], false),
            (vec![0.0; 80_000], false),
            (noise(5.0, 0.3), false),
            (noise(5.0, 0.001), false),
            (click, false),
            (voice(0.4, 0.3), true),
            (voice(3.0, 0.01), true),
            (voice(3.0, 0.0001), false),
        ] {
            let level = level(samples);
            assert_eq!(may_hold_speech(&level), may, "{level:?}");
        }
    }

    #[test]
    fn inventions_are_no_speech() {
        for heard in [
            "",
            " \n",
            "[BLANK_AUDIO]",
            " [Water running]",
            "(train engine rumbling)",
            "* Musik *",
            "♪ ♪",
            "[Music] [Music]",
            "1/2 tbc",
            "Thank you for watching!",
            "Thanks for watching. Thanks for watching.",
            "Untertitel der Amara.org-Community",
            "ご視聴ありがとうございました。",
            "...",
            "\u{fffd}\u{fffd}",
        ] {
            for level in [FAINT, VOICE] {
                assert_eq!(speech(&one(heard), &level, Some(0.9)), None, "{heard:?}");
            }
        }
        for heard in
            ["you", " Thank you.", "Bye. Bye. Bye.", "Vielen Dank.", "I am I am I am I am here", "Okay."]
        {
            assert_eq!(speech(&one(heard), &FAINT, None), None, "{heard:?}");
        }
        assert_eq!(
            speech(&one("Fix the door handle"), &FAINT, Some(0.2)),
            None,
            "a guess about next to nothing"
        );
        assert_eq!(speech(&one(&"word ".repeat(200)), &VOICE, None), None, "more than can be said in 5 s");
    }

    #[test]
    fn what_was_said_passes() {
        for (heard, said) in [
            (
                " Please restart the build and send me the log.",
                "Please restart the build and send me the log.",
            ),
            ("Thank you.", "Thank you."),
            ("[coughs] Yes, do it (now).", "Yes, do it (now)."),
            ("no no no no no", "no no no no no"),
            ("Bitte starte den Build neu.", "Bitte starte den Build neu."),
            ("a * b * c", "a * b * c"),
            ("it is 3 < 5", "it is 3 < 5"),
            ("ビルドを再起動してください", "ビルドを再起動してください"),
        ] {
            assert_eq!(speech(&one(heard), &VOICE, Some(0.9)).as_deref(), Some(said), "{heard:?}");
        }
        assert_eq!(
            speech(&one("Restart the build"), &FAINT, Some(0.9)).as_deref(),
            Some("Restart the build")
        );
    }

    #[test]
    fn phrases_are_written_as_they_are_compared() {
        for phrase in CREDITS.iter().chain(STOCK) {
            assert_eq!(*phrase, plain(phrase));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_heard_the_outcome_is_text_without_controls(heard in any::<String>()) {
            if let Some(text) = speech(&[heard], &Level { seconds: 3600.0, ..VOICE }, None) {
                prop_assert!(!text.trim().is_empty() && !text.contains('\n'));
                prop_assert!(text.chars().any(char::is_alphanumeric));
            }
        }

        #[test]
        fn annotations_never_add_words(heard in "[a-z \\[\\]()*♪]{0,80}") {
            let letters = |t: &str| t.chars().filter(|c| c.is_alphanumeric()).count();
            prop_assert!(letters(&without_annotations(&heard, &ALL)) <= letters(&heard));
        }

        #[test]
        fn steady_noise_never_passes(seconds in 0.5f32..3.0, loud in 0.0f32..0.9) {
            prop_assert!(!may_hold_speech(&level(noise(seconds, loud))));
        }
    }
}

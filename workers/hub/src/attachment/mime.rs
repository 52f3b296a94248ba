//! What a file is: the sender's word where the bytes do not contradict it, the bytes where it matters.
//! Pure.

/// Bytes of a file that say what it is.
pub(crate) const HEAD: usize = 4096;

/// Longest media type that is kept.
const MAX_MIME: usize = 100;

/// When nobody knows.
const OCTETS: &str = "application/octet-stream";

/// What senders say when they do not know: a form's or a command-line client's default says nothing of
/// the file.
const SAYS_NOTHING: [&str; 4] =
    [OCTETS, "binary/octet-stream", "application/x-www-form-urlencoded", "application/unknown"];

/// The media type of a file: `declared` by its sender, its first bytes, its name.
///
/// A type that a browser shows or plays must be borne out by the bytes, since it decides what the browser
/// does with them; any other type is the sender's business, and is only ever offered for download.
pub(crate) fn of(declared: Option<&str>, filename: &str, head: &[u8]) -> String {
    let seen = infer::get(head).map(|kind| kind.mime_type());
    let declared = declared.and_then(essence).filter(|d| !SAYS_NOTHING.contains(&d.as_str()));
    let by_name = || mime_guess::from_path(filename).first_raw().map(str::to_owned);
    let Some(declared) = declared.or_else(by_name) else {
        return seen.unwrap_or(OCTETS).to_owned();
    };
    match (family(&declared), seen) {
        ("image" | "audio" | "video", Some(seen)) if !agrees(&declared, seen) => seen.to_owned(),
        // These four are shown in place; without their signature they are something else.
        ("image", None) if shown(&declared) => OCTETS.to_owned(),
        _ => declared,
    }
}

/// Whether a browser may show it in place.
fn shown(mime: &str) -> bool {
    matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Whether a sound, which makes its message a voice note.
pub(crate) fn is_audio(mime: &str) -> bool {
    family(mime) == "audio"
}

/// Type and subtype without parameters, in lower case; `None` when it is none, or one of a form.
fn essence(mime: &str) -> Option<String> {
    let essence = mime.split(';').next()?.trim().to_ascii_lowercase();
    let (family, rest) = essence.split_once('/')?;
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let good = essence.len() <= MAX_MIME && token(family) && token(rest) && family != "multipart";
    good.then_some(essence)
}

fn family(mime: &str) -> &str {
    mime.split('/').next().unwrap_or_default()
}

/// Whether bytes that look like `seen` can be what was declared. Containers hold sound, film or both, and
/// the signature does not say which.
fn agrees(declared: &str, seen: &str) -> bool {
    let container = |mime: &str| {
        Some(match mime {
            "video/webm" | "audio/webm" | "video/x-matroska" | "audio/x-matroska" => 0,
            "video/mp4" | "audio/mp4" | "audio/m4a" | "audio/x-m4a" | "video/quicktime" | "video/3gpp"
            | "audio/3gpp" | "audio/aac" | "video/x-m4v" | "audio/mp4a-latm" | "image/heif"
            | "image/heic" | "image/avif" => 1,
            "audio/ogg" | "video/ogg" | "audio/opus" | "application/ogg" => 2,
            "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => 3,
            "audio/mpeg" | "audio/mp3" | "audio/x-mpeg" => 4,
            "audio/flac" | "audio/x-flac" => 5,
            "audio/aiff" | "audio/x-aiff" => 6,
            _ => return None,
        })
    };
    declared == seen || container(declared).is_some_and(|kind| container(seen) == Some(kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const WEBM: &[u8] = b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\xf7\x81\x01\x42\xf2\x81\x04\x42\xf3\x81\x08\x42\x82\x84webm";
    const WAV: &[u8] = b"RIFF\x24\0\0\0WAVEfmt ";
    const HTML: &[u8] = b"<!DOCTYPE html><script>alert(1)</script>";

    #[test]
    fn the_sender_is_believed_unless_it_matters() {
        for (declared, name, head, expected) in [
            (Some("image/png"), "a.png", PNG, "image/png"),
            (Some("image/jpeg"), "a.jpg", PNG, "image/png"),
            (Some("image/png"), "a.png", HTML, "text/html"),
            (Some("image/png"), "a.png", b"nothing", OCTETS),
            (Some("IMAGE/PNG; x=y"), "a", PNG, "image/png"),
            (None, "a", PNG, "image/png"),
            (None, "a.txt", b"hello", "text/plain"),
            (None, "notes", b"hello", OCTETS),
            (Some("application/x-www-form-urlencoded"), "a.png", PNG, "image/png"),
            (Some("application/octet-stream"), "a.pdf", b"%PDF-1.7", "application/pdf"),
            (Some("multipart/mixed; boundary=x"), "a.csv", b"a,b", "text/csv"),
            (Some("audio/webm;codecs=opus"), "note", WEBM, "audio/webm"),
            (Some("audio/mp4"), "note.m4a", b"\0\0\0\x20ftypM4A \0\0\0\0", "audio/mp4"),
            (Some("audio/mpeg"), "note.mp3", WAV, "audio/x-wav"),
            (None, "voice.wav", WAV, "audio/wav"),
            (Some("audio/webm"), "empty", b"", "audio/webm"),
            (Some("text/html"), "a.html", HTML, "text/html"),
            (Some("image/svg+xml"), "a.svg", b"<svg/>", "image/svg+xml"),
            (Some("nonsense"), "x.zip", b"PK\x03\x04", "application/zip"),
            (Some("a/b\nc: d"), "x", b"", OCTETS),
        ] {
            assert_eq!(of(declared, name, head), expected, "{declared:?} {name} {:?}", head.get(..8));
        }
    }

    proptest! {
        #[test]
        fn every_type_fits_into_a_header(declared in proptest::option::of(any::<String>()), name in any::<String>(),
                                         head in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mime = of(declared.as_deref(), &name, &head);
            prop_assert!(mime.len() <= MAX_MIME && mime.contains('/'));
            prop_assert!(mime.bytes().all(|b| b.is_ascii_graphic()));
        }
    }
}

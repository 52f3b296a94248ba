//! `leo_chat_post`: a message from the agent into its thread.

use super::{Args, Call, Tool, ToolError, object, spec};
use futures_util::future::BoxFuture;
use leo_ipc::{
    MessageId,
    chat::{AgentPost, MAX_POST_FILE_BYTES, MAX_POST_FILES, MAX_POST_TEXT},
};
use serde_json::{Value, json};
use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

/// How long to ask the hub, over its restarts: it copies the files before it answers, up to 1 GB.
const WITHIN: Duration = Duration::from_secs(180);

/// The tool.
pub(crate) struct ChatPost;

const KNOWN: [&str; 3] = ["text", "files", "reply_to"];

impl Tool for ChatPost {
    fn name(&self) -> &'static str {
        "leo_chat_post"
    }

    fn spec(&self) -> rmcp::model::Tool {
        let input = object(json!({
            "type": "object",
            "properties": {
                "text": {
                    "type": "string",
                    "description": "What they read, as Markdown; the caption when there are files. At most 64 KiB."
                },
                "files": {
                    "type": "array",
                    "items": { "type": "string" },
                    "maxItems": MAX_POST_FILES,
                    "description": "Absolute paths of files to attach, at most 10, each at most 100 MiB."
                },
                "reply_to": {
                    "type": "string",
                    "description": "Id of the message that this one answers."
                }
            },
            "additionalProperties": false
        }));
        let output = object(json!({
            "type": "object",
            "properties": { "message_id": { "type": "string" } },
            "required": ["message_id"]
        }));
        let description = "Sends a message to the person you work for, into your chat thread with them. Needs text, \
             files or both. Use it for progress on long work, for files (a screenshot, a report) and for \
             news nobody asked for.";
        spec(self.name(), "Post to chat", description, input, output, |hints| hints)
    }

    fn known(&self) -> &'static [&'static str] {
        &KNOWN
    }

    fn call<'a>(&'a self, args: Args, call: Call<'a>) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let text = args.text("text")?.unwrap_or_default();
            let paths = args.texts("files")?;
            if text.trim().is_empty() && paths.is_empty() {
                return Err(ToolError::Arguments("give text, files or both: this message is empty".into()));
            }
            if text.len() > MAX_POST_TEXT {
                return Err(ToolError::Arguments(format!(
                    "at $.text: {} bytes are more than the {MAX_POST_TEXT} that a message may have; post it \
                     in parts or as a file",
                    text.len()
                )));
            }
            if paths.len() > MAX_POST_FILES {
                return Err(ToolError::Arguments(format!(
                    "at $.files: {} files are more than the {MAX_POST_FILES} that a message may have; post \
                     several messages",
                    paths.len()
                )));
            }
            let mut files = Vec::with_capacity(paths.len());
            for (i, path) in paths.into_iter().enumerate() {
                let place = format!("$.files[{i}]");
                let path = resolve(path, call.caller.cwd.as_deref(), &place)?;
                files.push(check_file(path, place).await?);
            }
            let post = AgentPost {
                agent: call.caller.agent.clone(),
                launch: Some(call.caller.launch.clone()),
                call_key: call.key,
                text: text.to_owned(),
                files,
                reply_to: args.text("reply_to")?.map(MessageId::from),
                run: call.caller.run.clone(),
            };
            let posted = call.hub.call(post, WITHIN).await?;
            Ok(json!({ "message_id": posted.message_id }))
        })
    }
}

/// The absolute path that `path` means to an agent working in `cwd`.
fn resolve(path: &str, cwd: Option<&Path>, place: &str) -> Result<PathBuf, ToolError> {
    if path.is_empty() || path.contains('\0') {
        return Err(ToolError::Arguments(format!("at {place}: expected a path, found {path:?}")));
    }
    if path.starts_with('~') {
        return Err(ToolError::Arguments(format!(
            "at {place}: {path:?} begins with ~, which only a shell understands; give the absolute path"
        )));
    }
    let path = Path::new(path);
    let absolute = match cwd {
        _ if path.is_absolute() => path.to_owned(),
        Some(cwd) => cwd.join(path),
        None => {
            return Err(ToolError::Arguments(format!(
                "at {place}: {} is relative, and it is not known to which folder; give the absolute path",
                path.display()
            )));
        }
    };
    // Only `.` is dropped: `a/../b` is not `b` when `a` is a link, so the system shall decide.
    Ok(absolute.components().filter(|c| *c != Component::CurDir).collect())
}

/// Checks that the hub will be able to copy the file, to say here what is wrong with it.
async fn check_file(path: PathBuf, place: String) -> Result<String, ToolError> {
    let blocking = move || {
        let wrong = |what: String| ToolError::Arguments(format!("at {place}: {} {what}", path.display()));
        let found = std::fs::metadata(&path).map_err(|e| wrong(format!("cannot be read: {}", reason(&e))))?;
        if !found.is_file() {
            // Before it is opened: opening a pipe would wait for its other end.
            return Err(wrong("is not a regular file".to_owned()));
        }
        if found.len() > MAX_POST_FILE_BYTES {
            return Err(wrong(format!(
                "has {} MiB, more than the 100 MiB that a file may have",
                found.len() / (1024 * 1024)
            )));
        }
        std::fs::File::open(&path).map_err(|e| wrong(format!("cannot be read: {}", reason(&e))))?;
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| wrong("is not a UTF-8 path".to_owned()))
    };
    tokio::task::spawn_blocking(blocking).await.map_err(|e| ToolError::Internal(e.to_string()))?
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_mean_the_harness_folder() {
        let cwd = Some(Path::new("/project"));
        assert_eq!(resolve("./a/b.png", cwd, "$").unwrap(), Path::new("/project/a/b.png"));
        assert_eq!(resolve("/x/../y", cwd, "$").unwrap(), Path::new("/x/../y"));
        assert_eq!(resolve("/x", None, "$").unwrap(), Path::new("/x"));
        for (path, says) in [("a", "is relative"), ("~/a", "only a shell"), ("", "expected a path")] {
            let error = resolve(path, None, "$.files[0]").unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("$.files[0]"), "{error}");
        }
    }

    #[tokio::test]
    async fn files_are_checked_before_the_hub_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("good"), "x").unwrap();
        std::fs::File::create(at("large")).unwrap().set_len(MAX_POST_FILE_BYTES + 1).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(check_file(at("good"), "$".into()).await.unwrap(), at("good").to_str().unwrap());
        for (name, says) in [
            ("missing", "does not exist"),
            ("large", "more than the 100 MiB"),
            ("socket", "not a regular file"),
            ("", "not a regular file"),
        ] {
            let error = check_file(at(name), "$.files[3]".into()).await.unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("$.files[3]"), "{name}: {error}");
        }
    }
}

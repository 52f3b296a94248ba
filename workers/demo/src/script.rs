//! The small language in prompts: one directive a line, `>>` first. Pure.

use crate::dialog::Question;
use serde_json::{Map, Value};

/// What the daemon puts before a message.
const CHAT_PREFIX: &str = "[Leo Chat] ";

/// Longest `>>sleep`, in seconds: a typing error must not look like a hang.
const MAX_SLEEP_S: f64 = 3600.0;

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Say something.
    Say(String),
    /// Do nothing for so many seconds.
    Sleep(f64),
    /// Call a tool of our MCP server.
    Tool {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
    /// Ask for permission, then run a command.
    Run(String),
    /// Ask questions, as Claude's `AskUserQuestion`.
    Questions(Value),
    /// End the turn as a harness does whose model cannot be reached.
    Fail(String),
    /// End the process.
    Crash(u8),
    /// A directive that cannot be read, and why.
    Bad(String),
}

/// What a prompt asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Prompt {
    /// To see what the demo agent can do.
    Help,
    /// Steps, one after the other.
    Script(Vec<Step>),
    /// Anything else; the text without the daemon's prefix.
    Text(String),
}

/// Reads a prompt.
pub(crate) fn parse(prompt: &str) -> Prompt {
    let prompt = prompt.trim();
    let text = prompt.strip_prefix(CHAT_PREFIX).unwrap_or(prompt).trim();
    if matches!(text.to_ascii_lowercase().as_str(), "help" | "/help" | "?") {
        return Prompt::Help;
    }
    let steps: Vec<Step> =
        text.lines().filter_map(|line| line.trim().strip_prefix(">>")).map(directive).collect();
    if steps.is_empty() { Prompt::Text(text.to_owned()) } else { Prompt::Script(steps) }
}

fn directive(line: &str) -> Step {
    let (word, rest) = split(line);
    let bad = |why: &str| Step::Bad(format!(">>{}: {why}", line.trim()));
    match word {
        "say" => Step::Say(rest.to_owned()),
        "fail" => {
            Step::Fail(if rest.is_empty() { "something went wrong".to_owned() } else { rest.to_owned() })
        }
        "sleep" => match rest.parse::<f64>() {
            Ok(seconds) if (0.0..=MAX_SLEEP_S).contains(&seconds) => Step::Sleep(seconds),
            _ => bad("expected seconds, from 0 to 3600"),
        },
        "run" if rest.is_empty() => bad("expected a command"),
        "run" => Step::Run(rest.to_owned()),
        "crash" if rest.is_empty() => Step::Crash(1),
        "crash" => rest.parse().map_or_else(|_| bad("expected an exit code, from 0 to 255"), Step::Crash),
        "ask" => tool("leo_chat_ask", rest).unwrap_or_else(|why| bad(&why)),
        "questions" => match serde_json::from_str(rest) {
            Ok(json) if Question::list(&json).is_some() => Step::Questions(json),
            Ok(_) => bad("expected [{\"question\": …, \"options\": [{\"label\": …}, …]}, …]"),
            Err(e) => bad(&format!("the questions are not JSON: {e}")),
        },
        "tool" => match split(rest) {
            ("", _) => bad("expected a tool's name"),
            (name, json) => tool(name, json).unwrap_or_else(|why| bad(&why)),
        },
        _ => bad("there is no such directive; send help to see them all"),
    }
}

fn tool(name: &str, json: &str) -> Result<Step, String> {
    let arguments = if json.is_empty() { Ok(Value::Object(Map::new())) } else { serde_json::from_str(json) };
    match arguments {
        Ok(arguments) => Ok(Step::Tool { name: name.to_owned(), arguments }),
        Err(e) => Err(format!("the arguments are not JSON: {e}")),
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

/// What the demo agent says about itself when asked.
pub(crate) const HELP: &str = "\
I am Leo's built-in demo agent. There is no model behind me: I echo what you send, and I play scripts. \
Everything around me is real: the messages, the hooks, the tools, the permission prompts.

Put one directive on a line, and as many lines as you like:

>>say TEXT             answer with TEXT
>>sleep SECONDS        stay busy for a while
>>tool NAME {JSON}     call one of Leo's tools, such as
                       >>tool leo_chat_post {\"text\": \"hello\"}
                       >>tool leo_chat_history {\"limit\": 5}
>>ask {JSON}           ask you in the chat and wait, such as
                       >>ask {\"question\": \"Ship it?\", \"options\": [\"Yes\", \"No\"]}
>>questions [JSON]     ask you here and in the chat, whichever you answer first, such as
                       >>questions [{\"question\": \"Which size?\", \"header\": \"Size\",
                         \"options\": [{\"label\": \"S\"}, {\"label\": \"L\"}]}] (on one line)
>>run COMMAND          ask you for permission, here and in the chat, then really run it
>>fail TEXT            end the turn with an error
>>crash CODE           exit, to see Leo start me again

In the terminal: Enter sends, Esc interrupts, /clear starts a new session, /exit quits.";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn script(prompt: &str) -> Vec<Step> {
        match parse(prompt) {
            Prompt::Script(steps) => steps,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn directives() {
        let steps = script(
            "[Leo Chat] >>say hello  world\n>>sleep 0.5\n  >>tool leo_chat_post {\"text\": \"a b\"}\n>>tool x\n\
             Attachments: /a/b\n>>run echo 'a  b'\n>>fail broke\n>>crash 7\n>>crash",
        );
        assert_eq!(
            steps,
            [
                Step::Say("hello  world".into()),
                Step::Sleep(0.5),
                Step::Tool { name: "leo_chat_post".into(), arguments: json!({"text": "a b"}) },
                Step::Tool { name: "x".into(), arguments: json!({}) },
                Step::Run("echo 'a  b'".into()),
                Step::Fail("broke".into()),
                Step::Crash(7),
                Step::Crash(1),
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (line, why) in [
            (">>sleep long", "expected seconds"),
            (">>sleep -1", "expected seconds"),
            (">>sleep nan", "expected seconds"),
            (">>tool", "expected a tool's name"),
            (">>tool x {", "not JSON"),
            (">>run", "expected a command"),
            (">>ask {", "not JSON"),
            (">>questions {}", "expected [{"),
            (">>questions [", "not JSON"),
            (">>crash 256", "exit code"),
            (">>dance", "no such directive"),
        ] {
            let [Step::Bad(text)] = &script(line)[..] else { panic!("{line}") };
            assert!(text.contains(why) && text.starts_with(line), "{text}");
        }
    }

    #[test]
    fn questions_and_asks() {
        let steps = script(
            ">>ask {\"question\": \"Ship it?\"}\n>>questions [{\"question\": \"Which?\", \"options\": [{\"label\": \"a\"}]}]",
        );
        let Step::Tool { name, arguments } = &steps[0] else { panic!("{steps:?}") };
        assert_eq!((name.as_str(), arguments), ("leo_chat_ask", &json!({"question": "Ship it?"})));
        assert_eq!(steps[1], Step::Questions(json!([{"question": "Which?", "options": [{"label": "a"}]}])));
    }

    #[test]
    fn everything_else_is_text() {
        assert_eq!(parse("[Leo Chat] hi\nthere "), Prompt::Text("hi\nthere".into()));
        assert_eq!(parse("a >>say b"), Prompt::Text("a >>say b".into()));
        for help in ["help", "/help", "[Leo Chat] Help", "[Leo Chat] /help"] {
            assert_eq!(parse(help), Prompt::Help, "{help}");
        }
    }
}

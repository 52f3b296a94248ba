//! Messages that Claude never takes: a hook of the person's own refuses them, at once or after a while. They
//! fail after a bounded time by every route, say so, and block nobody.

use anyhow::{Context, Result, ensure};
use leo_tests::{Leo, model::Model, wait_for};
use serde_json::json;

const AGENT: &str = "assistant";

/// Exit status 2 with UserPromptSubmit: Claude drops the prompt and shows the words.
const REFUSES: &str = "if grep -q poison; then echo 'no poison here' >&2; exit 2; fi";

/// Longer than an idle session is doubted for.
const REFUSES_LATE: &str = "sleep 3; if grep -q poison; then echo 'no poison here' >&2; exit 2; fi";

/// Claude shows a long paste as a placeholder, and gives it back as one or in full.
fn long() -> String {
    (1..=30).fold("this is poison".to_owned(), |all, n| format!("{all}\nline {n} of it, and some words"))
}

async fn refused_by_a_hook(test: &str, routes: &str, command: &str, text: &str) -> Result<()> {
    let model = Model::start().await?;
    let Some(mut leo) = Leo::prepare_claude(&model, test)? else { return Ok(()) };
    let hook = json!({ "hooks": [{ "type": "command", "command": command }] });
    let settings = json!({ "hooks": { "UserPromptSubmit": [hook] } });
    let folder = leo.user_home().join(".claude");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("settings.json"), settings.to_string())?;
    leo.configure(&format!("chat: {{ routes: [{routes}] }}\n{}", leo_tests::leo::CLAUDE))?;
    leo.start().await?;
    leo.agent_idle(AGENT).await?;

    let api = leo.api().await?;
    let poison = api.send(AGENT, text).await?;
    let next = api.send(AGENT, ">>say after it").await?;
    let failed = leo.message_state(AGENT, &poison, "failed").await;
    let failed = failed.with_context(|| leo.tmux.screen("=assistant:").unwrap_or_default())?;
    ensure!(failed["failed_reason"] == "transport", "{failed}");
    let said = wait_for("a note about it", || async {
        let thread = api.thread(AGENT).await.ok()?;
        thread
            .iter()
            .find_map(|m| m["text"].as_str().filter(|t| t.contains("no poison here")).map(str::to_owned))
    })
    .await?;
    ensure!(said.contains("a hook refused it"), "{said}");
    ensure!(leo.reply(AGENT, &next).await?.trim() == "after it");
    ensure!(model.times_read("this is poison") == 0, "the hook refused it");
    ensure!(api.reply(AGENT, &poison).await?.is_none());
    Ok(())
}

macro_rules! refused {
    ($($test:ident: $routes:literal, $command:ident, $text:expr;)*) => {$(
        #[tokio::test]
        async fn $test() -> Result<()> {
            refused_by_a_hook(stringify!($test), $routes, $command, $text).await
        }
    )*};
}

refused! {
    what_a_hook_refuses_fails_by_all_routes: "bridge, inbox, paste", REFUSES, "this is poison";
    what_a_hook_refuses_fails_by_the_bridge: "bridge", REFUSES, "this is poison";
    what_a_hook_refuses_fails_by_the_inbox: "inbox", REFUSES, "this is poison";
    what_a_hook_refuses_fails_by_paste: "paste", REFUSES, "this is poison";
    what_a_hook_refuses_late_fails_by_all_routes: "bridge, inbox, paste", REFUSES_LATE, "this is poison";
    what_a_hook_refuses_late_fails_by_the_inbox: "inbox", REFUSES_LATE, "this is poison";
    what_a_hook_refuses_late_fails_by_paste: "paste", REFUSES_LATE, "this is poison";
    what_a_hook_refuses_of_many_lines_fails_by_all_routes: "bridge, inbox, paste", REFUSES, &long();
    what_a_hook_refuses_of_many_lines_fails_by_paste: "paste", REFUSES, &long();
}

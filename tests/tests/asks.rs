//! Asks, permission prompts and question cards on the real Claude Code and the demo agent: answered from
//! an app or in the terminal, through restarts, always with one winner, and the card says who.

use anyhow::{Context, Result, ensure};
use leo_tests::{Api, Leo, leo::CLAUDE, model::Model, procs, wait_for};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

const AGENT: &str = "assistant";
const PANE: &str = "=assistant:";

/// Waits for the newest open card that is not one of `known`.
async fn card(api: &Api, agent: &str, known: &[String]) -> Result<Value> {
    wait_for("a card", || async {
        let thread = api.thread(agent).await.ok()?;
        thread.into_iter().rev().find(|m| m["state"] == "open" && !known.iter().any(|k| m["id"] == **k))
    })
    .await
}

fn id(message: &Value) -> String {
    message["id"].as_str().unwrap_or_default().to_owned()
}

async fn answer(api: &Api, agent: &str, message: &str, body: Value) -> Result<leo_tests::http::Answer> {
    api.ask(Method::POST, &format!("/api/v1/chat/{agent}/messages/{message}/answer"), Some(body)).await
}

async fn settled(api: &Api, agent: &str, message: &str) -> Result<Value> {
    wait_for("the card to be settled", || async {
        api.message(agent, message).await.ok().filter(|m| m["state"] != "open")
    })
    .await
}

/// Our hook processes that hold a permission prompt below an agent's process.
fn hooks_below(leo: &Leo) -> Result<usize> {
    let agent = leo.tmux.pane_pid(PANE)?;
    let all = procs::list()?;
    Ok(all.iter().filter(|p| p.command.ends_with(" hook") && p.parent == agent).count())
}

async fn no_hook_is_left(leo: &Leo) -> Result<()> {
    wait_for("no hook process to be left", || async { (hooks_below(leo).ok()? == 0).then_some(()) }).await
}

/// Answers a dialog in the terminal: presses a key while `dialog` is on the screen, again after a second,
/// since Claude can ignore a key in the instant in which a dialog appears. A key too many would be a
/// draft in the composer, and is cleared.
async fn press_until<T, Fut>(leo: &Leo, dialog: &str, keys: &[&str], done: impl Fn() -> Fut) -> Result<T>
where
    Fut: Future<Output = Option<T>>,
{
    let looks = std::cell::Cell::new(0u32);
    let over = wait_for("the terminal's answer to count", || async {
        if let Some(value) = done().await {
            return Some(value);
        }
        let on_screen = leo.tmux.screen(PANE).ok()?.contains(dialog);
        if on_screen && looks.replace(looks.get() + 1).is_multiple_of(50) {
            leo.tmux.keys(PANE, keys).ok()?;
        }
        None
    })
    .await
    .with_context(|| format!("{}\n{}", leo.tmux.screen(PANE).unwrap_or_default(), leo.log()))?;
    leo.tmux.keys(PANE, &["C-u"])?;
    Ok(over)
}

async fn claude(test: &str) -> Result<Option<(Leo, Model)>> {
    let model = Model::start().await?;
    Ok(Leo::with_claude(&model, test).await?.map(|leo| (leo, model)))
}

const TOUCH: &str = ">>tool Bash {\"command\":\"touch made\"}\n>>say finished";

#[tokio::test]
async fn a_permission_allowed_and_denied_from_the_api() -> Result<()> {
    let Some((leo, model)) = claude("a_permission_allowed_and_denied_from_the_api").await? else {
        return Ok(());
    };
    let api = leo.api().await?;
    let sent = api.send(AGENT, TOUCH).await?;
    let prompt = card(&api, AGENT, &[]).await?;
    ensure!(prompt["kind"] == "permission" && prompt["permission"]["tool"] == "Bash", "{prompt}");
    ensure!(prompt["permission"]["summary"] == "touch made", "{prompt}");
    ensure!(prompt["deadline"].is_string(), "a tool call is blocked on it: {prompt}");
    let given = answer(&api, AGENT, &id(&prompt), json!({ "values": ["allow"], "text": "" })).await?;
    ensure!(given.status == 200 && given.data()["answered_by"] == "operator", "{given:?}");
    ensure!(leo.reply(AGENT, &sent).await?.trim() == "finished");
    ensure!(leo.work().join("made").exists(), "allowed");

    let sent = api.send(AGENT, ">>tool Bash {\"command\":\"touch other\"}\n>>say went on").await?;
    let second = card(&api, AGENT, &[id(&prompt)]).await?;
    let body = json!({ "values": ["deny"], "text": "not on a Sunday, please" });
    ensure!(answer(&api, AGENT, &id(&second), body).await?.status == 200);
    ensure!(leo.reply(AGENT, &sent).await?.trim() == "went on", "a denial ends the call, not the turn");
    ensure!(!leo.work().join("other").exists());
    let results = model.tool_results();
    ensure!(
        results.iter().any(|r| r.contains("not on a Sunday, please")),
        "what the model was told: {results:?}"
    );
    let late = answer(&api, AGENT, &id(&second), json!({ "values": ["allow"], "text": "" })).await?;
    ensure!(late.status == 409 && late.code() == "already_settled", "{late:?}");
    no_hook_is_left(&leo).await
}

#[tokio::test]
async fn a_permission_answered_in_the_terminal() -> Result<()> {
    let Some((leo, model)) = claude("a_permission_answered_in_the_terminal").await? else { return Ok(()) };
    let api = leo.api().await?;
    let mut known = Vec::new();
    for (how, keys, made) in [("Yes", "1", true), ("No", "4", false), ("Esc", "Escape", false)] {
        let file = format!("by-{how}");
        api.send(AGENT, &format!(">>tool Bash {{\"command\":\"touch {file}\"}}\n>>say done")).await?;
        let prompt = card(&api, AGENT, &known).await?;
        known.push(id(&prompt));
        let over = press_until(&leo, "Do you want to proceed?", &[keys], || async {
            api.message(AGENT, &id(&prompt)).await.ok().filter(|m| m["state"] != "open")
        })
        .await?;
        ensure!(
            over["state"] == "answered" && over["answer"]["values"] == json!(["terminal"]),
            "{how}: {over}"
        );
        ensure!(over["answered_by"] == "terminal", "{how}: {over}");
        no_hook_is_left(&leo).await.with_context(|| how.to_owned())?;
        leo.agent_idle(AGENT).await?;
        ensure!(leo.work().join(&file).exists() == made, "{how}");
    }
    // What the model was told of each call, seen in the next request.
    let next = api.send(AGENT, ">>say the end").await?;
    leo.reply(AGENT, &next).await?;
    let told = model.tool_results();
    let refused: Vec<bool> = told.iter().map(|r| r.contains("doesn't want to proceed")).collect();
    ensure!(refused == [false, true, true], "{told:?}");
    Ok(())
}

#[tokio::test]
async fn a_permission_that_times_out_leaves_the_dialog() -> Result<()> {
    let model = Model::start().await?;
    let Some(mut leo) = Leo::prepare_claude(&model, "a_permission_that_times_out_leaves_the_dialog")? else {
        return Ok(());
    };
    let agents = CLAUDE.replace("$WORK", &leo.work().to_string_lossy());
    let config = format!("web: {{ port: 0 }}\nchat: {{ permission_timeout: 3s }}\n{agents}");
    std::fs::write(leo.home.config(), config)?;
    leo.start().await?;
    leo.agent_idle(AGENT).await?;
    let api = leo.api().await?;
    api.send(AGENT, TOUCH).await?;
    let prompt = card(&api, AGENT, &[]).await?;
    let over = settled(&api, AGENT, &id(&prompt)).await?;
    ensure!(over["state"] == "expired" && over["closed_reason"].is_null(), "{over}");
    no_hook_is_left(&leo).await?;
    ensure!(
        leo.tmux.screen(PANE)?.contains("Do you want to proceed?"),
        "nothing is ever denied by a timeout"
    );
    ensure!(!leo.work().join("made").exists());
    Ok(())
}

#[tokio::test]
async fn two_identical_calls_answered_differently() -> Result<()> {
    let Some((leo, model)) = claude("two_identical_calls_answered_differently").await? else { return Ok(()) };
    let api = leo.api().await?;
    let call = json!({ "name": "Bash", "input": { "command": "date >> made" } });
    let sent = api.send(AGENT, &format!(">>par {}\n>>say both", json!([call, call]))).await?;
    let first = card(&api, AGENT, &[]).await?;
    answer(&api, AGENT, &id(&first), json!({ "values": ["allow"], "text": "" })).await?;
    let second = card(&api, AGENT, &[id(&first)]).await?;
    answer(&api, AGENT, &id(&second), json!({ "values": ["deny"], "text": "once is enough" })).await?;
    ensure!(leo.reply(AGENT, &sent).await?.trim() == "both");
    let lines = std::fs::read_to_string(leo.work().join("made"))?.lines().count();
    ensure!(lines == 1, "one ran: {lines}");
    ensure!(model.tool_results().iter().any(|r| r.contains("once is enough")));
    Ok(())
}

fn question(text: &str, multi: bool, labels: &[&str]) -> Value {
    let options: Vec<Value> =
        labels.iter().map(|l| json!({ "label": l, "description": "about it" })).collect();
    json!({ "question": text, "header": "Head", "multiSelect": multi, "options": options })
}

#[tokio::test]
async fn question_contract() -> Result<()> {
    let Some((leo, model)) = claude("question_contract").await? else { return Ok(()) };
    let api = leo.api().await?;
    let odd = ["Ham, smoked", "Egg \"fried\"", "Käse 🧀", "Two\nlines"];
    let questions = json!([
        question("Which size?", false, &["L", "M"]),
        question("Which toppings?", true, &odd),
        question("Anything else?", false, &["No", "Yes"]),
        question("Which of these, then?", true, &["One", "Two"]),
    ]);
    let asked = |questions: &Value| {
        format!(">>tool AskUserQuestion {}\n>>say answered", json!({ "questions": questions }))
    };
    let mut known = Vec::new();

    let one = json!([questions[0]]);
    let sent = api.send(AGENT, &asked(&one)).await?;
    let shown = card(&api, AGENT, &known).await?;
    known.push(id(&shown));
    ensure!(shown["kind"] == "ask" && shown["input"]["type"] == "questions", "{shown}");
    ensure!(shown["permission"].is_null(), "{shown}");
    let given = answer(&api, AGENT, &id(&shown), json!({ "answers": { "q1": { "values": ["L"] } } })).await?;
    ensure!(given.status == 200, "{given:?}");
    leo.reply(AGENT, &sent).await?;
    let told = model.tool_results().pop().context("a result")?;
    ensure!(told.contains("\"Which size?\"=\"L\""), "{told}");

    let sent = api.send(AGENT, &asked(&questions)).await?;
    let shown = card(&api, AGENT, &known).await?;
    known.push(id(&shown));
    let body = json!({ "answers": {
        "q1": { "text": "huge, please" },
        "q2": { "values": odd },
        "q3": { "values": ["No"] },
        "q4": { "values": ["Two"], "text": "and three" },
    } });
    let missing = json!({ "answers": { "q1": { "values": ["L"] } } });
    let refused = answer(&api, AGENT, &id(&shown), missing).await?;
    ensure!(refused.status == 400 && refused.code() == "bad_answer", "{refused:?}");
    ensure!(answer(&api, AGENT, &id(&shown), body).await?.status == 200);
    leo.reply(AGENT, &sent).await?;
    let told = model.tool_results().pop().context("a result")?;
    for part in ["huge, please", odd[0], odd[1], odd[2], odd[3], "\"No\"", "and three"] {
        ensure!(told.contains(part), "{part:?} is missing in {told}");
    }

    // Dismissed: Claude's own dialog stands, and the person answers there.
    let sent = api.send(AGENT, &asked(&one)).await?;
    let shown = card(&api, AGENT, &known).await?;
    known.push(id(&shown));
    let path = format!("/api/v1/chat/{AGENT}/messages/{}/dismiss", id(&shown));
    let closed = api.ask(Method::POST, &path, None).await?;
    ensure!(closed.status == 200 && closed.data()["closed_reason"] == "dismissed", "{closed:?}");
    no_hook_is_left(&leo).await?;
    press_until(&leo, "Enter to select", &["2"], || async { api.reply(AGENT, &sent).await.ok().flatten() })
        .await?;
    let told = model.tool_results().pop().context("a result")?;
    ensure!(told.contains("\"Which size?\"=\"M\""), "the model reads the terminal's answer: {told}");

    // What does not fit a card is the ordinary prompt.
    let five: Vec<Value> = (0..5).map(|n| question(&format!("Question {n}?"), false, &["a", "b"])).collect();
    for odd in [json!(five), json!([question("Twice?", false, &["same", "same"])])] {
        api.send(AGENT, &asked(&odd)).await?;
        let found = wait_for("a prompt, a refusal by Claude or the end of the turn", || async {
            let thread = api.thread(AGENT).await.ok()?;
            let open =
                thread.iter().rev().find(|m| m["state"] == "open" && !known.iter().any(|k| m["id"] == **k));
            let ended =
                api.agent(AGENT).await.ok()?["activity"] == "idle" && thread.last()?["direction"] == "out";
            open.cloned().map(Some).or_else(|| ended.then_some(None))
        })
        .await?;
        if let Some(shown) = found {
            known.push(id(&shown));
            ensure!(
                shown["kind"] == "permission" && shown["permission"]["tool"] == "AskUserQuestion",
                "{shown}"
            );
            answer(&api, AGENT, &id(&shown), json!({ "values": ["deny"], "text": "ask otherwise" })).await?;
        }
        leo.agent_idle(AGENT).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_ask_of_the_agents_is_answered_by_the_call_that_waits() -> Result<()> {
    let Some((leo, model)) = claude("an_ask_of_the_agents_is_answered_by_the_call_that_waits").await? else {
        return Ok(());
    };
    let api = leo.api().await?;
    let call = json!({ "question": "Ship it?", "options": ["Yes", "No"] });
    api.send(AGENT, &format!(">>tool leo_chat_ask {call}\n>>say thanks")).await?;
    let shown = card(&api, AGENT, &[]).await?;
    ensure!(
        shown["kind"] == "ask" && shown["input"]["type"] == "buttons" && shown["deadline"].is_null(),
        "{shown}"
    );
    answer(&api, AGENT, &id(&shown), json!({ "values": ["Yes"], "text": "" })).await?;
    leo.agent_idle(AGENT).await?;
    wait_for("the answer to reach the model", || async {
        model.tool_results().iter().any(|r| r.contains("\"labels\":[\"Yes\"]")).then_some(())
    })
    .await
    .with_context(|| format!("{:?}", model.tool_results()))?;
    ensure!(api.thread(AGENT).await?.iter().all(|m| m["reply_to"] != id(&shown)), "not delivered as well");
    Ok(())
}

/// SIGKILL of everything while an ask, a permission prompt and a questions card wait.
#[tokio::test]
async fn waiting_survives_the_death_of_every_worker() -> Result<()> {
    let mut leo = Leo::with_demo().await?;
    let questions = json!([question("Which size?", false, &["L", "M"])]);
    kill_everything_while_it_waits(&mut leo, ">>run touch made", &format!(">>questions {questions}")).await
}

/// The same on the real Claude.
#[tokio::test]
async fn waiting_survives_the_death_of_every_worker_with_claude() -> Result<()> {
    let Some((mut leo, _model)) = claude("waiting_survives_with_claude").await? else { return Ok(()) };
    let questions = json!({ "questions": [question("Which size?", false, &["L", "M"])] });
    let permission = ">>tool Bash {\"command\":\"touch made\"}";
    kill_everything_while_it_waits(&mut leo, permission, &format!(">>tool AskUserQuestion {questions}")).await
}

async fn kill_everything_while_it_waits(leo: &mut Leo, permission: &str, questions: &str) -> Result<()> {
    let mut known: Vec<String> = Vec::new();
    let ask = ">>tool leo_chat_ask {\"question\":\"Ship it?\",\"options\":[\"Yes\",\"No\"]}";
    let prompts = [
        (ask, json!({ "values": ["Yes"], "text": "" })),
        (permission, json!({ "values": ["allow"], "text": "" })),
        (questions, json!({ "answers": { "q1": { "values": ["L"] } } })),
    ];
    for (round, (prompt, body)) in prompts.into_iter().enumerate() {
        let api = leo.api().await?;
        let sent = api.send(AGENT, &format!("{prompt}\n>>say round {round} went on")).await?;
        let shown = card(&api, AGENT, &known).await.with_context(|| leo.log())?;
        known.push(id(&shown));
        for worker in ["hub", "http", "mcp:assistant", "agents", "hub"] {
            let pid = leo.worker_pid(worker).await?;
            procs::signal(pid, Signal::SIGKILL);
            leo.worker_replaced(worker, pid).await?;
        }
        leo.kill_supervisor()?;
        leo.start().await?;
        let api = leo.api().await?;
        ensure!(api.message(AGENT, &id(&shown)).await?["state"] == "open", "round {round}: it still waits");
        let given = answer(&api, AGENT, &id(&shown), body).await?;
        ensure!(given.status == 200, "round {round}: {given:?}");
        let reply = leo.reply(AGENT, &sent).await.with_context(|| format!("round {round}"))?;
        ensure!(reply.contains(&format!("round {round} went on")), "{reply}");
        leo.agent_idle(AGENT).await?;
    }
    ensure!(leo.work().join("made").exists());
    no_hook_is_left(leo).await
}

/// Races of the terminal against the API within ±20 ms: one winner, the card says what ran, and no hook
/// is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_surfaces() -> Result<()> {
    const AGENTS: usize = 4;
    const RACES: usize = 75;
    let agents: String =
        (0..AGENTS).map(|n| format!("  a{n}: {{ harness: demo, workspace: $WORK }}\n")).collect();
    let leo = std::sync::Arc::new(Leo::builder().config(&format!("agents:\n{agents}")).start().await?);
    let mut racers = Vec::new();
    for n in 0..AGENTS {
        leo.agent_idle(&format!("a{n}")).await?;
    }
    for n in 0..AGENTS {
        let leo = leo.clone();
        racers.push(tokio::spawn(async move {
            let api = leo.api().await?;
            let agent = format!("a{n}");
            let pane = format!("={agent}:");
            let mut winners = (0, 0);
            for race in 0..RACES {
                let file = format!("{agent}-{race}");
                let sent = api.send(&agent, &format!(">>run touch {file}\n>>say race {race} over")).await?;
                let shown = wait_for("a card", || async {
                    let page = api.get(&format!("/api/v1/chat/{agent}/messages?limit=3")).await.ok()?;
                    page["messages"].as_array()?.iter().rev().find(|m| m["state"] == "open").cloned()
                })
                .await?;
                let card = id(&shown);
                // The terminal says Yes, the app says No; each before the other by up to 20 ms.
                let lead = i64::try_from(race % 41)? - 20;
                let terminal = async {
                    tokio::time::sleep(std::time::Duration::from_millis(lead.max(0).unsigned_abs())).await;
                    leo.tmux.keys(&pane, &["Enter"])
                };
                let app = async {
                    tokio::time::sleep(std::time::Duration::from_millis((-lead).max(0).unsigned_abs())).await;
                    answer(&api, &agent, &card, json!({ "values": ["deny"], "text": "" })).await
                };
                let (pressed, answered) = tokio::join!(terminal, app);
                pressed?;
                answered?;
                let reply = wait_for("the end of the race", || async {
                    api.reply(&agent, &sent).await.ok().flatten()
                })
                .await
                .with_context(|| format!("{file}: {}", leo.tmux.screen(&pane).unwrap_or_default()))?;
                let over = settled(&api, &agent, &card).await?;
                let ran = leo.work().join(&file).exists();
                let by_terminal = over["answered_by"] == "terminal";
                ensure!(ran == by_terminal, "{file}: ran {ran}, the card says {over}, reply {reply}");
                if by_terminal { winners.0 += 1 } else { winners.1 += 1 }
            }
            anyhow::Ok(winners)
        }));
    }
    let (mut terminal, mut app) = (0, 0);
    for racer in racers {
        let (t, a) = racer.await??;
        terminal += t;
        app += a;
    }
    println!("two_surfaces: {terminal} won by the terminal, {app} by the app");
    wait_for("no hook process to be left", || async {
        let panes: Vec<i32> =
            (0..AGENTS).filter_map(|n| leo.tmux.pane_pid(&format!("=a{n}:")).ok()).collect();
        let all = procs::list().ok()?;
        let left = all.iter().filter(|p| p.command.ends_with(" hook") && panes.contains(&p.parent)).count();
        (left == 0).then_some(())
    })
    .await
}

/// A background subagent's prompt: the harness draws no dialog while our hook holds it, and the card says
/// so and by whom it is asked.
#[tokio::test]
async fn a_subagents_prompt() -> Result<()> {
    let Some((leo, model)) = claude("a_subagents_prompt").await? else { return Ok(()) };
    let api = leo.api().await?;
    let task = json!({
        "description": "make a file",
        "subagent_type": "general-purpose",
        "prompt": ">>tool Bash {\"command\":\"echo made below > by-subagent && cat by-subagent\"}\n>>say the subagent is done",
    });
    api.send(AGENT, &format!(">>tool Agent {task}\n>>say started")).await?;
    let prompt = card(&api, AGENT, &[]).await.with_context(|| leo.tmux.screen(PANE).unwrap_or_default())?;
    ensure!(prompt["permission"]["agent_type"] == "general-purpose", "{prompt}");
    ensure!(prompt["permission"]["in_terminal"] == false, "{prompt}");
    ensure!(!leo.tmux.screen(PANE)?.contains("Do you want to proceed?"), "no dialog while the card is open");
    ensure!(
        answer(&api, AGENT, &id(&prompt), json!({ "values": ["allow"], "text": "" })).await?.status == 200
    );
    wait_for("the subagent's tool to run", || async {
        leo.work().join("by-subagent").exists().then_some(())
    })
    .await?;
    wait_for("the subagent's model to read what its tool said", || async {
        model.every_tool_result().iter().any(|told| told.trim() == "made below").then_some(())
    })
    .await
    .with_context(|| format!("{:?}", model.every_tool_result()))?;
    no_hook_is_left(&leo).await
}

/// Claude's own questions answered in the terminal first: the card says so, and the model reads that
/// answer.
#[tokio::test]
async fn a_question_answered_in_the_terminal() -> Result<()> {
    let Some((leo, model)) = claude("a_question_answered_in_the_terminal").await? else { return Ok(()) };
    let api = leo.api().await?;
    let questions = json!([question("Which size?", false, &["L", "M"])]);
    let call = json!({ "questions": questions });
    let sent = api.send(AGENT, &format!(">>tool AskUserQuestion {call}\n>>say answered")).await?;
    let shown = card(&api, AGENT, &[]).await?;
    let over = press_until(&leo, "Enter to select", &["1"], || async {
        api.message(AGENT, &id(&shown)).await.ok().filter(|m| m["state"] != "open")
    })
    .await?;
    ensure!(over["answer"]["values"] == json!(["terminal"]) && over["answer"]["answers"].is_null(), "{over}");
    leo.reply(AGENT, &sent).await?;
    let told = model.tool_results().pop().context("a result")?;
    ensure!(told.contains("\"Which size?\"=\"L\""), "{told}");
    no_hook_is_left(&leo).await
}

/// The race on the real Claude: what ran is what the card says.
#[tokio::test]
async fn two_surfaces_with_claude() -> Result<()> {
    let Some((leo, _model)) = claude("two_surfaces_with_claude").await? else { return Ok(()) };
    let api = leo.api().await?;
    let mut known = Vec::new();
    let mut by_terminal = 0;
    for race in 0..12u64 {
        let file = format!("race-{race}");
        api.send(AGENT, &format!(">>tool Bash {{\"command\":\"touch {file}\"}}\n>>say over")).await?;
        let prompt = card(&api, AGENT, &known).await?;
        known.push(id(&prompt));
        wait_for("the dialog", || async {
            leo.tmux.screen(PANE).ok()?.contains("Do you want to proceed?").then_some(())
        })
        .await?;
        // Claude ignores keys for a moment after a dialog has appeared, so the race starts later; and a
        // key takes it some tens of milliseconds longer than an answer takes the hook.
        let start = std::time::Duration::from_millis(500);
        let app_at =
            start + std::time::Duration::from_millis(race * 12) - std::time::Duration::from_millis(20);
        let terminal = async {
            tokio::time::sleep(start).await;
            leo.tmux.keys(PANE, &["1"])
        };
        let app = async {
            tokio::time::sleep(app_at).await;
            answer(&api, AGENT, &id(&prompt), json!({ "values": ["deny"], "text": "" })).await
        };
        let (pressed, answered) = tokio::join!(terminal, app);
        pressed?;
        answered?;
        // The key is a draft when the app was first.
        leo.agent_idle(AGENT).await?;
        leo.tmux.keys(PANE, &["C-u"])?;
        let over = settled(&api, AGENT, &id(&prompt)).await?;
        let ran = leo.work().join(&file).exists();
        let terminal_won = over["answered_by"] == "terminal";
        ensure!(ran == terminal_won, "{file}: ran {ran}, the card says {over}");
        by_terminal += i32::from(terminal_won);
        no_hook_is_left(&leo).await?;
    }
    println!("two_surfaces_with_claude: {by_terminal} of 12 won by the terminal");
    Ok(())
}

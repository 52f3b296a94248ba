use super::*;
use leo_ipc::config::Harness;

fn home() -> Option<&'static Path> {
    Some(Path::new("/home/ann"))
}

#[test]
fn nothing_means_defaults() {
    for text in ["", "\n\n", "# only a comment\n", "web:\n", "agents:\n", "{}"] {
        assert_eq!(parse(text, home()).unwrap(), Config::default(), "{text:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read(&dir.path().join("leo.yaml"), None).unwrap(), Config::default());
}

#[test]
fn defaults_are_merged_into_agents() {
    let text = "
web: {port: 0, allowed_hosts: [leo.local]}
defaults:
  harness: claude
  workspace: ~/src
  model: opus
  env: {A: '1', B: '2'}
  idle_suspend_after: 30m
agents:
  assistant:
  other:
    harness: demo
    workspace: /srv/other/
    env: {B: '3'}
    autostart: false
    idle_suspend_after: 0s
";
    let config = parse(text, home()).unwrap();
    assert_eq!(config.web.port, 0);
    let assistant = &config.agents[&"assistant".parse().unwrap()];
    assert_eq!((assistant.harness, assistant.workspace.as_str()), (Harness::Claude, "/home/ann/src"));
    assert!(assistant.autostart);
    assert_eq!(
        (assistant.idle_suspend_after_s, config.agents[&"other".parse().unwrap()].idle_suspend_after_s),
        (Some(1800), None)
    );
    let other = &config.agents[&"other".parse().unwrap()];
    assert_eq!((other.harness, other.workspace.as_str()), (Harness::Demo, "/srv/other"));
    assert_eq!(other.model.as_deref(), Some("opus"));
    assert_eq!(other.env.get("A").map(String::as_str), Some("1"));
    assert_eq!(other.env.get("B").map(String::as_str), Some("3"));
    assert!(!other.autostart);
}

#[test]
fn tasks_take_their_defaults() {
    let text = "
defaults: {model: opus, env: {A: '1'}, permission_mode: acceptEdits}
tasks:
  least:
    prompt: hi
  daily-news:
    owner: no such agent
    schedule: '0 7 * * 1-5'
    timezone: Europe/Berlin
    prompt_file: ~/news.md
    harness: codex
    runtime: persistent
    timeout: 2h
    retries: 2
    notify_on_fail: true
    enabled: false
    catch_up: 0s
";
    let config = parse(text, home()).unwrap();
    let least = &config.tasks[&"least".parse().unwrap()];
    assert_eq!((least.timeout_s, least.retries, least.catch_up_s), (1800, 0, 3600));
    assert_eq!(least.model.as_deref(), Some("opus"));
    assert!(least.enabled && !least.notify_on_fail && least.workspace.is_none());
    let news = &config.tasks[&"daily-news".parse().unwrap()];
    assert_eq!(news.owner.as_deref(), Some("no such agent"), "an owner that names no agent is no error");
    assert_eq!(news.prompt_file.as_deref(), Some("/home/ann/news.md"));
    assert_eq!((news.harness, news.timeout_s, news.catch_up_s), (Harness::Codex, 7200, 0));
    assert!(news.notify_on_fail && !news.enabled);
}

#[test]
fn clients_may_what_is_written_and_nothing_else() {
    let text = "api_clients:\n  ci: {can_message: ['build-*', assistant]}\n  idle:\n  none: {}\n";
    let clients = parse(text, home()).unwrap().api_clients;
    let may = |name: &str| clients[&name.parse().unwrap()].clone();
    assert_eq!(
        may("ci").can_message.iter().map(|glob| glob.as_str()).collect::<Vec<_>>(),
        ["build-*", "assistant"]
    );
    assert!(may("ci").can_post.is_empty() && may("idle").is_empty() && may("none").is_empty());
}

#[test]
fn durations() {
    let chat = |text: &str| parse(&format!("chat:\n{text}"), home()).unwrap().chat;
    let plain = chat("  enabled: true\n");
    assert_eq!((plain.permission_timeout_s, plain.question_timeout_s), (120, 3600));
    for (text, seconds) in [("90s", 90), ("30m", 1800), ("1h", 3600), ("'1d'", 86_400)] {
        assert_eq!(chat(&format!("  permission_timeout: {text}\n")).permission_timeout_s, seconds);
    }
    assert_eq!(chat("  question_timeout: 10m\n").question_timeout_s, 600);
    let model = chat("  whisper_model: ~/.leo/models/ggml-base.bin\n").whisper_model;
    assert_eq!(model.as_deref(), Some("/home/ann/.leo/models/ggml-base.bin"));
    assert_eq!(plain.whisper_model, None);
    assert_eq!(
        (plain.whisper_language.as_str(), chat("  whisper_language: de\n").whisper_language.as_str()),
        ("auto", "de")
    );
}

/// Every mistake names its line, and where it is a wrong name, the nearest known one.
#[test]
fn mistakes() {
    let cases: &[(&str, u64, &[&str])] = &[
        ("web:\n  prot: 1\n", 2, &["unknown key `prot`", "did you mean `port`?"]),
        ("wbe:\n  port: 1\n", 1, &["unknown key `wbe`", "did you mean `web`?"]),
        ("chat:\n  enabled: true\n  xyzzy: 1\n", 3, &["unknown key `xyzzy`", "known here: enabled"]),
        ("chat:\n  question_timeout: 2h\n", 2, &["chat.question_timeout must be between 1s and 1h"]),
        ("chat:\n  whisper_modell: /x\n", 2, &["did you mean `whisper_model`?"]),
        (
            "chat:\n  enabled: true\n  whisper_model: x.bin\n",
            3,
            &["chat.whisper_model must be an absolute path"],
        ),
        (
            "chat:\n  whisper_language: English!\n",
            2,
            &["chat.whisper_language must be auto or", "`English!`"],
        ),
        ("chat:\n  permission_timeout: 0s\n", 2, &["chat.permission_timeout must be between 1s and 24h"]),
        (
            "chat:\n  enabled: true\n  permission_timeout: soon\n",
            3,
            &["`permission_timeout`", "120s, 30m or 1h", "`soon`"],
        ),
        ("chat:\n  permission_timeout: 120\n", 2, &["`permission_timeout`", "such as 120s", "`120`"]),
        ("chat:\n  question_timeout: 99999999999999999999d\n", 2, &["such as 120s"]),
        ("chat:\n  permision_timeout: 1m\n", 2, &["did you mean `permission_timeout`?"]),
        ("web:\n  port: many\n", 2, &["`port` must be a whole number from 0 to 65535"]),
        ("web:\n  port: 70000\n", 2, &["0 to 65535"]),
        ("web:\n  enabled: maybe\n", 2, &["`enabled` must be true or false"]),
        ("web:\n  bind: example\n", 2, &["web.bind", "`example`"]),
        ("chat: {}\nweb:\n  bind: 0.0.0.0\n", 3, &["web.allowed_hosts"]),
        ("agents:\n  a:\n    workspace: src\n", 3, &["agent `a`", "absolute path", "`src`"]),
        ("agents:\n  a:\n    workspace: /x/../y\n", 3, &["`..`"]),
        ("agents:\n  a:\n    model: m\n", 3, &["agent `a` has no workspace"]),
        ("agents:\n  a:\n    workspace: /x\n    harness: cluade\n", 4, &["did you mean `claude`?"]),
        ("agents:\n  Bad_Name:\n    workspace: /x\n", 2, &["Bad_Name"]),
        ("agents:\n  a: {workspace: /x}\n  a: {workspace: /y}\n", 3, &["`a` is there twice"]),
        ("chat:\n  routes: [bridge, past]\n", 2, &["unknown value `past`", "did you mean `paste`?"]),
        ("chat:\n  routes: [xyzzy]\n", 2, &["unknown value `xyzzy`", "known here: bridge, inbox, paste"]),
        ("chat:\n  routes: []\n", 2, &["chat.routes must name at least one of bridge, inbox, paste"]),
        ("chat:\n  routes: [paste, paste]\n", 2, &["chat.routes names a route twice"]),
        ("chat:\n  routes: paste\n", 2, &["`routes` must be a list"]),
        ("web: [1, 2]\n", 1, &["`web` must hold keys"]),
        ("web:\n  allowed_hosts: one\n", 2, &["`allowed_hosts` must be a list"]),
        ("defaults:\n  env: {A: [secret]}\n", 2, &["expected string"]),
        ("tasks:\n  t:\n    promt: x\n", 3, &["unknown key `promt`", "did you mean `prompt`?"]),
        ("tasks:\n  t:\n    schedule: 0 7 * * *\n", 3, &["task `t`", "it has no prompt"]),
        ("tasks:\n  t:\n    prompt: x\n    prompt_file: /p\n", 4, &["task `t`", "leave one of them out"]),
        ("tasks:\n  t:\n    prompt: ' '\n", 3, &["its prompt is empty"]),
        (
            "tasks:\n  t:\n    prompt: x\n    schedule: 99 * * * *\n",
            4,
            &["task `t`", "`99 * * * *`", "no cron pattern"],
        ),
        ("tasks:\n  t:\n    prompt: x\n    schedule: 0 0 31 2 *\n", 4, &["never comes"]),
        (
            "tasks:\n  t:\n    prompt: x\n    schedule: 0 7 * * *\n    timezone: Europe/Berln\n",
            5,
            &["unknown time zone `Europe/Berln`", "did you mean `Europe/Berlin`?"],
        ),
        ("tasks:\n  t:\n    prompt: x\n    harness: codx\n", 4, &["did you mean `codex`?"]),
        (
            "tasks:\n  t:\n    prompt: x\n    runtime: forever\n",
            4,
            &["unknown value `forever`", "oneshot, persistent"],
        ),
        (
            "tasks:\n  t:\n    prompt: x\n    workspace: src\n",
            4,
            &["task `t`", "workspace must be an absolute path"],
        ),
        ("tasks:\n  t:\n    prompt_file: p.md\n", 3, &["prompt_file must be an absolute path"]),
        ("tasks:\n  t:\n    prompt: x\n    timeout: 0s\n", 4, &["timeout must be between 1s and 24h"]),
        ("tasks:\n  t:\n    prompt: x\n    catch_up: 8d\n", 4, &["catch_up must be between 0s and 168h"]),
        ("tasks:\n  t:\n    prompt: x\n    retries: 11\n", 4, &["retries must be at most 10"]),
        ("tasks:\n  t:\n    prompt: x\n    retries: many\n", 4, &["`retries` must be a whole number"]),
        ("tasks:\n  t:\n    prompt: x\n    schedule: */5 * * * *\n", 4, &["`schedule` must be in quotes"]),
        ("tasks:\n  t:\n    prompt: x\n    schedule: * * * * *\n", 4, &["`schedule` must be in quotes"]),
        ("tasks:\n  Daily:\n    prompt: x\n", 2, &["Daily", "task's name"]),
        ("api_clients:\n  ci: {can_pots: []}\n", 2, &["did you mean `can_post`?"]),
        ("api_clients:\n  ci:\n    can_post: ['a', 'B*']\n", 3, &["\"B*\" names no agents", "* stands for"]),
        ("api_clients:\n  Git Hub: {}\n", 2, &["\"Git Hub\" is not an API client's name"]),
        ("web:\n  port: 1\n bad\n", 3, &[""]),
        ("web:\n\tport: 1\n", 2, &[""]),
    ];
    for (text, line, parts) in cases {
        let (found, what) = parse(text, home()).expect_err(text);
        assert_eq!(found, *line, "{text:?}: {what}");
        for part in *parts {
            assert!(what.contains(part), "{text:?}: {what}");
        }
        assert!(!what.contains('\n'), "{what}");
    }
}

#[test]
fn a_bad_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leo.yaml");
    std::fs::write(&path, b"# ok\nweb: \xff\n").unwrap();
    assert_eq!(
        read(&path, None).unwrap_err().to_string(),
        format!("{}:2: this is not UTF-8 text", path.display())
    );
    std::fs::write(&path, vec![b'#'; usize::try_from(MAX_FILE).unwrap() + 1]).unwrap();
    assert!(matches!(read(&path, None), Err(ConfigError::TooLarge { .. })));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(read(&path, None), Err(ConfigError::Read { .. })));
}

#[test]
fn only_listeners_need_a_restart() {
    let old = Config::default();
    let mut new = Config::default();
    new.web.port = 1;
    new.web.allowed_hosts.push("leo.local".to_owned());
    new.chat.enabled = false;
    assert_eq!(needs_restart(&old, &new), ["web.port"]);
}

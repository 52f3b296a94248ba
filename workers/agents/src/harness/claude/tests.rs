use super::*;
use leo_ipc::{LaunchId, config::AgentConfig, paths::Home};

struct Set {
    folder: tempfile::TempDir,
    ties: leo_launch::Ties,
    base: Env,
    config: AgentConfig,
}

impl Set {
    fn new() -> Set {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let claude = bin.join("claude");
        std::fs::write(&claude, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&claude, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let base = [("HOME", folder.path()), ("PATH", &bin)]
            .map(|(k, v)| (k.to_owned(), v.display().to_string()))
            .into();
        let ties = leo_launch::Ties {
            agent: "assistant".parse().unwrap(),
            launch: LaunchId::from("l1"),
            token: "secret-token".to_owned(),
            program: "/opt/leo's/leo".to_owned(),
            home: Home::at(folder.path().join("h")).unwrap(),
            run: None,
        };
        let config = AgentConfig { workspace: folder.path().display().to_string(), ..AgentConfig::default() };
        Set { folder, ties, base, config }
    }

    fn plan(&self, resume: Option<&Resume>) -> Result<LaunchPlan, PlanError> {
        Claude.plan(&LaunchContext {
            ties: &self.ties,
            config: &self.config,
            base: &self.base,
            routes: &[Route::Paste],
            resume,
        })
    }
}

#[test]
fn a_launch_brings_its_own_settings_and_no_secret_arguments() {
    let mut set = Set::new();
    set.config.model = Some("opus".to_owned());
    set.config.args = vec!["--add-dir".to_owned(), "/x".to_owned()];
    let plan = set.plan(None).unwrap();
    let files = set.folder.path().join("h/state/agents/assistant/launch").display().to_string();
    assert_eq!(
        plan.argv[1..],
        [
            "--settings".to_owned(),
            format!("{files}/settings.json"),
            "--mcp-config".to_owned(),
            format!("{files}/mcp.json"),
            "--permission-mode".to_owned(),
            "default".to_owned(),
            "--model".to_owned(),
            "opus".to_owned(),
            "--add-dir".to_owned(),
            "/x".to_owned(),
        ]
    );
    assert!(plan.argv.iter().all(|a| !a.contains("secret-token")));
    // With the bridge among the routes the mod comes along, whole.
    let bridged = Claude
        .plan(&LaunchContext {
            ties: &set.ties,
            config: &set.config,
            base: &set.base,
            routes: &[Route::Bridge],
            resume: None,
        })
        .unwrap();
    let at = bridged.argv.iter().position(|a| a == "--plugin-dir").unwrap();
    assert!(Path::new(&bridged.argv[at + 1]).join("hooks/register.ts").is_file());
    assert!(Path::new(&bridged.argv[at + 1]).starts_with(set.ties.home.mods()));
    assert_eq!(plan.env["LEO_API_TOKEN"], "secret-token");
    assert_eq!(plan.env["LEO_AGENT"], "assistant");
    assert_eq!(plan.env["CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS"], "0");

    let file = |name: &str| -> serde_json::Value {
        let text = &plan.files.iter().find(|(n, _)| *n == name).unwrap().1;
        serde_json::from_str(text).unwrap()
    };
    let hook = &file("settings.json")["hooks"]["UserPromptSubmit"][0]["hooks"][0];
    assert_eq!(hook["command"], "/opt/leo's/leo");
    assert_eq!(hook["args"], serde_json::json!(["hook"]));
    assert!(file("settings.json").get("skipDangerousModePermissionPrompt").is_none());
    let leo = &file("mcp.json")["mcpServers"]["leo"];
    assert_eq!(leo["timeout"], 1_920_000);
    assert_eq!(leo["env"]["LEO_LAUNCH"], "l1");
}

#[test]
fn only_a_session_with_a_transcript_is_resumed() {
    let set = Set::new();
    let resume = |session: &str| Resume { session: session.to_owned(), transcript: None };
    let resumed = |r: &Resume| set.plan(Some(r)).unwrap().argv.contains(&"--resume".to_owned());
    assert!(!resumed(&resume("s-1")));
    let project = set.folder.path().join(".claude/projects/-any-name");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("s-1.jsonl"), "").unwrap();
    assert!(resumed(&resume("s-1")));
    assert!(!resumed(&resume("../s-1")));
    assert!(!resumed(&resume("")));
    // A transcript of another session proves nothing.
    let other = Resume { session: "s-2".to_owned(), transcript: Some(project.join("s-1.jsonl")) };
    assert!(!resumed(&other));
}

#[test]
fn what_cannot_be_started_says_so() {
    let mut set = Set::new();
    set.config.workspace = "/no/such/folder".to_owned();
    assert!(matches!(set.plan(None), Err(PlanError::NoWorkspace(_))));
    set.config.workspace = "relative".to_owned();
    assert!(matches!(set.plan(None), Err(PlanError::NoWorkspace(_))));
}

#[test]
fn the_configured_folder_of_claude_decides() {
    let set = Set::new();
    assert_eq!(Claude.harness_dir(&set.base), set.folder.path().join(".claude"));
    let env = Env::from([("CLAUDE_CONFIG_DIR".to_owned(), "/c".to_owned())]);
    assert_eq!(Claude.harness_dir(&env), PathBuf::from("/c"));
}

#[test]
fn bypass_is_consented_to_by_configuring_it() {
    let mut set = Set::new();
    set.config.permission_mode = Some("bypassPermissions".to_owned());
    let plan = set.plan(None).unwrap();
    assert!(plan.files[0].1.contains("skipDangerousModePermissionPrompt"));
}

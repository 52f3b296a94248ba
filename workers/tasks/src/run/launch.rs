//! How each harness is started without a terminal: its arguments, our MCP server beside the person's own,
//! and the prompt on standard input, since arguments can be seen by every user of the machine. Pure, but
//! for looking for the program.

use leo_ipc::config::{Harness, TaskConfig};
use leo_launch::{Env, TOOL_TIMEOUT_MS, Ties, claude_mcp, find_program, for_agent};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Variables of the supervisor's that codex and opencode get besides those of every agent.
const PASSED_PREFIXES: [&str; 3] = ["OPENAI_", "CODEX_", "OPENCODE_"];

/// The variables that codex must hand on to our MCP server: it passes none by itself.
const TIES: [&str; 7] =
    ["LEO_HOME", "LEO_AGENT", "LEO_LAUNCH", "LEO_API_TOKEN", "LEO_PROGRAM", "LEO_TASK", "LEO_RUN_ID"];

/// How to start a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Absolute program and arguments; they hold nothing secret.
    pub(crate) argv: Vec<String>,
    /// The whole environment.
    pub(crate) env: Env,
    /// Files to write before, by their paths.
    pub(crate) files: Vec<(PathBuf, String)>,
}

/// Why a run cannot be started. The texts are for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    /// This build does not know the harness.
    #[error("this build cannot run the harness that is configured")]
    UnknownHarness,
    /// The program is not there.
    #[error(
        "{program} was not found in PATH: install it with `npm install -g {package}`, or choose another harness"
    )]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// Its package.
        package: &'static str,
    },
}

/// Plans a run. `ties` are absent where no daemon runs: then it has no tools of ours.
pub(crate) fn plan(
    task: &TaskConfig,
    ties: Option<&Ties>,
    leo: &str,
    base: &Env,
    folder: &Path,
) -> Result<Plan, PlanError> {
    let mut env = for_agent(base, &task.env);
    let own = |key: &str| PASSED_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    for (key, value) in base.iter().filter(|(key, _)| own(key)) {
        env.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if let Some(ties) = ties {
        env.extend(ties.vars());
    }
    let mut plan = Plan { argv: Vec::new(), env, files: Vec::new() };
    match task.harness {
        Harness::Claude => claude(&mut plan, task, ties, folder)?,
        Harness::Codex => codex(&mut plan, task, ties)?,
        Harness::Opencode => opencode(&mut plan, task, ties)?,
        Harness::Demo => plan.argv.extend([leo, "demo-agent", "-p"].map(str::to_owned)),
        Harness::Unknown => return Err(PlanError::UnknownHarness),
    }
    plan.argv.extend(task.args.iter().cloned());
    // codex reads its prompt from standard input only when it is told so, as its last argument.
    if task.harness == Harness::Codex {
        plan.argv.push("-".to_owned());
    }
    Ok(plan)
}

fn program(plan: &Plan, program: &'static str, package: &'static str) -> Result<String, PlanError> {
    let found = find_program(program, &plan.env).ok_or(PlanError::NoProgram { program, package })?;
    Ok(found.display().to_string())
}

fn claude(plan: &mut Plan, task: &TaskConfig, ties: Option<&Ties>, folder: &Path) -> Result<(), PlanError> {
    plan.argv.extend([program(plan, "claude", "@anthropic-ai/claude-code")?, "-p".to_owned()]);
    let mode = task.permission_mode.as_deref().unwrap_or("default");
    plan.argv.extend(["--permission-mode".to_owned(), mode.to_owned()]);
    if let Some(ties) = ties {
        let file = folder.join("mcp.json");
        plan.argv.extend(["--mcp-config".to_owned(), file.display().to_string()]);
        // Nobody is there to allow our own tools.
        plan.argv.extend(["--allowedTools".to_owned(), "mcp__leo".to_owned()]);
        plan.files.push((file, claude_mcp(ties).to_string()));
        // As for agents: a call that waits for a person stays the call it is.
        plan.env.insert("CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS".to_owned(), "0".to_owned());
        plan.env.insert("MCP_TOOL_TIMEOUT".to_owned(), TOOL_TIMEOUT_MS.to_string());
    }
    if let Some(model) = &task.model {
        plan.argv.extend(["--model".to_owned(), model.clone()]);
    }
    Ok(())
}

fn codex(plan: &mut Plan, task: &TaskConfig, ties: Option<&Ties>) -> Result<(), PlanError> {
    plan.argv.extend([program(plan, "codex", "@openai/codex")?, "exec".to_owned()]);
    // A task's folder was chosen in the configuration; that it is no repository is no mistake.
    plan.argv.push("--skip-git-repo-check".to_owned());
    let mut set = |key: &str, value: String| plan.argv.extend(["-c".to_owned(), format!("{key}={value}")]);
    if let Some(ties) = ties {
        let quoted = |text: &str| json!(text).to_string();
        set("mcp_servers.leo.command", quoted(&ties.program));
        set("mcp_servers.leo.args", json!(["mcp-server"]).to_string());
        set("mcp_servers.leo.env_vars", json!(TIES).to_string());
        set("mcp_servers.leo.tool_timeout_sec", (TOOL_TIMEOUT_MS / 1000).to_string());
        // Nobody is there to allow our own tools, and the first turn must not begin without them.
        set("mcp_servers.leo.default_tools_approval_mode", quoted("approve"));
        set("mcp_servers.leo.required", "true".to_owned());
    }
    if let Some(model) = &task.model {
        plan.argv.extend(["--model".to_owned(), model.clone()]);
    }
    Ok(())
}

fn opencode(plan: &mut Plan, task: &TaskConfig, ties: Option<&Ties>) -> Result<(), PlanError> {
    plan.argv.extend([program(plan, "opencode", "opencode-ai")?, "run".to_owned()]);
    if let Some(ties) = ties {
        let ours = json!({
            "type": "local", "command": [ties.program, "mcp-server"], "enabled": true, "timeout": TOOL_TIMEOUT_MS,
        });
        // The person may use the variable too: theirs is kept, ours is added.
        let theirs = plan.env.get("OPENCODE_CONFIG_CONTENT").and_then(|text| serde_json::from_str(text).ok());
        let mut config: serde_json::Value =
            theirs.filter(serde_json::Value::is_object).unwrap_or_else(|| json!({}));
        config["mcp"]["leo"] = ours;
        plan.env.insert("OPENCODE_CONFIG_CONTENT".to_owned(), config.to_string());
    }
    if let Some(model) = &task.model {
        plan.argv.extend(["--model".to_owned(), model.clone()]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use leo_ipc::{ask::Run, paths::Home};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn every_harness_gets_our_tools_and_no_secret_in_its_arguments() {
        let bin = tempfile::tempdir().unwrap();
        for name in ["claude", "codex", "opencode"] {
            let path = bin.path().join(name);
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let base: Env = [
            ("PATH", bin.path().display().to_string()),
            ("HOME", "/h".to_owned()),
            ("OPENAI_API_KEY", "k".to_owned()),
            ("OPENCODE_CONFIG_CONTENT", r#"{"model":"theirs","mcp":{"other":{}}}"#.to_owned()),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into();
        let ties = Ties {
            agent: "assistant".parse().unwrap(),
            launch: "r1".into(),
            token: "secret-token".to_owned(),
            program: "/opt/leo".to_owned(),
            home: Home::at("/h/leo".into()).unwrap(),
            run: Some(Run { task: "news".to_owned(), run_id: "r1".to_owned() }),
        };
        for harness in [Harness::Claude, Harness::Codex, Harness::Opencode, Harness::Demo] {
            let task = TaskConfig {
                harness,
                model: Some("m".to_owned()),
                args: vec!["--extra".to_owned()],
                env: [("A".to_owned(), "1".to_owned())].into(),
                ..TaskConfig::default()
            };
            let plan = plan(&task, Some(&ties), "/opt/leo", &base, Path::new("/run")).unwrap();
            let line = plan.argv.join(" ");
            assert!(!line.contains("secret-token"), "{line}");
            assert!(line.contains("--extra"), "{line}");
            assert_eq!(plan.env["LEO_TASK"], "news");
            assert_eq!(plan.env["LEO_RUN_ID"], "r1");
            assert_eq!(plan.env["LEO_API_TOKEN"], "secret-token");
            assert_eq!(plan.env["OPENAI_API_KEY"], "k");
            assert_eq!(plan.env["A"], "1");
            match harness {
                Harness::Claude => assert!(plan.files[0].1.contains("secret-token")),
                Harness::Codex => {
                    assert!(line.ends_with("--extra -") && line.contains("mcp_servers.leo"), "{line}")
                }
                Harness::Opencode => {
                    let config = &plan.env["OPENCODE_CONFIG_CONTENT"];
                    assert!(
                        config.contains("theirs") && config.contains("other") && config.contains("/opt/leo")
                    );
                }
                _ => assert_eq!(plan.argv[..3], ["/opt/leo", "demo-agent", "-p"]),
            }
        }
    }

    #[test]
    fn a_program_that_is_missing_is_named_with_what_to_do() {
        let task = TaskConfig { harness: Harness::Codex, ..TaskConfig::default() };
        let base = Env::from([("PATH".to_owned(), "/nowhere".to_owned())]);
        if find_program("codex", &base).is_some() {
            return;
        }
        let error = plan(&task, None, "leo", &base, Path::new("/")).unwrap_err().to_string();
        assert!(
            error.contains("codex was not found") && error.contains("npm install -g @openai/codex"),
            "{error}"
        );
    }
}

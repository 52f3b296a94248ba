//! A launch as data, and the files it becomes. The environment and every secret travel in a file that
//! only we can read, never in an argument: those are visible to every user of the machine.

use super::launch_dir;
use leo_launch::{Env, is_name, write_private};
use std::{
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// How a harness is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchPlan {
    /// Absolute program and arguments. They may name the files below, and hold nothing secret.
    pub(crate) argv: Vec<String>,
    /// The whole environment.
    pub(crate) env: Env,
    /// The folder it works in.
    pub(crate) folder: PathBuf,
    /// Files of the launch folder, by name.
    pub(crate) files: Vec<(&'static str, String)>,
}

/// Why an agent cannot be started as configured. The texts are for people.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// This build does not know the harness.
    #[error("this build cannot run the harness that is configured; update Leo or choose claude or demo")]
    UnknownHarness,
    /// The program is not there.
    #[error("{program} was not found in PATH: {advice}")]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// How to get it.
        advice: &'static str,
    },
    /// The folder is not there.
    #[error("the workspace {} does not exist or is no folder", .0.display())]
    NoWorkspace(PathBuf),
    /// The configuration cannot be passed on.
    #[error(
        "the configured environment variable {0:?} cannot be set: names have letters, digits and _, values no NUL"
    )]
    BadVariable(String),
    /// Writing the launch files failed.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Checks a configured workspace.
pub(super) fn workspace(path: &str) -> Result<PathBuf, PlanError> {
    let path = PathBuf::from(path);
    if path.is_absolute() && path.is_dir() { Ok(path) } else { Err(PlanError::NoWorkspace(path)) }
}

/// Writes the files of a launch and returns the command for the pane, which holds nothing secret.
///
/// # Errors
/// When a file cannot be written or a variable cannot be set.
pub(crate) fn write_plan(agent_dir: &Path, plan: &LaunchPlan) -> Result<Vec<String>, PlanError> {
    let folder = launch_dir(agent_dir);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| PlanError::Write { path, source }
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed(&folder))?;
    let script = run_script(plan)?;
    for (name, text) in plan.files.iter().map(|(n, t)| (*n, t)).chain([("run", &script)]) {
        let path = folder.join(name);
        write_private(&path, text.as_bytes()).map_err(failed(&path))?;
    }
    Ok(vec!["/bin/sh".to_owned(), folder.join("run").display().to_string()])
}

/// A shell script that replaces itself by the harness, so that the pane's process is the harness. Its
/// first half clears whatever the tmux server's environment holds.
fn run_script(plan: &LaunchPlan) -> Result<String, PlanError> {
    let mut script = String::from(
        "if [ \"${1-}\" != clean ]; then\n  exec /usr/bin/env -i TERM=\"$TERM\" TMUX=\"$TMUX\" TMUX_PANE=\"$TMUX_PANE\" /bin/sh \"$0\" clean\nfi\n",
    );
    for (key, value) in &plan.env {
        if !is_name(key) || value.contains('\0') {
            return Err(PlanError::BadVariable(key.clone()));
        }
        if !["TERM", "TMUX", "TMUX_PANE"].contains(&key.as_str()) {
            script.push_str(&format!("export {key}={}\n", quote(value)));
        }
    }
    let folder = plan.folder.display().to_string();
    script.push_str(&format!("cd {} || exit 72\nexec", quote(&folder)));
    for arg in &plan.argv {
        script.push(' ');
        script.push_str(&quote(arg));
    }
    script.push('\n');
    Ok(script)
}

/// One word for a shell, whatever is in it.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    fn plan(argv: &[&str], env: &[(&str, &str)], folder: &Path) -> LaunchPlan {
        LaunchPlan {
            argv: argv.iter().map(|a| (*a).to_owned()).collect(),
            env: env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            folder: folder.to_owned(),
            files: vec![("settings.json", "{}".to_owned())],
        }
    }

    fn run(argv: &[String]) -> String {
        let out = std::process::Command::new(&argv[0]).args(&argv[1..]).env("LEAK", "x").output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    #[test]
    fn the_process_gets_exactly_what_was_planned() {
        let home = tempfile::tempdir().unwrap();
        let nasty = "it's $HOME `x` \\ \"q\"\nline two; rm -rf ~";
        let plan = plan(
            &["/bin/sh", "-c", "pwd; printf '%s|' \"$A\" \"$1\"; env", "sh", nasty],
            &[("A", nasty), ("PATH", "/usr/bin:/bin")],
            home.path(),
        );
        let argv = write_plan(home.path(), &plan).unwrap();
        assert!(argv.iter().all(|a| !a.contains("it's")), "nothing of the environment is in the arguments");
        let out = run(&argv);
        assert!(
            out.starts_with(&format!("{}\n{nasty}|{nasty}|", home.path().canonicalize().unwrap().display())),
            "{out}"
        );
        assert!(!out.contains("LEAK"));
    }

    #[test]
    fn files_are_ours_alone_and_replaced_whole() {
        let home = tempfile::tempdir().unwrap();
        let folder = launch_dir(home.path());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("run.partial"), "from a crash").unwrap();
        std::fs::write(folder.join("settings.json"), "old").unwrap();
        write_plan(home.path(), &plan(&["/bin/true"], &[], home.path())).unwrap();
        for name in ["run", "settings.json"] {
            let mode = std::fs::metadata(folder.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        assert_eq!(std::fs::read_to_string(folder.join("settings.json")).unwrap(), "{}");
    }

    #[test]
    fn variables_that_a_shell_cannot_take_are_refused() {
        let home = tempfile::tempdir().unwrap();
        for (key, value) in [("A-B", "x"), ("A", "x\0y"), ("A=1;rm", "x"), ("", "x")] {
            let refused = write_plan(home.path(), &plan(&["/bin/true"], &[(key, value)], home.path()));
            assert!(matches!(refused, Err(PlanError::BadVariable(_))), "{key}");
        }
    }

    proptest! {
        #[test]
        fn quoting_keeps_every_word(word in "[^\\x00]{0,30}") {
            let script = format!("printf '%s' {}", quote(&word));
            let out = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
            prop_assert_eq!(out.stdout, word.as_bytes());
        }
    }
}

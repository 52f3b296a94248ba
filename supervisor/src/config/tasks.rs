//! `tasks.<name>`: what a person may write there, and what is wrong with it.

use super::{
    Wrong,
    shape::{AgentSection, Duration, absolute},
};
use leo_ipc::{
    TaskName,
    config::{Harness, TaskConfig, TaskRuntime},
};
use leo_tasks::{BadSchedule, Schedule};
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};
use std::{collections::BTreeMap, path::Path};

/// Most attempts after a failed one: what fails more often needs a person.
const MAX_RETRIES: u32 = 10;

/// Longest `timeout` of a task, in seconds: a run that works for longer than a day is stuck.
const MAX_TIMEOUT_S: u64 = 86_400;

/// Longest `catch_up` of a task, in seconds: what is a week late is due again.
const MAX_CATCH_UP_S: u64 = 7 * 86_400;

/// A task's name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskKey(pub(super) TaskName);

impl<'de> Deserialize<'de> for TaskKey {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map(TaskKey).map_err(serde::de::Error::custom)
    }
}

/// One task.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TaskSection {
    owner: Option<String>,
    agent: Option<String>,
    schedule: Option<Spanned<String>>,
    timezone: Option<Spanned<String>>,
    prompt: Option<Spanned<String>>,
    prompt_file: Option<Spanned<String>>,
    harness: Option<HarnessName>,
    model: Option<String>,
    workspace: Option<Spanned<String>>,
    env: Option<BTreeMap<String, String>>,
    args: Option<Vec<String>>,
    permission_mode: Option<String>,
    runtime: Option<RuntimeName>,
    timeout: Option<Spanned<Duration>>,
    retries: Option<Spanned<u32>>,
    notify_on_fail: Option<bool>,
    enabled: Option<bool>,
    catch_up: Option<Spanned<Duration>>,
}

/// Of its own, since the wire's type takes any name for one of a newer build.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum HarnessName {
    Claude,
    Codex,
    Opencode,
    Demo,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum RuntimeName {
    Oneshot,
    Persistent,
}

/// A task with what is missing filled in. Its workspace may stay open: it is its owner's then, who is
/// known when it runs. That its owner is an agent cannot be told here, since agents come and go.
pub(super) fn resolve_task(
    name: &TaskName,
    own: TaskSection,
    defaults: &AgentSection,
    user_home: Option<&Path>,
    at: Option<Location>,
) -> Result<TaskConfig, Wrong> {
    let plain = TaskConfig::default();
    let wrong = |at: Location, what: String| Wrong { at, what: format!("task `{name}`: {what}") };
    check_schedule(own.schedule.as_ref(), own.timezone.as_ref()).map_err(|(at, what)| wrong(at, what))?;
    match (&own.prompt, &own.prompt_file) {
        (Some(_), Some(file)) => {
            return Err(wrong(
                file.referenced,
                "it has a prompt and a prompt_file: leave one of them out".to_owned(),
            ));
        }
        (None, None) => {
            let at = at.unwrap_or(Location::UNKNOWN);
            return Err(wrong(at, "it has no prompt: give it a prompt or a prompt_file".to_owned()));
        }
        (Some(prompt), None) if prompt.value.trim().is_empty() => {
            return Err(wrong(prompt.referenced, "its prompt is empty".to_owned()));
        }
        _ => {}
    }
    let path = |key: &str, given: Option<Spanned<String>>| {
        given
            .map(|text| absolute(key, &text.value, user_home).map_err(|what| wrong(text.referenced, what)))
            .transpose()
    };
    let seconds = |key: &str, given: Option<Spanned<Duration>>, least: u64, most: u64, plain: u64| match given
    {
        None => Ok(plain),
        Some(given) if (least..=most).contains(&given.value.0) => Ok(given.value.0),
        Some(given) => {
            Err(wrong(given.referenced, format!("{key} must be between {least}s and {}h", most / 3600)))
        }
    };
    let retries = match own.retries {
        Some(given) if given.value > MAX_RETRIES => {
            return Err(wrong(given.referenced, format!("retries must be at most {MAX_RETRIES}")));
        }
        given => given.map_or(plain.retries, |given| given.value),
    };
    let mut env = defaults.env.clone().unwrap_or_default();
    env.extend(own.env.unwrap_or_default());
    Ok(TaskConfig {
        owner: own.owner,
        agent: own.agent,
        schedule: own.schedule.map(|schedule| schedule.value),
        timezone: own.timezone.map(|zone| zone.value),
        prompt: own.prompt.map(|prompt| prompt.value),
        prompt_file: path("prompt_file", own.prompt_file)?,
        harness: own.harness.map_or(plain.harness, HarnessName::on_the_wire),
        model: own.model.or_else(|| defaults.model.clone()),
        workspace: path("workspace", own.workspace)?,
        env,
        args: own.args.unwrap_or_default(),
        permission_mode: own.permission_mode.or_else(|| defaults.permission_mode.clone()),
        runtime: match own.runtime {
            Some(RuntimeName::Persistent) => TaskRuntime::Persistent,
            Some(RuntimeName::Oneshot) | None => TaskRuntime::Oneshot,
        },
        timeout_s: seconds("timeout", own.timeout, 1, MAX_TIMEOUT_S, plain.timeout_s)?,
        retries,
        notify_on_fail: own.notify_on_fail.unwrap_or(plain.notify_on_fail),
        enabled: own.enabled.unwrap_or(plain.enabled),
        catch_up_s: seconds("catch_up", own.catch_up, 0, MAX_CATCH_UP_S, plain.catch_up_s)?,
    })
}

impl HarnessName {
    fn on_the_wire(self) -> Harness {
        match self {
            HarnessName::Claude => Harness::Claude,
            HarnessName::Codex => Harness::Codex,
            HarnessName::Opencode => Harness::Opencode,
            HarnessName::Demo => Harness::Demo,
        }
    }
}

fn check_schedule(
    schedule: Option<&Spanned<String>>,
    zone: Option<&Spanned<String>>,
) -> Result<(), (Location, String)> {
    // A zone is checked without a pattern, too: it is wrong either way.
    let pattern = schedule.map_or("@daily", |schedule| schedule.value.as_str());
    match Schedule::parse(pattern, zone.map(|zone| zone.value.as_str())) {
        Ok(_) => Ok(()),
        Err(bad) => {
            let place = if matches!(bad, BadSchedule::Zone { .. }) { zone } else { schedule };
            Err((place.map_or(Location::UNKNOWN, |place| place.referenced), bad.to_string()))
        }
    }
}

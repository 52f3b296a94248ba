//! Tasks and their runs (WIRE.md §4, §7), and the report of a failed run that only the home's socket
//! takes (seed 001, "Task failure cards").

use crate::{
    answer::{Answer, Data, Refusals, Success},
    app::{App, HUB_DEADLINE},
    extract::{Json, NoBody, Query, TaskPath},
};
use axum::extract::State;
use leo_ipc::task::{
    EnableTask, ListRuns, ListTasks, ReportTaskFailure, Runs, TaskFailureCard, TaskInfo, Tasks,
};
use serde::Deserialize;
use utoipa::IntoParams;

/// Runs when the caller does not say.
const DEFAULT_RUNS: u32 = 20;

/// Which task.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its schema is used; the extractor reads the path itself")]
pub(crate) struct TaskParam {
    /// Its name.
    task: String,
}

/// All tasks of the configuration, by name.
#[utoipa::path(get, operation_id = "list_tasks", path = "/api/v1/tasks", tag = "tasks",
    responses((status = 200, body = Success<Tasks>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn list(State(app): State<App>) -> Answer<Tasks> {
    Ok(Data::ok(app.hub.call(ListTasks {}, HUB_DEADLINE).await?))
}

/// How many runs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Limit {
    /// At most so many, 1 to 100; 20 unless given.
    limit: Option<u32>,
}

/// The newest runs of a task, newest first.
#[utoipa::path(get, operation_id = "list_task_runs", path = "/api/v1/tasks/{task}/runs", tag = "tasks",
    params(TaskParam, Limit),
    responses((status = 200, body = Success<Runs>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn runs(
    State(app): State<App>,
    TaskPath(task): TaskPath,
    Query(query): Query<Limit>,
) -> Answer<Runs> {
    let limit = query.limit.unwrap_or(DEFAULT_RUNS);
    Ok(Data::ok(app.hub.call(ListRuns { task, limit }, HUB_DEADLINE).await?))
}

/// Follows a task's schedule from now on, whatever the configuration says.
#[utoipa::path(post, operation_id = "enable_task", path = "/api/v1/tasks/{task}/enable", tag = "tasks", params(TaskParam),
    responses((status = 200, body = Success<TaskInfo>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn enable(State(app): State<App>, TaskPath(task): TaskPath, _: NoBody) -> Answer<TaskInfo> {
    Ok(Data::ok(app.hub.call(EnableTask { task, enabled: true }, HUB_DEADLINE).await?))
}

/// Follows a task's schedule no longer; a run in progress goes on, and `leo run` still works.
#[utoipa::path(post, operation_id = "disable_task", path = "/api/v1/tasks/{task}/disable", tag = "tasks", params(TaskParam),
    responses((status = 200, body = Success<TaskInfo>), Refusals), security(("operator" = []), ("session" = [])))]
pub(crate) async fn disable(State(app): State<App>, TaskPath(task): TaskPath, _: NoBody) -> Answer<TaskInfo> {
    Ok(Data::ok(app.hub.call(EnableTask { task, enabled: false }, HUB_DEADLINE).await?))
}

/// Reports a failed run for a card in its owner's thread. Served on the home's socket only.
pub(crate) async fn failure(
    State(app): State<App>,
    Json(body): Json<ReportTaskFailure>,
) -> Answer<TaskFailureCard> {
    Ok(Data::ok(app.hub.call(body, HUB_DEADLINE).await?))
}

//! `leo client`

use super::{
    Json,
    api::{Api, segment},
    failure::Failure,
    out::{self, Paint},
    table::{self, Cell, Column, Tone, plain},
    text,
};
use clap::{Args, Subcommand};
use leo_ipc::{
    ClientName, ExitCode,
    api_client::{AgentGlob, ApiClient, Clients},
    paths::Home,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Give a script or a CI job a token of its own, which is shown this once.
    Add(Add),
    /// List the API clients and what they may do.
    List(Json),
    /// Take a client's token away; it stops working at once.
    Rm(Rm),
}

#[derive(Args)]
pub(crate) struct Add {
    /// Its name: a-z, 0-9 and -. What one that leo.yaml names may do is written there.
    name: ClientName,
    /// An agent that it may send messages to; `*` and `?` stand for any characters. May be repeated.
    #[arg(long, value_name = "GLOB")]
    can_message: Vec<AgentGlob>,
    /// An agent into whose thread it may post, likewise.
    #[arg(long, value_name = "GLOB")]
    can_post: Vec<AgentGlob>,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Rm {
    /// Its name.
    name: ClientName,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Body of `POST /api/v1/clients`.
#[derive(Serialize)]
struct NewClient {
    name: ClientName,
    can_message: Vec<AgentGlob>,
    can_post: Vec<AgentGlob>,
}

/// Its answer.
#[derive(Deserialize, Serialize)]
struct Given {
    client: ApiClient,
    token: String,
}

/// Runs the command.
pub(crate) async fn run(home: &Home, verb: Verb) -> Result<ExitCode, Failure> {
    let api = Api::new(home);
    match verb {
        Verb::Add(Add { name, can_message, can_post, json }) => {
            let given: Given =
                api.post("/api/v1/clients", &NewClient { name, can_message, can_post }).await?;
            if json {
                out::json(&given);
                return Ok(ExitCode::Ok);
            }
            // Alone on standard output, so that a script can take it from there.
            out::line(&given.token);
            let client = &given.client;
            out::note(&format!("This is the token of {}. It is not shown again.", client.name));
            out::note(&what_it_may(client));
        }
        Verb::List(Json { json }) => {
            let clients: Clients = api.get("/api/v1/clients").await?;
            if json {
                out::json(&clients);
            } else if clients.clients.is_empty() {
                out::line("No API clients. Add one: leo client add NAME --can-post AGENT");
            } else {
                let lines = render(&clients.clients, out::width(), Paint::stdout());
                lines.iter().for_each(|line| out::line(line));
            }
        }
        Verb::Rm(Rm { name, json }) => {
            let path = format!("/api/v1/clients/{}", segment(name.as_str()));
            let done: Value = api.delete(&path).await?;
            if json {
                out::json(&done);
            } else {
                out::line(&format!("The token of {name} is not good for anything any more."));
            }
        }
    }
    Ok(ExitCode::Ok)
}

fn what_it_may(client: &ApiClient) -> String {
    let may = &client.permissions;
    let can =
        |verb: &str, globs: &[AgentGlob]| (!globs.is_empty()).then(|| format!("{verb} {}", list(globs)));
    let parts: Vec<String> =
        [can("message", &may.can_message), can("post to", &may.can_post)].into_iter().flatten().collect();
    let place = if client.configured { " (leo.yaml)" } else { "" };
    if parts.is_empty() {
        format!("It may do nothing yet{place}: name agents with can_message and can_post.")
    } else {
        format!("It may {}{place}.", parts.join(", and "))
    }
}

fn list(globs: &[AgentGlob]) -> String {
    globs.iter().map(AgentGlob::as_str).collect::<Vec<_>>().join(" ")
}

fn render(clients: &[ApiClient], width: usize, paint: Paint) -> Vec<String> {
    let head = [
        Column::text("CLIENT"),
        Column::text("TOKEN"),
        Column::text("BY"),
        Column::flexible("MESSAGE"),
        Column::flexible("POST"),
    ];
    let rows: Vec<Vec<Cell>> = clients.iter().map(row).collect();
    table::render(&head, &rows, width, paint)
}

fn row(client: &ApiClient) -> Vec<Cell> {
    let token = match client.since {
        Some(since) => (text::since(since), Tone::Plain),
        None => ("none".to_owned(), Tone::Warn),
    };
    let globs = |globs: &[AgentGlob]| {
        if globs.is_empty() { ("–".to_owned(), Tone::Dim) } else { plain(list(globs)) }
    };
    vec![
        (client.name.to_string(), Tone::Bold),
        token,
        plain(if client.configured { "leo.yaml" } else { "command" }),
        globs(&client.permissions.can_message),
        globs(&client.permissions.can_post),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use leo_ipc::api_client::Permissions;

    fn client(message: &[&str], post: &[&str], configured: bool) -> ApiClient {
        let globs = |list: &[&str]| list.iter().map(|glob| glob.parse().unwrap()).collect();
        ApiClient {
            name: "ci".parse().unwrap(),
            configured,
            has_token: false,
            permissions: Permissions { can_message: globs(message), can_post: globs(post) },
            since: None,
        }
    }

    #[test]
    fn what_a_client_may_is_a_sentence() {
        let said =
            |message: &[&str], post: &[&str], configured| what_it_may(&client(message, post, configured));
        assert_eq!(said(&["a", "b-*"], &["*"], false), "It may message a b-*, and post to *.");
        assert_eq!(said(&[], &["a"], true), "It may post to a (leo.yaml).");
        assert!(said(&[], &[], false).starts_with("It may do nothing yet: name agents"));
    }

    #[test]
    fn the_list_says_who_has_no_token() {
        let lines = render(&[client(&["a"], &[], true)], 80, Paint::stdout());
        assert_eq!(lines, ["CLIENT  TOKEN  BY        MESSAGE  POST", "ci      none   leo.yaml  a        –"]);
    }
}

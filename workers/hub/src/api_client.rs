//! API clients: their tokens, what they may do, and what they say. Whether a client may is checked in the
//! transaction that stores its message, so a token that was taken away does nothing from then on.

use crate::{
    agent, chat, delivery,
    error::{Outcome, Refusal},
    message::{self, New},
    prompt,
    statements::Cached,
    writer::Tx,
};
use leo_ipc::{
    AgentName, ClientName, Fault, Time,
    agent::Wake,
    api_client::{
        AddClient, ApiClient, AuthClient, ClientIdentity, ClientMessage, Clients, MAX_CLIENTS, MAX_GLOBS,
        Permissions, RemoveClient, ThreadPost,
    },
    chat::{Accepted, Direction, MAX_POST_TEXT, MAX_TEXT, MAX_TEXT_ENCODED, MessageKind, MessageState},
    config::Config,
};
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;

/// `sender` of what the operator puts into a thread: not the agent's words either.
const OPERATOR: &str = "operator";

/// A client that has, or had, a token.
struct Stored {
    has_token: bool,
    may: Permissions,
    made_at: Time,
    add_key: String,
    remove_key: Option<String>,
}

fn all(db: &Connection) -> Outcome<BTreeMap<ClientName, Stored>> {
    let mut statement = db.prepare_cached(
        "SELECT name, token_hash IS NOT NULL, may, made_at, add_key, remove_key FROM api_clients",
    )?;
    let mut rows = statement.query([])?;
    let mut clients = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let Ok(name) = ClientName::try_from(row.get::<_, String>(0)?) else { continue };
        let stored = Stored {
            has_token: row.get(1)?,
            may: serde_json::from_str(&row.get::<_, String>(2)?).unwrap_or_default(),
            made_at: Time::from_millis(row.get(3)?),
            add_key: row.get(4)?,
            remove_key: row.get(5)?,
        };
        clients.insert(name, stored);
    }
    Ok(clients)
}

fn shown(config: &Config, name: &ClientName, stored: Option<&Stored>) -> ApiClient {
    let configured = config.api_clients.get(name);
    let stored = stored.filter(|stored| stored.has_token);
    ApiClient {
        name: name.clone(),
        configured: configured.is_some(),
        has_token: stored.is_some(),
        permissions: configured.or(stored.map(|s| &s.may)).cloned().unwrap_or_default(),
        since: stored.map(|stored| stored.made_at),
    }
}

/// Gives a client its token.
pub(crate) fn add(tx: &mut Tx<'_>, config: &Config, request: &AddClient) -> Outcome<ApiClient> {
    let name = &request.name;
    let may = &request.permissions;
    if config.api_clients.contains_key(name) && !may.is_empty() {
        let text = format!("what `{name}` may do is in leo.yaml (api_clients.{name}): change it there");
        return Err(Fault::new("configured_client", text).into());
    }
    if may.can_message.len() > MAX_GLOBS || may.can_post.len() > MAX_GLOBS {
        return Err(Fault::bad_request(format!("at $: at most {MAX_GLOBS} globs of each kind")).into());
    }
    let known = all(tx.db)?;
    match known.get(name) {
        Some(stored) if stored.has_token && stored.add_key != request.key.as_str() => {
            let text = format!("the client `{name}` has a token already: remove it first to give it another");
            return Err(Fault::new("client_exists", text).into());
        }
        None if known.len() as u64 >= MAX_CLIENTS => {
            return Err(
                Fault::new("too_many_clients", format!("there are {MAX_CLIENTS} clients already")).into()
            );
        }
        _ => {}
    }
    let json = serde_json::to_string(may).map_err(|e| Fault::internal(e.to_string()))?;
    tx.db.execute_cached(
        "INSERT INTO api_clients (name, token_hash, may, made_at, add_key) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (name) DO UPDATE SET token_hash = ?2, may = ?3, made_at = ?4, add_key = ?5, remove_key = NULL",
        rusqlite::params![
            name.as_str(),
            request.token_hash,
            json,
            tx.now.millis(),
            request.key.as_str()
        ],
    )?;
    Ok(shown(config, name, all(tx.db)?.get(name)))
}

/// All clients: those with a token, and those of the configuration.
pub(crate) fn list(db: &Connection, config: &Config) -> Outcome<Clients> {
    let stored = all(db)?;
    let with_token = stored.iter().filter(|(_, stored)| stored.has_token).map(|(name, _)| name);
    let mut names: Vec<&ClientName> = with_token.chain(config.api_clients.keys()).collect();
    names.sort();
    names.dedup();
    Ok(Clients { clients: names.into_iter().map(|name| shown(config, name, stored.get(name))).collect() })
}

/// Takes a client's token away.
pub(crate) fn remove(tx: &mut Tx<'_>, request: &RemoveClient) -> Outcome<()> {
    let (name, key) = (request.name.as_str(), request.key.as_str());
    let changed = tx.db.execute_cached(
        "UPDATE api_clients SET token_hash = NULL, may = '{}', remove_key = ?2
         WHERE name = ?1 AND token_hash IS NOT NULL",
        [name, key],
    )?;
    let known = all(tx.db)?;
    let again = known.get(&request.name).is_some_and(|stored| stored.remove_key.as_deref() == Some(key));
    if changed > 0 || again { Ok(()) } else { Err(unknown(&request.name)) }
}

fn unknown(name: &ClientName) -> Refusal {
    Fault::new("unknown_client", format!("there is no API client `{name}` with a token")).into()
}

/// Which client a token belongs to.
pub(crate) fn authenticate(db: &Connection, request: &AuthClient) -> Outcome<ClientIdentity> {
    let found: Option<String> = db
        .prepare_cached("SELECT name FROM api_clients WHERE token_hash = ?1")?
        .query_row([&request.token_hash], |row| row.get(0))
        .optional()?;
    let name = found.and_then(|name| ClientName::try_from(name).ok());
    let denied = || Fault::new("unauthorized", "this token belongs to no API client");
    Ok(ClientIdentity { name: name.ok_or_else(denied)? })
}

/// What a client is about to do.
#[derive(Clone, Copy)]
enum Act {
    Message,
    Post,
}

/// Refuses what a client may not do: 401 when its token is gone, else 403.
fn must_be_allowed(
    db: &Connection,
    config: &Config,
    client: &ClientName,
    act: Act,
    agent: &AgentName,
) -> Outcome<()> {
    let stored = all(db)?;
    let Some(stored) = stored.get(client).filter(|stored| stored.has_token) else {
        return Err(Fault::new("unauthorized", "this client's token was taken away").into());
    };
    let may = config.api_clients.get(client).unwrap_or(&stored.may);
    let (globs, verb, key) = match act {
        Act::Message => (&may.can_message, "send messages to", "can_message"),
        Act::Post => (&may.can_post, "post into the thread of", "can_post"),
    };
    if globs.iter().any(|glob| glob.matches(agent)) {
        return Ok(());
    }
    let text = format!("the API client `{client}` may not {verb} `{agent}`: its {key} does not name it");
    Err(Fault::new("forbidden_client", text).into())
}

/// Delivers a client's message to an agent, as any message is.
pub(crate) fn send(tx: &mut Tx<'_>, config: &Config, request: &ClientMessage) -> Outcome<Accepted> {
    must_be_allowed(tx.db, config, &request.client, Act::Message, &request.agent)?;
    check_text(&request.text, MAX_TEXT)?;
    agent::must_exist(tx.db, &request.agent)?;
    let client = request.client.as_str();
    let dedupe = match &request.client_msg_id {
        Some(id) => format!("api:{client}:{id}"),
        None => format!("api-key:{client}:{}", request.key),
    };
    let new = Spoken {
        agent: &request.agent,
        direction: Direction::In,
        text: &request.text,
        sender: &request.client.sender(),
        client_msg_id: request.client_msg_id.as_deref(),
        dedupe: &dedupe,
    };
    if let Some(accepted) = new.repeated(tx.db)? {
        return Ok(accepted);
    }
    chat::check_outbox(tx.db, &request.agent, request.text.len())?;
    let accepted = new.store(tx, |tx, id| {
        let prompt = prompt::from_client(&request.text, &request.client);
        delivery::enqueue(tx, &request.agent, id, &prompt)
    })?;
    tx.wake(Wake::Outbox { name: request.agent.clone() });
    Ok(accepted)
}

/// Puts a client's, or the operator's, message for the person into a thread.
pub(crate) fn post(tx: &mut Tx<'_>, config: &Config, request: &ThreadPost) -> Outcome<Accepted> {
    if let Some(client) = &request.client {
        must_be_allowed(tx.db, config, client, Act::Post, &request.agent)?;
    }
    check_text(&request.text, MAX_POST_TEXT)?;
    agent::must_exist(tx.db, &request.agent)?;
    let sender = request.client.as_ref().map_or_else(|| OPERATOR.to_owned(), ClientName::sender);
    let dedupe = match &request.client_msg_id {
        Some(id) => format!("api-post:{sender}:{id}"),
        None => format!("api-post-key:{sender}:{}", request.key),
    };
    let new = Spoken {
        agent: &request.agent,
        direction: Direction::Out,
        text: &request.text,
        sender: &sender,
        client_msg_id: request.client_msg_id.as_deref(),
        dedupe: &dedupe,
    };
    match new.repeated(tx.db)? {
        Some(accepted) => Ok(accepted),
        None => new.store(tx, |_, _| Ok(())),
    }
}

fn check_text(text: &str, most: usize) -> Outcome<()> {
    if text.trim().is_empty() {
        return Err(Fault::bad_request("at $.text: a message needs text").into());
    }
    if text.len() > most || message::escaped_len(text) > MAX_TEXT_ENCODED {
        let said = format!("at $.text: {} bytes, at most {most} are possible", text.len());
        return Err(Fault::new("too_large", said).into());
    }
    Ok(())
}

/// A message that says whose it is.
struct Spoken<'a> {
    agent: &'a AgentName,
    direction: Direction,
    text: &'a str,
    sender: &'a str,
    client_msg_id: Option<&'a str>,
    dedupe: &'a str,
}

impl Spoken<'_> {
    /// The message that the same key has made, if it has.
    fn repeated(&self, db: &Connection) -> Outcome<Option<Accepted>> {
        let Some(id) = message::by_dedupe(db, self.agent, self.dedupe)? else { return Ok(None) };
        let message = message::load(db, &id)?;
        if message.text == self.text {
            return Ok(Some(Accepted { message, created: false }));
        }
        let text = "a different message was sent with this client_msg_id before";
        Err(Fault::new("idempotency_conflict", text).into())
    }

    /// Stores it with what belongs to it, and journals it.
    fn store(
        &self,
        tx: &mut Tx<'_>,
        with: impl FnOnce(&mut Tx<'_>, &leo_ipc::MessageId) -> Outcome<()>,
    ) -> Outcome<Accepted> {
        let inbound = self.direction == Direction::In;
        let new = New {
            agent: self.agent,
            direction: self.direction,
            kind: MessageKind::Text,
            text: self.text,
            state: if inbound { MessageState::Pending } else { MessageState::None },
            reply_to: None,
            client_msg_id: self.client_msg_id,
            dedupe: Some(self.dedupe),
        };
        let id = message::insert(tx, &new)?;
        tx.db.execute_cached("UPDATE messages SET sender = ?2 WHERE id = ?1", [id.as_str(), self.sender])?;
        with(tx, &id)?;
        Ok(Accepted { message: message::emit_new(tx, &id)?, created: true })
    }
}

#[cfg(test)]
mod tests;

//! Which mods are connected, and the one command that each of them is to carry out.

use super::wire::{Command, From};
use leo_ipc::{AgentName, LaunchId};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How long a mod may take between two polls, loading its module again included (measured: 0.3 s).
pub(super) const BETWEEN_POLLS: Duration = Duration::from_secs(2);

/// The connected mods, by launch.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: Mutex<HashMap<LaunchId, Link>>,
}

#[derive(Debug)]
struct Link {
    agent: AgentName,
    instance: String,
    command: Option<Command>,
    /// A prompt that went into the peer inbox, with its id, which the mod may enter as the person's.
    inbox: Option<(String, String)>,
    /// Polls that wait now.
    polls: u32,
    /// Counts polls, so that a silence is told from the one before.
    turn: u64,
    wake: Arc<Notify>,
}

/// What a poll finds.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing yet; wait for this.
    Wait(Arc<Notify>),
    /// A command.
    Command(Command),
    /// Another load of the mod, or another worker, was spoken to: greet again.
    Stranger,
}

impl Links {
    fn lock(&self) -> MutexGuard<'_, HashMap<LaunchId, Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A mod has greeted; what was to be done by its predecessor is its to do.
    pub(super) fn greet(&self, agent: &AgentName, from: &From) {
        let mut links = self.lock();
        // An agent has one launch that counts.
        links.retain(|launch, link| link.agent != *agent || *launch == from.launch);
        let old = links.remove(&from.launch);
        let link = Link {
            agent: agent.clone(),
            instance: from.instance.clone(),
            command: old.as_ref().and_then(|old| old.command.clone()),
            inbox: old.as_ref().and_then(|old| old.inbox.clone()),
            polls: 0,
            turn: old.as_ref().map_or(0, |old| old.turn + 1),
            wake: Arc::default(),
        };
        if let Some(old) = old {
            old.wake.notify_waiters();
        }
        links.insert(from.launch.clone(), link);
    }

    /// Whose mod this is.
    pub(super) fn agent(&self, from: &From) -> Option<AgentName> {
        let links = self.lock();
        links.get(&from.launch).filter(|l| l.instance == from.instance).map(|l| l.agent.clone())
    }

    /// Looks for a command that the mod does not have.
    pub(super) fn find(&self, from: &From, have: &[String]) -> Found {
        let links = self.lock();
        match links.get(&from.launch).filter(|l| l.instance == from.instance) {
            None => Found::Stranger,
            Some(link) => match link.command.clone().filter(|c| !have.contains(&c.id)) {
                Some(command) => Found::Command(command),
                None => Found::Wait(link.wake.clone()),
            },
        }
    }

    /// A poll begins.
    pub(super) fn begin_poll(&self, from: &From) {
        if let Some(link) = self.lock().get_mut(&from.launch) {
            link.polls += 1;
            link.turn += 1;
        }
    }

    /// A poll ended; the number of this silence.
    pub(super) fn end_poll(&self, from: &From) -> Option<u64> {
        let mut links = self.lock();
        let link = links.get_mut(&from.launch).filter(|l| l.instance == from.instance)?;
        link.polls = link.polls.saturating_sub(1);
        (link.polls == 0).then_some(link.turn)
    }

    /// Forgets a mod that has not polled since; its agent.
    pub(super) fn drop_silent(&self, from: &From, turn: u64) -> Option<AgentName> {
        let mut links = self.lock();
        let silent = links
            .get(&from.launch)
            .is_some_and(|l| l.instance == from.instance && l.polls == 0 && l.turn == turn);
        if silent { links.remove(&from.launch).map(|l| l.agent) } else { None }
    }

    /// Gives a launch's mod a command; false when it is not there. Giving it again is harmless.
    pub(crate) fn give(&self, launch: &LaunchId, command: Command) -> bool {
        let mut links = self.lock();
        let Some(link) = links.get_mut(launch) else { return false };
        link.command = Some(command);
        link.wake.notify_waiters();
        true
    }

    /// A command is over.
    pub(crate) fn done(&self, launch: &LaunchId, id: &str) {
        if let Some(link) = self.lock().get_mut(launch) {
            if link.command.as_ref().is_some_and(|c| c.id == id) {
                link.command = None;
            }
            if link.inbox.as_ref().is_some_and(|(inbox, _)| inbox == id) {
                link.inbox = None;
            }
        }
    }

    /// Whether a launch's mod is there.
    pub(crate) fn is_up(&self, launch: &LaunchId) -> bool {
        self.lock().contains_key(launch)
    }

    /// The next message of this text in the peer inbox is ours.
    pub(crate) fn expect_in_inbox(&self, launch: &LaunchId, id: String, text: String) {
        if let Some(link) = self.lock().get_mut(launch) {
            link.inbox = Some((id, text));
        }
    }

    /// The id of a message in the peer inbox that is ours to enter as the person's.
    pub(super) fn in_inbox(&self, from: &From, text: &str) -> Option<String> {
        let links = self.lock();
        let link = links.get(&from.launch).filter(|l| l.instance == from.instance)?;
        link.inbox.as_ref().filter(|(_, ours)| ours == text).map(|(id, _)| id.clone())
    }

    /// Forgets a launch that is over.
    pub(crate) fn forget(&self, launch: &LaunchId) {
        if let Some(link) = self.lock().remove(launch) {
            link.wake.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(launch: &str, instance: &str) -> From {
        From { launch: launch.into(), instance: instance.to_owned() }
    }

    fn command(id: &str) -> Command {
        Command { id: id.to_owned(), op: super::super::Op::Deliver { text: String::new() } }
    }

    #[test]
    fn a_command_stays_until_it_is_done_whoever_takes_it() {
        let (links, agent): (Links, AgentName) = (Links::default(), "a".parse().unwrap());
        assert!(!links.give(&"l1".into(), command("c1")), "nobody is there");
        links.greet(&agent, &from("l1", "i1"));
        assert!(links.give(&"l1".into(), command("c1")));
        for _ in 0..2 {
            assert!(matches!(links.find(&from("l1", "i1"), &[]), Found::Command(c) if c.id == "c1"));
        }
        assert!(matches!(links.find(&from("l1", "i1"), &["c1".to_owned()]), Found::Wait(_)));
        // The module is loaded again.
        links.greet(&agent, &from("l1", "i2"));
        assert!(matches!(links.find(&from("l1", "i1"), &[]), Found::Stranger));
        assert!(matches!(links.find(&from("l1", "i2"), &[]), Found::Command(_)));
        links.done(&"l1".into(), "c1");
        assert!(matches!(links.find(&from("l1", "i2"), &[]), Found::Wait(_)));
        // Another launch of the same agent ends this one.
        links.greet(&agent, &from("l2", "i3"));
        assert!(!links.is_up(&"l1".into()) && links.is_up(&"l2".into()));
    }

    #[test]
    fn only_silence_since_the_last_poll_forgets_a_mod() {
        let (links, agent): (Links, AgentName) = (Links::default(), "a".parse().unwrap());
        let mod_ = from("l1", "i1");
        links.greet(&agent, &mod_);
        links.begin_poll(&mod_);
        let first = links.end_poll(&mod_).unwrap();
        links.begin_poll(&mod_);
        assert_eq!(links.drop_silent(&mod_, first), None);
        let second = links.end_poll(&mod_).unwrap();
        assert_eq!(links.drop_silent(&mod_, first), None);
        assert_eq!(links.drop_silent(&mod_, second), Some(agent));
        assert!(!links.is_up(&"l1".into()));
    }

    #[test]
    fn only_the_expected_text_is_ours() {
        let links = Links::default();
        links.greet(&"a".parse().unwrap(), &from("l1", "i1"));
        links.expect_in_inbox(&"l1".into(), "m1:1".to_owned(), "[Leo Chat] hi".to_owned());
        assert_eq!(links.in_inbox(&from("l1", "i1"), "[Leo Chat] pay me"), None);
        assert_eq!(links.in_inbox(&from("l1", "i1"), "[Leo Chat] hi").as_deref(), Some("m1:1"));
        links.done(&"l1".into(), "m1:1");
        assert_eq!(links.in_inbox(&from("l1", "i1"), "[Leo Chat] hi"), None);
    }
}

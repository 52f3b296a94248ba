//! The terminal's loop: keys, signals and the turn thread come in, the screen and the session file go
//! out.

use crate::{
    Settings,
    app::{App, Effect, Event},
    hooks::Hooks,
    mcp::Mcp,
    screen::Screen,
    session::{Session, Status},
    turn::{Job, Stop, Turns},
};
use crossterm::{
    event::{self, DisableBracketedPaste, EnableBracketedPaste},
    execute, terminal,
};
use serde_json::json;
use signal_hook::{
    consts::{SIGHUP, SIGTERM},
    iterator::Signals,
};
use std::{
    io::{self, IsTerminal},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel},
    },
    time::{Duration, Instant},
};

/// How often the seconds of a running turn are drawn anew.
const TICK: Duration = Duration::from_secs(1);

/// How long an interrupted turn may take to end when the program does.
const LAST_TURN: Duration = Duration::from_millis(500);

/// Jobs waiting for the turn thread; the terminal gives it one at a time.
const JOBS: usize = 2;

enum Input {
    Event(Event),
    Resize(u16),
}

/// Puts the terminal back, however the program ends.
struct RawMode;

impl RawMode {
    fn enter() -> io::Result<RawMode> {
        terminal::enable_raw_mode()?;
        execute!(io::stdout(), EnableBracketedPaste)?;
        Ok(RawMode)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = execute!(io::stdout(), DisableBracketedPaste);
        let _ = terminal::disable_raw_mode();
    }
}

/// Runs until a person or a signal ends it.
///
/// # Errors
/// When there is no terminal, or it breaks at the start.
pub(crate) fn run(settings: Settings) -> io::Result<()> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(io::Error::other("it needs a terminal on standard input and output"));
    }
    let source = if settings.resume.is_some() { "resume" } else { "startup" };
    let linked = settings.program.is_some();
    let session = Arc::new(Session::new(settings.session_file, settings.resume));
    let hooks = Hooks::new(settings.program.clone());
    let mcp = settings.program.as_deref().and_then(|program| Mcp::start(program).ok());
    let (tx, inputs) = channel();
    let raw = RawMode::enter()?;
    let mut screen = Screen::new(io::stdout(), terminal::size()?.0);
    let cwd = std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default();
    screen.banner(&cwd, linked)?;
    read_terminal(tx.clone())?;
    read_signals(tx.clone())?;

    let stop = Stop::default();
    let (jobs, job_queue) = sync_channel(JOBS);
    let (turn_tx, turn_events) = channel();
    let turns =
        Turns { session: session.clone(), hooks: hooks.clone(), mcp, ui: turn_tx, stop: stop.clone() };
    let (ended_tx, ended) = channel();
    std::thread::Builder::new().name("turns".to_owned()).spawn(move || {
        turns.run(&job_queue);
        let _ = ended_tx.send(());
    })?;
    let forward = tx;
    std::thread::Builder::new().name("turn-events".to_owned()).spawn(move || {
        for event in turn_events {
            if forward.send(Input::Event(Event::Turn(event))).is_err() {
                return;
            }
        }
    })?;

    session.set_status(Status::Busy);
    session.show(true);
    let start = Instant::now();
    let mut app = App::default();
    app.begin(start.elapsed());
    let _ = jobs.send(Job::Start { source });
    let reason = talk(&mut app, &mut screen, &session, &stop, &inputs, &jobs, start);

    stop.set(true);
    drop(jobs);
    session.show(false);
    let _ = screen.leave();
    drop(raw);
    // A command of the last turn is killed by that turn.
    drop(app);
    let _ = ended.recv_timeout(LAST_TURN);
    hooks.fire(&session, "SessionEnd", None, &json!({ "reason": reason }));
    Ok(())
}

/// The loop itself; returns why it ended.
fn talk(
    app: &mut App,
    screen: &mut Screen<impl io::Write>,
    session: &Session,
    stop: &Stop,
    inputs: &Receiver<Input>,
    jobs: &std::sync::mpsc::SyncSender<Job>,
    start: Instant,
) -> &'static str {
    let mut blocks = Vec::new();
    loop {
        let now = start.elapsed();
        session.set_draft(!app.composer.is_empty());
        if app.busy_since.is_none() {
            // Here and not where a turn ends: between two prompts that were sent ahead it stays busy.
            session.set_status(Status::Idle);
        }
        if screen.print(&blocks, app, now).is_err() {
            return "other";
        }
        blocks.clear();
        let ticking = app.busy_since.is_some() || app.is_quit_armed(now);
        let input = if ticking {
            match inputs.recv_timeout(TICK) {
                Ok(input) => input,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return "other",
            }
        } else {
            match inputs.recv() {
                Ok(input) => input,
                Err(_) => return "other",
            }
        };
        // Whatever else is there is taken in before the next drawing: a paste is many keys for a
        // terminal without bracketed paste.
        for input in std::iter::once(input).chain(inputs.try_iter()) {
            let event = match input {
                Input::Event(event) => event,
                Input::Resize(width) => {
                    if screen.resize(width, app, start.elapsed()).is_err() {
                        return "other";
                    }
                    continue;
                }
            };
            for effect in app.step(event, start.elapsed()) {
                let job = match effect {
                    Effect::Print(block) => {
                        blocks.push(block);
                        continue;
                    }
                    Effect::Interrupt => {
                        stop.set(true);
                        continue;
                    }
                    Effect::Quit(reason) => return reason,
                    Effect::Prompt(text) => Job::Prompt(text),
                    Effect::Clear => Job::Clear,
                };
                stop.set(false);
                // The file says so before the turn thread gets to it.
                session.set_status(Status::Busy);
                if jobs.send(job).is_err() {
                    return "other";
                }
            }
        }
    }
}

fn read_terminal(out: Sender<Input>) -> io::Result<()> {
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        loop {
            let input = match event::read() {
                Ok(event::Event::Key(key)) => Input::Event(Event::Key(key)),
                Ok(event::Event::Paste(text)) => Input::Event(Event::Paste(text)),
                Ok(event::Event::Resize(width, _)) => Input::Resize(width),
                Ok(_) => continue,
                Err(_) => Input::Event(Event::Hangup),
            };
            let last = matches!(input, Input::Event(Event::Hangup));
            if out.send(input).is_err() || last {
                return;
            }
        }
    })?;
    Ok(())
}

fn read_signals(out: Sender<Input>) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in &mut signals {
            if out.send(Input::Event(Event::Hangup)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

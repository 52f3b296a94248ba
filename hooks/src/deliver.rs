//! Getting one event to the hub: told, or kept for it, never both for long.

use crate::spool;
use leo_ipc::{
    Fault, IpcError,
    blocking::{self, Patience},
    hello::Role,
    hook::ReportHook,
};
use std::{path::Path, time::Duration};

/// How long a hub may take that appeared while the event was being spooled.
const SECOND_CHANCE: Patience = Patience { absent: Duration::ZERO, total: Duration::from_millis(100) };

/// Tells the hub, or keeps the event for it. An event of a launch that the hub does not know is
/// dropped: it would not know it later either.
pub(crate) fn deliver(hub: &Path, spool: &Path, report: &ReportHook, patience: Patience) {
    let tell = |patience| blocking::call_patiently(hub, Role::Hook, report.clone(), patience);
    match tell(patience) {
        Ok(_) => return,
        Err(e) if is_unauthorized(&e) => return,
        Err(_) => {}
    }
    let Ok(Some(file)) = spool::keep(spool, report) else { return };
    // A hub that was started meanwhile may have read the spool before this file was in it.
    match tell(SECOND_CHANCE) {
        Ok(_) => {}
        Err(e) if is_unauthorized(&e) => {}
        Err(_) => return,
    }
    // Told, so the file has done its work; the hub would have known the key again.
    let _ = std::fs::remove_file(file);
}

fn is_unauthorized(error: &IpcError) -> bool {
    matches!(error, IpcError::Fault(Fault { code, .. }) if code == "unauthorized")
}

#[cfg(test)]
mod tests {
    use super::*;
    use leo_ipc::{
        CallKey, Done, Envelope, Kind, codec,
        frame::{self, MAX_FRAME},
        hello::Hello,
        hook::{HookEvent, Source},
        hub::HubRequest,
    };
    use std::{os::unix::net::UnixListener, path::PathBuf, thread::JoinHandle, time::Instant};

    const PATIENCE: Patience =
        Patience { absent: Duration::from_millis(40), total: Duration::from_millis(300) };

    struct Scene {
        dir: tempfile::TempDir,
        report: ReportHook,
    }

    impl Scene {
        fn new() -> Scene {
            let event = HookEvent { name: "Stop".into(), ..HookEvent::default() };
            let report = ReportHook {
                hook_key: CallKey::fresh(),
                token: "t".into(),
                at_ms: 1,
                event,
                source: Source::Hook,
            };
            Scene { dir: tempfile::tempdir().unwrap(), report }
        }

        fn hub(&self) -> PathBuf {
            self.dir.path().join("hub.sock")
        }

        fn deliver(&self) {
            deliver(&self.hub(), &self.dir.path().join("spool"), &self.report, PATIENCE);
        }

        fn spooled(&self) -> usize {
            std::fs::read_dir(self.dir.path().join("spool")).map_or(0, Iterator::count)
        }

        /// A hub that gives its answers one call after the other; `None` breaks the connection instead.
        fn answer(&self, answers: Vec<Option<Result<Done, Fault>>>) -> JoinHandle<Vec<ReportHook>> {
            let listener = UnixListener::bind(self.hub()).unwrap();
            std::thread::spawn(move || {
                answers.iter().map(|answer| serve(&listener, answer.as_ref())).collect()
            })
        }
    }

    fn serve(listener: &UnixListener, answer: Option<&Result<Done, Fault>>) -> ReportHook {
        let (mut socket, _) = listener.accept().unwrap();
        let read = || frame::read_blocking(&mut (&socket), MAX_FRAME).unwrap().unwrap();
        let hello: Hello = codec::decode(&read()).unwrap();
        let request: Envelope = codec::decode(&read()).unwrap();
        let HubRequest::ReportHook(report) = codec::decode(&request.body).unwrap() else {
            panic!("not a hook")
        };
        if let Some(answer) = answer {
            let (kind, body) = match answer {
                Ok(done) => (Kind::Reply, codec::encode(done).unwrap()),
                Err(fault) => (Kind::Fault, codec::encode(fault).unwrap()),
            };
            let reply = Envelope { kind, id: request.id, body };
            for bytes in [codec::encode(&hello.answer()).unwrap(), codec::encode(&reply).unwrap()] {
                frame::write_blocking(&mut socket, &bytes, MAX_FRAME).unwrap();
            }
        }
        report
    }

    #[test]
    fn a_hub_that_answers_gets_the_event_and_nothing_is_kept() {
        let scene = Scene::new();
        let hub = scene.answer(vec![Some(Ok(Done {}))]);
        scene.deliver();
        assert_eq!(hub.join().unwrap(), std::slice::from_ref(&scene.report));
        assert_eq!(scene.spooled(), 0);
    }

    #[test]
    fn a_hub_that_dies_before_it_answers_is_asked_again_with_the_same_key() {
        let scene = Scene::new();
        let hub = scene.answer(vec![None, None, Some(Ok(Done {}))]);
        scene.deliver();
        assert_eq!(hub.join().unwrap(), vec![scene.report.clone(); 3]);
        assert_eq!(scene.spooled(), 0);
    }

    #[test]
    fn an_unknown_token_is_dropped_and_any_other_refusal_is_kept() {
        let scene = Scene::new();
        let hub = scene.answer(vec![Some(Err(Fault::new("unauthorized", "who?")))]);
        scene.deliver();
        hub.join().unwrap();
        assert_eq!(scene.spooled(), 0);

        let scene = Scene::new();
        let refusal = || Some(Err(Fault::internal("disk full")));
        let hub = scene.answer(vec![refusal(), refusal()]);
        scene.deliver();
        hub.join().unwrap();
        assert_eq!(scene.spooled(), 1);
    }

    #[test]
    fn without_a_hub_the_event_is_kept_soon() {
        let scene = Scene::new();
        let start = Instant::now();
        scene.deliver();
        assert_eq!(scene.spooled(), 1);
        assert!(start.elapsed() < PATIENCE.total, "{:?}", start.elapsed());
    }

    #[test]
    fn a_hub_that_hangs_costs_no_more_than_the_patience() {
        let scene = Scene::new();
        let listener = UnixListener::bind(scene.hub()).unwrap();
        // Fill the backlog too: a plain connect would then wait for ever.
        let mut waiting = Vec::new();
        let start = Instant::now();
        scene.deliver();
        assert_eq!(scene.spooled(), 1);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        let full = nix::sys::socket::Backlog::new(0).unwrap();
        nix::sys::socket::listen(&listener, full).unwrap();
        for _ in 0..8 {
            let (hub, report) = (scene.hub(), scene.report.clone());
            let call = move || blocking::call(&hub, Role::Hook, report, Duration::from_millis(100));
            waiting.push(std::thread::spawn(call));
        }
        for call in waiting {
            assert!(call.join().unwrap().is_err());
        }
    }

    #[test]
    fn a_hub_that_appears_while_the_event_is_kept_gets_it_at_once() {
        let scene = Scene::new();
        let hub = scene.answer(vec![Some(Err(Fault::unavailable("starting"))), Some(Ok(Done {}))]);
        scene.deliver();
        assert_eq!(hub.join().unwrap().len(), 2);
        assert_eq!(scene.spooled(), 0);
    }
}

//! Which route a message takes: the first of the configured ones that is there. Pure.

use leo_ipc::chat::Route;

/// Whether the mod inside the harness can be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bridge {
    /// It is not there and will not be.
    Absent,
    /// It was loaded and should be there soon.
    Expected,
    /// It is connected.
    Up,
}

/// Whether the peer inbox takes this message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inbox {
    /// It is not there, or the message is too long for it.
    Absent,
    /// Not now: it would take the message for one that it just had.
    Later,
    /// Yes.
    Ready,
}

/// What a launch offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Means {
    /// The mod.
    pub(crate) bridge: Bridge,
    /// Its peer inbox.
    pub(crate) inbox: Inbox,
}

/// The route of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This one.
    Use(Route),
    /// None yet.
    Wait,
    /// None, and there will be none.
    Nothing,
}

/// The first route of `order` that is there and did not refuse the message. What the mod refused the peer
/// inbox could only bring as another session's words, so a paste comes first then. When every route has
/// refused it, they are tried again: attempts are bounded elsewhere.
pub(crate) fn choose(order: &[Route], means: Means, refused: &[Route]) -> Choice {
    let usable = |route: &&Route| match route {
        Route::Bridge => means.bridge != Bridge::Absent,
        Route::Inbox => means.inbox != Inbox::Absent,
        Route::Paste => true,
        _ => false,
    };
    let mut left: Vec<Route> =
        order.iter().filter(usable).filter(|route| !refused.contains(route)).copied().collect();
    if refused.contains(&Route::Bridge) {
        left.sort_by_key(|route| *route != Route::Paste);
    }
    let later = |route: &&Route| **route == Route::Inbox && means.inbox == Inbox::Later;
    let now = left.iter().find(|route| !later(route)).or(left.first());
    match now.or_else(|| order.iter().find(usable)) {
        Some(Route::Bridge) if means.bridge == Bridge::Expected => Choice::Wait,
        Some(Route::Inbox) if means.inbox == Inbox::Later => Choice::Wait,
        Some(route) => Choice::Use(*route),
        None => Choice::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Route::{Bridge as B, Inbox as I, Paste as P};

    #[test]
    fn the_first_that_is_there() {
        let means = |bridge, inbox| Means { bridge, inbox: if inbox { Inbox::Ready } else { Inbox::Absent } };
        let later = Means { bridge: Bridge::Absent, inbox: Inbox::Later };
        for (order, means, refused, choice) in [
            (vec![B, I, P], means(Bridge::Up, true), vec![], Choice::Use(B)),
            (vec![B, I, P], means(Bridge::Expected, true), vec![], Choice::Wait),
            (vec![B, I, P], means(Bridge::Absent, true), vec![], Choice::Use(I)),
            (vec![B, I, P], means(Bridge::Absent, false), vec![], Choice::Use(P)),
            (vec![P, B], means(Bridge::Up, true), vec![], Choice::Use(P)),
            (vec![I, B, P], means(Bridge::Expected, true), vec![], Choice::Use(I)),
            (vec![B, I, P], means(Bridge::Up, true), vec![B], Choice::Use(P)),
            (vec![B, I], means(Bridge::Up, true), vec![B], Choice::Use(I)),
            (vec![B, I, P], means(Bridge::Up, true), vec![B, P], Choice::Use(I)),
            (vec![B], means(Bridge::Up, true), vec![B], Choice::Use(B)),
            (vec![B, I, P], later, vec![], Choice::Use(P)),
            (vec![B, I], later, vec![], Choice::Wait),
            (vec![B, I], means(Bridge::Absent, false), vec![], Choice::Nothing),
        ] {
            assert_eq!(choose(&order, means, &refused), choice, "{order:?} {means:?} {refused:?}");
        }
    }
}

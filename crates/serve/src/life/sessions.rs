//! Sessions: a client that is there as long as one of its connections is; when that ends, so do its sandboxes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::lock;
use crate::api::problem::{Answer, Code, Problem};
use crate::api::short;
use crate::app::App;
use crate::server::Owner;

/// How long a session may be without anybody who holds it, at its beginning.
const UNHELD: Duration = Duration::from_mins(1);

struct Session {
    owner: Owner,
    holds: usize,
    begun: bool,
}

/// All sessions.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Session>>);

/// Somebody holds a session while this is there.
pub(crate) struct Hold {
    app: Arc<App>,
    id: String,
}

impl Sessions {
    /// Whether it is there, and the owner's.
    pub(crate) fn is_open(&self, owner: &Owner, id: &str) -> bool {
        lock(&self.0).get(id).is_some_and(|session| session.owner == *owner)
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.0).len()
    }
}

/// Opens a session; it ends soon unless somebody holds it.
pub(crate) fn open(app: &Arc<App>, owner: &Owner) -> Answer<String> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    {
        let mut sessions = lock(&app.sessions.0);
        let most = app.limits.sessions;
        if sessions.values().filter(|session| session.owner == *owner).count() >= most {
            let detail = format!("there are {most} sessions already, and no more are given to one owner");
            return Err(Problem::new(Code::Conflict, detail).hint("end the connections that hold them"));
        }
        sessions.insert(id.clone(), Session { owner: owner.clone(), holds: 0, begun: false });
    }
    let (watched, name) = (Arc::clone(app), id.clone());
    app.tasks.spawn(async move {
        tokio::select! {
            () = tokio::time::sleep(UNHELD) => close_if(&watched, &name, |session| !session.begun),
            () = watched.closing.cancelled() => {}
        }
    });
    Ok(id)
}

/// Holds a session.
pub(crate) fn hold(app: &Arc<App>, owner: &Owner, id: &str) -> Answer<Hold> {
    let mut sessions = lock(&app.sessions.0);
    let session = sessions.get_mut(id).filter(|session| session.owner == *owner);
    let missing = || Problem::new(Code::NotFound, format!("there is no session `{}`", short(id)));
    let session = session.ok_or_else(missing)?;
    session.holds += 1;
    session.begun = true;
    Ok(Hold { app: Arc::clone(app), id: id.to_owned() })
}

fn close_if(app: &Arc<App>, id: &str, over: impl Fn(&Session) -> bool) {
    let closed = {
        let mut sessions = lock(&app.sessions.0);
        let over = sessions.get(id).is_some_and(over);
        over && sessions.remove(id).is_some()
    };
    if closed {
        for held in app.sandboxes.of_session(id) {
            held.ending.want("its session ended");
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(session) = lock(&self.app.sessions.0).get_mut(&self.id) {
            session.holds = session.holds.saturating_sub(1);
        }
        close_if(&self.app, &self.id, |session| session.holds == 0);
    }
}

//! The server's life: accepts, serves, and ends with everything that it holds.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bind::{Bound, Listener};
use super::connection::{Who, serve_connection};
use super::owner::Owner;
use super::places::Places;
use crate::api::router;
use crate::app::{App, Limits};
use crate::workshop::Workshop;

/// How long sandboxes and connections may take to end.
const FAREWELL: Duration = Duration::from_secs(20);
/// Where accepting may go on after an error.
const PAUSE: Duration = Duration::from_millis(50);
/// How often it is looked whether anybody is there.
const LOOK: Duration = Duration::from_millis(250);

/// Serves until `stop` resolves, or nobody has been there for `idle`. Then every sandbox is ended, and waited for.
pub async fn serve(
    bound: Bound,
    workshop: Arc<dyn Workshop>,
    limits: Limits,
    network: egress::Settings,
    idle: Option<Duration>,
    stop: impl Future<Output = ()>,
) {
    // Where there are several owners, none takes all places.
    let of_one = match &bound.listener {
        Listener::Tcp(_, tokens) if tokens.count() > 1 => limits.connections.div_ceil(2),
        Listener::Tcp(..) | Listener::Socket(_) => limits.connections,
    };
    let places = Places::new(limits.connections, of_one, limits.strangers);
    let app = App::new(workshop, limits, network);
    let (connections, closing) = (TaskTracker::new(), CancellationToken::new());
    let accepting = accept(&bound.listener, &app, &places, &connections, &closing);
    tokio::select! {
        () = stop => {}
        () = accepting => {}
        () = nobody(&app, &places, idle) => {}
    }
    // No more connections; those that are there end after what they do now, and what they hold ends at once.
    closing.cancel();
    app.closing.cancel();
    for held in app.sandboxes.all() {
        held.ending.want("the server ends");
    }
    app.tasks.close();
    connections.close();
    let ended = async {
        app.tasks.wait().await;
        connections.wait().await;
    };
    let _ = tokio::time::timeout(FAREWELL, ended).await;
    let makers = Arc::clone(&app);
    let _ = tokio::task::spawn_blocking(move || makers.makers.close()).await;
    app.networks.close().await;
    drop(bound);
}

/// Resolves when nobody has been there for so long: no connection, no sandbox, no session.
async fn nobody(app: &App, places: &Places, idle: Option<Duration>) {
    let Some(idle) = idle else { return std::future::pending().await };
    let mut since = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(LOOK.min(idle)).await;
        let busy = places.count() > 0 || app.sandboxes.count() > 0 || app.sessions.count() > 0;
        if busy {
            since = tokio::time::Instant::now();
        } else if since.elapsed() >= idle {
            return;
        }
    }
}

async fn accept(
    listener: &Listener,
    app: &Arc<App>,
    places: &Arc<Places>,
    connections: &TaskTracker,
    closing: &CancellationToken,
) {
    let router = router(Arc::clone(app));
    loop {
        let (router, closing) = (router.clone(), closing.clone());
        match listener {
            Listener::Socket(listener) => match listener.accept().await {
                Ok((stream, _)) => {
                    let Ok(peer) = stream.peer_cred() else { continue };
                    let who = Who::Known(Owner::User(peer.uid()));
                    connections.spawn(serve_connection(stream, router, who, places.enter(), closing));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Listener::Tcp(listener, tokens) => match listener.accept().await {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    let who = Who::Token(Arc::clone(tokens));
                    connections.spawn(serve_connection(stream, router, who, places.enter(), closing));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
}

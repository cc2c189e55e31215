//! A connection from one service of a sample to another: by name and declared port, whatever bytes it carries.
//!
//! It does not leave the fence, so nothing of it is looked at and no rule of the outside applies. The runner opens it: it
//! has the other sandbox's guest connect, and hands us one end of a pair of sockets.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::connection::{Story, both};
use crate::reason::Reason;
use crate::relay::{self, Direction, Ended, Flow};
use crate::served::Served;
use crate::socket::Socket;

/// A line to a service.
#[derive(Debug)]
pub struct Line {
    /// One end of a pair of stream sockets; what is at the other end speaks for the service.
    pub socket: OwnedFd,
    /// Notified when the service's side broke. The end of the stream alone would say that it is complete.
    pub broken: Arc<Notify>,
}

/// Whoever can open lines to the services of a sample. Dropping the future gives up.
pub trait Reach: Send + Sync {
    /// A line for the sandbox that was attached under this number. The service and the port were declared.
    fn reach(
        &self,
        from: u32,
        service: &str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = Result<Line, Reason>> + Send + '_>>;
}

/// How a connection to a service ended.
pub(crate) enum Passed {
    Done,
    /// The service broke it off, and the program should see that.
    Broken,
}

/// Decides, has a line opened, and moves bytes until both sides are done. Silence is allowed: such connections are few,
/// and a program may hold one open to its database for hours.
pub(crate) async fn pass(
    served: &Served,
    stream: &Socket,
    name: &str,
    port: u16,
    story: &mut Story,
) -> Result<Passed, Reason> {
    story.service = served.neighbours.service(name).map(ToString::to_string);
    let service = served.neighbours.decide(name, port)?;
    story.rule = Some(rule(service));
    let reach = served.reach.as_ref().ok_or(Reason::HostUnreachable)?;
    let _open = served.lines.try_acquire().map_err(|_| Reason::ConnectionLimit)?;
    let opening = async {
        // Those who ask at the same time wait for each other: a flood is not the runner's.
        let _asking = served.asking.acquire().await.map_err(|_| Reason::SandboxEnded)?;
        reach.reach(served.id, service, port).await
    };
    let line = tokio::time::timeout(served.limits.connect, opening).await.unwrap_or(Err(Reason::HostTimeout))?;
    let other = Socket::handed(line.socket, None).map_err(|_| Reason::HostUnreachable)?;
    story.reached_service = true;
    let crowded = served.is_crowded();
    if crowded {
        relay::restrain(stream);
        relay::restrain(&other);
    }
    let flow = Flow { meter: &story.meter, allowance: &served.allowance, buffers: &served.buffers, crowded };
    tokio::select! {
        ended = both(flow.pump(stream, &other, Direction::Out), flow.pump(&other, stream, Direction::In)) => match ended {
            Ended::Done => Ok(Passed::Done),
            Ended::Cut(reason) => Err(reason),
        },
        () = line.broken.notified() => Ok(Passed::Broken),
    }
}

/// What a record says instead of a rule.
pub(crate) fn rule(service: &str) -> String {
    format!("service {service}")
}

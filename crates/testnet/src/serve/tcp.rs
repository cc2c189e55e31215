//! Accepting TCP connections: noted before any byte, bounded in number, each in a task of its own.

use std::io;
use std::sync::Arc;

use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};

use super::journal::{Server, Witness};
use super::{World, echo, http, limits, tls};

/// What a server that is not a DNS server speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Speaks {
    Http,
    Https,
    Echo,
}

impl Speaks {
    pub(crate) fn server(self) -> Server {
        match self {
            Self::Http => Server::Http,
            Self::Https => Server::Https,
            Self::Echo => Server::Tcp,
        }
    }
}

/// Accepts until the runtime ends.
pub(crate) async fn accept<C, F>(listener: TcpListener, witness: Witness, world: Arc<World>, converse: C)
where
    C: Fn(TcpStream, Witness, Arc<World>) -> F,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(limits::PAUSE).await;
            continue;
        };
        witness.saw("", "connected");
        let Ok(permit) = Arc::clone(&world.connections).try_acquire_owned() else { continue };
        let conversation = converse(stream, witness.clone(), Arc::clone(&world));
        tokio::spawn(async move {
            // A client that leaves early is none of the server's business.
            let _ = conversation.await;
            drop(permit);
        });
    }
}

/// Holds one conversation.
pub(crate) async fn converse(speaks: Speaks, stream: TcpStream, witness: Witness, world: Arc<World>) -> io::Result<()> {
    // Answers are written in pieces; none should wait for the acknowledgement of the one before.
    stream.set_nodelay(true)?;
    match speaks {
        Speaks::Http => http::serve(BufReader::new(stream), &witness, None, &world.site).await,
        Speaks::Https => {
            let (stream, name) = tls::accept(stream, &witness, &world.authority).await?;
            http::serve(BufReader::new(stream), &witness, Some(&name), &world.site).await
        }
        Speaks::Echo => echo::stream(&mut BufReader::new(stream), Some(&witness)).await,
    }
}

//! Who shows what the server can: connections that send the next prepared request as soon as they have a reply, and do
//! nothing else.

use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::http::Wire;
use super::script::{self, NUMBER};

type Failure = Box<dyn Error + Send + Sync>;

/// How much is asked of the server on this port.
#[derive(Debug, clap::Args)]
pub(crate) struct Load {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    connections: usize,
    #[arg(long)]
    conversations: u64,
    #[arg(long)]
    turns: usize,
}

impl Load {
    /// Talks to the end.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let talked = runtime.block_on(talk(self.port, self.connections, self.conversations, self.turns));
        talked.map_err(|error| -> Box<dyn Error> { error })
    }
}

/// Has so many conversations, one after the other on every connection.
pub(super) async fn talk(port: u16, connections: usize, conversations: u64, turns: usize) -> Result<(), Failure> {
    let (bodies, next) = (Arc::new(script::requests(turns)), Arc::new(AtomicU64::new(0)));
    let mut talking = JoinSet::new();
    for _ in 0..connections {
        let (bodies, next) = (Arc::clone(&bodies), Arc::clone(&next));
        talking.spawn(async move {
            let mut wire = Wire::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?)?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= conversations {
                    return Ok::<(), Failure>(());
                }
                for body in bodies.iter() {
                    let body = body.replacen(NUMBER, &number.to_string(), 1);
                    wire.write("POST /v1/chat/completions HTTP/1.1", &body).await?;
                    let reply = wire.read().await?.ok_or("the server has hung up")?;
                    if !reply.line.contains(" 200 ") {
                        return Err(format!("{}: {}", reply.line, String::from_utf8_lossy(reply.body)).into());
                    }
                }
            }
        });
    }
    while let Some(talked) = talking.join_next().await {
        talked??;
    }
    Ok(())
}

//! Who shows what the server can: connections that send the next prepared request as soon as they have a reply, and do
//! nothing else.

use std::error::Error;
use std::net::Ipv4Addr;
use std::sync::Arc;

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

/// Has so many conversations, one after the other on every connection, and equally many on each: who is done first does not
/// take one more, for which all would wait at the end.
pub(super) async fn talk(port: u16, connections: usize, conversations: u64, turns: usize) -> Result<(), Failure> {
    let bodies = Arc::new(script::requests(turns));
    let mut talking = JoinSet::new();
    for first in (0..conversations).take(connections) {
        let bodies = Arc::clone(&bodies);
        talking.spawn(async move {
            let mut wire = Wire::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?)?;
            for number in (first..conversations).step_by(connections) {
                for body in bodies.iter() {
                    let body = body.replacen(NUMBER, &number.to_string(), 1);
                    wire.write("POST /v1/chat/completions HTTP/1.1", &body).await?;
                    let reply = wire.read().await?.ok_or("the server has hung up")?;
                    if !reply.line.contains(" 200 ") {
                        return Err(format!("{}: {}", reply.line, String::from_utf8_lossy(reply.body)).into());
                    }
                }
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(talked) = talking.join_next().await {
        talked??;
    }
    Ok(())
}

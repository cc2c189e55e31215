//! The socket over which the library asks.

use std::io;
use std::path::Path;
use std::sync::Arc;

use testnet::control::{Reply, Request};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::journal::Journal;
use super::{limits, pending};

const QUESTION: usize = 64;

/// Answers on this socket until the runtime ends.
pub(crate) fn listen(path: &Path, journal: &Arc<Journal>) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let journal = Arc::clone(journal);
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                // One after the other: there is one test, and it waits for its answers. One that left has none to get.
                Ok((stream, _)) => drop(answer(stream, &journal).await),
                Err(_) => tokio::time::sleep(limits::PAUSE).await,
            }
        }
    });
    Ok(())
}

async fn answer(stream: UnixStream, journal: &Journal) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    limits::read_line(&mut stream, &mut line, QUESTION).await?;
    let request = serde_json::from_slice(&line)?;
    pending::settle().await;
    let reply = match request {
        Request::Seen => journal.read(),
        Request::Forget => {
            journal.forget();
            Reply::default()
        }
    };
    let mut line = serde_json::to_vec(&reply)?;
    line.push(b'\n');
    limits::patiently(stream.write_all(&line)).await
}

//! DNS over UDP and TCP (RFC 1035). Messages are written by hand: what judges the gateway should not share its parser.

mod message;
mod zone;

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use super::journal::Witness;
use super::limits;
use message::Query;
pub(crate) use zone::Resolver;

/// Answers datagrams until the runtime ends.
pub(crate) async fn datagrams(socket: UdpSocket, witness: Witness, resolver: Arc<Resolver>) {
    let mut buffer = vec![0; limits::CHUNK];
    loop {
        // An error is an earlier answer that could not be delivered; it concerns no one else.
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else { continue };
        let Some(bytes) = buffer.get(..length) else { continue };
        if let Some(reply) = answer(bytes, &witness, &resolver) {
            let _ = socket.send_to(&reply, client).await;
        }
    }
}

/// Answers one client over TCP until it ends, is silent for too long, or says something that is no query.
pub(crate) async fn stream(mut stream: TcpStream, witness: Witness, resolver: Arc<Resolver>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut first = [0; 128];
        let length = limits::patiently(stream.peek(&mut first)).await?;
        let mut bytes = Vec::new();
        if let Err(error) = read_message(&mut stream, &mut bytes).await {
            // Not even the frame was whole: what there was is shown with its length.
            witness.saw_stream("", first.get(..length).unwrap_or_default());
            return Err(error);
        }
        let Some(reply) = answer(&bytes, &witness, &resolver) else { return Ok(()) };
        let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes()[..], &reply].concat();
        limits::patiently(stream.write_all(&framed)).await?;
    }
}

async fn read_message(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    let length = limits::patiently(stream.read_u16()).await?;
    bytes.resize(length.into(), 0);
    limits::patiently(stream.read_exact(bytes)).await.map(|_| ())
}

/// The answer to a message; none to what is no query.
fn answer(bytes: &[u8], witness: &Witness, resolver: &Resolver) -> Option<Vec<u8>> {
    let Ok(query) = Query::parse(bytes) else {
        witness.saw_message(bytes);
        return None;
    };
    witness.saw(&query.name, &query.kind.to_string());
    Some(query.reply(&resolver.resolve(&query)))
}

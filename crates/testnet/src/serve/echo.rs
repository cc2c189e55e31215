//! Servers that give back what they get.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::UdpSocket;

use super::journal::Witness;
use super::limits;

/// Gives back every byte until the client ends or is silent for too long. A witness, if any, sees the first ones.
pub(crate) async fn stream<S>(stream: &mut BufReader<S>, witness: Option<&Witness>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut first = witness;
    loop {
        let bytes = limits::patiently(stream.fill_buf()).await?.to_vec();
        if bytes.is_empty() {
            return limits::patiently(stream.shutdown()).await;
        }
        if let Some(witness) = first.take() {
            witness.saw_stream("", &bytes);
        }
        limits::patiently(stream.write_all(&bytes)).await?;
        limits::patiently(stream.flush()).await?;
        stream.consume(bytes.len());
    }
}

/// Gives back every datagram until the runtime ends.
pub(crate) async fn datagrams(socket: UdpSocket, witness: Witness) {
    let mut buffer = vec![0; limits::CHUNK];
    loop {
        // An error is an earlier answer that could not be delivered; it concerns no one else.
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else { continue };
        let Some(bytes) = buffer.get(..length) else { continue };
        witness.saw_message(bytes);
        let _ = socket.send_to(bytes, client).await;
    }
}

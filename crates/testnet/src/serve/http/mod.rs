//! A small HTTP/1.1 server: requests one after the other on a connection, every one noted before it is answered.

mod body;
mod head;
mod pages;
mod path;
mod range;
mod reply;
mod site;

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

use super::journal::Witness;
use super::{echo, limits};
use body::Body;
use head::Head;
use reply::{Content, Ending, Reply};
pub(crate) use site::Site;

/// Serves a client until it ends or a request ends the connection.
///
/// Requests are noted under the server name that TLS gave, or under their own `Host` when there was no TLS.
pub(crate) async fn serve<S>(
    mut stream: BufReader<S>,
    witness: &Witness,
    server_name: Option<&str>,
    site: &Site,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while respond(&mut stream, witness, server_name, site).await? == Ending::KeepAlive {}
    limits::patiently(stream.shutdown()).await
}

async fn respond<S>(
    stream: &mut BufReader<S>,
    witness: &Witness,
    server_name: Option<&str>,
    site: &Site,
) -> io::Result<Ending>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut bytes = Vec::new();
    let head = match read_head(stream, &mut bytes).await {
        Ok(Some(head)) => head,
        Ok(None) if bytes.is_empty() => return Ok(Ending::Close),
        Ok(None) => {
            witness.saw_stream(server_name.unwrap_or_default(), &bytes);
            return Reply::error(400, "no request of HTTP/1").write(stream, None).await;
        }
        Err(error) => {
            witness.saw_stream(server_name.unwrap_or_default(), &bytes);
            return Err(error);
        }
    };
    witness.saw(server_name.unwrap_or(&head.host), &format!("{} {}", head.method, head.target));
    if head.upgrades_to_websocket {
        Reply::new(101, Content::Nothing).write(stream, Some(&head)).await?;
        echo::stream(stream, None).await?;
        return Ok(Ending::Close);
    }
    if head.expects_continue && head.framing.announces_a_body() {
        limits::patiently(stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")).await?;
        limits::patiently(stream.flush()).await?;
    }
    match body::skip(stream, head.framing).await? {
        Body::Length(length) => pages::answer(&head, length, site).write(stream, Some(&head)).await,
        Body::TooLong => Reply::error(413, "the body is too long").write(stream, None).await,
        Body::Malformed => Reply::error(400, "the body is not well formed").write(stream, None).await,
    }
}

/// Reads a head. None is the end of the connection (`bytes` are empty then) or something that is no head.
async fn read_head<S>(stream: &mut BufReader<S>, bytes: &mut Vec<u8>) -> io::Result<Option<Head>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let first = limits::patiently(stream.fill_buf()).await?;
    // At once, since bytes of another protocol may never have a line that ends.
    if !first.first().is_some_and(u8::is_ascii_uppercase) {
        bytes.extend(first);
        return Ok(None);
    }
    limits::read_line(stream, bytes, limits::HEAD).await?;
    if !Head::starts_like_one(bytes) {
        return Ok(None);
    }
    limits::read_block(stream, bytes, limits::HEAD).await?;
    Ok(Head::parse(bytes))
}

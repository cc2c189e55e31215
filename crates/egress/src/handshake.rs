//! TLS as far as it is spoken in the open: the greeting, and the one that a server may ask for once more.
//!
//! A server that wants other keys asks the client to greet again (RFC 8446 §4.1.4), and some take the server name of the
//! second greeting. So nothing of the client's but its greeting goes out before the server has answered.

use std::sync::OnceLock;
use std::time::Duration;

use crate::connection::read_more;
use crate::hello::{Answer, MAX_HELLO, before_greeting, check_hello, read_answer, read_hello};
use crate::reason::Reason;
use crate::relay::{Direction, Ended, Flow};
use crate::shown::Shown;
use crate::socket::Socket;

/// The most that is read before a connection has shown what it is: a greeting and what came with it.
const MAX_FIRST: usize = MAX_HELLO + 8192;
/// The most that a client may send between two greetings.
const MAX_BETWEEN: usize = 64 << 10;
/// How long a server may take to answer a greeting.
const ANSWER: Duration = Duration::from_secs(30);

/// Reads until there is a greeting for this name at the start; returns its length. What came with it stays behind it.
pub(crate) async fn greeting(stream: &Socket, bytes: &mut Vec<u8>, name: &str) -> Result<usize, Reason> {
    loop {
        if let Some(hello) = read_hello(bytes)? {
            return check_hello(&hello, name).map(|()| hello.length);
        }
        if bytes.len() > MAX_FIRST {
            return Err(Reason::HelloTooLong);
        }
        read_more(stream, bytes).await?;
    }
}

/// Sends the greeting, reads the answer, and checks the second greeting where one is asked for. From then on the two
/// speak in private. `shown` is set to what a refused second greeting presented.
pub(crate) async fn pass(
    flow: &Flow<'_>,
    stream: &Socket,
    other: &Socket,
    mut bytes: Vec<u8>,
    length: usize,
    (name, limit): (&str, Duration),
    shown: &OnceLock<Shown>,
) -> Result<(), Ended> {
    flow.write(other, &bytes[..length], Direction::Out).await?;
    bytes.drain(..length);
    let mut answer = Vec::new();
    let read = async {
        loop {
            if let Some(answer) = read_answer(&answer)? {
                return Ok(answer);
            }
            // A server that goes away has answered too.
            if read_more(other, &mut answer).await.is_err() {
                return Ok(Answer::Taken);
            }
        }
    };
    let meaning = tokio::time::timeout(ANSWER, read).await.unwrap_or(Err(Reason::HostTimeout));
    flow.write(stream, &answer, Direction::In).await?;
    if meaning? == Answer::Again {
        let mut second = Vec::new();
        let again = async {
            let start = loop {
                if let Some(start) = before_greeting(&bytes)? {
                    break start;
                }
                if bytes.len() > MAX_BETWEEN {
                    return Err(Reason::HelloTooLong);
                }
                read_more(stream, &mut bytes).await?;
            };
            second = bytes.split_off(start);
            let length = greeting(stream, &mut second, name).await?;
            Ok(start + length)
        };
        let length = tokio::time::timeout(limit, again).await.unwrap_or(Err(Reason::TooSlow));
        if let (Err(_), Some(presented)) = (&length, Shown::by_tls(if second.is_empty() { &bytes } else { &second })) {
            let _ = shown.set(presented);
        }
        let length = length?;
        bytes.append(&mut second);
        flow.write(other, &bytes[..length], Direction::Out).await?;
        bytes.drain(..length);
    }
    flow.write(other, &bytes, Direction::Out).await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::hello::testing::{again, hello_record, taken};
    use crate::relay::{Allowance, Buffers, Meter};
    use crate::testing::pair;

    /// A client that sends all of this at once, to a server that answers with that; what leaves, how it ended, and what
    /// was recorded of a refused greeting.
    async fn what_leaves(sent: &[u8], answer: &[u8]) -> (Vec<u8>, Result<(), Option<Reason>>, Option<Shown>) {
        let ((mut client, stream), (other, mut server)) = (pair().await, pair().await);
        let (meter, allowance, buffers) = (Meter::new(), Allowance::new(None, None), Buffers::default());
        let flow = Flow { meter: &meter, allowance: &allowance, buffers: &buffers, crowded: false };
        client.write_all(sent).await.unwrap();
        client.shutdown().await.unwrap();
        server.write_all(answer).await.unwrap();
        let mut bytes = Vec::new();
        let length = greeting(&stream, &mut bytes, "a.org").await.unwrap();
        let shown = OnceLock::new();
        let passed = pass(&flow, &stream, &other, bytes, length, ("a.org", Duration::from_secs(5)), &shown).await;
        drop(other);
        let mut left = Vec::new();
        server.read_to_end(&mut left).await.unwrap();
        let passed = passed.map_err(|ended| match ended {
            Ended::Cut(reason) => Some(reason),
            Ended::Done => None,
        });
        (left, passed, shown.into_inner())
    }

    #[tokio::test]
    async fn the_second_greeting_is_checked_like_the_first() {
        let (first, honest, other) = (hello_record("a.org"), hello_record("a.org"), hello_record("b.org"));
        let change_cipher = [20, 3, 3, 0, 1, 1];
        let both = [&first[..], &change_cipher, &honest, b"private"].concat();
        let (left, passed, shown) = what_leaves(&both, &again()).await;
        assert_eq!(shown, None);
        assert!(passed.is_ok() && left == both[..left.len()] && left.len() >= both.len() - 7, "{passed:?}");
        // Even if it was sent ahead: nothing of it leaves.
        let (left, passed, shown) = what_leaves(&[&first[..], &other].concat(), &again()).await;
        assert_eq!((left, passed), (first.clone(), Err(Some(Reason::SniMismatch))));
        assert_eq!(shown.unwrap().sni, ["b.org"]);
        let (left, passed, shown) = what_leaves(&[&first[..], b"GET / HTTP/1.1"].concat(), &again()).await;
        assert_eq!((left, passed), (first.clone(), Err(Some(Reason::NotTls))));
        assert_eq!(shown.unwrap().bytes.as_deref(), Some("GET / HTTP/1.1"));
        // Where the server takes the first, the rest is theirs.
        let (left, passed, _) = what_leaves(&[&first[..], &other].concat(), &taken()).await;
        assert!(passed.is_ok() && left.len() > first.len());
    }
}

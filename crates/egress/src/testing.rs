//! What the tests of this crate share.

use tokio::net::{TcpListener, TcpStream};

use crate::socket::Socket;

/// The two ends of a connection on loopback.
pub(crate) async fn pair() -> (Socket, Socket) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (connected, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (Socket::Tcp(connected.unwrap()), Socket::Tcp(accepted.unwrap().0))
}

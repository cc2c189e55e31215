//! Whether a server is there, with a deadline.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};

use crate::DEADLINE;

/// Connects to `host:port`, trying each address.
pub(crate) fn connect(authority: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, DEADLINE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// An address without the user and password that people put into URLs.
pub(crate) fn without_userinfo(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rsplit_once('@').map_or(&rest[..end], |(_, host)| host);
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}{host}{}", &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        assert_eq!(without_userinfo("tcp://user:hunter2@example.org:2375"), "tcp://example.org:2375");
        assert_eq!(without_userinfo("admin:hunter2@example.org:6443"), "example.org:6443");
        assert_eq!(without_userinfo("unix:///var/run/docker.sock"), "unix:///var/run/docker.sock");
        assert_eq!(without_userinfo("https://a@b@example.org/x@y"), "https://example.org/x@y");
    }
}

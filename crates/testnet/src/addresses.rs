//! Where the servers are. Public ones look globally reachable, so that a gateway has no reason to refuse them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Web servers on [`HTTP`] and [`HTTPS`], with echoes over TCP ([`SSH`], [`ECHO`]) and UDP ([`HTTPS`], [`ECHO`]).
pub const WEB: [Ipv4Addr; 5] = [web(10), web(11), web(12), web(13), web(14)];
/// The same servers over IPv6.
pub const WEB_V6: [Ipv6Addr; 5] = [web_v6(0x10), web_v6(0x11), web_v6(0x12), web_v6(0x13), web_v6(0x14)];
/// A server like [`WEB`] that nothing should reach.
pub const EVIL: Ipv4Addr = web(66);
/// The same server over IPv6.
pub const EVIL_V6: Ipv6Addr = web_v6(0x66);
/// The DNS server that knows the names of [`crate::names`], over UDP and TCP.
pub const DNS: Ipv4Addr = web(53);
/// [`DNS`] with its port, as an upstream is written.
pub const DNS_UPSTREAM: &str = "93.184.215.53:53";
/// No server, and packets to it vanish.
pub const DEAD: Ipv4Addr = web(99);

/// A resolver that a program may know by heart: DNS over UDP and TCP that answers everything with [`EVIL`], a port for
/// DNS over TLS ([`DNS_OVER_TLS`]), and a web server for DNS over HTTPS.
pub const PUBLIC_RESOLVER: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);
/// The metadata service of a cloud, on [`HTTP`].
pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// A web server in a private range, with an echo over TCP on [`ECHO`].
pub const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 10);
/// Another one.
pub const PRIVATE2: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 10);
/// One in the range that carriers share (RFC 6598).
pub const SHARED: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 10);

/// The internet's end of the link between the namespaces.
pub const INTERNET: Ipv4Addr = Ipv4Addr::new(93, 184, 214, 1);
/// The same over IPv6.
pub const INTERNET_V6: Ipv6Addr = link_v6(1);
/// The runner's end of the link: the program under test has this address.
pub const RUNNER: Ipv4Addr = Ipv4Addr::new(93, 184, 214, 2);
/// The same over IPv6.
pub const RUNNER_V6: Ipv6Addr = link_v6(2);

/// TCP port of SSH; here an echo.
pub const SSH: u16 = 22;
/// UDP and TCP port of DNS.
pub const DOMAIN: u16 = 53;
/// TCP port of HTTP.
pub const HTTP: u16 = 80;
/// TCP port of HTTPS; over UDP, where QUIC would be, an echo.
pub const HTTPS: u16 = 443;
/// TCP port of DNS over TLS; here an echo that never speaks TLS.
pub const DNS_OVER_TLS: u16 = 853;
/// Echo over TCP and UDP.
pub const ECHO: u16 = 7000;

const fn web(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(93, 184, 215, last)
}

const fn web_v6(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2606, 0x2800, 0x220, 1, 0, 0, 0, last)
}

const fn link_v6(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2606, 0x2800, 0x214, 0, 0, 0, 0, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upstream_is_the_dns_server() {
        assert_eq!(DNS_UPSTREAM, format!("{DNS}:{DOMAIN}"));
    }
}

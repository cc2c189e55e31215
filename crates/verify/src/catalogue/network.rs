//! Probes of the network's side.

use egress::Reason;

use super::shown_network as shown;
use crate::control::Control;
use crate::network::{Exchange, Expected, Say, To};
use crate::probe::{Axis, Probe, Speed, Way};
use crate::world;

use Expected::{Anything, Dropped, Reached, Refused};
use Speed::{Fast, Full};

const NO_NETWORK: Expected = Refused(&[Reason::NoNetwork]);
const UNLISTED: Expected = Refused(&[Reason::NameNotListed]);
const RAW: Expected = Refused(&[Reason::RawAddress]);

macro_rules! address {
    ($address:ident) => {
        To::Address(std::net::IpAddr::V4(world::$address))
    };
    (v6 $address:ident) => {
        To::Address(std::net::IpAddr::V6(world::$address))
    };
}

macro_rules! probe {
    ($id:literal, $control:ident, $speed:ident, $tries:literal, $to:expr, $port:literal, $say:expr, [$n0:expr, $n1:expr, $n2:expr]) => {
        Probe {
            id: $id,
            control: Control::$control,
            axis: Axis::Network,
            speed: $speed,
            tries: $tries,
            expects: expects(&[$n0, $n1, $n2]),
            way: Way::Network(&Exchange { to: $to, port: $port, say: $say, expected: [$n0, $n1, $n2] }),
        }
    };
}

const fn expects(expected: &[Expected; 3]) -> &'static str {
    match expected {
        [Reached, Reached, _] => "N0, N1: reached; N2: refused and recorded",
        [Reached, _, _] => "N0: reached; N1, N2: refused and recorded",
        [Anything, _, _] => "N1, N2: refused and recorded",
        [Dropped, ..] => "nothing arrives",
        [Refused(_), ..] => "refused and recorded",
    }
}

const fn other(
    id: &'static str,
    control: Control,
    speed: Speed,
    tries: &'static str,
    expects: &'static str,
    way: Way,
) -> Probe {
    Probe { id, control, axis: Axis::Network, speed, tries, expects, way }
}

pub(super) const PROBES: &[Probe] = &[
    other(
        "interfaces",
        Control::Uplink,
        Fast,
        "list the interfaces",
        "only loopback",
        Way::Shown("/proc/self/net/dev", shown::interfaces),
    ),
    other(
        "routes",
        Control::Uplink,
        Full,
        "list the routes",
        "only to loopback",
        Way::Shown("/proc/self/net/route", shown::routes),
    ),
    probe!(
        "allowed_http",
        Names,
        Fast,
        "HTTP to a listed name",
        To::Name("allowed"),
        80,
        Say::Http("allowed"),
        [Reached, Reached, NO_NETWORK]
    ),
    probe!(
        "allowed_tls",
        Names,
        Fast,
        "TLS to a listed name",
        To::Name("allowed"),
        443,
        Say::Tls(Some("allowed")),
        [Reached, Reached, NO_NETWORK]
    ),
    probe!(
        "forbidden_http",
        Names,
        Fast,
        "HTTP to a name that is not listed",
        To::Name("forbidden"),
        80,
        Say::Http("forbidden"),
        [Reached, UNLISTED, NO_NETWORK]
    ),
    probe!(
        "forbidden_tls",
        Names,
        Full,
        "TLS to a name that is not listed",
        To::Name("forbidden"),
        443,
        Say::Tls(Some("forbidden")),
        [Reached, UNLISTED, NO_NETWORK]
    ),
    probe!(
        "raw_http",
        RawAddresses,
        Fast,
        "HTTP to an address",
        address!(FORBIDDEN),
        80,
        Say::Http("forbidden"),
        [Reached, RAW, NO_NETWORK]
    ),
    probe!(
        "raw_tls",
        RawAddresses,
        Full,
        "TLS to an address",
        address!(FORBIDDEN),
        443,
        Say::Tls(Some("forbidden")),
        [Reached, RAW, NO_NETWORK]
    ),
    probe!(
        "raw_of_allowed",
        RawAddresses,
        Full,
        "HTTP to the address of a listed name",
        address!(ALLOWED),
        80,
        Say::Http("allowed"),
        [Reached, RAW, NO_NETWORK]
    ),
    probe!(
        "raw_other_port",
        RawAddresses,
        Full,
        "bytes to another port of an address",
        address!(FORBIDDEN),
        8080,
        Say::Bytes,
        [Reached, RAW, NO_NETWORK]
    ),
    probe!(
        "other_port",
        Ports,
        Full,
        "another port of a listed name",
        To::Name("allowed"),
        8080,
        Say::Bytes,
        [Reached, Refused(&[Reason::PortNotListed]), NO_NETWORK]
    ),
    probe!(
        "metadata_address",
        Metadata,
        Fast,
        "HTTP to the metadata service",
        address!(METADATA),
        80,
        Say::Http("metadata"),
        [Refused(&[Reason::AnswerMetadata]), RAW, NO_NETWORK]
    ),
    probe!(
        "metadata_name",
        Metadata,
        Full,
        "a listed name that is the metadata service",
        To::Name("metadata"),
        80,
        Say::Http("metadata"),
        [Refused(&[Reason::AnswerMetadata]), Refused(&[Reason::AnswerMetadata]), NO_NETWORK]
    ),
    probe!(
        "private_address",
        PrivateAnswers,
        Full,
        "HTTP to 10.0.0.0/8",
        address!(PRIVATE),
        80,
        Say::Http("private"),
        [Refused(&[Reason::AnswerPrivate]), RAW, NO_NETWORK]
    ),
    probe!(
        "private_address_2",
        PrivateAnswers,
        Full,
        "HTTP to 192.168.0.0/16",
        address!(PRIVATE_2),
        80,
        Say::Http("private"),
        [Refused(&[Reason::AnswerPrivate]), RAW, NO_NETWORK]
    ),
    probe!(
        "private_name",
        PrivateAnswers,
        Fast,
        "a listed name with a private address",
        To::Name("private"),
        80,
        Say::Http("private"),
        [Refused(&[Reason::AnswerPrivate]), Refused(&[Reason::AnswerPrivate]), NO_NETWORK]
    ),
    probe!(
        "own_name",
        OwnAddresses,
        Full,
        "a listed name with the runner's address",
        To::Name("own"),
        80,
        Say::Http("own"),
        [Refused(&[Reason::AnswerOwn]), Refused(&[Reason::AnswerOwn]), NO_NETWORK]
    ),
    probe!(
        "own_address",
        OwnAddresses,
        Full,
        "HTTP to the runner's address",
        address!(PLACE),
        80,
        Say::Http("own"),
        [Refused(&[Reason::AnswerOwn]), RAW, NO_NETWORK]
    ),
    probe!(
        "loopback_name",
        OwnAddresses,
        Full,
        "a listed name with a loopback address",
        To::Name("loopback"),
        443,
        Say::Tls(Some("loopback")),
        [Anything, Refused(&[Reason::AnswerLoopback]), NO_NETWORK]
    ),
    probe!(
        "sni_other",
        Sni,
        Fast,
        "a listed name, TLS for another",
        To::Name("allowed"),
        443,
        Say::Tls(Some("forbidden")),
        [Anything, Refused(&[Reason::SniMismatch]), NO_NETWORK]
    ),
    probe!(
        "sni_missing",
        Sni,
        Full,
        "a listed name, TLS without a name",
        To::Name("allowed"),
        443,
        Say::Tls(None),
        [Anything, Refused(&[Reason::SniMissing]), NO_NETWORK]
    ),
    probe!(
        "not_tls",
        Sni,
        Full,
        "a listed name, HTTP where TLS is due",
        To::Name("allowed"),
        443,
        Say::Http("allowed"),
        [Anything, Refused(&[Reason::NotTls]), NO_NETWORK]
    ),
    probe!(
        "host_other",
        HostHeader,
        Fast,
        "a listed name, HTTP for another",
        To::Name("allowed"),
        80,
        Say::Http("forbidden"),
        [Anything, Refused(&[Reason::HostMismatch]), NO_NETWORK]
    ),
    probe!(
        "not_http",
        HostHeader,
        Full,
        "a listed name, TLS where HTTP is due",
        To::Name("allowed"),
        80,
        Say::Tls(Some("allowed")),
        [Anything, Refused(&[Reason::NotHttp]), NO_NETWORK]
    ),
    probe!(
        "connect_method",
        HostHeader,
        Full,
        "a listed name, HTTP that asks to be led on",
        To::Name("allowed"),
        80,
        Say::Connect,
        [Anything, Refused(&[Reason::ConnectMethod, Reason::HostMismatch, Reason::TargetMismatch]), NO_NETWORK]
    ),
    probe!(
        "query_outside",
        Resolver,
        Fast,
        "a query to a name server outside",
        address!(OUTSIDE_RESOLVER),
        53,
        Say::Query,
        [Reached, UNLISTED, NO_NETWORK]
    ),
    probe!(
        "query_over_tcp",
        Resolver,
        Full,
        "the same over TCP",
        address!(OUTSIDE_RESOLVER),
        53,
        Say::QueryOverTcp,
        [Reached, UNLISTED, NO_NETWORK]
    ),
    probe!(
        "query_tunnel",
        Resolver,
        Full,
        "a query for a text below a listed name",
        address!(OUTSIDE_RESOLVER),
        53,
        Say::Tunnel("allowed"),
        [Reached, UNLISTED, NO_NETWORK]
    ),
    probe!("udp", Udp, Fast, "a datagram", address!(FORBIDDEN), 7000, Say::Datagram, [Dropped, Dropped, Dropped]),
    probe!(
        "quic",
        Udp,
        Full,
        "a datagram to port 443 of a listed name's address",
        address!(ALLOWED),
        443,
        Say::Datagram,
        [Dropped, Dropped, Dropped]
    ),
    probe!(
        "udp_private",
        Udp,
        Full,
        "a datagram to a private address",
        address!(PRIVATE),
        7000,
        Say::Datagram,
        [Dropped, Dropped, Dropped]
    ),
    probe!("icmp", Icmp, Full, "an ICMP echo", address!(FORBIDDEN), 0, Say::Echo, [Dropped, Dropped, Dropped]),
    probe!(
        "ipv6",
        Ipv6,
        Fast,
        "HTTP to an IPv6 address",
        address!(v6 FORBIDDEN_V6),
        80,
        Say::Http("forbidden"),
        [Reached, RAW, NO_NETWORK]
    ),
    probe!(
        "ipv6_private",
        Ipv6,
        Full,
        "HTTP to a private IPv6 address",
        address!(v6 PRIVATE_V6),
        80,
        Say::Http("private"),
        [Refused(&[Reason::AnswerPrivate]), RAW, NO_NETWORK]
    ),
    probe!(
        "ipv6_udp",
        Ipv6,
        Full,
        "a datagram over IPv6",
        address!(v6 FORBIDDEN_V6),
        7000,
        Say::Datagram,
        [Dropped, Dropped, Dropped]
    ),
    other(
        "sibling",
        Control::NetNamespace,
        Full,
        "connect to a service in another sandbox",
        "not reached",
        Way::Sibling,
    ),
];

//! Which addresses an answer may lead to: only globally reachable ones, by IANA's special-purpose registries.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use ipnet::IpNet;
use mutation::{Mutation, mutated};

use crate::reason::Reason;

/// Whether a name may resolve to private addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Private {
    Allowed,
    Refused,
}

/// Why an answer may not be connected to, if so.
pub(crate) fn refusal(address: IpAddr, private: Private, denied: &BTreeSet<IpNet>) -> Option<Reason> {
    let inside = |net: &IpNet| net.contains(&address.to_canonical()) || net.contains(&address);
    if denied.iter().any(inside) {
        return Some(Reason::AddressDenied);
    }
    match special(address) {
        Some(Reason::AnswerPrivate) if private == Private::Allowed => None,
        reason => reason,
    }
}

/// Whether the address is in a private range.
pub(crate) fn is_private(address: IpAddr) -> bool {
    special(address) == Some(Reason::AnswerPrivate)
}

fn special(address: IpAddr) -> Option<Reason> {
    match address {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

/// Metadata services of clouds at addresses that are not link-local.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(169, 254, 169, 254), Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254), Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254)];

fn special_v4(address: Ipv4Addr) -> Option<Reason> {
    let [a, b, c, _] = address.octets();
    if METADATA_V4.contains(&address) {
        return (!mutated(Mutation::MetadataReachable)).then_some(Reason::AnswerMetadata);
    }
    match (a, b, c) {
        (0 | 127, ..) => Some(Reason::AnswerLoopback),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Some(Reason::AnswerPrivate),
        // Link-local; protocol assignments; the three documentation ranges; the old 6to4 relay; benchmarks, which are our
        // own addresses for names; AS112 and AMT, which are anycast and no host; multicast and above.
        (169, 254, _)
        | (192, 0, 0 | 2)
        | (198, 51, 100)
        | (203, 0, 113)
        | (192, 88, 99)
        | (198, 18 | 19, _)
        | (192, 31, 196)
        | (192, 52, 193)
        | (192, 175, 48)
        | (224..=255, ..) => Some(Reason::AnswerSpecial),
        _ => None,
    }
}

fn special_v6(address: Ipv6Addr) -> Option<Reason> {
    let [a, b, ..] = address.segments();
    if METADATA_V6.contains(&address) {
        return Some(Reason::AnswerMetadata);
    }
    if address.is_loopback() || address.is_unspecified() {
        return Some(Reason::AnswerLoopback);
    }
    // Mapped and compatible, NAT64 with both prefixes, 6to4, Teredo: each stands for an IPv4 address.
    if a == 0 || (a == 0x64 && b == 0xff9b) || a == 0x2002 || (a == 0x2001 && b == 0) {
        return Some(Reason::AnswerTransition);
    }
    if a & 0xfe00 == 0xfc00 {
        return Some(Reason::AnswerPrivate);
    }
    // Of the rest only 2000::/3 is global, without protocol assignments and the two documentation ranges.
    let documentation = (a == 0x2001 && b == 0xdb8) || (a == 0x3fff && b < 0x1000);
    if a & 0xe000 != 0x2000 || (a == 0x2001 && b < 0x0200) || documentation {
        return Some(Reason::AnswerSpecial);
    }
    None
}

/// Whether the address is one of this machine's: nobody can bind another's. Asked anew each time, because addresses come
/// and go.
pub(crate) fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_global_addresses_are_reached() {
        let none = BTreeSet::new();
        for (address, reason) in [
            ("127.0.0.1", Reason::AnswerLoopback),
            ("0.0.0.0", Reason::AnswerLoopback),
            ("0.1.2.3", Reason::AnswerLoopback),
            ("10.66.0.10", Reason::AnswerPrivate),
            ("172.31.255.255", Reason::AnswerPrivate),
            ("192.168.77.10", Reason::AnswerPrivate),
            ("100.64.0.10", Reason::AnswerPrivate),
            ("100.127.255.255", Reason::AnswerPrivate),
            ("169.254.169.254", Reason::AnswerMetadata),
            ("100.100.100.200", Reason::AnswerMetadata),
            ("168.63.129.16", Reason::AnswerMetadata),
            ("169.254.1.1", Reason::AnswerSpecial),
            ("192.0.2.1", Reason::AnswerSpecial),
            ("198.18.0.5", Reason::AnswerSpecial),
            ("224.0.0.1", Reason::AnswerSpecial),
            ("255.255.255.255", Reason::AnswerSpecial),
            ("::", Reason::AnswerLoopback),
            ("::1", Reason::AnswerLoopback),
            ("::ffff:127.0.0.1", Reason::AnswerTransition),
            ("::ffff:93.184.215.10", Reason::AnswerTransition),
            ("::7f00:1", Reason::AnswerTransition),
            ("64:ff9b::a42:a", Reason::AnswerTransition),
            ("64:ff9b:1::1", Reason::AnswerTransition),
            ("2002:a42:a::1", Reason::AnswerTransition),
            ("2001::1", Reason::AnswerTransition),
            ("fd00:ec2::254", Reason::AnswerMetadata),
            ("fd20:ce::254", Reason::AnswerMetadata),
            ("fd12::1", Reason::AnswerPrivate),
            ("fe80::1", Reason::AnswerSpecial),
            ("ff02::1", Reason::AnswerSpecial),
            ("2001:db8::1", Reason::AnswerSpecial),
            ("3fff:0fff::1", Reason::AnswerSpecial),
            ("2001:2::1", Reason::AnswerSpecial),
            ("4000::1", Reason::AnswerSpecial),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(refusal(address, Private::Refused, &none), Some(reason), "{address}");
        }
        for address in ["93.184.215.10", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:2800:220:1::10", "2001:4860::1"]
        {
            assert_eq!(refusal(address.parse().unwrap(), Private::Refused, &none), None, "{address}");
        }
    }

    #[test]
    fn private_answers_open_private_addresses_and_nothing_else() {
        let none = BTreeSet::new();
        assert_eq!(refusal("10.66.0.10".parse().unwrap(), Private::Allowed, &none), None);
        for address in ["127.0.0.1", "169.254.169.254", "100.100.100.200", "::1", "64:ff9b::a42:a", "fe80::1"] {
            assert!(refusal(address.parse().unwrap(), Private::Allowed, &none).is_some(), "{address}");
        }
        let denied = BTreeSet::from(["10.0.0.0/8".parse().unwrap()]);
        assert_eq!(refusal("10.66.0.10".parse().unwrap(), Private::Allowed, &denied), Some(Reason::AddressDenied));
        assert_eq!(
            refusal("::ffff:10.66.0.10".parse().unwrap(), Private::Allowed, &denied),
            Some(Reason::AddressDenied)
        );
    }

    #[test]
    fn own_addresses_are_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("93.184.215.10".parse().unwrap()));
    }
}

//! Raw addresses: which ranges a list may open, and one spelling for each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Why an address range may not stand in `allow_cidr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// The runner's own loopback.
    #[error("loopback addresses are the runner's own")]
    Loopback,
    /// Link-local addresses, where clouds keep credentials.
    #[error("link-local addresses hold the metadata services of clouds")]
    LinkLocal,
    /// The range the gateway hands out for names.
    #[error("198.18.0.0/15 is what the gateway hands out for names")]
    Synthetic,
    /// So wide that it is no list any more.
    #[error("the range is wider than /8 (IPv4) or /32 (IPv6)")]
    TooWide,
    /// Unspecified, multicast or broadcast.
    #[error("unspecified, multicast and broadcast addresses are not hosts")]
    NotAHost,
    /// An address that stands for another one.
    #[error("the range holds addresses that stand for IPv4 ones")]
    Transition,
    /// Where a cloud keeps credentials.
    #[error("the range holds the metadata service of a cloud")]
    Metadata,
}

/// An IPv4 range in IPv6 clothes as the IPv4 range that it is.
pub(crate) fn unmap(net: IpNet) -> IpNet {
    if let IpNet::V6(v6) = net
        && v6.prefix_len() >= 96
        && let Some(v4) = v6.network().to_ipv4_mapped()
        && let Ok(mapped) = IpNet::new(IpAddr::V4(v4), v6.prefix_len() - 96)
    {
        return mapped;
    }
    net
}

/// Checks one entry of `allow_cidr`: what no list may open is an error here, not a surprise later.
///
/// ```
/// use profile::{check_allow_cidr, CidrError};
/// assert_eq!(check_allow_cidr(&"169.254.169.254/32".parse()?), Err(CidrError::LinkLocal));
/// assert_eq!(check_allow_cidr(&"203.0.113.0/24".parse()?), Ok(()));
/// # Ok::<(), ipnet::AddrParseError>(())
/// ```
pub fn check_allow_cidr(net: &IpNet) -> Result<(), CidrError> {
    let net = unmap(*net);
    for (reserved, error) in reserved() {
        if reserved.contains(&net) || net.contains(&reserved) {
            return Err(error);
        }
    }
    let widest = if matches!(net, IpNet::V4(_)) { 8 } else { 32 };
    if net.prefix_len() < widest { Err(CidrError::TooWide) } else { Ok(()) }
}

fn reserved() -> impl Iterator<Item = (IpNet, CidrError)> {
    let v4 = |a, b, c, d, prefix| IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix);
    let v6 = |head: [u16; 3], last, prefix| {
        IpNet::new_assert(IpAddr::V6(Ipv6Addr::new(head[0], head[1], head[2], 0, 0, 0, 0, last)), prefix)
    };
    [
        (v4(127, 0, 0, 0, 8), CidrError::Loopback),
        (v6([0, 0, 0], 1, 128), CidrError::Loopback),
        (v4(169, 254, 0, 0, 16), CidrError::LinkLocal),
        (v6([0xfe80, 0, 0], 0, 10), CidrError::LinkLocal),
        (v4(198, 18, 0, 0, 15), CidrError::Synthetic),
        (v4(0, 0, 0, 0, 8), CidrError::NotAHost),
        (v4(224, 0, 0, 0, 3), CidrError::NotAHost),
        (v6([0xff00, 0, 0], 0, 8), CidrError::NotAHost),
        // Well-known addresses outside link-local: Alibaba, Azure, AWS over IPv6.
        (v4(100, 100, 100, 200, 32), CidrError::Metadata),
        (v4(168, 63, 129, 16, 32), CidrError::Metadata),
        (v6([0xfd00, 0x0ec2, 0], 0x0254, 128), CidrError::Metadata),
        // IPv4-compatible and -mapped, NAT64 (both prefixes), Teredo, 6to4.
        (v6([0, 0, 0], 0, 8), CidrError::Transition),
        (v6([0x0064, 0xff9b, 0], 0, 96), CidrError::Transition),
        (v6([0x0064, 0xff9b, 1], 0, 48), CidrError::Transition),
        (v6([0x2001, 0, 0], 0, 32), CidrError::Transition),
        (v6([0x2002, 0, 0], 0, 16), CidrError::Transition),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_opens_the_runner_or_the_metadata_service() {
        for (net, error) in [
            ("127.0.0.1/32", CidrError::Loopback),
            ("126.0.0.0/7", CidrError::Loopback),
            ("::1/128", CidrError::Loopback),
            ("::ffff:127.0.0.0/104", CidrError::Loopback),
            ("::ffff:a9fe:a9fe/128", CidrError::LinkLocal),
            ("::ffff:0:0/96", CidrError::Loopback),
            ("::ffff:0:0/95", CidrError::Transition),
            ("::7f00:1/128", CidrError::Transition),
            ("64:ff9b::a9fe:a9fe/128", CidrError::Transition),
            ("64:ff9b:1::/64", CidrError::Transition),
            ("2002:7f00:1::/48", CidrError::Transition),
            ("2001::/32", CidrError::Transition),
            ("100.100.100.0/24", CidrError::Metadata),
            ("168.63.129.16/32", CidrError::Metadata),
            ("fd00:ec2::254/128", CidrError::Metadata),
            ("16.0.0.0/4", CidrError::TooWide),
            ("2600::/12", CidrError::TooWide),
            ("169.254.169.254/32", CidrError::LinkLocal),
            ("fe80::/64", CidrError::LinkLocal),
            ("0.0.0.0/0", CidrError::Loopback),
            ("::/0", CidrError::Loopback),
            ("198.19.0.0/16", CidrError::Synthetic),
            ("224.0.0.1/32", CidrError::NotAHost),
            ("255.255.255.255/32", CidrError::NotAHost),
        ] {
            assert_eq!(check_allow_cidr(&net.parse().unwrap()), Err(error), "{net}");
        }
        for net in ["203.0.113.0/24", "10.1.2.0/24", "2001:db8::/32", "::ffff:203.0.113.0/120"] {
            assert_eq!(check_allow_cidr(&net.parse().unwrap()), Ok(()), "{net}");
        }
    }
}

//! `setsockopt`: the options that a sandbox may set. All others are answered as by a kernel without them.
//!
//! A list of what is allowed, because many options make the kernel keep memory that no control group counts, or that the whole
//! host shares, and every kernel brings new ones:
//!
//! * Filters (`SO_ATTACH_FILTER`, `SO_ATTACH_BPF`, `SO_ATTACH_REUSEPORT_CBPF`, `SO_ATTACH_REUSEPORT_EBPF`, and `SO_LOCK_FILTER`):
//!   three processes with 2,000 filters each use up the host-wide BPF JIT pool, and their release deadlocks kernel 6.18.
//! * Options and ancillary data that stay with a socket (`IP_OPTIONS`, `IPV6_2292PKTOPTIONS`, sticky extension headers): up to
//!   64 KiB for each socket, counted against `net.core.optmem_max` and nothing else.
//! * Memberships and source filters of multicast groups: entries of the network namespace, without an account.
//! * TCP MD5 and TCP-AO keys, upper-layer protocols, keys of TCP Fast Open, saved SYN headers: without an account.
//! * IPv6 flow labels: one table of 4,096 for all network namespaces.

use libc::{BPF_JEQ, sock_filter};

use super::check::{allow, answer, jump, load_argument};

/// Levels and their options that may be set; see `asm-generic/socket.h`, `linux/in.h`, `linux/in6.h`, `linux/tcp.h`, `linux/udp.h`,
/// `linux/netlink.h`. The kernel's own checks of rights come after these.
const ALLOWED: [(u32, &[u32]); 6] = [
    (libc::SOL_SOCKET.cast_unsigned(), SOCKET),
    (libc::IPPROTO_IP.cast_unsigned(), IPV4),
    (libc::IPPROTO_IPV6.cast_unsigned(), IPV6),
    (libc::IPPROTO_TCP.cast_unsigned(), TCP),
    (libc::IPPROTO_UDP.cast_unsigned(), UDP),
    (libc::SOL_NETLINK.cast_unsigned(), NETLINK),
];

/// Addresses' reuse, buffers, timeouts, keep-alive, lingering, credentials, time stamps, priorities, rates, binding to a device,
/// and taking a filter off.
const SOCKET: &[u32] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 25, 27, 29, 32, 33, 34, 35, 36, 37, 40, 41,
    42, 43, 45, 46, 47, 49, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82,
    83,
];
/// Type of service, time to live, what is received beside the data, path MTU, binding, interface and reach of multicast.
const IPV4: &[u32] =
    &[1, 2, 6, 7, 8, 10, 11, 12, 13, 14, 15, 18, 19, 20, 21, 22, 23, 24, 25, 26, 32, 33, 34, 49, 50, 51];
/// The same for IPv6, with `IPV6_V6ONLY`, the flags of RFC 3542 and 2292, and preferences of source addresses.
const IPV6: &[u32] = &[
    1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 18, 19, 23, 24, 25, 26, 29, 31, 33, 49, 50, 51, 52, 53, 56, 58, 60, 61, 62, 66,
    67, 70, 72, 73, 74, 75, 76, 77, 78,
];
/// Delays, keep-alive, retries and timeouts, windows, congestion control, Fast Open without a key of one's own.
const TCP: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 17, 18, 23, 24, 25, 30, 34, 36, 37, 43, 44, 45];
/// Corking, checksums over IPv6, segmentation offload.
const UDP: &[u32] = &[1, 101, 102, 103, 104];
/// Groups of notifications, packet information, errors with reasons.
const NETLINK: &[u32] = &[1, 2, 3, 4, 5, 10, 11, 12];

/// Instructions that end with a decision.
pub(super) fn block() -> Vec<sock_filter> {
    let mut block = vec![load_argument(1)];
    for (level, options) in ALLOWED {
        let count = u8::try_from(options.len()).unwrap_or(0);
        // Another level: past the load, the comparisons and the two answers.
        block.push(jump(BPF_JEQ, level, 0, count + 3));
        block.push(load_argument(2));
        block.extend(options.iter().zip((1..=count).rev()).map(|(option, left)| jump(BPF_JEQ, *option, left, 0)));
        block.extend([answer(libc::ENOPROTOOPT), allow()]);
    }
    block.push(answer(libc::ENOPROTOOPT));
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_fits_into_a_jump_and_is_sorted() {
        for (level, options) in ALLOWED {
            assert!(options.len() < 250 && options.is_sorted(), "{level}");
        }
    }
}

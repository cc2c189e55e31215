//! The rules of a captured network: every TCP connection and every DNS query lands on our listeners, the box's own
//! addresses stay its own, and nothing else goes anywhere. One raw netlink batch.
//!
//! What is dropped or stays inside is dropped *before* connection tracking: its table is the host's memory.

use mutation::{Mutation, mutated};

use crate::netlink::{APPEND, Answer, Batch, CREATE, NESTED, attributes, number, text};

const SUBSYSTEM: u16 = 10; // NFNL_SUBSYS_NFTABLES
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;
const FAMILY_INET: u8 = 1;

const TABLE: &str = "ringfence";
/// Before connection tracking, which is at -200.
const RAW: i32 = -300;
const NAT: i32 = -100;
const HOOK_OUTPUT: u32 = 3;

const TCP: u8 = 6;
const UDP: u8 = 17;
const DNS: u16 = 53;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// New connections and queries that one sandbox may begin in a second. More would fill the host's tables.
const NEW_PER_SECOND: u64 = 5000;

/// The ports of our listeners, the same on 127.0.0.1 and on `::1`: a rule is for both, wherever it can be. Where the kernel
/// has no IPv6, nothing of it comes to any rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) tcp: u16,
    pub(crate) udp: u16,
}

/// One expression of a rule; a rule is a list of them.
type Expression = Vec<u8>;

/// All expressions work in this register.
const REGISTER: u32 = 1;

fn expression(name: &str, data: &[(u16, Vec<u8>)]) -> Expression {
    attributes(&[(1, text(name)), (2 | NESTED, attributes(data))])
}

fn value(bytes: &[u8]) -> Vec<u8> {
    attributes(&[(1, bytes.to_vec())])
}

fn equals(bytes: &[u8]) -> Expression {
    expression("cmp", &[(1, number(REGISTER)), (2, number(0)), (3 | NESTED, value(bytes))])
}

fn family(family: u8) -> Vec<Expression> {
    const NFPROTO: u32 = 15;
    vec![expression("meta", &[(1, number(REGISTER)), (2, number(NFPROTO))]), equals(&[family])]
}

fn protocol(protocol: u8) -> Vec<Expression> {
    const L4PROTO: u32 = 16;
    vec![expression("meta", &[(1, number(REGISTER)), (2, number(L4PROTO))]), equals(&[protocol])]
}

#[derive(Clone, Copy)]
enum Header {
    Network = 1,
    Transport = 2,
}

fn field(header: Header, offset: u32, length: u32) -> Expression {
    let data = [(1, number(REGISTER)), (2, number(header as u32)), (3, number(offset)), (4, number(length))];
    expression("payload", &data)
}

fn source_port(port: u16) -> Vec<Expression> {
    vec![field(Header::Transport, 0, 2), equals(&port.to_be_bytes())]
}

fn target_port(port: u16) -> Vec<Expression> {
    vec![field(Header::Transport, 2, 2), equals(&port.to_be_bytes())]
}

/// From our own listener: 127.0.0.1 or `::1`.
fn from_loopback(version: u8) -> Vec<Expression> {
    let mut rule = family(version);
    if version == IPV4 {
        rule.extend([field(Header::Network, 12, 4), equals(&[127, 0, 0, 1])]);
    } else {
        rule.extend([field(Header::Network, 8, 16), equals(&std::net::Ipv6Addr::LOCALHOST.octets())]);
    }
    rule
}

/// To an address of the box itself.
fn to_local() -> Vec<Expression> {
    const ADDRESS_TYPE: u32 = 3;
    const DESTINATION: u32 = 2;
    const LOCAL: u32 = 2; // RTN_LOCAL
    let fib = [(1, number(REGISTER)), (2, number(ADDRESS_TYPE)), (3, number(DESTINATION))];
    vec![expression("fib", &fib), equals(&LOCAL.to_ne_bytes())]
}

fn verdict(code: u32) -> Expression {
    let verdict = attributes(&[(2 | NESTED, attributes(&[(1, number(code))]))]);
    expression("immediate", &[(1, number(0)), (2 | NESTED, verdict)])
}

fn accept() -> Expression {
    verdict(1)
}

fn drop() -> Expression {
    verdict(0)
}

/// Matches what comes faster than allowed.
fn too_fast() -> Expression {
    const INVERTED: u32 = 1;
    limit(INVERTED)
}

/// Matches what comes no faster than allowed.
fn in_time() -> Expression {
    limit(0)
}

fn limit(flags: u32) -> Expression {
    let burst = u32::try_from(NEW_PER_SECOND).unwrap_or(u32::MAX);
    let data = [
        (1, NEW_PER_SECOND.to_be_bytes().to_vec()),
        (2, 1_u64.to_be_bytes().to_vec()),
        (3, number(burst)),
        (4, number(0)),
        (5, number(flags)),
    ];
    expression("limit", &data)
}

/// The first packet of a connection: SYN without ACK.
fn opening() -> Vec<Expression> {
    let (mask, flags): (&[u8], u8) = (&[0x12], 0x02);
    let bitwise = [
        (1, number(REGISTER)),
        (2, number(REGISTER)),
        (3, number(1)),
        (4 | NESTED, value(mask)),
        (5 | NESTED, value(&[0])),
    ];
    vec![field(Header::Transport, 13, 1), expression("bitwise", &bitwise), equals(&[flags])]
}

fn redirect(port: u16) -> Vec<Expression> {
    let load = [(1, number(REGISTER)), (2 | NESTED, value(&port.to_be_bytes()))];
    vec![expression("immediate", &load), expression("redir", &[(1, number(REGISTER))])]
}

/// Before connection tracking; what no rule accepts is dropped.
fn raw_rules(ports: Ports) -> Vec<Vec<Expression>> {
    let answers = |version: u8, kind: u8, port: u16| {
        [from_loopback(version), protocol(kind), source_port(port), vec![accept()]].concat()
    };
    let mut rules = vec![
        answers(IPV4, TCP, ports.tcp),
        answers(IPV4, UDP, ports.udp),
        answers(IPV6, TCP, ports.tcp),
        answers(IPV6, UDP, ports.udp),
        // Straight to a listener nobody has business; who tries, tries slowly.
        [to_local(), protocol(TCP), target_port(ports.tcp), opening(), vec![too_fast(), drop()]].concat(),
        [to_local(), vec![expression("notrack", &[]), accept()]].concat(),
        [protocol(TCP), opening(), vec![too_fast(), drop()]].concat(),
        [protocol(TCP), vec![accept()]].concat(),
        [protocol(UDP), target_port(DNS), vec![in_time(), accept()]].concat(),
    ];
    if mutated(Mutation::UdpOpen) {
        rules.push([family(IPV4), protocol(UDP), vec![accept()]].concat());
    }
    rules
}

fn nat_rules(ports: Ports) -> Vec<Vec<Expression>> {
    vec![
        [to_local(), vec![accept()]].concat(),
        [protocol(UDP), target_port(DNS), redirect(ports.udp)].concat(),
        [protocol(TCP), redirect(ports.tcp)].concat(),
    ]
}

/// The whole batch for listeners at these ports.
pub(crate) fn batch(ports: Ports) -> Batch {
    const POLICY_DROP: u32 = 0;
    const POLICY_ACCEPT: u32 = 1;
    let head = |family: u8, resource: u16| {
        let mut head = vec![family, 0];
        head.extend(resource.to_be_bytes());
        head
    };
    let mut batch = Batch::default();
    let inet = head(FAMILY_INET, 0);
    batch.message(BATCH_BEGIN, 0, Answer::None, &head(0, SUBSYSTEM), &[]);
    batch.message(NEW_TABLE, CREATE, Answer::Acknowledged, &inet, &attributes(&[(1, text(TABLE))]));
    let chains =
        [("raw", "filter", RAW, POLICY_DROP, raw_rules(ports)), ("nat", "nat", NAT, POLICY_ACCEPT, nat_rules(ports))];
    for (name, kind, priority, policy, rules) in chains {
        let hook = attributes(&[(1, number(HOOK_OUTPUT)), (2, number(priority.cast_unsigned()))]);
        let chain =
            attributes(&[(1, text(TABLE)), (3, text(name)), (4 | NESTED, hook), (5, number(policy)), (7, text(kind))]);
        batch.message(NEW_CHAIN, CREATE, Answer::Acknowledged, &inet, &chain);
        for rule in rules {
            let expressions: Vec<(u16, Vec<u8>)> = rule.into_iter().map(|one| (1 | NESTED, one)).collect();
            let rule = attributes(&[(1, text(TABLE)), (2, text(name)), (4 | NESTED, attributes(&expressions))]);
            batch.message(NEW_RULE, CREATE | APPEND, Answer::Acknowledged, &inet, &rule);
        }
    }
    batch.message(BATCH_END, 0, Answer::None, &head(0, SUBSYSTEM), &[]);
    batch
}

//! The names that the DNS server knows; it answers `NXDOMAIN` to all others, and nothing to other types of these.

/// [`WEB`](crate::addresses::WEB)`[0]`, and the same over IPv6.
pub const WWW: &str = "www.example.org";
/// [`WEB`](crate::addresses::WEB)`[1]`.
pub const PACKAGES: &str = "packages.example.org";
/// [`WEB`](crate::addresses::WEB)`[2]`.
pub const GIT: &str = "git.example.org";
/// [`WEB`](crate::addresses::WEB)`[3]`, and the same over IPv6.
pub const API: &str = "api.example.org";
/// Every name below this one, at any depth, is [`WEB`](crate::addresses::WEB)`[4]`; this name itself does not exist.
pub const WILD: &str = "wild.example.org";
/// [`EVIL`](crate::addresses::EVIL).
pub const EVIL: &str = "evil.example.net";
/// Only IPv6: [`WEB_V6`](crate::addresses::WEB_V6)`[0]`.
pub const V6ONLY: &str = "v6only.example.org";
/// [`PRIVATE`](crate::addresses::PRIVATE).
pub const PRIVATE: &str = "private.example.org";
/// [`PRIVATE2`](crate::addresses::PRIVATE2).
pub const PRIVATE2: &str = "private2.example.org";
/// [`SHARED`](crate::addresses::SHARED).
pub const SHARED: &str = "shared.example.org";
/// 127.0.0.1.
pub const LOOP: &str = "loop.example.org";
/// 0.0.0.0.
pub const ZERO: &str = "zero.example.org";
/// [`METADATA`](crate::addresses::METADATA).
pub const META: &str = "meta.example.org";
/// [`RUNNER`](crate::addresses::RUNNER): the gateway's own address.
pub const RUNNER: &str = "runner.example.org";
/// Only IPv6: `::ffff:127.0.0.1`.
pub const MAPPED: &str = "mapped.example.org";
/// Only IPv6: [`PRIVATE`](crate::addresses::PRIVATE) behind the well-known prefix of NAT64 (RFC 6052).
pub const NAT64: &str = "nat64.example.org";
/// Only IPv6: [`PRIVATE`](crate::addresses::PRIVATE) as a 6to4 prefix (RFC 3056).
pub const SIXTOFOUR: &str = "sixtofour.example.org";
/// [`PRIVATE`](crate::addresses::PRIVATE) and [`WEB`](crate::addresses::WEB)`[0]` in one answer.
pub const MIXED: &str = "mixed.example.org";
/// By turns, one per query for A: [`WEB`](crate::addresses::WEB)`[0]`, then [`PRIVATE`](crate::addresses::PRIVATE).
pub const REBIND: &str = "rebind.example.org";
/// [`DEAD`](crate::addresses::DEAD): packets vanish.
pub const DEAD: &str = "dead.example.org";
/// [`WEB`](crate::addresses::WEB)`[0]`, which listens on few ports: 81, for one, refuses.
pub const REFUSED: &str = "refused.example.org";
/// Only a text: [`CANARY_TEXT`].
pub const TXT: &str = "txt.example.org";
/// What the text of [`TXT`] says.
pub const CANARY_TEXT: &str = "canary-text";

//! Why something was refused: one code each, stable, for records and people.

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal,)*) => {
        /// Why something was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[doc = $doc])+ #[serde(rename = $code)] $name,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The code in records and in the reason header of an answer.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// In a few words.
            pub fn describe(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)* }
            }
        }
    };
}

reasons! {
    /// nothing may leave this sandbox
    NoNetwork = "no_network",
    /// no rule lists the name
    NameNotListed = "name_not_listed",
    /// a deny rule names it
    NameDenied = "name_denied",
    /// the name is listed, this port of it is not
    PortNotListed = "port_not_listed",
    /// a service of the same sample, and a port that it did not declare
    ServicePort = "service_port",
    /// an address that no name was given for
    RawAddress = "raw_address",
    /// a deny rule holds the address
    AddressDenied = "address_denied",
    /// one of the addresses for names, given to none
    NoSuchName = "no_such_name",
    /// the gateway's own listener
    CapturePort = "capture_port",
    /// a name with other characters than letters, digits and hyphens
    BadName = "bad_name",
    /// a message that is no DNS query
    BadQuery = "bad_query",
    /// a kind of query that is not answered
    QueryKind = "query_kind",
    /// more queries than the limit
    QueryRate = "query_rate",
    /// more names under wildcards than the limit
    WildcardLimit = "wildcard_limit",
    /// the port is for TLS, and this is not TLS
    NotTls = "not_tls",
    /// TLS without a server name
    SniMissing = "sni_missing",
    /// TLS with another server name
    SniMismatch = "sni_mismatch",
    /// TLS with an encrypted server name
    EchPresent = "ech_present",
    /// a TLS greeting larger than the limit
    HelloTooLong = "hello_too_long",
    /// the greeting or request did not come in time
    TooSlow = "too_slow",
    /// the port is for HTTP, and this is not HTTP
    NotHttp = "not_http",
    /// a request without a Host
    HostMissing = "host_missing",
    /// a request with another Host
    HostMismatch = "host_mismatch",
    /// a request whose target names another host
    TargetMismatch = "target_mismatch",
    /// a request with a forwarding header that names another host
    ForwardedHost = "forwarded_host",
    /// a request whose length can be read in two ways
    BadFraming = "bad_framing",
    /// the method CONNECT
    ConnectMethod = "connect_method",
    /// HTTP/2 without TLS
    Http2 = "http2",
    /// an upgrade that no rule allows
    Upgrade = "upgrade",
    /// a request head larger than the limit
    HeadTooLong = "head_too_long",
    /// the name has no address
    Unresolved = "unresolved",
    /// the answer is a loopback or unspecified address
    AnswerLoopback = "answer_loopback",
    /// the answer is a private address
    AnswerPrivate = "answer_private",
    /// the answer is the metadata service of a cloud
    AnswerMetadata = "answer_metadata",
    /// the answer is an address of the runner
    AnswerOwn = "answer_own",
    /// the answer is in a network that the runner is attached to
    AnswerOnLink = "answer_on_link",
    /// the answer stands for another address
    AnswerTransition = "answer_transition",
    /// the answer is not globally reachable
    AnswerSpecial = "answer_special",
    /// the host refused the connection
    HostRefused = "host_refused",
    /// the host cannot be reached
    HostUnreachable = "host_unreachable",
    /// the host did not answer in time
    HostTimeout = "host_timeout",
    /// more connections than the limit
    ConnectionLimit = "connection_limit",
    /// more bytes than the limit
    ByteLimit = "byte_limit",
    /// nothing was sent for too long
    Idle = "idle",
    /// the sandbox ended before it was answered
    SandboxEnded = "sandbox_ended",
    /// the rules were changed and forbid it
    RulesChanged = "rules_changed",
    /// whoever was asked said no
    DecidedNo = "decided_no",
    /// whoever was asked did not answer in time
    DeciderTimeout = "decider_timeout",
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_lists_every_reason() {
        let manual = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/network.md"));
        for reason in Reason::ALL {
            assert!(manual.contains(&format!("`{}`", reason.code())), "{reason}");
            assert!(!reason.describe().is_empty() && !reason.describe().starts_with(' '), "{reason}");
        }
    }
}

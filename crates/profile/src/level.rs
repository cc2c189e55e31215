//! The three levels and the profile they form.
//!
//! Owns parsing (any case in), printing (upper case out) and the partial order.
//! What a level *grants* is decided in [`crate::grant`]; how it is enforced, in [`crate::plan`].

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Declares one axis: its levels in order, with the text that people read.
macro_rules! axis {
    ($(#[$doc:meta])* $axis:ident, $noun:literal, { $($level:ident => $summary:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $axis {
            $(#[doc = $summary] $level),+
        }

        impl $axis {
            /// Every level of this axis, from the one that grants most to the one that grants least.
            pub const ALL: &'static [Self] = &[$(Self::$level),+];

            /// The level in one line, for people.
            pub fn summary(self) -> &'static str {
                match self { $(Self::$level => $summary),+ }
            }
        }

        impl fmt::Display for $axis {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$level => stringify!($level)),+ })
            }
        }

        impl FromStr for $axis {
            type Err = ParseLevelError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $(if text.eq_ignore_ascii_case(stringify!($level)) { return Ok(Self::$level); })+
                Err(ParseLevelError {
                    axis: $noun,
                    found: text.to_owned(),
                    known: &[$(stringify!($level)),+],
                })
            }
        }

        impl Serialize for $axis {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

axis!(
    /// What the agent may do: a higher level grants less.
    Tooling, "tooling", {
        T0 => "full execution (bash, python), web tools, file tools",
        T1 => "web tools and side-effect-free basics, no arbitrary code",
        T2 => "text only, no tools",
    }
);

axis!(
    /// Where the sandbox runs. Ordered by place, **not** by strength: see [`crate::plan::KernelBoundary`].
    Isolation, "host isolation", {
        H0 => "local process, no isolation",
        H1 => "local container",
        H2 => "remote container (Kubernetes pod)",
        H3 => "remote virtual machine",
    }
);

axis!(
    /// What the sandbox may reach: a higher level grants less.
    Network, "network", {
        N0 => "full external network",
        N1 => "allow-listed names only",
        N2 => "no external network",
    }
);

/// A level that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {axis} level `{found}`")]
pub struct ParseLevelError {
    axis: &'static str,
    found: String,
    known: &'static [&'static str],
}

impl ParseLevelError {
    /// What the user can do about it.
    pub fn hint(&self) -> String {
        format!("{} is one of {}", self.axis, self.known.join(", "))
    }
}

/// A sandbox profile `Tx.Hx.Nx`.
///
/// Partially ordered: `a <= b` when `b` is at least as high on every axis, so `b` grants no more than `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Profile {
    /// What the agent may do.
    pub tooling: Tooling,
    /// Where the sandbox runs.
    pub isolation: Isolation,
    /// What the sandbox may reach.
    pub network: Network,
}

/// The profiles that the guidance calls typical, with what they are for.
pub const TYPICAL: [(Profile, &str); 4] = [
    (Profile::new(Tooling::T2, Isolation::H1, Network::N2), "text-only questions, offline"),
    (Profile::new(Tooling::T1, Isolation::H1, Network::N1), "web tools against listed sites"),
    (Profile::new(Tooling::T0, Isolation::H2, Network::N1), "code on remote containers, restricted egress"),
    (Profile::new(Tooling::T0, Isolation::H3, Network::N2), "code of a hostile agent in a VM, no network"),
];

impl Profile {
    /// The profile of three levels.
    pub const fn new(tooling: Tooling, isolation: Isolation, network: Network) -> Self {
        Self { tooling, isolation, network }
    }

    /// All 36 profiles, T slowest and N fastest.
    pub fn all() -> impl Iterator<Item = Self> {
        Tooling::ALL.iter().flat_map(|&tooling| {
            Isolation::ALL.iter().flat_map(move |&isolation| {
                Network::ALL.iter().map(move |&network| Self::new(tooling, isolation, network))
            })
        })
    }
}

impl PartialOrd for Profile {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let axes =
            [self.tooling.cmp(&other.tooling), self.isolation.cmp(&other.isolation), self.network.cmp(&other.network)];
        match (axes.contains(&Ordering::Less), axes.contains(&Ordering::Greater)) {
            (false, false) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Less),
            (false, true) => Some(Ordering::Greater),
            (true, true) => None,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.tooling, self.isolation, self.network)
    }
}

impl Serialize for Profile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Text that is not a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseProfileError {
    /// Not three parts with dots between.
    #[error("`{0}` is not a profile")]
    Shape(String),
    /// The right shape, with a level that does not exist.
    #[error("`{text}` is not a profile")]
    Level {
        /// What was written.
        text: String,
        /// Which level was wrong.
        #[source]
        source: ParseLevelError,
    },
}

impl ParseProfileError {
    /// What the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Shape(_) => "write tooling, host isolation and network as Tx.Hx.Nx, for example T0.H1.N1; \
                 `ringfence profile list` shows all"
                .into(),
            Self::Level { source, .. } => source.hint(),
        }
    }
}

impl FromStr for Profile {
    type Err = ParseProfileError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split('.').collect();
        let [tooling, isolation, network] = parts[..] else {
            return Err(ParseProfileError::Shape(text.to_owned()));
        };
        let level = |source| ParseProfileError::Level { text: text.to_owned(), source };
        Ok(Self::new(
            tooling.parse().map_err(level)?,
            isolation.parse().map_err(level)?,
            network.parse().map_err(level)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_36_profiles_and_print_then_parse_is_identity() {
        let all: Vec<Profile> = Profile::all().collect();
        assert_eq!(all.len(), 36);
        for profile in all {
            let text = profile.to_string();
            assert_eq!(text.parse(), Ok(profile));
            assert_eq!(text.to_lowercase().parse(), Ok(profile));
        }
    }

    #[test]
    fn what_is_not_a_profile_says_what_to_write() {
        let errors: Vec<String> =
            ["", "T0", "T0.H1", "T0.H1.N1.N1", "T9.H1.N1", "T0.H4.N1", "T0.H1.N3", "T0.H1.", " T0.H1.N1"]
                .iter()
                .map(|text| match text.parse::<Profile>() {
                    Ok(profile) => format!("{text:?} parsed as {profile}"),
                    Err(error) => format!("{error}: {}", error.hint()),
                })
                .collect();
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn order_is_by_every_axis() {
        let profile = |text: &str| text.parse::<Profile>().unwrap();
        assert!(profile("T0.H1.N0") < profile("T0.H1.N1"));
        assert!(profile("T2.H1.N2") >= profile("T2.H1.N2"));
        assert_eq!(profile("T0.H1.N2").partial_cmp(&profile("T1.H1.N1")), None);
    }
}

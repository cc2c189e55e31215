//! Platforms: which of an index' images is meant.

use std::fmt;
use std::str::FromStr;

use strangers::Shown;
use thiserror::Error;

/// An operating system and a processor, in the names of the OCI: `linux/amd64`, `linux/arm/v7`.
///
/// Variants that mean nothing are left out, so that equal platforms are equal: `arm64/v8` is `arm64`, `amd64/v1` is
/// `amd64`, and `arm` alone is `arm/v7`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Platform {
    os: String,
    architecture: String,
    variant: Option<String>,
}

/// Why a text names no platform.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlatformError {
    /// There are not two or three parts, or one is no name.
    #[error("`{text}` is no platform")]
    Form {
        /// What was given.
        text: Shown,
    },
    /// The processor has another name among images.
    #[error("images call `{given}` by another name")]
    Alias {
        /// What was given.
        given: Shown,
        /// What to write.
        name: &'static str,
    },
}

impl PlatformError {
    /// What to do next.
    pub fn hint(&self) -> String {
        match self {
            Self::Form { .. } => "write it as `linux/amd64` or `linux/arm/v7`".to_owned(),
            Self::Alias { name, .. } => format!("write `{name}`"),
        }
    }
}

impl Platform {
    /// A platform of these names.
    pub fn new(os: &str, architecture: &str, variant: Option<&str>) -> Result<Self, PlatformError> {
        let parts = [Some(os), Some(architecture), variant];
        if !parts.into_iter().flatten().all(is_name) {
            let text: Vec<_> = parts.into_iter().flatten().collect();
            return Err(PlatformError::Form { text: Shown::new(&text.join("/")) });
        }
        if let Some(name) = oci_name(architecture) {
            return Err(PlatformError::Alias { given: Shown::new(architecture), name });
        }
        let variant = match (architecture, variant) {
            ("arm64", Some("v8")) | ("amd64", Some("v1")) => None,
            ("arm", None) => Some("v7"),
            (_, variant) => variant,
        };
        Ok(Self { os: os.to_owned(), architecture: architecture.to_owned(), variant: variant.map(str::to_owned) })
    }

    /// The operating system.
    pub fn os(&self) -> &str {
        &self.os
    }

    /// The processor.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The processor's variant, where it matters.
    pub fn variant(&self) -> Option<&str> {
        self.variant.as_deref()
    }
}

/// Linux on this machine's processor.
impl Default for Platform {
    fn default() -> Self {
        let architecture = match std::env::consts::ARCH {
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            "powerpc64" => "ppc64",
            other => oci_name(other).unwrap_or(other),
        };
        let variant = (architecture == "arm").then(|| "v7".to_owned());
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), variant }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.os, self.architecture)?;
        self.variant.iter().try_for_each(|variant| write!(formatter, "/{variant}"))
    }
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        match text.split('/').collect::<Vec<_>>()[..] {
            [os, architecture] => Self::new(os, architecture, None),
            [os, architecture, variant] => Self::new(os, architecture, Some(variant)),
            _ => Err(PlatformError::Form { text: Shown::new(text) }),
        }
    }
}

/// What images call a processor that compilers and kernels call so; nothing when they use the same name.
fn oci_name(architecture: &str) -> Option<&'static str> {
    match architecture {
        "x86_64" => Some("amd64"),
        "aarch64" => Some("arm64"),
        "x86" | "i386" | "i686" => Some("386"),
        "armhf" | "armv7" => Some("arm"),
        "loongarch64" => Some("loong64"),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    (1..=32).contains(&text.len()) && text.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_is_read_as_it_is_written() {
        for text in ["linux/amd64", "linux/arm64", "linux/arm/v6", "windows/amd64", "linux/amd64/v3"] {
            assert_eq!(text.parse::<Platform>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn variants_that_mean_nothing_are_left_out() {
        for (text, canonical) in
            [("linux/arm64/v8", "linux/arm64"), ("linux/amd64/v1", "linux/amd64"), ("linux/arm", "linux/arm/v7")]
        {
            assert_eq!(text.parse::<Platform>().unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn what_is_no_platform_says_what_to_write() {
        for text in ["", "linux", "linux/", "linux/amd64/v1/x", "Linux/amd64", "linux/\u{1b}[1m", "linux/a b"] {
            let error = text.parse::<Platform>().unwrap_err();
            assert_eq!(error, PlatformError::Form { text: Shown::new(text) });
        }
        let error = "linux/x86_64".parse::<Platform>().unwrap_err();
        assert_eq!(error.hint(), "write `amd64`");
    }

    #[test]
    fn the_default_is_this_machine() {
        let default = Platform::default();
        assert_eq!(default.to_string().parse(), Ok(default.clone()));
        assert_eq!(default.os(), "linux");
    }
}

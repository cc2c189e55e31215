//! What answers cost: a file of prices, in dollars for a million tokens.
//!
//! ```yaml
//! version: 1
//! models:
//!   openai/gpt-5: {input: 1.25, output: 10, input_cache_read: 0.125}
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use log::message::Usage;
use serde::Deserialize;
use strangers::Shown;
use thiserror::Error;

/// The variable that names the file.
pub const PRICES_VARIABLE: &str = "RINGFENCE_PRICES";
const MAX_BYTES: u64 = 4 << 20;

/// Prices of models, by their full names.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    version: u32,
    models: BTreeMap<String, Price>,
}

/// Of one model, in dollars for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of the input.
    pub input: f64,
    /// Of the output, with thoughts.
    pub output: f64,
    /// Of input that the provider remembered; absent means as other input.
    #[serde(default)]
    pub input_cache_read: Option<f64>,
    /// Of input that the provider is to remember; absent means as other input.
    #[serde(default)]
    pub input_cache_write: Option<f64>,
}

/// Why there are no prices.
#[derive(Debug, Error)]
pub enum PriceError {
    /// The file cannot be read.
    #[error("the prices in {} cannot be read: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// They are not what they should be.
    #[error("the prices in {} cannot be used: {why}", path.display())]
    Wrong {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: Shown,
    },
}

impl Prices {
    /// Reads a file of prices.
    pub fn load(path: &Path) -> Result<Self, PriceError> {
        let read = || -> io::Result<String> {
            let file = std::fs::File::open(path)?;
            let mut text = String::new();
            io::Read::read_to_string(&mut io::Read::take(file, MAX_BYTES), &mut text)?;
            Ok(text)
        };
        let text = read().map_err(|source| PriceError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|why| PriceError::Wrong { path: path.to_owned(), why })
    }

    /// Reads prices; JSON is YAML.
    pub fn parse(text: &str) -> Result<Self, Shown> {
        let prices: Self = serde_saphyr::from_str(text).map_err(|error| Shown::new(&error.to_string()))?;
        if prices.version != 1 {
            return Err(Shown::new(&format!("version {} is not known, only 1", prices.version)));
        }
        for (name, price) in &prices.models {
            let all = [Some(price.input), Some(price.output), price.input_cache_read, price.input_cache_write];
            if !all.into_iter().flatten().all(|dollars| dollars.is_finite() && dollars >= 0.0) {
                return Err(Shown::new(&format!("a price of `{name}` is not an amount of dollars")));
            }
        }
        Ok(prices)
    }

    /// The price of a model.
    pub fn of(&self, name: &str) -> Option<&Price> {
        self.models.get(name)
    }
}

impl Price {
    /// What this much costs, in dollars.
    #[expect(clippy::cast_precision_loss, reason = "dollars are not counted in tokens")]
    pub fn cost(&self, usage: &Usage) -> f64 {
        let dollars = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        dollars(usage.input_tokens, self.input)
            + dollars(usage.output_tokens, self.output)
            + dollars(usage.input_tokens_cache_read.unwrap_or(0), self.input_cache_read.unwrap_or(self.input))
            + dollars(usage.input_tokens_cache_write.unwrap_or(0), self.input_cache_write.unwrap_or(self.input))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_token_has_its_price() {
        let text = "version: 1\nmodels:\n  a/b: {input: 2, output: 10, input_cache_read: 0.5}\n";
        let prices = Prices::parse(text).unwrap();
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            input_tokens_cache_read: Some(2_000_000),
            input_tokens_cache_write: Some(500_000),
            ..Usage::default()
        };
        let cost = prices.of("a/b").unwrap().cost(&usage);
        assert!((cost - (2.0 + 1.0 + 1.0 + 1.0)).abs() < 1e-9, "{cost}");
        assert_eq!(prices.of("a/c"), None);
    }

    #[test]
    fn odd_prices_are_refused() {
        for odd in [
            "",
            "version: 2\nmodels: {}",
            "version: 1\nmodels: {a/b: {input: -1, output: 1}}",
            "version: 1\nmodels: {a/b: {input: .inf, output: 1}}",
            "version: 1\nmodels: {a/b: {input: 1}}",
            "version: 1\nmodels: {a/b: {input: 1, output: 1, outptu: 1}}",
        ] {
            assert!(Prices::parse(odd).is_err(), "{odd}");
        }
        assert!(Prices::parse("{\"version\": 1, \"models\": {\"a/b\": {\"input\": 1, \"output\": 1}}}").is_ok());
        assert!(Prices::load(Path::new("/no/such/file")).is_err());
    }
}

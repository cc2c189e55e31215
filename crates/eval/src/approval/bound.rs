//! What an approval holds for: this command, this path, this destination, so often, until then.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::words::simple;
use crate::tools::Tool;

/// The bounds of an approval. Nothing stated means: this very call, once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bound {
    /// The words of a command, all of them.
    pub(crate) argv: Option<Vec<String>>,
    /// A file; with a `/` at its end, everything below.
    pub(crate) path: Option<String>,
    /// `host:port`.
    pub(crate) destination: Option<(String, u16)>,
    /// So many calls; absent means one.
    pub(crate) uses: Option<u32>,
    /// Until then.
    pub(crate) until: Option<Timestamp>,
    /// For further calls too, as long as the sample lives.
    pub(crate) again: bool,
}

impl Bound {
    const KEYS: [&str; 5] = ["argv", "path", "destination", "uses", "until"];

    /// Reads what an approver wrote.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        let Value::Object(fields) = value else { return Err("`bound` must be an object".into()) };
        if let Some(other) = fields.keys().find(|key| !Self::KEYS.contains(&key.as_str())) {
            return Err(format!("`bound` has no `{other}`; it has {}", Self::KEYS.join(", ")));
        }
        let text = |key: &str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`bound.{key}` must be a text")),
        };
        let argv = match fields.get("argv") {
            None | Some(Value::Null) => None,
            Some(Value::Array(words)) if !words.is_empty() => {
                let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
                Some(words.ok_or("`bound.argv` must be a list of texts")?)
            }
            Some(_) => return Err("`bound.argv` must be a list of texts".into()),
        };
        let uses = match fields.get("uses") {
            None | Some(Value::Null) => None,
            Some(number) => match number.as_u64().and_then(|number| u32::try_from(number).ok()) {
                Some(number) if number > 0 => Some(number),
                _ => return Err("`bound.uses` must be a whole number above 0".into()),
            },
        };
        let until = text("until")?.map(|until| until.parse::<Timestamp>());
        let until = until.transpose().map_err(|_| "`bound.until` must be a time such as 2026-01-31T12:00:00Z")?;
        let destination = text("destination")?.map(|text| destination(&text)).transpose()?;
        Ok(Self { argv, path: text("path")?, destination, uses, until, again: false })
    }

    /// Whether anything was stated beside how often and how long.
    pub(super) fn names_something(&self) -> bool {
        self.argv.is_some() || self.path.is_some() || self.destination.is_some()
    }

    /// Whether it holds for more than the call that was asked about.
    pub(super) fn stands(&self) -> bool {
        self.again || self.uses.is_some_and(|uses| uses > 1) || self.until.is_some()
    }

    /// Whether a call is within. A bound that cannot be held against a tool is one that the call exceeds.
    pub(super) fn holds(&self, tool: Tool, arguments: &Map<String, Value>, now: Timestamp) -> Result<(), String> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        if self.until.is_some_and(|until| until <= now) {
            return Err("the approval's time is over".into());
        }
        if let Some(argv) = &self.argv {
            let command = (tool == Tool::Bash).then(|| text("command")).flatten();
            if command.and_then(simple).as_ref() != Some(argv) {
                return Err(format!("the approval is for the command {argv:?} and nothing else"));
            }
        }
        if let Some(path) = &self.path {
            let asked = text("file_path").or_else(|| text("path"));
            if !asked.is_some_and(|asked| within(path, asked)) {
                return Err(format!("the approval is for the path `{path}`"));
            }
        }
        if let Some((host, port)) = &self.destination {
            let asked = text("url").and_then(web_destination);
            if asked.as_ref() != Some(&(host.clone(), *port)) {
                return Err(format!("the approval is for {host}:{port}"));
            }
        }
        Ok(())
    }

    /// Whether a connection is within; asked for every one that a call makes, so a redirection leads nowhere else.
    pub(crate) fn reaches(&self, host: &str, port: u16) -> bool {
        self.destination.as_ref().is_none_or(|(name, number)| name.eq_ignore_ascii_case(host) && *number == port)
    }

    /// For the log.
    pub(super) fn to_json(&self) -> Option<Value> {
        let mut fields = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(key.to_owned(), value);
            }
        };
        put("argv", self.argv.as_ref().map(|argv| json!(argv)));
        put("path", self.path.as_ref().map(|path| json!(path)));
        put("destination", self.destination.as_ref().map(|(host, port)| json!(format!("{host}:{port}"))));
        put("uses", self.uses.map(|uses| json!(uses)));
        put("again", self.again.then_some(json!(true)));
        put("until", self.until.map(|until| json!(until.to_string())));
        (!fields.is_empty()).then_some(Value::Object(fields))
    }
}

fn destination(text: &str) -> Result<(String, u16), String> {
    let parsed = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match parsed {
        Some((host, port)) if !host.is_empty() && port > 0 => Ok((host.to_ascii_lowercase(), port)),
        _ => Err(format!("`{text}` is not host:port")),
    }
}

/// The host and port that an address of the web leads to.
fn web_destination(url: &str) -> Option<(String, u16)> {
    let url = url::Url::parse(url).ok()?;
    Some((url.host_str()?.to_ascii_lowercase(), url.port_or_known_default()?))
}

/// Whether a path is the one that was approved, or below it; by its words, which the tools then resolve without links.
fn within(bound: &str, asked: &str) -> bool {
    if asked.split('/').any(|part| part == "..") {
        return false;
    }
    let clean = |path: &str| {
        path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect::<Vec<_>>()
    };
    let (wanted, found) = (clean(bound), clean(asked));
    if bound.starts_with('/') != asked.starts_with('/') {
        return false;
    }
    if bound.ends_with('/') { found.len() > wanted.len() && found.starts_with(&wanted) } else { wanted == found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(bound: &Value, tool: Tool, arguments: Value) -> bool {
        let Value::Object(arguments) = arguments else { return false };
        Bound::read(bound).is_ok_and(|bound| bound.holds(tool, &arguments, Timestamp::now()).is_ok())
    }

    #[test]
    fn a_bound_holds_for_what_it_says_and_nothing_else() {
        let argv = json!({"argv": ["ls", "-l"]});
        assert!(holds(&argv, Tool::Bash, json!({"command": "ls  -l"})));
        assert!(!holds(&argv, Tool::Bash, json!({"command": "ls -l; rm x"})));
        assert!(!holds(&argv, Tool::Bash, json!({"command": "ls"})));
        assert!(!holds(&argv, Tool::Python, json!({"code": "ls -l"})));
        let path = json!({"path": "/repo/src/"});
        assert!(holds(&path, Tool::WriteFile, json!({"file_path": "/repo//src/./a", "content": ""})));
        for other in ["/repo/src", "/repo/srcs/a", "/repo/src/../a", "repo/src/a", "/etc/passwd"] {
            assert!(!holds(&path, Tool::WriteFile, json!({"file_path": other, "content": ""})), "{other}");
        }
        let place = json!({"destination": "Example.org:443"});
        assert!(holds(&place, Tool::WebFetch, json!({"url": "https://example.org/a?b"})));
        assert!(!holds(&place, Tool::WebFetch, json!({"url": "http://example.org/"})));
        assert!(!holds(&place, Tool::WebFetch, json!({"url": "https://example.org.evil.test/"})));
        assert!(!holds(&place, Tool::Bash, json!({"command": "curl https://example.org"})));
        assert!(!holds(&json!({"until": "2020-01-01T00:00:00Z"}), Tool::Bash, json!({"command": "ls"})));
    }

    #[test]
    fn what_is_not_a_bound_is_said() {
        for wrong in [
            json!(1),
            json!({"paths": "x"}),
            json!({"uses": 0}),
            json!({"uses": -1}),
            json!({"argv": []}),
            json!({"argv": [1]}),
            json!({"until": "soon"}),
            json!({"destination": "host"}),
            json!({"destination": "host:99999"}),
            json!({"path": 1}),
        ] {
            assert!(Bound::read(&wrong).is_err(), "{wrong}");
        }
    }
}

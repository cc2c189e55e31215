//! An approver that is a program of the operator's: a question as JSON in, an answer as JSON out, within its time.
//!
//! Whatever goes wrong with it is a no.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::answer::{Answer, Decision};
use super::bound::Bound;

/// The longest answer.
const MOST: u64 = 1 << 20;
/// Memory for the values of an answer, beside their texts.
const VALUES: u64 = 8 << 20;
/// The format of the question.
pub(super) const SCHEMA: &str = "ringfence.approval/1";
/// What a program finds set, if we have it, beside what the policy passes on.
const KEPT: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];
const KEYS: [&str; 5] = ["decision", "explanation", "arguments", "result", "bound"];

/// Ends what a program started, too.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

pub(super) async fn ask(argv: &[String], timeout: Duration, pass: &[String], question: &Value) -> Answer {
    let answered = match tokio::time::timeout(timeout, run(argv, pass, question)).await {
        Ok(answered) => answered.and_then(|answer| read(&answer)),
        Err(_) => Err(format!("it did not answer within {} s", timeout.as_secs_f64())),
    };
    answered.unwrap_or_else(|why| {
        let program = argv.first().map_or("", |program| program.rsplit('/').next().unwrap_or(program));
        Answer::new(Decision::Reject, format!("the approver `{program}` failed: {why}"))
    })
}

async fn run(argv: &[String], pass: &[String], question: &Value) -> Result<Vec<u8>, String> {
    let (program, arguments) = argv.split_first().ok_or("it has no program")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    for name in KEPT.iter().copied().chain(pass.iter().map(String::as_str)) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let mut child =
        command.process_group(0).kill_on_drop(true).spawn().map_err(|error| format!("it does not start: {error}"))?;
    let _group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let answer = talk(&mut child, question).await.map_err(|error| format!("it cannot be spoken with: {error}"))?;
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    if u64::try_from(answer.len()).is_ok_and(|length| length > MOST) {
        return Err(format!("its answer is longer than {MOST} bytes"));
    }
    Ok(answer)
}

async fn talk(child: &mut Child, question: &Value) -> std::io::Result<Vec<u8>> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut question = question.to_string();
    question.push('\n');
    let say = async {
        if let Some(mut stdin) = stdin {
            // One that answers without reading is welcome to.
            let _ = stdin.write_all(question.as_bytes()).await;
        }
    };
    let mut answer = Vec::new();
    let hear = async {
        match stdout {
            Some(stdout) => stdout.take(MOST + 1).read_to_end(&mut answer).await.map(|_| ()),
            None => Ok(()),
        }
    };
    let ((), heard) = tokio::join!(say, hear);
    heard.map(|()| answer)
}

fn read(answer: &[u8]) -> Result<Answer, String> {
    let budget = bounded::Budget::new(VALUES + answer.len() as u64);
    let Fields(fields) = bounded::read(answer, &budget).map_err(|error| format!("its answer is not JSON: {error}"))?;
    if let Some(other) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let other: String = other.chars().take(64).collect();
        return Err(format!("its answer has an unknown field `{other}`; fields are {}", KEYS.join(", ")));
    }
    let text = |key: &str| match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` of its answer must be a text")),
    };
    let decision: Decision = text("decision")?.ok_or("its answer has no `decision`")?.parse()?;
    let arguments = match fields.get("arguments") {
        None | Some(Value::Null) => None,
        Some(Value::Object(arguments)) => Some(arguments.clone()),
        Some(_) => return Err("`arguments` of its answer must be an object".into()),
    };
    let bound = fields.get("bound").filter(|bound| !bound.is_null()).map(Bound::read).transpose()?.unwrap_or_default();
    let result = text("result")?;
    // What an answer says beside its decision must be part of it: else it is not known what was meant.
    if decision != Decision::Modify && (arguments.is_some() || result.is_some()) {
        return Err("`arguments` and `result` are for the decision `modify`".into());
    }
    if decision == Decision::Modify && arguments.is_some() == result.is_some() {
        return Err("the decision `modify` needs `arguments` for a call, or `result` for a result".into());
    }
    if bound != Bound::default() && !matches!(decision, Decision::Approve | Decision::Modify) {
        return Err("`bound` is for approvals".into());
    }
    let explanation = text("explanation")?.unwrap_or_else(|| "it gave no reason".into());
    let explanation = explanation.chars().take(2000).collect();
    Ok(Answer { decision, explanation, arguments, result, bound })
}

/// An object in which nothing is said twice.
struct Fields(Map<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("one object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fields, A::Error> {
                let mut fields = Map::new();
                while let Some((key, value)) = entries.next_entry::<String, Value>()? {
                    if fields.insert(key, value).is_some() {
                        return Err(Error::custom("a field is there twice"));
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Once)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn asked(script: &str) -> (Decision, String) {
        let argv = ["sh", "-c", script].map(str::to_owned);
        let answer = ask(&argv, Duration::from_secs(5), &[], &json!({"tool": "bash"})).await;
        (answer.decision, answer.explanation)
    }

    #[tokio::test]
    async fn a_program_decides_and_whatever_fails_is_a_no() {
        let yes = asked(r#"grep -q '"tool":"bash"' && echo '{"decision": "approve", "explanation": "fine"}'"#).await;
        assert_eq!(yes, (Decision::Approve, "fine".into()));
        for (script, why) in [
            ("exit 3", "ended with"),
            ("echo yes", "not JSON"),
            ("echo '[]'", "one object"),
            (r#"echo '{"decision": "modify"}'"#, "needs `arguments`"),
            (r#"echo '{"decision": "approve", "arguments": {"command": "x"}}'"#, "are for the decision"),
            (r#"echo '{"decision": "reject", "decision": "approve"}'"#, "twice"),
            (r#"echo '{"decision": "reject", "bound": {"uses": 2}}'"#, "for approvals"),
            (r#"echo '{"decision": "sure"}'"#, "not a decision"),
            (r#"echo '{"decision": "approve", "bond": {}}'"#, "unknown field"),
            (r#"echo '{"decision": "approve", "bound": {"uses": 0}}'"#, "uses"),
            (r#"echo '{"decision": "approve", "arguments": []}'"#, "must be an object"),
            ("head -c 3000000 /dev/zero", "failed"),
            (r#"echo '{"decision": "approve"}'; exit 1"#, "ended with"),
        ] {
            let (decision, said) = asked(script).await;
            assert_eq!(decision, Decision::Reject, "{script}");
            assert!(said.contains(why), "{script}: {said}");
        }
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended_with_what_it_started() {
        let place = std::env::temp_dir().join(format!("ringfence-approver-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > {}; wait", place.display());
        let argv = ["sh".to_owned(), "-c".to_owned(), script];
        let answer = ask(&argv, Duration::from_millis(700), &[], &json!({})).await;
        assert_eq!(answer.decision, Decision::Reject);
        let pid = std::fs::read_to_string(&place).unwrap_or_default();
        let _ = std::fs::remove_file(&place);
        let alive = || {
            std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim())).is_ok_and(|line| line.contains("sleep"))
        };
        for _ in 0..100 {
            if !alive() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!alive(), "process {pid} lives on");
    }

    #[tokio::test]
    async fn a_program_gets_nothing_of_our_environment_but_what_is_passed() {
        let (_, said) = asked(
            r#"printf '{"decision": "reject", "explanation": "%s"}' "$(env | cut -d= -f1 | sort | tr '\n' ' ')""#,
        )
        .await;
        let odd: Vec<&str> = said
            .split_whitespace()
            .filter(|name| !KEPT.contains(name) && !["PWD", "SHLVL", "_", "OLDPWD"].contains(name))
            .collect();
        assert_eq!(odd, Vec::<&str>::new());
    }
}

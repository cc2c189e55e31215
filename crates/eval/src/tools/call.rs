//! A call, from its arguments to what the model is shown.

use log::message::{ToolCall, ToolError, ToolErrorKind};
use sandbox::Sandbox;

use super::schema::{Arguments, parsing};
use super::{Called, Hands, Tool, files, notes, run, session, web};

impl Tool {
    /// The arguments of a call, if the call is sound.
    pub(crate) fn check(self, call: &ToolCall) -> Result<Arguments, ToolError> {
        match &call.parse_error {
            Some(why) => Err(parsing(why.clone())),
            None => Arguments::check(self.name(), self.parameters(), &call.arguments),
        }
    }
}

/// Which tool is called, if it is offered and the arguments are such as it takes.
pub(crate) fn sound(call: &ToolCall, offered: &[Tool]) -> Result<Tool, ToolError> {
    let Some(tool) = Tool::named(&call.function).filter(|tool| offered.contains(tool)) else {
        let names: Vec<&str> = offered.iter().map(|tool| tool.name()).collect();
        let shown: String = call.function.chars().take(64).collect();
        return Err(parsing(format!("there is no tool `{shown}`; the tools are: {}", names.join(", "))));
    };
    tool.check(call).map(|_| tool)
}

/// Makes one call; whatever goes wrong is an answer to the model. What is made is what was approved.
pub(crate) async fn call(call: &ToolCall, offered: &[Tool], hands: &Hands<'_>) -> Called {
    let checked = sound(call, offered).and_then(|tool| Ok((tool, tool.check(call)?)));
    let (tool, arguments) = match checked {
        Ok(checked) => checked,
        Err(error) => return Called::failed(error),
    };
    if let Err(why) = hands.permit.covers(tool, call, hands.key) {
        return Called::error(ToolErrorKind::Approval, why);
    }
    let sandbox = match (tool.needs_sandbox(hands.plan.file_tools.mode), hands.sandbox) {
        (true, None) => return Called::error(ToolErrorKind::SandboxUnavailable, "there is no sandbox to run it in"),
        (_, sandbox) => sandbox,
    };
    make(tool, &arguments, sandbox, hands).await
}

async fn make(tool: Tool, arguments: &Arguments, sandbox: Option<&Sandbox>, hands: &Hands<'_>) -> Called {
    match (tool, sandbox) {
        (Tool::Bash, Some(sandbox)) => run::bash(arguments.text("command"), sandbox, hands).await,
        (Tool::Python, Some(sandbox)) => run::python(arguments.text("code"), sandbox, hands).await,
        (Tool::BashSession, Some(sandbox)) => session::act(arguments, sandbox, hands).await,
        (Tool::WebFetch, Some(sandbox)) => web::fetch(arguments.text("url"), sandbox, hands).await,
        (Tool::Bash | Tool::Python | Tool::BashSession | Tool::WebFetch, None) => {
            Called::error(ToolErrorKind::SandboxUnavailable, "there is no sandbox to run it in")
        }
        (
            Tool::ReadFile | Tool::WriteFile | Tool::EditFile | Tool::Ls | Tool::DeleteFile | Tool::TextEditor,
            sandbox,
        ) => files::call(tool, arguments, sandbox, hands).await,
        (Tool::WebSearch, _) => web::search(arguments.text("query"), hands).await,
        // A thought changes nothing; it is in the log already.
        (Tool::Think, _) => Called::said(""),
        (Tool::TodoWrite, _) => notes::write(arguments, hands),
        (Tool::Submit, _) => {
            let answer = arguments.text("answer").to_owned();
            Called { submitted: Some(answer.clone()), ..Called::said(answer) }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn check(tool: Tool, arguments: Value) -> Result<Arguments, ToolErrorKind> {
        let Value::Object(arguments) = arguments else { return Err(ToolErrorKind::Unknown) };
        Arguments::check(tool.name(), tool.parameters(), &arguments).map_err(|error| error.kind)
    }

    #[test]
    fn arguments_are_checked() {
        assert_eq!(
            check(Tool::Bash, json!({"command": "ls"})).map(|some| some.text("command").to_owned()),
            Ok("ls".into())
        );
        for wrong in [json!({}), json!({"command": 1}), json!({"cmd": "ls"}), json!({"command": "ls", "user": "root"})]
        {
            assert_eq!(check(Tool::Bash, wrong), Err(ToolErrorKind::Parsing));
        }
        assert_eq!(
            check(Tool::Submit, json!({"answer": 42})).map(|some| some.text("answer").to_owned()),
            Ok("42".into())
        );
        let range =
            check(Tool::TextEditor, json!({"command": "view", "path": "/a", "view_range": [1, -1], "old_str": null}));
        assert_eq!(
            range.map(|some| (some.integers("view_range"), some.maybe_text("old_str").is_none())),
            Ok((Some(vec![1, -1]), true))
        );
        assert_eq!(check(Tool::TextEditor, json!({"command": "delete", "path": "/a"})), Err(ToolErrorKind::Parsing));
        let steps = json!({"todos": [{"content": "look", "status": "pending"}]});
        assert_eq!(
            check(Tool::TodoWrite, steps).map(|some| some.steps("todos")),
            Ok(vec![("look".into(), "pending".into())])
        );
        assert_eq!(
            check(Tool::TodoWrite, json!({"todos": [{"content": "look", "status": "soon"}]})),
            Err(ToolErrorKind::Parsing)
        );
        assert_eq!(
            check(Tool::ReadFile, json!({"file_path": "a", "offset": 3.0})).map(|some| some.integer("offset")),
            Ok(Some(3))
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn random_arguments_are_sound_or_a_parsing_error(
            tool in 0..Tool::ALL.len(),
            named in proptest::collection::vec((0_usize..8, any_json()), 0..6),
            other in proptest::collection::btree_map(any::<String>(), any_json(), 0..2),
        ) {
            let tool = Tool::ALL[tool];
            let parameters = tool.parameters();
            let mut arguments: Map<String, Value> = other.into_iter().collect();
            for (index, value) in named {
                arguments.insert(parameters[index % parameters.len()].name.to_owned(), value);
            }
            match Arguments::check(tool.name(), parameters, &arguments) {
                Ok(_) => {
                    let required = parameters.iter().filter(|one| one.required);
                    prop_assert!(required.into_iter().all(|one| arguments.contains_key(one.name)));
                    prop_assert!(arguments.keys().all(|key| parameters.iter().any(|one| one.name == key)));
                }
                Err(error) => prop_assert_eq!(error.kind, ToolErrorKind::Parsing),
            }
        }
    }
}

//! Many conversations at once with a model that is elsewhere: the benchmark's server, without its clock. Every sample has
//! all its turns, once each, and no more is asked at a time than was allowed.

/// The server of `bench models`.
#[path = "../../../bench/src/models"]
#[allow(dead_code, reason = "the benchmark uses more of it")]
mod models {
    mod http;
    mod load;
    mod record;
    mod script;
    mod server;

    pub(crate) use server::Server;
}

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::common::evaluation::{dump, eval, events, write};
use serde_json::Value;
use tokio::net::TcpListener;

#[test]
fn samples_that_share_connections_have_all_their_turns() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = models::Server::new(20);
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let serving = Arc::clone(&server);
    runtime.spawn(async move { serving.accept(&listener).await });

    let place = tempfile::tempdir().unwrap();
    let dataset: Vec<String> =
        (1..=10).map(|number| format!("{{input: Conversation {number}, target: done}}")).collect();
    let task = format!(
        "name: load\nprofile: T1.H1.N2\ntools: [think, submit]\ngenerate: {{max_connections: 4}}\ndataset: [{}]\n\
         solver: {{kind: agent, tools: [think], max_steps: 40}}\nscorer: includes\n",
        dataset.join(", ")
    );
    let path = write(place.path(), "task.yaml", &task);
    let mut command = eval(place.path(), &[&path, "--model", "openai/test", "--max-samples", "10"]);
    let output = command.env("OPENAI_BASE_URL", address).env_remove("OPENAI_API_KEY").output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["results"]["scores"][0]["metrics"]["accuracy"]["value"], 1.0, "{messages}");

    let figures = server.figures();
    assert_eq!((figures.requests, figures.repeated, figures.conversations), (200, 0, 10));
    assert!(figures.at_once <= 4, "{figures:?}");
    // Every event of a model repeats what was said before it, and the sample ends with all of it.
    let log = dump(place.path(), result["log"].as_str().unwrap());
    let asked = events(&log, "model");
    let messages = log["samples"][0]["messages"].as_array().unwrap();
    assert_eq!((asked.len(), messages.len()), (20, 42));
    for (turn, event) in asked.iter().enumerate() {
        assert_eq!(event["input"].as_array().unwrap(), &messages[..2 + 2 * turn]);
        assert_eq!(event["tools"][0]["name"], "think");
    }
}

//! Any text is a task or a list of problems, and any bytes are a data set or problems of the task that names them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use eval::task::Task;

/// Checks one input.
pub fn task(bytes: &[u8]) {
    let names = ["data.jsonl", "data.json", "data.csv", "base.yaml"];
    let files: BTreeMap<PathBuf, Vec<u8>> = names.iter().map(|name| (PathBuf::from(name), bytes.to_vec())).collect();
    let given = BTreeMap::from([("name".to_owned(), "value".to_owned())]);
    let check = |text: &str, given: &BTreeMap<String, String>| match Task::parse("fuzz", text, given, &files) {
        Err(problems) => assert!(!problems.problems.is_empty(), "a rejection without a problem"),
        Ok(task) => {
            assert!(!task.solvers.is_empty(), "a task without a solver");
            assert!(!task.dataset.samples.is_empty(), "a task without a sample");
            assert!(task.epochs.count > 0 && !task.epochs.reducers.is_empty(), "a task that is never asked");
            let ids: std::collections::BTreeSet<String> =
                task.dataset.samples.iter().map(|sample| sample.id.to_string()).collect();
            assert_eq!(ids.len(), task.dataset.samples.len(), "two samples of one name");
            assert!(
                task.dataset.samples.iter().flat_map(|sample| sample.files.keys()).all(|path| path.starts_with('/'))
            );
        }
    };
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(text, &BTreeMap::new());
        check(text, &given);
    }
    for name in &names[..3] {
        check(&format!("profile: T0.H1.N2\ndataset: {name}\n"), &BTreeMap::new());
    }
    check("profile: base.yaml\ndataset: [{input: a}]\n", &BTreeMap::new());
}

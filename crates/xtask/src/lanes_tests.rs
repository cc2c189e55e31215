use super::*;
use crate::tasks::every_test_has_a_lane;
use crate::workspace::Workspace;

fn table() -> Vec<Lane> {
    parse(crate::LANES, &Tools::parse(crate::TOOLS).unwrap()).unwrap()
}

fn error(text: &str) -> String {
    parse(text, &Tools::parse(crate::TOOLS).unwrap()).unwrap_err()
}

#[test]
fn every_test_program_has_a_lane_and_every_name_is_one() {
    let workspace = Workspace::load().unwrap();
    every_test_has_a_lane(&workspace, &table()).unwrap();
    let lanes = table();
    for lane in &lanes {
        for program in &lane.programs {
            assert!(workspace.beside(program).is_some(), "{}: no program {program}", lane.name);
        }
    }
}

#[test]
fn a_test_program_without_a_lane_is_found() {
    let lanes: Vec<Lane> = table().into_iter().filter(|lane| lane.name != "egress").collect();
    let error = every_test_has_a_lane(&Workspace::load().unwrap(), &lanes).unwrap_err();
    assert_eq!(error, "no lane runs egress/gateway, egress/services, testnet/internet");
}

#[test]
fn placeholders_are_known() {
    let known =
        ["root", "target", "venv", "python", "ringfence", "layout", "kept", "tmp", "restart", "version:inspect_evals"];
    // Inline tables and lists of TOML have other braces: a placeholder is `{name}` within a string.
    let strings =
        crate::LANES.lines().filter(|line| !line.starts_with('#')).flat_map(|line| line.split('"').skip(1).step_by(2));
    for text in strings {
        for part in text.split('{').skip(1) {
            let name = part.split('}').next().unwrap();
            assert!(known.contains(&name), "{{{name}}} in {text}");
        }
    }
}

#[test]
fn neighbours_of_a_group_run_together() {
    let lanes = table();
    let egress = lanes.iter().find(|lane| lane.name == "egress").unwrap();
    let sizes: Vec<usize> = egress.groups().iter().map(|group| group.len()).collect();
    assert_eq!(sizes, [1, 1, 1, 2, 3]);
    // Steps without a group are alone.
    assert!(lanes.iter().find(|lane| lane.name == "lint").unwrap().groups().iter().all(|group| group.len() == 1));
}

#[test]
fn lanes_of_the_embedded_product_run_together() {
    let lanes = table();
    let all: Vec<&Lane> = lanes.iter().filter(|lane| lane.size != Size::Hand).collect();
    let groups: Vec<Vec<&str>> =
        groups(&all).iter().map(|group| group.iter().map(|lane| lane.name.as_str()).collect()).collect();
    assert_eq!(groups[0], ["lint", "unit", "sandbox", "egress", "eval", "verify", "serve"]);
    // Tests of the lane `docker` restart the daemon, which the lane `inspect` uses too.
    assert!(groups.iter().all(|group| !(group.contains(&"docker") && group.contains(&"inspect"))));
}

#[test]
fn mutations_are_compiled_apart() {
    for lane in table() {
        for step in lane.steps {
            if let Action::Tests(tests) = step.action {
                let is_mutations = tests.programs.contains(&Selector::parse("verify/mutations").unwrap());
                assert_eq!(tests.features.is_some(), is_mutations, "{}", step.name);
            }
        }
    }
}

#[test]
fn a_step_is_of_one_kind() {
    let two = "[[lane]]\nname = 'a'\nsize = 'hand'\nabout = ''\n[[lane.step]]\nname = 's'\nfuzz = 'x'\npytest = []\n";
    assert!(error(two).contains("step `s` needs exactly one of tests, run, pytest, fuzz, task"), "{}", error(two));
    let wrong =
        "[[lane]]\nname = 'a'\nsize = 'hand'\nabout = ''\n[[lane.step]]\nname = 's'\nfuzz = 'x'\nargs = ['y']\n";
    assert!(error(wrong).contains("only a step with `tests`"), "{}", error(wrong));
}

#[test]
fn what_tools_toml_does_not_have_is_refused() {
    let text = "[[lane]]\nname = 'a'\nsize = 'hand'\nabout = ''\npackages = ['perl', 'parl']\ntools = ['cargo-x']\nstep = []\n";
    assert_eq!(error(text), "lane `a`: tools.toml does not have `parl`, `cargo-x`");
}

#[test]
fn a_daemon_needs_an_engine_and_names_are_there_once() {
    let step = "[[lane.step]]\nname = 's'\ntests = ['docker/bare']\ndaemon = []\n";
    let lane = format!("[[lane]]\nname = 'a'\nsize = 'hand'\nabout = ''\n{step}");
    assert_eq!(error(&lane), "lane `a`: the step `s` needs a daemon, the lane names none");
    let lane = "[[lane]]\nname = 'all'\nsize = 'hand'\nabout = ''\nstep = []\n";
    assert!(error(lane).starts_with("the lane `all`"));
}

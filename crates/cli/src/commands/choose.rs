//! `profile choose`: the guidance's questions, in a terminal or by flags.

use std::io::{self, BufRead as _, IsTerminal as _};

use profile::{Answers, Audience, Choice, Internet, Priority, Tools, choose as decide};
use serde_json::json;

use crate::args::ChooseArguments;
use crate::exit::Exit;
use crate::printer::{Look, Page, Printer, plain, span};

pub(super) fn choose(arguments: &ChooseArguments, printer: &mut Printer) -> Exit {
    let ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    let missing: Vec<&str> = [
        ("--tools none|web|code", arguments.tools.is_none()),
        ("--priority simplicity|scale|hostile", arguments.priority.is_none()),
        ("--internet none|listed|full", arguments.internet.is_none()),
        ("--audience private|shared", arguments.audience.is_none()),
    ]
    .into_iter()
    .filter_map(|(flag, missing)| missing.then_some(flag))
    .collect();
    if !ask && !missing.is_empty() {
        printer.message(&vec![
            vec![span(Look::Bad, "error"), plain(": questions are asked in a terminal only")],
            vec![span(Look::Faint, "  hint: "), plain(format!("answer by flags: {}", missing.join(" ")))],
        ]);
        return Exit::Input;
    }
    let Some(answers) = answers(arguments, printer) else {
        printer.message(&vec![vec![span(Look::Bad, "error"), plain(": the questions were not answered")]]);
        return Exit::Input;
    };
    show(&decide(answers), printer);
    Exit::Done
}

/// The flags' answers; what they leave open is asked.
fn answers(arguments: &ChooseArguments, printer: &mut Printer) -> Option<Answers> {
    let tools = arguments.tools.or_else(|| ask_tools(printer))?;
    let priority = arguments.priority.or_else(|| {
        let options = [
            ("simplicity: this machine", Priority::Simplicity),
            ("scale: many samples in a cluster", Priority::Scale),
            ("hostile or very capable agents: a virtual machine", Priority::Hostile),
        ];
        question("What matters most about where it runs?", &options, printer)
    })?;
    let internet = arguments.internet.or_else(|| {
        let options = [("none", Internet::None), ("known names", Internet::Listed), ("anything", Internet::Full)];
        question("Which internet access does the task need?", &options, printer)
    })?;
    let audience = arguments.audience.or_else(|| {
        let options = [("no", Audience::Private), ("yes: use the stricter preset", Audience::Shared)];
        question("Is the machine shared, or is this a demonstration?", &options, printer)
    })?;
    Some(Answers { tools, priority, internet, audience })
}

fn ask_tools(printer: &mut Printer) -> Option<Tools> {
    if !question("Does the agent use tools?", &[("no, it answers in text", false), ("yes", true)], printer)? {
        return Some(Tools::None);
    }
    let options = [("no, web and basic tools are enough", Tools::Web), ("yes", Tools::Code)];
    question("Must it run code that it writes?", &options, printer)
}

/// Asks until a number of the list is given; `None` at the end of the input.
fn question<T: Copy>(text: &str, options: &[(&str, T)], printer: &mut Printer) -> Option<T> {
    let mut page: Page = vec![vec![span(Look::Strong, text)]];
    for (index, (label, _)) in options.iter().enumerate() {
        page.push(vec![plain(format!("  {}  {label}", index + 1))]);
    }
    printer.message(&page);
    let mut lines = io::stdin().lock().lines();
    loop {
        let line = lines.next()?.ok()?;
        let chosen = line.trim().parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
        match chosen {
            Some((_, value)) => return Some(*value),
            None => printer.message(&vec![vec![plain(format!("  type a number from 1 to {}", options.len()))]]),
        }
    }
}

/// The reasons on standard error, the document on standard output: `profile choose > ringfence.yaml` just works.
fn show(choice: &Choice, printer: &mut Printer) {
    if printer.json() {
        printer.data(&json!({"schema": "ringfence.choice/1", "choice": choice, "document": choice.document()}));
        return;
    }
    let mut page: Page = vec![vec![span(Look::Strong, choice.profile.to_string())]];
    page.extend(choice.reasons.iter().map(|reason| vec![plain(format!("  {reason}"))]));
    page.push(vec![span(Look::Faint, "Save the document, fill it in, then: ringfence profile check FILE")]);
    printer.message(&page);
    printer.text(&choice.document());
}
